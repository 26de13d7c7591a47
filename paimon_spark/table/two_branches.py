"""The two branches of a table whose options ask for a second branch alongside its own.

Options `scan.fallback-branch` and `scan.primary-branch`, Java's ``FallbackReadFileStoreTable``: one of the branches
comes first and gives all its partitions; the other gives the partitions that the first lacks. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paimon_spark.errors import PaimonError, SnapshotNotFoundError
from paimon_spark.spec.predicate import implied_by
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
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

FALLBACK = "scan.fallback-branch"
PRIMARY = "scan.primary-branch"
_PASSED_ON = ("scan.", "source.", "read.")

BranchState = tuple["FileStoreTable", "Snapshot | None"]
"""A branch with the columns of the read, and its snapshot that is read."""


def other_branch(table: FileStoreTable) -> str | None:
    """Return the branch that the table's options read alongside its own; None without one, or when it is the same."""
    name = (table.options.get(FALLBACK) or table.options.get(PRIMARY) or "").strip()
    return name if name and name != table.branch and table.branches.exists(name) else None


def option_of_other(table: FileStoreTable) -> str:
    """Return the key of the option that names the other branch."""
    return FALLBACK if table.options.get(FALLBACK) else PRIMARY


@dataclass(frozen=True, slots=True)
class TwoBranches:
    """What a read of two branches looks at."""

    own: BranchState
    other: BranchState
    own_first: bool
    """Whether the partitions that both have are the table's own (fallback), or those of the other branch (primary)."""

    @property
    def first(self) -> BranchState:
        """The branch that gives all the partitions that it has."""
        return self.own if self.own_first else self.other

    @property
    def second(self) -> BranchState:
        """The branch that gives the partitions that the first lacks."""
        return self.other if self.own_first else self.own


def two_branches(table: FileStoreTable, snapshot: Snapshot | None) -> TwoBranches | None:
    """Find the other branch that belongs to a read of a snapshot; None when only the table's own is read.

    Args:
        table: with its scan options and the columns of the read.
        snapshot: of the table's own branch.

    Raises:
        PaimonError: the branches have not the same columns.
        UnsupportedError: the other branch has a feature that is not supported yet.
    """
    name = other_branch(table)
    if name is None:
        return None
    other = open_other(table, name)
    theirs = _snapshot_of(other, table, snapshot)
    if theirs is not None and has_time_travel(table.options):
        other = other.at_snapshot(theirs)
    check_same_columns(table, other)
    return TwoBranches((table, snapshot), (other, theirs), bool(table.options.get(FALLBACK)))


def open_other(table: FileStoreTable, name: str) -> FileStoreTable:
    """Open the other branch: its own options, and those that say how to read from this one; it has no third branch.

    Raises:
        UnsupportedError: it has a feature that is not supported yet.
    """
    passed = {
        key: value
        for key, value in table.options.to_dict().items()
        if key.startswith(_PASSED_ON) and key not in (FALLBACK, PRIMARY, MODE, *TRAVEL_KEYS)
    }
    other = load_table(table.path, branch=name, file_io=table.file_io).with_options(passed, given=False)
    other = other.without_options((FALLBACK, PRIMARY))
    check_readable(other.schema)
    return other


def check_same_columns(table: FileStoreTable, other: FileStoreTable) -> None:
    """Check that the branches have the same columns; one may have NOT NULL, keys and options that the other has not.

    Raises:
        PaimonError: they have not.
    """
    texts = [
        ", ".join(f"{field.name} {field.type.with_nullable(True).sql()}" for field in side.schema.fields)
        for side in (table, other)
    ]
    if texts[0] != texts[1]:
        raise PaimonError(
            f"Branches {table.branch} and {other.branch} do not have the same row type. This validation is triggered "
            f"because '{option_of_other(table)}' is configured to '{other.branch}'. Row type of branch {table.branch} "
            f"is {texts[0]}. Row type of branch {other.branch} is {texts[1]}."
        )
    if table.schema.partition_keys != other.schema.partition_keys:
        raise PaimonError(f"Branches {table.branch} and {other.branch} are not partitioned by the same columns.")


def partitions_with_files(state: BranchState, predicate: Predicate | None = None) -> set[bytes]:
    """Return the partitions that have files in buckets, of those that a predicate over partition columns leaves."""
    table, snapshot = state
    if snapshot is None:
        return set()
    wanted = implied_by(predicate, table.schema.partition_keys)
    files = table.manifests.live_columns(snapshot, predicate=wanted, statistics=False)
    real = np.asarray(files.buckets) >= 0 if len(files) else np.zeros(0, dtype=bool)
    return {partition for partition, kept in zip(files.partitions, real.tolist(), strict=True) if kept}


def live_partitions(table: FileStoreTable) -> list[bytes]:
    """Return the partitions that a read of the latest snapshot sees, sorted; those of another branch that it takes too.

    Raises:
        PaimonError: the branches that are read have not the same columns.
    """
    snapshot = table.snapshots.latest()
    both = two_branches(table, snapshot)
    states: tuple[BranchState, ...] = ((table, snapshot),) if both is None else (both.own, both.other)
    return sorted({partition for state in states for partition in partitions_with_files(state)})


def own_partitions(table: FileStoreTable) -> list[bytes]:
    """Return the partitions that the latest snapshot of the table's own branch has files of, sorted."""
    snapshot = table.snapshots.latest()
    return [] if snapshot is None else sorted(set(table.manifests.live_columns(snapshot, statistics=False).partitions))


def matching_partitions(
    table: FileStoreTable, wanted: Mapping[str, Any], partitions: Sequence[bytes]
) -> list[dict[str, Any]]:
    """Return the values of those partitions whose columns have the values wanted."""
    rows: list[dict[str, Any]] = table.manifests.partition_batch(partitions).to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


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
