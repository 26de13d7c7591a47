"""Reads of two branches: a partition comes whole from the branch that comes first, or else from the other."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import (
    CorruptTableError,
    OptionError,
    PaimonError,
    SchemaChangeError,
    SnapshotNotFoundError,
    UnsupportedError,
)
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.read.audit_log import CHANGE_FEED
from paimon_spark.read.row_views import ROWS, find_view
from paimon_spark.read.table_scan import RowView
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of

FALLBACK, PRIMARY = {"scan.fallback-branch": "b"}, {"scan.primary-branch": "b"}


def write(table: FileStoreTable, partition: str, values: dict[int, str], branch: str = "main") -> int:
    there = load_table(table.path, branch=branch)
    snapshot_id = commit(there, [message(there, data_file(there, values, partition=partition), partition=partition)])
    assert snapshot_id is not None
    return snapshot_id


def rows(
    path: str,
    options: dict[str, str],
    where: str | None = None,
    columns: list[str] | None = None,
    view: str | RowView = ROWS,
) -> list[Any]:
    table = load_table(path, options=options)
    seen = view if isinstance(view, RowView) else find_view(view) if view else ROWS
    assert seen is not None
    predicate = None if where is None else parse_filter(where, seen.fields(table))
    plan = pickle.loads(pickle.dumps(plan_of(table, seen, columns=columns, predicate=predicate)))
    found = [
        tuple(row.values())
        for split in plan.splits
        for batch in plan.read(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    ]
    return sorted(found)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Main has the partitions 1 and 3; branch b has 1, 2, and later 3 and 4."""
    table = make_table(tmp_path / "t", primary_key=["dt", "k"], partition=["dt"], bucket="1")
    branches.create_branch(table, "b")
    write(table, "1", {1: "b1"}, "b")
    write(table, "2", {2: "b2"}, "b")
    write(table, "1", {1: "m1"})
    write(table, "3", {3: "m3"})
    write(table, "3", {1: "b3"}, "b")
    write(table, "4", {4: "b4"}, "b")
    return table


M1, M3, B1, B2, B3, B4 = (1, "m1", "1"), (3, "m3", "3"), (1, "b1", "1"), (2, "b2", "2"), (1, "b3", "3"), (4, "b4", "4")


def test_the_other_branch_gives_what_the_first_lacks(table: FileStoreTable) -> None:
    assert rows(table.path, {}) == [M1, M3]
    assert rows(table.path, FALLBACK) == sorted([M1, M3, B2, B4])
    assert rows(table.path, PRIMARY) == sorted([B1, B2, B3, B4])
    assert rows(table.path, {"branch": "b", "scan.fallback-branch": "main"}) == sorted([B1, B2, B3, B4])
    assert (
        rows(table.path, {"scan.fallback-branch": "main"})
        == rows(table.path, {"scan.fallback-branch": "x"})
        == [M1, M3]
    )


def test_a_partition_is_complete_although_a_filter_leaves_nothing_of_it(table: FileStoreTable) -> None:
    assert rows(table.path, FALLBACK, "v = 'b1'") == []
    assert rows(table.path, FALLBACK, "k = 1") == [M1]
    assert rows(table.path, FALLBACK, "dt >= '2' AND v LIKE 'b%'") == [B2, B4]
    assert rows(table.path, FALLBACK, "dt = '4'", ["v"]) == [("b4",)]
    assert rows(table.path, PRIMARY, "v LIKE 'm%'") == []


def test_time_travel_goes_by_the_time_of_the_snapshot(table: FileStoreTable) -> None:
    assert rows(table.path, {**FALLBACK, "scan.snapshot-id": "1"}) == [M1, B2]
    assert rows(table.path, {**FALLBACK, "scan.version": "2"}) == sorted([M1, M3, B2])
    tags.create_tag(table, "x", snapshot_id=1)
    assert rows(table.path, {**FALLBACK, "scan.tag-name": "x"}) == [M1, B2]
    tags.create_tag(load_table(table.path, branch="b"), "x", snapshot_id=4)
    assert rows(table.path, {**FALLBACK, "scan.tag-name": "x"}) == sorted([M1, B2, B3, B4])
    then = table.snapshots.get(2).time_millis
    assert rows(table.path, {**FALLBACK, "scan.timestamp-millis": str(then)}) == sorted([M1, M3, B2])


def test_a_branch_without_snapshots_on_either_side(table: FileStoreTable) -> None:
    branches.create_branch(table, "empty")
    assert rows(table.path, {"scan.fallback-branch": "empty"}) == [M1, M3]
    assert rows(table.path, {"branch": "empty", "scan.fallback-branch": "b"}) == sorted([B1, B2, B3, B4])
    commit(table, [], overwrite=OverwriteSpec.truncate())
    assert rows(table.path, FALLBACK) == sorted([B1, B2, B3, B4])


def schema_file(table: FileStoreTable, change: Callable[[str], str]) -> None:
    path = Path(table.path, "branch/branch-b/schema/schema-0")
    path.write_text(change(path.read_text()))


def test_columns_must_be_the_same(table: FileStoreTable) -> None:
    schema_file(table, lambda text: text.replace('"name" : "v"', '"name" : "w"'))
    with pytest.raises(PaimonError, match="do not have the same row type"):
        rows(table.path, FALLBACK)


def test_the_other_branch_keeps_its_own_options(table: FileStoreTable) -> None:
    schema_file(table, lambda text: text.replace('"bucket" : "1"', '"chain-table.enabled" : "true", "bucket" : "1"'))
    with pytest.raises(UnsupportedError, match="chain-table"):
        rows(table.path, FALLBACK)


def test_the_branch_must_be_there_when_the_option_is_set(table: FileStoreTable) -> None:
    for key in (*FALLBACK, *PRIMARY):
        with pytest.raises(SchemaChangeError, match="because the branch 'missing' does not exist"):
            alter_table(table, [SetOption(key, "missing")])
    alter_table(table, [SetOption("scan.fallback-branch", "b")])
    assert rows(table.path, {}) == rows(table.path, FALLBACK)


def test_java_reads_the_same(oracle: Any, table: FileStoreTable) -> None:
    schema = Path(table.path, "schema/schema-0")
    schema.write_text(schema.read_text().replace('"bucket" : "1"', '"bucket" : "1", "scan.fallback-branch" : "b"'))
    chosen: list[dict[str, str]] = [{}, {"scan.snapshot-id": "1"}, {"scan.snapshot-id": "2"}, {"scan.version": "2"}]
    for options in chosen:
        assert rows(table.path, options) == oracle.rows(table.path, options=options)


def test_java_filters_the_same(oracle: Any, tmp_path: Path) -> None:
    name = f"fallback.{tmp_path.name}"
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]
    oracle.create(name, columns, pk=["dt", "k"], partition=["dt"], options={"bucket": "1"})
    oracle.create_branch(name, "b")
    oracle.write(f"{name}$branch_b", [B1, B2, B3, B4])
    oracle.write(name, [M1, M3])
    oracle.alter(name, ("set", "scan.fallback-branch", "b"))
    path = oracle.location(name).removeprefix("file:")
    for column, value in (("k", 1), ("v", "b1"), ("v", "b2"), ("dt", "4")):
        reported = oracle.read(path, filter=[(column, "=", value)]).to_pylist()
        assert rows(path, {}, f"{column} = {value!r}") == sorted(tuple(row.values()) for row in reported)
    assert rows(path, {}) == sorted(oracle.rows(path)) == sorted([M1, M3, B2, B4])


@pytest.fixture(scope="module")
def both(oracle: Any) -> Iterator[tuple[Any, str]]:
    """A table of Java with a changelog: main has the partitions 1 and 3; branch b 1, 2, and later 3 and 4."""
    name = "fallback_views.t"
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]
    options = {"bucket": "1", "changelog-producer": "input"}
    oracle.create(name, columns, pk=["dt", "k"], partition=["dt"], options=options)
    oracle.create_branch(name, "b")
    oracle.write(f"{name}$branch_b", [(1, "b1", "1"), (2, "b2", "2"), (5, "b5", "2")])
    oracle.write(name, [(1, "m1", "1")])
    oracle.write(name, [(1, "m1", "1"), (1, "m1x", "1"), (3, "m3", "3")], kinds=["-U", "+U", "+I"])
    oracle.write(f"{name}$branch_b", [(1, "b3", "3"), (4, "b4", "4"), (5, "b5", "2")], kinds=["+I", "+I", "-D"])
    yield oracle, name
    oracle.drop(name)


CHANGES: list[dict[str, str]] = [
    {},
    {"scan.snapshot-id": "1"},
    {"incremental-between": "1,2"},
    {"incremental-between": "0,2"},
    {"incremental-between": "0,1"},
    {"incremental-between": "1,2", "incremental-between-scan-mode": "delta"},
    {"incremental-between-timestamp": "0,9999999999999"},
]


@pytest.mark.parametrize("key", [*FALLBACK, *PRIMARY])
@pytest.mark.parametrize("view", ["", "audit_log", "binlog", "ro"])
def test_views_and_changes_are_those_of_java(both: tuple[Any, str], key: str, view: str) -> None:
    oracle, name = both
    oracle.alter(name, ("set", key, "b"))
    try:
        path = oracle.location(name).removeprefix("file:")
        for options in CHANGES[: 2 if view == "ro" else None]:
            java = oracle.read(f"{name}${view}" if view else name, options=options).to_pylist()
            assert rows(path, options, view=view) == sorted(tuple(row.values()) for row in java), options
    finally:
        oracle.alter(name, ("unset", key))


@pytest.mark.parametrize("key", [*FALLBACK, *PRIMARY])
def test_changes_with_their_commits(both: tuple[Any, str], key: str) -> None:
    """What happened is what Java's audit log says; versions and times are of the branch that has the partition."""
    oracle, name = both
    oracle.alter(name, ("set", key, "b"))
    kinds = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
    try:
        path = oracle.location(name).removeprefix("file:")
        for between in ("0,2", "1,2", "0,1"):
            options = {"incremental-between": between, "incremental-between-scan-mode": "changelog"}
            reported = rows(path, options, view=CHANGE_FEED)
            java = oracle.read(f"{name}$audit_log", options=options).to_pylist()
            assert sorted((kinds[row[3]], *row[:3]) for row in reported) == sorted(tuple(row.values()) for row in java)
            for row in reported:
                from_b = row[1].startswith("b")
                commit_of = load_table(path, branch="b" if from_b else "main").snapshots.get(row[4])
                assert row[5].timestamp() * 1000 == pytest.approx(commit_of.time_millis)
                assert between != "1,2" or row[4] == 2
            some = rows(path, options, "k = 1 AND _change_type = 'insert'", ["v", "_commit_version"], CHANGE_FEED)
            assert some == sorted((row[1], row[4]) for row in reported if row[0] == 1 and row[3] == "insert")
    finally:
        oracle.alter(name, ("unset", key))


def test_an_overwrite_in_the_other_branch_does_not_show_what_changed(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1")
    branches.create_branch(table, "b")
    write(table, "1", {1: "m1"})
    there = load_table(table.path, branch="b")
    write(table, "2", {2: "b2"}, "b")
    between = {**FALLBACK, "incremental-between": "0,1"}
    assert [row[:5] for row in rows(table.path, between, view=CHANGE_FEED)] == [
        (1, "m1", "1", "insert", 1),
        (2, "b2", "2", "insert", 1),
    ]
    write(table, "1", {3: "m3"})
    commit(
        there,
        [message(there, data_file(there, {9: "x"}, partition="2"), partition="2")],
        overwrite=OverwriteSpec.dynamic(),
    )
    with pytest.raises(OptionError, match="Snapshot 2 is an overwrite"):
        rows(table.path, between | {"incremental-between": "0,2"}, view=CHANGE_FEED)


def test_the_top_level_is_that_of_each_branch(oracle: Any, tmp_path: Path) -> None:
    name = f"fallback_ro.{tmp_path.name}"
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]
    oracle.create(name, columns, pk=["dt", "k"], partition=["dt"], options={"bucket": "1"})
    oracle.create_branch(name, "b")
    oracle.write(f"{name}$branch_b", [B1, B2])
    oracle.compact(f"{name}$branch_b")
    oracle.write(name, [M1], options={"write-only": "true"})  # which the top level lacks
    for key, reported in (("scan.fallback-branch", [B1, B2]), ("scan.primary-branch", [B1, B2])):
        oracle.alter(name, ("set", key, "b"))
        path = oracle.location(name).removeprefix("file:")
        assert rows(path, {}, view="ro") == sorted(oracle.rows(f"{name}$ro")) == reported
        assert rows(path, {}, "v = 'b1'", view="ro") == [B1]
        oracle.alter(name, ("unset", key))
    oracle.drop(name)


def test_the_difference_of_two_states_takes_partitions_that_the_first_lacks_in_the_end(table: FileStoreTable) -> None:
    diff = {"incremental-between": "1,2", "incremental-between-scan-mode": "diff"}
    assert rows(table.path, {**FALLBACK, **diff}) == sorted([B2, M3])
    assert rows(table.path, {**FALLBACK, **diff}, view="audit_log") == sorted([("+I", *B2), ("+I", *M3)])
    assert rows(table.path, {**PRIMARY, **diff}) == sorted([B2, M3])
    write(table, "3", {3: "m33"})
    assert rows(table.path, {**FALLBACK, **diff, "incremental-between": "2,3"}) == [(3, "m33", "3")]
    assert rows(table.path, {**PRIMARY, **diff, "incremental-between": "2,3"}) == [B3]


def test_changes_that_the_other_branch_has_not_are_an_error_that_says_so(table: FileStoreTable) -> None:
    branches.create_branch(table, "young")
    options = {"scan.fallback-branch": "young"}
    assert rows(table.path, {**options, "incremental-between": "0,2"}) == [M1, M3]  # it has no snapshot at all
    write(table, "9", {9: "y"}, "young")
    with pytest.raises(SnapshotNotFoundError, match=r"branch 'young' as well .*'scan.fallback-branch'.*\[1, 1\]"):
        rows(table.path, {**options, "incremental-between": "1,2"})


@pytest.mark.parametrize("fail_fast", ["true", "false"])
def test_an_error_of_the_other_branch_is_always_one_of_the_read(table: FileStoreTable, fail_fast: str) -> None:
    options = {**FALLBACK, "scan.fallback-branch.read-fail-fast": fail_fast}
    assert rows(table.path, options) == sorted([M1, M3, B2, B4])
    for file in Path(table.path, "dt=2").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(CorruptTableError, match="dt=2"):
        rows(table.path, options)
