"""The command line on tables that Java wrote: what it prints for people and scripts, what it changes, its errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.cli.main import main
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.spec.data_types import IntType
from paimon_spark.table.schema_change import AddColumn
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import load_table
from tests.support.golden import GOLDEN

Run = Callable[..., list[Any]]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A copy of a primary-key table of ten level-0 files in five snapshots."""
    return copy("pk_partial_update", tmp_path)


def copy(name: str, folder: Path) -> str:
    shutil.copytree(GOLDEN / name / "table", folder / "t")
    return str(folder / "t")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with ``--json``; give its lines."""

    def call(*arguments: str) -> list[Any]:
        code = main([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return call


def test_info(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    [seen] = run("info", path)
    assert (seen["kind"], seen["primary_keys"]) == ("primary-key table (partial-update)", ["k"])
    assert (seen["snapshot_id"], seen["snapshot_count"], seen["file_count"], seen["record_count"]) == (5, 5, 10, 139)
    assert {"name": "c", "type": "DECIMAL(10, 2)"} in seen["columns"]
    assert main(["info", path]) == 0
    text = capsys.readouterr().out
    assert "primary-key table (partial-update)" in text
    assert "merge-engine" in text


def test_secrets_are_not_printed(path: str, run: Run) -> None:
    [seen] = run("info", path, "-o", "s3.secret-key=hunter2")
    assert "hunter2" not in json.dumps(seen)


def test_lists(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["snapshot_id"] for row in run("snapshots", path, "--limit", "2")] == [5, 4]
    assert len(run("files", path)) == 10
    assert len(run("files", path, "--version", "1")) == 2
    assert run("tags", path) == []
    assert main(["files", path, "--limit", "1"]) == 0
    text = capsys.readouterr().out
    assert "10 files" in text
    assert " bucket-0/data-" in text
    assert path not in text


def test_tags(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tag", path, "first", "--snapshot", "1", "--retain", "7 d") == [{"tag": "first", "snapshot_id": 1}]
    [tag] = run("tags", path)
    assert (tag["tag_name"], tag["snapshot_id"], tag["record_count"]) == ("first", 1, 60)
    assert load_table(path).tags.get("first").time_retained.days == 7
    assert main(["tag", path, "first"]) == 1
    assert "already" in capsys.readouterr().err
    run("tag", path, "first", "--replace")
    assert load_table(path).tags.get("first").snapshot.id == 5
    run("tag", path, "first", "--delete")
    assert run("tags", path) == []
    assert main(["tag", path, "first", "--delete", "--replace"]) == 2


def test_read_gives_what_java_reads(path: str, run: Run) -> None:
    rows = run("read", path, "--limit", "0")
    assert len(rows) == len({row["k"] for row in rows}) == run("read", path, "--limit", "0", "--columns", "k").__len__()
    assert {row["k"]: row["b"] for row in rows}[2] == "b137"
    assert run("read", path, "--where", "k = 2", "--columns", "b, k") == [{"b": "b137", "k": 2}]
    assert len(run("read", path, "--limit", "3")) == 3
    assert len(run("read", path, "--limit", "0", "--version", "1")) == 60


def test_read_of_system_tables(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run("read", f"{path}$snapshots", "--columns", "snapshot_id", "--where", "snapshot_id < 3")
    assert rows == [{"snapshot_id": 1}, {"snapshot_id": 2}]
    assert {row["rowkind"] for row in run("read", f"{path}$audit_log", "--limit", "0")} == {"+I"}
    assert main(["read", f"{path}$nope"]) == 1
    assert main(["read", f"{path}$snapshots", "--columns", "nope"]) == 1
    assert "no column 'nope'" in capsys.readouterr().err
    assert main(["info", f"{path}$snapshots"]) == 2


def test_explain_shows_pruning(tmp_path: Path, run: Run) -> None:
    path = copy("append_partitioned_plain", tmp_path)
    [everything] = run("explain", path)
    table = load_table(path)
    key = table.schema.partition_keys[0]
    value = run("read", path, "--limit", "1")[0][key]
    [some] = run("explain", path, "--where", f"{key} = '{value}'")
    assert 0 < some["files"] < some["files_without_filter"] == everything["files"]
    assert some["residual_filter"] is None
    assert some["bytes"] < everything["bytes"]


def test_compact_expire_rollback(path: str, run: Run) -> None:
    before = run("read", path, "--limit", "0")
    assert run("tag", path, "first", "--snapshot", "1")
    assert run("compact", path) == [{"snapshot_id": 6}]
    assert {row["level"] for row in run("files", path)} == {5}
    assert run("compact", path) == [{"snapshot_id": None}]
    key = lambda row: row["k"]  # noqa: E731
    assert sorted(run("read", path, "--limit", "0"), key=key) == sorted(before, key=key)
    assert run("expire", path, "--retain-max", "2", "--retain-min", "1") == [{"expired": 4}]
    assert run("rollback", path, "--tag", "first", "--yes") == [{"previous_snapshot_id": 6, "current_snapshot_id": 1}]
    assert len(run("read", path, "--limit", "0")) == 60


def test_rollback_asks(path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("click.confirm", lambda *_, abort, **__: (_ for _ in ()).throw(__import__("click").Abort()))
    assert main(["rollback", path, "--snapshot", "1"]) == 1
    assert load_table(path).snapshots.latest_id() == 5
    assert main(["rollback", path]) == 2
    assert "Name one of" in capsys.readouterr().err


def test_orphans_are_counted_before_they_go(path: str, run: Run) -> None:
    stray = Path(path) / "bucket-0" / "data-00000000-0000-0000-0000-000000000000-0.parquet"
    stray.write_bytes(b"x" * 10)
    assert run("orphans", path) == [{"file_count": 0, "total_bytes": 0, "deleted": False}]  # younger than a day
    os.utime(stray, (1, 1))
    assert run("orphans", path) == [{"file_count": 1, "total_bytes": 10, "deleted": False}]
    assert stray.exists()
    assert run("orphans", path, "--delete") == [{"file_count": 1, "total_bytes": 10, "deleted": True}]
    assert not stray.exists()
    assert remove_orphan_files(load_table(path)).file_count == 0


def test_errors_are_one_line(tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said, code in (
        (["info", str(tmp_path / "none")], "no Paimon table", 1),
        (["read", path, "--where", "nope = 1"], "'nope' is not a column", 1),
        (["read", path, "--columns", "nope"], "'nope' does not exist", 1),
        (["read", path, "--version", "nope"], "nope", 1),
        (["info", path, "-o", "bucket"], "not KEY=VALUE", 2),
        (["info", path, "-o", "merge-engin=x"], "merge-engine", 1),
        (["tag", path, "x", "--retain", "soon"], "soon", 1),
        (["compact", path, "--where", "k = 1"], "partition predicate", 1),
    ):
        assert main(arguments) == code, arguments
        err = capsys.readouterr().err.strip()
        assert said in err
        assert "Traceback" not in err
        assert code == 2 or len(err.splitlines()) == 1


def test_values_as_json(tmp_path: Path, run: Run) -> None:
    rows = run("read", copy("append_types_parquet", tmp_path), "--limit", "0")
    assert rows
    assert all(isinstance(row, dict) for row in rows)


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("paimon_spark.cli.") and not name.endswith("main")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.box", None)
    assert main(["info", "x"]) == 2
    assert "pip install 'click>=8.1' 'rich>=13'" in capsys.readouterr().err


def test_as_a_program_without_pyspark(path: str) -> None:
    code = (
        "import sys; from paimon_spark.cli.main import main; code = main(['info', sys.argv[1]]); "
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules); sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-m", "paimon_spark", "tags", path], check=True, capture_output=True)
    assert b"0 tags" in done.stdout


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """Two databases, of which one is empty, and two tables."""
    root = tmp_path / "wh"
    for name in ("pk_partial_update", "append_partitioned_plain"):
        shutil.copytree(GOLDEN / name / "table", root / "shop.db" / name)
    (root / "empty.db").mkdir()
    return str(root)


def test_a_warehouse_and_names(warehouse: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    listed = run("info", warehouse)
    assert [(row["database"], row["table"], row["records"]) for row in listed] == [
        ("default", None, None),
        ("empty", None, None),
        ("shop", "append_partitioned_plain", listed[2]["records"]),
        ("shop", "pk_partial_update", 139),
    ]
    assert [row["table"] for row in run("info", "shop", "-w", warehouse)] == [row["table"] for row in listed[2:]]
    assert main(["info", warehouse]) == 0
    assert "3 databases" in capsys.readouterr().out
    [seen] = run("info", "shop.pk_partial_update", "-w", warehouse)
    assert seen["path"] == f"{warehouse}/shop.db/pk_partial_update"
    assert len(run("read", "shop.pk_partial_update", "-w", warehouse, "--limit", "3")) == 3
    assert len(run("read", "shop.pk_partial_update$snapshots", "-w", warehouse)) == 5
    assert main(["info", "orders", "-w", warehouse]) == 1
    assert "orders" in capsys.readouterr().err
    assert main(["files", "pk_partial_update", "-w", warehouse]) == 2
    assert "write database.table" in capsys.readouterr().err


def test_schema_and_branches(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {row["name"]: row for row in run("schema", path)}
    assert columns["k"] == {
        "name": "k", "type": columns["k"]["type"], "nullable": False, "key": "primary", "default": None, "comment": None
    }  # fmt: skip
    assert columns["c"]["type"] == "DECIMAL(10, 2)"
    alter_table(load_table(path), [AddColumn(("later",), IntType())])
    assert {row["name"] for row in run("schema", path)} == {*columns, "later"}
    assert {row["name"] for row in run("schema", path, "--version", "5")} == set(columns)
    assert main(["schema", path, "--version", "nope"]) == 1
    assert "Tag 'nope' doesn't exist" in capsys.readouterr().err
    assert run("branches", path) == []
    from paimon_spark.maintain.refs.branches import create_branch

    create_branch(load_table(path), "b1")
    assert [row["branch_name"] for row in run("branches", path)] == ["b1"]
    assert run("info", path)[0]["branches"] == ["b1"]
    assert main(["info", path]) == 0
    text = capsys.readouterr().out
    assert "139 records before merging" in text
    assert "Branches" in text


def test_what_differs_between_two_versions(path: str, run: Run) -> None:
    before = {row["k"]: row for row in run("read", path, "--limit", "0", "--version", "1")}
    after = {row["k"]: row for row in run("read", path, "--limit", "0", "--version", "3")}
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    rows = run("diff", path, "1", "3")
    assert {row["k"] for row in rows if row["change"] == "+"} == changed & after.keys()
    assert {row["k"] for row in rows if row["change"] == "-"} == changed & before.keys()
    assert changed
    same = run("diff", path, "3", "1")
    assert sorted(row["k"] for row in same if row["change"] == "-") == sorted(changed & after.keys())
    assert run("diff", path, "2", "2") == []
    assert len(run("diff", path, "1", "3", "--where", "k < 3", "--columns", "k")) <= len(rows)


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_forms_of_rows(path: str, tmp_path: Path, run: Run, form: str) -> None:
    from pyarrow import csv, ipc, parquet

    rows = run("read", path, "--limit", "0")
    file = str(tmp_path / "rows")
    assert main(["read", path, "--limit", "0", "--format", form, "--output", file]) == 0
    read = {"csv": csv.read_csv, "parquet": parquet.read_table, "arrow": lambda name: ipc.open_stream(name).read_all()}
    found = read[form](file if form != "arrow" else Path(file).read_bytes())
    assert found.column_names == ["k", "a", "b", "c", "arr", "ts"]
    assert sorted(found.column("k").to_pylist()) == sorted(row["k"] for row in rows)
    command = [sys.executable, "-m", "paimon_spark", "snapshots", path, "--format", form]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout
    assert main(["read", path, "--format", "csv", "--json"]) == 2
    assert main(["read", path, "--output", file]) == 2
