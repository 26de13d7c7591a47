"""Writes that look up older rows: a model of the changelog and checks of the levels."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import Executor
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.read.row_views import find_view
from paimon_spark.table.deletion_vectors import FileKey, vectors_of
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import new_user, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of


def write(
    table: FileStoreTable, some: dict[int, str], kinds: Sequence[int] | None = None, execute: Executor | None = None
) -> None:
    """Write as every entry point does: commit the rows, then compact what they need."""
    columns = {"k": pa.array(list(some), pa.int32()), "v": pa.array(list(some.values()))}
    columns["_VALUE_KIND"] = pa.array(kinds or [0] * len(some), pa.int8())
    batch = pa.RecordBatch.from_pydict(columns)
    plan, user = plan_write(table, data_schema=batch.schema), new_user(table.options)
    messages = [write_batches(plan, [batch], 0)]
    commit(table, messages, commit_user=user, planned_on=plan.snapshot)
    compact_after_write(table, messages, commit_user=user, backlog=plan.backlog, execute=execute)


def logged(table: FileStoreTable, since: int, to: int | None = None) -> list[tuple[str, int, str]]:
    """The changelog after a snapshot: kind, key and value, in order of keys; -U stands in front of +U."""
    between = {"incremental-between": f"{since},{to or table.snapshots.latest_id()}"}
    view = find_view("audit_log")
    assert view is not None
    plan = plan_of(load_table(table.path, options=between), view)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = [(row["rowkind"], row["k"], row["v"]) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row[1])


def check_levels(table: FileStoreTable, expected: dict[int, str], *, gone: Collection[FileKey] = ()) -> None:
    """Above level 0 no two files of a level share keys; counts of rows, deletes and deleted rows are true.

    `gone`: files that are gone and whose vectors Java left.
    """
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    entries = table.manifests.live_entries(snapshot)
    vectors = vectors_of(table, snapshot)
    locations = {name: location for (_, _, name), location in vectors.items()}
    live_files = {(entry.partition, entry.bucket, entry.file.file_name) for entry in entries}
    assert vectors.keys() - live_files == set(gone), "vectors of files that are gone"
    left = 0
    for bucket in {entry.bucket for entry in entries}:
        for level in range(1, 4):
            files = [entry.file for entry in entries if (entry.bucket, entry.file.level) == (bucket, level)]
            keys = sorted((key_of(file.min_key), key_of(file.max_key)) for file in files)
            assert all(high < low for (_, high), (low, _) in itertools.pairwise(keys)), f"level {level}"
    for entry in entries:
        location = locations.get(entry.file.file_name)
        left += entry.file.row_count - ((location.cardinality or 0) if location else 0)
        assert entry.file.min_sequence_number <= entry.file.max_sequence_number
        if table.options.deletion_vectors_enabled:
            assert entry.file.delete_row_count == 0 or entry.file.level == 0
    if table.options.batch_scan_skips_level_0 and not any(entry.file.level == 0 for entry in entries):
        assert left == len(expected), "each key has one row that no vector deletes"


def key_of(key: bytes) -> int:
    return int.from_bytes(key[-8:-4], "little", signed=True)


def changes(
    before: dict[int, str], after: dict[int, str], touched: set[int], first_row: bool
) -> list[tuple[str, int, str]]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            found.append(("+I", key, after[key]))
        elif key not in after:
            found.append(("-D", key, before[key]))
        elif before[key] != after[key] or (key in touched and not first_row):
            found += [("-U", key, before[key]), ("+U", key, after[key])]
    return found
