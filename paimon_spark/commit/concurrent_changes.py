"""Whether a commit may still follow the snapshot that it was planned on, and the rows that were read there.

A statement that makes new rows of old ones (UPDATE, DELETE, MERGE) reads one snapshot. Its result is right only if
nobody else has changed these rows. The check compares buckets and key ranges: it is a conflict if a later snapshot
added or deleted a file in a bucket that this commit writes to, with keys in the range of this commit's keys. So two
statements never both change a row that only one of them has read (snapshot isolation: rows that a condition would find
only in other buckets, or outside these keys, are not searched again). A plain upsert reads nothing and is not checked.
With cross-partition updates, each write has read which keys there are: a later change of any bucket is then a
conflict, with keys in the range of this commit's, so that no key comes into two partitions.
Java has no such check and loses updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.commit.partition_ranges import range_predicate
from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.read.data_evolution import columns_of
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.key_order import key_ranks
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.commit.changes import Changes
    from paimon_spark.commit.conflict_detection import ConflictContext
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_NO_ROWS_CHANGE = (CommitKind.COMPACT, CommitKind.ANALYZE)
"""Commits that do not change the rows that a statement reads: it reads level 0, too (`reading_level_0`)."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows of a table with data evolution that a statement read, and which of their columns.

    Another commit that wrote one of these columns for one of these rows meanwhile is a conflict (Java:
    ``RowIdColumnConflictChecker``, which compares written columns only).
    """

    first: tuple[int, ...]
    """First row id of each range."""
    end: tuple[int, ...]
    """The id behind the last row of each range."""
    field_ids: frozenset[int] | None
    """None for all columns."""

    @classmethod
    def of(cls, schema: TableSchema, ranges: Iterable[tuple[int, int]], columns: Iterable[str] | None) -> RowsRead:
        """Describe what was read.

        Args:
            schema: of the table.
            ranges: first row id and number of rows.
            columns: names; None for all.
        """
        known = sorted(set(ranges))
        ids = None if columns is None else frozenset(schema.field(name).id for name in columns)
        return cls(tuple(first for first, _ in known), tuple(first + rows for first, rows in known), ids)

    def meets(self, table: FileStoreTable, files: ManifestColumns) -> npt.NDArray[np.bool_]:
        """Tell of each file whether it holds one of the columns for one of the rows."""
        ids = files.file_values("_FIRST_ROW_ID")
        known = np.array([row_id is not None for row_id in ids], dtype=bool)
        first = np.array([0 if row_id is None else row_id for row_id in ids], dtype=np.int64)
        # ranges do not overlap: the last one that starts before the end of a file is the one that may reach into it
        starts, ends = np.array(self.first, np.int64), np.array((0, *self.end), np.int64)
        reached = np.maximum.accumulate(ends)[np.searchsorted(starts, first + files.row_counts)]
        hit: npt.NDArray[np.bool_] = known & (reached > first)
        if self.field_ids is not None:
            held = zip(files.schema_ids.tolist(), files.file_values("_WRITE_COLS"), strict=True)
            hit &= np.array([self._names(table, *of_file) for of_file in held], dtype=bool)
        return hit

    def _names(self, table: FileStoreTable, schema_id: int, write_cols: Sequence[str] | None) -> bool:
        return any(field.id in (self.field_ids or ()) for field in columns_of(table.schemas.get(schema_id), write_cols))


class ConcurrentChanges:
    """The snapshots after the one that a commit was planned on, each looked at once for all attempts."""

    def __init__(
        self,
        table: FileStoreTable,
        planned_on: SnapshotIdentity,
        changes: Changes,
        *,
        rows_read: bool,
        of_rows: RowsRead | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            table: to commit to.
            planned_on: the snapshot.
            changes: of the commit.
            rows_read: whether the changes were made of rows of that snapshot.
            of_rows: which rows these are, in a table with data evolution; None: those of the files that change.
        """
        self._table = table
        self._planned_on = planned_on
        self._changes = changes
        self._rows_read = rows_read
        self._of_rows = of_rows
        self._harmless: set[SnapshotIdentity] = set()
        self._updates_across_partitions = table.schema.kind.updates_across_partitions

    def check(self, latest: Snapshot | None, context: ConflictContext) -> None:
        """Check that the changes may follow ``latest``. Called in each attempt.

        Raises:
            CommitConflictError: the snapshot is no longer there, or rows that were read have changed since.
        """
        self._check_history(latest, context)
        if not self._rows_read or latest is None:
            return
        for snapshot_id in range(self._planned_on.id + 1, latest.id + 1):
            try:
                snapshot = latest if snapshot_id == latest.id else self._table.snapshots.get(snapshot_id)
            except SnapshotNotFoundError as error:
                raise context.conflict(
                    f"Snapshot {snapshot_id} has expired before it could be checked whether it changed the rows that "
                    f"this commit read in snapshot {self._planned_on.id}. Give up committing."
                ) from error
            identity = SnapshotIdentity.of(snapshot)
            if identity not in self._harmless:
                self._check_snapshot(snapshot, context)
                self._harmless.add(identity)

    def _check_history(self, latest: Snapshot | None, context: ConflictContext) -> None:
        """Check that ``latest`` follows the snapshot of the plan."""
        planned = self._planned_on
        if (latest.id if latest else 0) < planned.id:
            raise context.conflict(
                f"The table was rolled back: this commit was planned on snapshot {planned.id}, and the latest one is "
                f"{latest.id if latest else 'none'}. Give up committing."
            )
        if latest is not None and SnapshotIdentity.of(latest) == planned:
            return
        try:
            planned.find(self._table.snapshots)
        except SnapshotNotFoundError as error:
            if self._table.snapshots.exists(planned.id):
                raise context.conflict(
                    f"The table was rolled back, or made anew: snapshot {planned.id} is not the one on which this "
                    f"commit was planned. Give up committing."
                ) from error
            if self._rows_read:
                raise context.conflict(
                    f"Snapshot {planned.id}, whose rows this commit read, has expired. Give up committing."
                ) from error

    def _check_snapshot(self, snapshot: Snapshot, context: ConflictContext) -> None:
        """Check what one later snapshot changed."""
        takes_in = snapshot.commit_kind is CommitKind.COMPACT and self._table.options.bucket == POSTPONE_BUCKET
        if snapshot.commit_kind in _NO_ROWS_CHANGE and not takes_in:  # postponed rows are seen from then on
            return
        manifests = self._table.manifests
        across = self._updates_across_partitions
        within = None if across else range_predicate(self._table, self._changes.changed_partitions())
        changed = manifests.read_columns(manifests.prune_manifests(manifests.delta_manifests(snapshot), within))
        touched = self._touched(ManifestColumns.concat(list(changed)), context)
        if touched is None:
            return
        partition, bucket = touched
        operation = "" if snapshot.operation is None else f" {getattr(snapshot.operation, 'value', snapshot.operation)}"
        raise context.conflict(
            f"Snapshot {snapshot.id} ({snapshot.commit_kind.value}{operation}, by user {snapshot.commit_user}) changed "
            f"rows of bucket {bucket} in partition {{{context.partition_text(partition)}}}, which this commit read in "
            f"snapshot {self._planned_on.id}. Give up committing."
        )

    def _touched(self, changed: ManifestColumns, context: ConflictContext) -> tuple[bytes, int] | None:
        """Return a bucket of the commit in which files with keys in its range were added or deleted."""
        numbers: dict[tuple[bytes, int], int] = {}
        locations = list(zip(changed.partitions, changed.buckets.tolist(), strict=True))
        if self._of_rows is not None:
            met: list[int] = np.flatnonzero(self._of_rows.meets(self._table, changed)).tolist() if len(changed) else []
            return locations[met[0]] if met else None
        if self._updates_across_partitions:  # as if all files were of one bucket
            numbers = dict.fromkeys([*((e.partition, e.bucket) for e in self._changes.files), *locations], 0)
        for entry in self._changes.files:
            numbers.setdefault((entry.partition, entry.bucket), len(numbers))
        theirs = [at for at, location in enumerate(locations) if location in numbers]
        if not theirs:
            return None
        rivals = changed.take(theirs)
        of_bucket = np.array([numbers[locations[at]] for at in theirs], dtype=np.int64)
        hit = np.flatnonzero(self._keys_meet(rivals, of_bucket, numbers, context))
        return locations[theirs[hit[0]]] if len(hit) else None

    def _keys_meet(
        self,
        rivals: ManifestColumns,
        of_bucket: npt.NDArray[np.int64],
        numbers: dict[tuple[bytes, int], int],
        context: ConflictContext,
    ) -> npt.NDArray[np.bool_]:
        """Tell of each rival file whether its keys are among those that the commit has in its bucket."""
        files = [(numbers[entry.partition, entry.bucket], entry.file) for entry in self._changes.files]
        schema_ids = {file.schema_id for _, file in files} | set(rivals.schema_ids.tolist())
        if not context.key_types or schema_ids != {self._table.schema.id}:  # of another schema keys are not compared
            return np.ones(len(rivals), dtype=bool)
        ours = np.array([number for number, _ in files], dtype=np.int64)
        bounds = [
            [file.min_key for _, file in files],
            [file.max_key for _, file in files],
            rivals.file_values("_MIN_KEY"),
            rivals.file_values("_MAX_KEY"),
        ]
        ranks = key_ranks([key for keys in bounds for key in keys], context.key_types)
        our_low, our_high, low, high = np.split(ranks, np.cumsum([len(keys) for keys in bounds])[:-1])
        lowest = np.full(len(numbers), np.iinfo(np.int64).max)
        highest = np.full(len(numbers), np.iinfo(np.int64).min)
        np.minimum.at(lowest, ours, our_low)
        np.maximum.at(highest, ours, our_high)
        meets: npt.NDArray[np.bool_] = (low <= highest[of_bucket]) & (high >= lowest[of_bucket])
        return meets
