"""Changelogs of our own writes and compactions that outlive their snapshots: each stays readable, none leaves files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.after_commit import maintain
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_all_changelogs, expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.needed_files import changelog_ids, read_changelog
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs.branches import create_branch, delete_branch
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag, delete_tag
from paimon_spark.read.row_views import find_view
from paimon_spark.spark.source.table_write import TableWrite
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import OverwriteMode, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.history import table_files
from tests.support.plans import plan_of

FOREVER = 2**62
KEPT = {
    **{"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"},
    **{"changelog.num-retained.min": "7", "changelog.num-retained.max": "7"},
}


def make(path: Path, producer: str, **options: str) -> FileStoreTable:
    columns = (("k", "INT NOT NULL"), ("v", "INT"))
    fields = [DataField(number, name, parse_type(kind)) for number, (name, kind) in enumerate(columns)]
    given = {"bucket": "2", "changelog-producer": producer, **options}
    return create_table(str(path / "t"), create_schema(fields, ("k",), (), given, None))


def grow(table: FileStoreTable, rounds: range) -> Iterator[int]:
    """Write and compact; yield each snapshot before its maintenance, which comes afterwards."""
    for number in rounds:
        keys = [(number * 3 + at) % 10 for at in range(4)]
        data = pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "v": pa.array([number] * 4, pa.int32()),
                "_VALUE_KIND": pa.array([0, 0, 2, 3], pa.int8()),
            }
        )
        plan = plan_write(table, data_schema=data.schema, shuffled=True)
        commit(table, [write_batches(plan, data.to_batches(), 0)])
        latest = table.snapshots.latest()
        assert latest is not None
        yield latest.id
        maintain(table, latest)
        if table.options.changelog_producer == "full-compaction":
            compacted = compact(table.with_options({"write-only": "true"}))
            assert compacted is not None
            yield compacted
            maintain(table, table.snapshots.get(compacted))


def changes(table: FileStoreTable, number: int) -> list[Any]:
    """The rows that one snapshot's changelog has, with their kinds."""
    loaded = load_table(table.path, options={"incremental-between": f"{number - 1},{number}"})
    view = find_view("audit_log")
    assert view is not None
    plan = plan_of(loaded, view)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def changelog_files(table: FileStoreTable) -> set[str]:
    return {name for name in table_files(table) if name.rpartition("/")[2].startswith("changelog-") and "." in name}


def named(table: FileStoreTable, ids: list[int]) -> set[str]:
    """The changelog files of these snapshots or long-lived changelogs."""
    found = set()
    for number in ids:
        snapshot = _any(table, number)
        for meta in table.manifests.changelog_manifests(snapshot):
            for entry in table.manifests.read_manifest(meta):
                path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
                found.add(path.removeprefix(table.path + "/"))
    return found


def _any(table: FileStoreTable, number: int) -> Any:
    if table.snapshots.exists(number):
        return table.snapshots.get(number)
    return read_changelog(table, table.paths, number)


@pytest.mark.parametrize("producer", ["input", "full-compaction"])
def test_each_changelog_stays_as_long_as_the_options_say(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path, producer, **KEPT)
    reported: dict[int, list[Any]] = {}
    for number in grow(table, range(7)):
        reported[number] = changes(table, number)
    latest = max(reported)
    assert table.snapshots.ids() == [latest - 1, latest]
    assert changelog_ids(table, table.paths) == list(range(latest - 6, latest - 1)), "seven with the snapshots"
    kept = [*changelog_ids(table, table.paths), latest - 1, latest]
    assert {number: changes(table, number) for number in kept} == {number: reported[number] for number in kept}
    assert changelog_files(table) == named(table, kept)
    assert remove_files_before(table, FOREVER, dry_run=True).file_count == 0
    expire_all_changelogs(table)
    assert changelog_files(table) == named(table, [latest - 1, latest])
    assert remove_files_before(table, FOREVER, dry_run=True).file_count == 0


@pytest.mark.parametrize("producer", ["input", "full-compaction"])
def test_a_changelog_goes_with_its_snapshot(tmp_path: Path, producer: str) -> None:
    """Tags and branches keep the rows of a snapshot, not its changelog (as in Java)."""
    table = make(tmp_path, producer)
    numbers = list(grow(table, range(4)))
    create_tag(table, "second", snapshot_id=numbers[1])
    create_branch(table, "b", tag="second")
    assert expire_snapshots(table, retain_latest_only()) == len(numbers) - 1
    assert changelog_files(table) >= named(table, numbers[-1:])
    delete_branch(table, "b")
    delete_tag(table, "second")
    remove_files_before(table, FOREVER)
    assert changelog_files(table) == named(table, numbers[-1:])


@pytest.mark.parametrize("producer", ["input", "full-compaction"])
def test_a_rollback_takes_later_changelogs_away(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path, producer, **KEPT)
    reported = {number: changes(table, number) for number in grow(table, range(4))}
    target = max(reported) - 1
    rollback_to_snapshot(table, target)
    remove_files_before(table, FOREVER)
    kept = [*changelog_ids(table, table.paths), *table.snapshots.ids()]
    assert kept == list(range(kept[0], target + 1))
    assert changelog_files(table) == named(table, kept)
    assert {number: changes(table, number) for number in kept} == {number: reported[number] for number in kept}
    for number in grow(table, range(10, 12)):
        assert number > target


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({}, ["APPEND"] * 3),
        ({"full-compaction.delta-commits": "0"}, ["APPEND"] * 3),
        ({"full-compaction.delta-commits": "5"}, ["APPEND", "COMPACT"] * 3),
        ({"full-compaction.delta-commits": "5", "write-only": "true"}, ["APPEND"] * 3),
    ],
)
def test_batch_writes_end_with_a_full_compaction_where_the_option_says_so(
    tmp_path: Path, options: dict[str, str], kinds: list[str]
) -> None:
    """As by the official connector, in which only streams count their commits."""
    table = make(tmp_path, "full-compaction", **options)
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    for number in range(3):
        write = TableWrite(plan_write(table, data_schema=schema, shuffled=True))
        data = pa.table({"k": [1, number], "v": [number, number]}, schema=schema)
        write.commit([write_batches(write.plan, data.to_batches(), 0)])
    assert [table.snapshots.get(number).commit_kind.value for number in table.snapshots.ids()] == kinds
    if "COMPACT" in kinds:
        assert changes(table, 2) == [("+I", 0, 0), ("+I", 1, 0)]
        assert changes(table, 4) == [("+U", 1, 1), ("-U", 1, 0)]
        assert changes(table, 6) == [("+I", 2, 2), ("+U", 1, 2), ("-U", 1, 1)]
        left_below = table.with_options({"overwrite-upgrade": "false"})
        replacing = plan_write(left_below, overwrite=OverwriteMode.STATIC, data_schema=schema)
        TableWrite(replacing, OverwriteSpec.static()).commit([write_batches(replacing, data.to_batches(), 0)])
        latest = table.snapshots.latest()
        assert latest is not None
        assert latest.commit_kind.value == "COMPACT"
        assert latest.changelog_manifest_list is None, "of an overwrite Java commits none either"


def test_a_large_bucket_is_left_where_only_the_driver_could_compact_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path, "full-compaction", **{"full-compaction.delta-commits": "1"})
    data = pa.table({"k": [1], "v": [1]}, schema=pa.schema([("k", pa.int32()), ("v", pa.int32())]))
    write = TableWrite(plan_write(table, data_schema=data.schema))
    monkeypatch.setattr("paimon_spark.maintain.compact.due._MOST_BYTES_HERE", 10)
    with caplog.at_level(logging.WARNING):
        write.commit([write_batches(write.plan, data.to_batches(), 0)])
    assert "committed, but not compacted, and without changelog" in caplog.text
