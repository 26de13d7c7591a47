"""Which tables take a DELETE or UPDATE of single rows, and commits that take partitions or files out."""

from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError, UnsupportedError
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.maintain.row_level import (
    check_merge,
    check_row_delete,
    check_update,
    delete_partitions,
    deletes_by_rewriting,
    is_partition_delete,
    live_partitions_of,
    replaced_files,
    truncate,
)
from paimon_spark.spec.snapshot import CommitKind, Operation
from paimon_spark.table.table import FileStoreTable
from tests.support.commits import data_file, live_names, make_table, message

REMOVES = {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "TRUE"}


def keyed(tmp_path: Path, **options: str) -> FileStoreTable:
    return make_table(tmp_path / "t", primary_key=["k"], bucket="1", **options)


@pytest.mark.parametrize("options", [{}, {"merge_engine": "deduplicate"}, REMOVES])
def test_engines_that_know_a_deleted_row(tmp_path: Path, options: dict[str, str]) -> None:
    table = keyed(tmp_path, **options)
    check_row_delete(table)
    check_merge(table, updates=False, deletes=True)
    assert not deletes_by_rewriting(table)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rowkind__field": "v"}, "'rowkind.field' = 'v'.*INSERT the rows with '-D'"),
    ],
)
def test_engines_that_do_not(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    table = keyed(tmp_path, **options)
    with pytest.raises(UnsupportedError, match=reason):
        check_row_delete(table)
    check_update(table, ["v"])


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_engines_that_know_no_deleted_row_rewrite_files(tmp_path: Path, engine: str) -> None:
    table = keyed(tmp_path, merge_engine=engine)
    check_row_delete(table)
    assert deletes_by_rewriting(table)
    with pytest.raises(UnsupportedError, match=f"Merge engine {engine} does.* batch delete"):
        check_merge(table, updates=False, deletes=True)


def test_a_second_branch(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k", "dt"], partition=["dt"], bucket="1")
    create_branch(table, "b")
    assert is_partition_delete(table)
    both = table.with_options({"scan.fallback-branch": "b"})
    for refused in (lambda: check_row_delete(both), lambda: check_update(both, ["v"])):
        with pytest.raises(UnsupportedError, match=r"own name, <table>\$branch_"):
            refused()
    assert not is_partition_delete(both)


def test_keys_are_not_updated(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"Can't update the primary key column\. k is in the primary key of"):
        check_update(keyed(tmp_path), ["v", "k"])


def test_without_a_key_all_columns_are(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    check_update(table, ["v", "k"])
    check_row_delete(table)


def test_partitions(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"])
    for day in ("a", "b", None):
        commit(table, [message(table, data_file(table, {1: "x"}, partition=day), partition=day)])
    assert live_partitions_of(table) == [{"dt": "a"}, {"dt": "b"}, {"dt": None}]
    assert delete_partitions(table, []) is None
    assert delete_partitions(table, [{"dt": "a"}, {"dt": None}]) == 4
    assert live_partitions_of(table) == [{"dt": "b"}]
    assert truncate(table) == 5
    assert live_partitions_of(table) == []
    last = table.snapshots.latest()
    assert last is not None
    assert (last.commit_kind, last.operation, last.total_record_count) == (CommitKind.OVERWRITE, Operation.TRUNCATE, 0)
    assert is_partition_delete(table)
    assert not is_partition_delete(table.with_options({"delete.force-produce-changelog": "true"}))


def test_files_take_the_place_of_others(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"])
    old = {day: data_file(table, {1: "x", 2: "y"}, partition=day) for day in "ab"}
    commit(table, [message(table, file, partition=day) for day, file in old.items()])
    gone = replaced_files(table, 1, [f"file:/somewhere/{old['a'].file_name}"])
    assert [message.deleted_files for message in gone] == [(old["a"],)]
    new = data_file(table, {2: "y"}, partition="a")
    commit(table, [message(table, new, partition="a"), *gone], operation="DELETE")
    assert sorted(live_names(table)) == sorted([old["b"].file_name, new.file_name])
    last = table.snapshots.latest()
    assert last is not None
    assert (last.commit_kind, last.operation, last.delta_record_count) == (CommitKind.OVERWRITE, Operation.DELETE, -1)
    with pytest.raises(CommitConflictError, match="File deletion conflicts"):
        commit(table, gone, operation="DELETE")
    with pytest.raises(CommitConflictError, match=r"Snapshot 2 of table .* has no file"):
        replaced_files(table, 2, [old["a"].file_name])
