"""Reads that take partitions from two branches: `scan.fallback-branch` and `scan.primary-branch`.

Equals Java's ``FallbackReadFileStoreTable``: of the two branches one comes first, and gives every partition it has, by
whatever rows; the other gives the partitions that the first lacks. Planning runs on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import PaimonError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.read.plan import ReadPlan, plan_snapshot
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.predicate import Always, project
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID
from paimon_spark.table.support import check_readable
from paimon_spark.table.table import load_table
from paimon_spark.table.time_travel import (
    MODE,
    TAG_NAME,
    TIMESTAMP,
    TIMESTAMP_MILLIS,
    TRAVEL_KEYS,
    WATERMARK,
    has_time_travel,
    resolve_snapshot,
    snapshot_at_time,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

FALLBACK = "scan.fallback-branch"
PRIMARY = "scan.primary-branch"
_PASSED_ON = ("scan.", "source.", "read.")


def other_branch(table: FileStoreTable) -> str | None:
    """Return the branch that the table's options read beside its own; None without one, or when it is the same."""
    name = (table.options.get(FALLBACK) or table.options.get(PRIMARY) or "").strip()
    return name if name and name != table.branch and table.branches.exists(name) else None


def refuse_other_branch(table: FileStoreTable, what: str) -> None:
    """Refuse to read something of a table that reads a second branch as well.

    Raises:
        UnsupportedError: names the option.
    """
    if other_branch(table) is not None:
        key = FALLBACK if table.options.get(FALLBACK) else PRIMARY
        raise UnsupportedError(
            f"Reading {what} with option '{key}' = '{table.options.get(key)}' is not supported yet: those of the other "
            "branch would be missing. Read each branch by its own name, <table>$branch_<branch>, without the option."
        )


@dataclass(frozen=True)
class BranchRead:
    """Reads the splits of two branches, each with its own schemas and merge engine. Picklable."""

    other: FileStoreTable
    """The branch whose splits carry its name."""

    def __call__(
        self,
        table: FileStoreTable,
        split: DataSplit,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read one split, as `read_split` does."""
        return read_split(table if split.branch is None else self.other, split, plan_fields, predicate)


def plan_branches(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    read_fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
) -> ReadPlan:
    """Plan the read of a snapshot, and of the partitions of the other branch that belong to it. As `plan_snapshot`.

    Raises:
        PaimonError: the branches have not the same columns.
        UnsupportedError: the other branch has a feature that is not supported yet.
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    own = plan_snapshot(table, snapshot, read_fields, predicate=predicate, parallelism=parallelism, limit=limit)
    name = other_branch(table)
    if name is None:
        return own
    other = _opened(table, name)
    check_readable(other.schema)
    theirs = _snapshot_of(other, table, snapshot)
    if theirs is not None and has_time_travel(table.options):
        other = other.at_snapshot(theirs)
    _check_same_columns(table, other)
    plan = plan_snapshot(other, theirs, read_fields, predicate=predicate, parallelism=parallelism, limit=limit)
    marked = [replace(split, branch=name) for split in plan.splits]
    if table.options.get(FALLBACK):
        complete = _partitions(table, snapshot, predicate)
        splits = [*own.splits, *(split for split in marked if split.partition not in complete)]
    else:
        complete = _partitions(other, theirs, predicate)
        splits = [*marked, *(split for split in own.splits if split.partition not in complete)]
    return replace(own, splits=tuple(splits), residual=own.residual or plan.residual, read=BranchRead(other))


def _opened(table: FileStoreTable, name: str) -> FileStoreTable:
    """Open the other branch: its own options, and those that say how to read from this one; it has no third branch."""
    passed = {
        key: value
        for key, value in table.options.to_dict().items()
        if key.startswith(_PASSED_ON) and key not in (FALLBACK, PRIMARY, MODE, *TRAVEL_KEYS)
    }
    other = load_table(table.path, branch=name, file_io=table.file_io).with_options(passed)
    return other.without_options((FALLBACK, PRIMARY))


def _snapshot_of(other: FileStoreTable, table: FileStoreTable, snapshot: Snapshot | None) -> Snapshot | None:
    """Return the other branch's snapshot for a read of ``snapshot``; ids of two branches have nothing in common."""
    options = table.options
    if not has_time_travel(options):
        return other.snapshots.latest()
    tag = options.get(TAG_NAME)
    if tag is not None and other.tags.exists(tag):
        return other.tags.get(tag).snapshot
    try:
        if any(key in options for key in (TIMESTAMP, TIMESTAMP_MILLIS, WATERMARK)):
            return resolve_snapshot(other, {key: options[key] for key in TRAVEL_KEYS if key in options})
        assert snapshot is not None
        return snapshot_at_time(other, snapshot.time_millis)
    except SnapshotNotFoundError:
        # Java: the first snapshot where none is as old, and an error where there is none
        first = other.snapshots.exists(FIRST_SNAPSHOT_ID)
        return other.snapshots.get(FIRST_SNAPSHOT_ID) if first else None


def _check_same_columns(table: FileStoreTable, other: FileStoreTable) -> None:
    """Check that the branches have the same columns; one may have NOT NULL, keys and options that the other has not."""
    texts = [
        ", ".join(f"{field.name} {field.type.with_nullable(True).sql()}" for field in side.schema.fields)
        for side in (table, other)
    ]
    if texts[0] != texts[1]:
        key = FALLBACK if table.options.get(FALLBACK) else PRIMARY
        raise PaimonError(
            f"Branch {table.branch} and {other.branch} does not have the same row type. This validation is triggered "
            f"because '{key}' is configured to '{other.branch}'. Row type of branch {table.branch} is {texts[0]}. Row "
            f"type of branch {other.branch} is {texts[1]}."
        )
    if table.schema.partition_keys != other.schema.partition_keys:
        raise PaimonError(f"Branches {table.branch} and {other.branch} are not partitioned by the same columns.")


def _partitions(table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None) -> set[bytes]:
    """Return the partitions that have files, of those that a predicate over partition columns leaves."""
    if snapshot is None:
        return set()
    wanted = None if predicate is None else project(predicate, table.schema.partition_keys)
    files = table.manifests.live_columns(
        snapshot, predicate=None if wanted is None or wanted == Always(True) else wanted
    )
    real = np.asarray(files.buckets) >= 0 if len(files) else np.zeros(0, dtype=bool)
    return {partition for partition, kept in zip(files.partitions, real.tolist(), strict=True) if kept}
