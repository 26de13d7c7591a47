"""Changelogs of our own writes and compactions that outlive their snapshots: each stays readable, none leaves files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.after_commit import maintain
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.changelogs import expire_all_changelogs
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.changelog_files import changelog_ids, read_changelog
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs.branches import create_branch, delete_branch
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag, delete_tag
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.data_types import DataField, parse_type
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
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
    told: dict[int, list[Any]] = {}
    for number in grow(table, range(7)):
        told[number] = changes(table, number)
    latest = max(told)
    assert table.snapshots.ids() == [latest - 1, latest]
    assert changelog_ids(table, table.paths) == list(range(latest - 6, latest - 1)), "seven with the snapshots"
    kept = [*changelog_ids(table, table.paths), latest - 1, latest]
    assert {number: changes(table, number) for number in kept} == {number: told[number] for number in kept}
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
    told = {number: changes(table, number) for number in grow(table, range(4))}
    target = max(told) - 1
    rollback_to_snapshot(table, target)
    remove_files_before(table, FOREVER)
    kept = [*changelog_ids(table, table.paths), *table.snapshots.ids()]
    assert kept == list(range(kept[0], target + 1))
    assert changelog_files(table) == named(table, kept)
    assert {number: changes(table, number) for number in kept} == {number: told[number] for number in kept}
    for number in grow(table, range(10, 12)):
        assert number > target
