"""Copies and fast-forwards end at random moments, by SIGKILL, which no process can see, while others commit.

`test_rewrites_killed` has the same of rewrites, and the end at each call of the store in turn.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitError
from paimon_spark.maintain.copy_table import copy_table
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.table.table import FileStoreTable, load_table, table_exists
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.interrupting import Operation, killed_at_random, with_a_rival
from tests.support.killing import IMPATIENT
from tests.support.levels import check_files

EVERYTHING = 2**62


def write(table: FileStoreTable, key: int, value: str = "x") -> None:
    batch = pa.record_batch([pa.array([key], pa.int32()), pa.array([value])], names=["k", "v"])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def opened(directory: Path, name: str = "t", branch: str = "main") -> FileStoreTable:
    return load_table(str(directory / name), branch=branch, options=IMPATIENT)


def copied(directory: Path) -> None:
    copy_table(opened(directory), str(directory / "copy"), {})


def copied_anew(directory: Path) -> None:
    copied(directory)
    number = sum(1 for _ in directory.glob("copy-*"))
    (directory / "copy").rename(directory / f"copy-{number}")


@pytest.mark.parametrize("deed", [copied, copied_anew])
def test_copies_during_commits(tmp_path: Path, deed: Operation) -> None:
    source = make_table(tmp_path / "t", bucket="-1")
    write(source, 0)
    expected = {0: "x"}
    for turn, wait in enumerate(killed_at_random(deed, tmp_path)):
        for number in range(3):
            write(opened(tmp_path), key := 10 * turn + number + 1)
            expected[key] = "x"
            wait()
    assert rows(opened(tmp_path)) == expected
    for directory in tmp_path.glob("copy*"):
        if table_exists(str(directory)) and load_table(str(directory)).snapshots.latest_id() is not None:
            found = rows(load_table(str(directory)))
            assert found.items() <= expected.items()
            assert set(found) == set(sorted(expected)[: len(found)]), "rows of one snapshot"
    copied(tmp_path)
    target = opened(tmp_path, "copy")
    remove_files_before(target, EVERYTHING)
    check_files(target.path)
    assert rows(opened(tmp_path, "copy")) == expected


def test_a_copy_during_a_commit_at_every_call(tmp_path: Path) -> None:
    """It has the rows of one snapshot, the source has all."""
    source = make_table(tmp_path / "origin" / "t", bucket="-1")
    write(source, 1)
    write(source, 2)

    def rival(directory: Path) -> None:
        write(opened(directory), 3)

    for copy, error in with_a_rival(tmp_path / "origin", copied, rival, tmp_path):
        assert error is None
        assert set(rows(opened(copy))) == {1, 2, 3}
        assert set(rows(opened(copy, "copy"))) in ({1, 2}, {1, 2, 3})
        copied(copy)
        assert set(rows(opened(copy, "copy"))) == {1, 2, 3}


def forwarded(directory: Path) -> None:
    branch = opened(directory, branch="b")
    latest = branch.snapshots.latest_id()
    write(branch, 1000 + (latest or 0), "branch")
    fast_forward(opened(directory), "b")


def test_fast_forwards_during_commits(tmp_path: Path) -> None:
    """What the table got since the branch began is forgotten; what the branch has is there, whole."""
    table = make_table(tmp_path / "t", bucket="-1")
    write(table, 0)
    tags.create_tag(table, "tag")
    branches.create_branch(table, "b", tag="tag")
    for turn, wait in enumerate(killed_at_random(forwarded, tmp_path)):
        for number in range(3):
            with contextlib.suppress(CommitError):  # the snapshot that it was planned on is gone
                write(opened(tmp_path), 10 * turn + number + 1)
            wait()
    assert rows(opened(tmp_path))[0] == "x"
    of_branch = rows(opened(tmp_path, branch="b"))
    assert len(of_branch) > 3
    fast_forward(opened(tmp_path), "b")
    assert rows(opened(tmp_path)) == of_branch
    write(opened(tmp_path), 5000)
    remove_files_before(opened(tmp_path), EVERYTHING)
    check_files(table.path)
    assert rows(opened(tmp_path)) == {**of_branch, 5000: "x"}
    assert rows(opened(tmp_path, branch="b")) == of_branch
