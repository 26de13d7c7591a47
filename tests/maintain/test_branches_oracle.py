"""Branches as Java makes, moves and deletes them: the same files, and each side reads the other's."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.maintain.refs import branches
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.read.split_read import read_split
from paimon_spark.table.snapshot_store import ROLLED_BACK
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.plans import plan_of

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]


@pytest.fixture
def table(oracle: Any, tmp_path: Path) -> str:
    """By Java: snapshots 1 to 3, tags t1 and t2; then one column more and snapshot 4."""
    name = f"branches.{tmp_path.name}"
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1", "write-only": "true"})
    for number in (1, 2, 3):
        oracle.write(name, [{"k": number, "v": f"v{number}"}])
        if number < 3:
            oracle.create_tag(name, f"t{number}")
    oracle.alter(name, ("add", "w", "STRING"))
    oracle.write(name, [{"k": 4, "v": "v4", "w": "w4"}])
    return name


def place_at(oracle: Any, table: str) -> str:
    return str(oracle.location(table).removeprefix("file:"))


def open_branch(path: str, branch: str = "main") -> FileStoreTable:
    return load_table(path, branch=branch)


def rows(path: str, branch: str = "main") -> list[dict[str, Any]]:
    plan = plan_of(open_branch(path, branch))
    found = [
        row
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=lambda row: int(row["k"]))


def java_rows(oracle: Any, name: str) -> list[dict[str, Any]]:
    return sorted(oracle.read(name).to_pylist(), key=lambda row: int(row["k"]))


def metadata(path: str | Path) -> dict[str, bytes]:
    """All files but data files and hints (Java copies the branch's, we write those that are right)."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file() and "bucket-" not in str(file) and file.name not in ("LATEST", "EARLIEST", ROLLED_BACK)
    }


@pytest.mark.parametrize("tag", [None, "t1", "t2", "gone"])
def test_a_branch_is_the_same_files_as_javas(oracle: Any, table: str, tmp_path: Path, tag: str | None) -> None:
    path = place_at(oracle, table)
    if tag == "gone":  # its snapshot has expired
        oracle.create_tag(table, "gone", snapshot=1)
        Path(path, "snapshot/snapshot-1").unlink()
        Path(path, "snapshot/EARLIEST").write_text("2")
    ours = str(tmp_path / "ours")
    shutil.copytree(path, ours)
    branches.create_branch(open_branch(ours), "b", tag=tag)
    if tag == "gone":  # Paimon 1.4.2 fails here: "No such file snapshot-1"
        oracle.create_branch(table, "b", "t2")
        assert rows(ours, "b") == [{"k": 1, "v": "v1"}]
        return
    oracle.create_branch(table, "b", tag)
    assert metadata(ours) == metadata(path)


def test_each_reads_and_writes_the_branches_of_the_other(oracle: Any, table: str) -> None:
    path = place_at(oracle, table)
    branches.create_branch(open_branch(path), "ours", tag="t2")
    oracle.create_branch(table, "java", "t1")
    for name in ("ours", "java"):
        oracle.write(f"{table}$branch_{name}", [{"k": 10, "v": name}])
        assert rows(path, name) == java_rows(oracle, f"{table}$branch_{name}")
    assert [row["k"] for row in rows(path, "ours")] == [1, 2, 10]
    assert sorted(row["branch_name"] for row in oracle.system(table, "branches")) == ["java", "ours"]
    branches.rename_branch(open_branch(path), "java", "java2")
    oracle.rename_branch(table, "ours", "ours2")
    assert java_rows(oracle, f"{table}$branch_java2") == rows(path, "java2")
    assert open_branch(path).branches.names() == ["java2", "ours2"]
    oracle.delete_branch(table, "ours2")
    branches.delete_branch(open_branch(path), "java2")
    assert oracle.system(table, "branches") == []
    assert not list(Path(path, "branch").iterdir())
    assert rows(path) == java_rows(oracle, table)


def grow_plainly(oracle: Any, table: str) -> None:
    oracle.create_branch(table, "b", "t2")


def grow_after_other_schemas(oracle: Any, table: str) -> None:
    oracle.create_branch(table, "b", "t1")
    oracle.alter(f"{table}$branch_b", ("add", "x", "INT"))
    oracle.create_tag(table, "late")


def begin_empty(oracle: Any, table: str) -> None:
    oracle.create_branch(table, "b")


def expire_here(oracle: Any, table: str) -> None:
    oracle.create_branch(table, "b", "t1")
    oracle.expire_snapshots(table, retain_max=1, retain_min=1)


@pytest.mark.parametrize(
    "prepare", [grow_plainly, grow_after_other_schemas, begin_empty, expire_here], ids=lambda f: f.__name__
)
def test_fast_forward_ends_as_in_java(
    oracle: Any, table: str, tmp_path: Path, prepare: Callable[[Any, str], None]
) -> None:
    path, ours = place_at(oracle, table), str(tmp_path / "ours")
    prepare(oracle, table)
    for key in (20, 21):
        oracle.write(f"{table}$branch_b", [{"k": key, "v": "branch"}])
    oracle.create_tag(f"{table}$branch_b", "there")
    shutil.copytree(path, ours)
    fast_forward(open_branch(ours), "b")
    oracle.fast_forward(table, "b")
    assert metadata(ours) == metadata(path)
    assert rows(ours) == java_rows(oracle, ours) == java_rows(oracle, path)
    assert open_branch(ours).snapshots.latest_id() == oracle.latest(ours) == oracle.latest(path)
    oracle.write(ours, [{"k": 99, "v": "after"}])
    assert rows(ours) == java_rows(oracle, ours)
    assert rows(ours)[-1]["k"] == 99
