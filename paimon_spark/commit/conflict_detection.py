"""Conflict detection: whether changes can be applied to the table as it is now.

Equals Java's ``ConflictDetection`` and ``PrimaryKeyConflictDetection`` (docs/internals/format.md §8), with Java's key
words in the messages: pure functions over the live entries of the changed partitions.

Strict mode is here too: a commit is given up when others changed the same partitions since a given snapshot. Equals
Java's ``StrictModeChecker`` (option ``commit.strict-mode.last-safe-snapshot``, docs/internals/format.md §8).

So are the changes since the snapshot that a commit was planned on, which may rule out that it follows them. A statement
that makes new rows of old ones (UPDATE, DELETE, MERGE) reads one snapshot. Its result is right only if nobody else has
changed these rows. The check compares buckets and key ranges: it is a conflict if a later snapshot added or deleted a
file in a bucket that this commit writes to, with keys in the range of this commit's keys. So two statements never both
change a row that only one of them has read (snapshot isolation: rows that a condition would find only in other buckets,
or outside these keys, are not searched again). A plain upsert reads nothing and is not checked. With cross-partition
updates, each write has read which keys there are: a later change of any bucket is then a conflict, with keys in the
range of this commit's, so that no key comes into two partitions. Java has no such check and loses updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CommitConflictError, SnapshotNotFoundError
from paimon_spark.read.sections import columns_of, holds_part
from paimon_spark.spec.binary_row_decoder import key_ranks
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    FileIdentifier,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.partitions import range_predicate
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.commit.changes import Changes
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

LAST_SAFE = "commit.strict-mode.last-safe-snapshot"


@dataclass(frozen=True, slots=True)
class CommittedChanges:
    """How the changes of a snapshot are looked up."""

    snapshot: Callable[[int], Snapshot]
    """Gives a living snapshot by its id."""
    files: Callable[[Snapshot], set[tuple[bytes, int]]]
    """Gives the (partition, bucket) of every file in the delta of a snapshot."""
    index: Callable[[Snapshot], set[bytes]]
    """Gives the partitions of the index files of a snapshot; empty when it changed no index."""


def check_strict(
    safe_id: int, new_id: int, *, kind: CommitKind, partitions: frozenset[bytes], user: str, locations: CommittedChanges
) -> None:
    """Check the snapshots after ``safe_id`` and before ``new_id`` made by other users.

    Raises:
        CommitConflictError: a COMPACT or OVERWRITE changed one of `partitions`, or an APPEND did (to real buckets)
            while we overwrite.
        SnapshotNotFoundError: a snapshot after ``safe_id`` has expired.
    """
    for snapshot_id in range(safe_id + 1, new_id):
        snapshot = locations.snapshot(snapshot_id)
        if snapshot.commit_user == user:
            continue
        if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
            changed = {partition for partition, _ in locations.files(snapshot)}
            if partitions & changed or partitions & locations.index(snapshot):
                raise _given_up(snapshot, new_id, user, "which modified the same partition")
        elif snapshot.commit_kind is CommitKind.APPEND and kind is CommitKind.OVERWRITE:
            changed = {partition for partition, bucket in locations.files(snapshot) if bucket >= 0}
            if partitions & changed:
                raise _given_up(snapshot, new_id, user, "which committed files to fixed bucket on the same partition")


def _given_up(snapshot: Snapshot, new_id: int, user: str, action: str) -> CommitConflictError:
    return CommitConflictError(
        f"When trying to commit snapshot {new_id}, commit user {user} has found a {snapshot.commit_kind.value} "
        f"snapshot (id: {snapshot.id}) by another user {snapshot.commit_user} {action}. Giving up committing as "
        f"{LAST_SAFE} is set, by the writer or since the rows are made of the table that they replace. "
        "None of this commit's changes took place: read the table anew and run the write again."
    )


_ANOTHER_TABLE = "is not the table that this commit was planned for"
_NEWER_COLUMNS = "are newer than the table was when it was opened"
FINAL = ("Commit failed after", _ANOTHER_TABLE, _NEWER_COLUMNS)
"""Key words of conflicts that another run of the whole statement would not resolve."""

_CAUSES = (
    "Conflicts during commits are normal: another job wrote to the same partition between the read and the commit of "
    "this one, or this job replays work that was already done. None of this commit's changes took place; run the write "
    "again, and let only one job compact or overwrite a partition at a time."
)


@dataclass(frozen=True, slots=True)
class ConflictContext:
    """The table, its key types and the users of a commit: for the rules and the messages."""

    table_path: str
    partition_text: Callable[[bytes], str]
    """Gives ``k=v/k2=v2`` for partition bytes; empty for unpartitioned tables."""
    key_types: tuple[DataType, ...]
    """Types of the trimmed primary key; empty for tables without primary key."""
    base_user: str
    """Commit user of the latest snapshot."""
    user: str
    """Our commit user."""
    data_evolution: bool = False
    """Whether files hold some columns of rows that others hold as well (``data-evolution.enabled``)."""

    def conflict(self, message: str) -> CommitConflictError:
        """Return the error with the table, both users and what to do."""
        return CommitConflictError(
            f"{message}\nTable: {self.table_path}\nBase commit user is: {self.base_user}; Current commit user is: "
            f"{self.user}\n{_CAUSES}"
        )


def another_table(table_path: str, schema_id: int) -> CommitConflictError:
    """Return the error of a table that was dropped and made again, or restored from elsewhere; no cache keeps it."""
    forget(table_path)
    return CommitConflictError(
        f"The table at {table_path} {_ANOTHER_TABLE}: its schema file {schema_id} is gone or another one. "
        f"It was dropped and made again, or replaced, meanwhile. None of this commit's changes took place, and "
        f"its files may be gone with the old table: open the table anew and run the write again."
    )


def newer_columns(table_path: str, schema_id: int, names: Sequence[str]) -> CommitConflictError:
    """Return the error of rows that were read without columns that others have added or widened meanwhile.

    A cache (`cache-enabled`) may be why: it does not keep the table any more.
    """
    forget(table_path)
    return CommitConflictError(
        f"Columns of rows that were read {_NEWER_COLUMNS}: {', '.join(names)} (schema {schema_id} of table "
        f"{table_path}). Their values would be lost. None of this commit's changes took place: open the table anew "
        f"(REFRESH TABLE in SQL) and run the statement again."
    )


def check_conflicts(
    base: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], context: ConflictContext, *, overwrite: bool
) -> None:
    """Check that ``delta`` can be applied to the live files ``base``.

    Args:
        base: live entries (all ADD) of at least the partitions that `delta` changes.
        delta: entries to commit, in their order.
        context: the table and the users.
        overwrite: True for OVERWRITE snapshots, which may change the number of buckets.

    Raises:
        CommitConflictError: a rule is broken; the message names it and the file or partition.
    """
    if not overwrite:
        check_buckets_kept(((entry.partition, entry.total_buckets) for entry in (*base, *delta)), context)
    merged = _apply(base, delta, context)
    if context.key_types:
        _check_levels(merged, delta, context)
    if context.data_evolution:
        _check_row_ranges(merged, context)


def check_buckets_kept(buckets: Iterable[tuple[bytes, int]], context: ConflictContext) -> None:
    """Check that every partition has one number of buckets (numbers below 1 are not fixed and not compared).

    Args:
        buckets: (partition, total buckets) of entries, older ones first.
        context: for the message.

    Raises:
        CommitConflictError: "Total buckets of partition … changed …".
    """
    known: dict[bytes, int] = {}
    for partition, total in dict.fromkeys(buckets):
        if total <= 0:
            continue
        before = known.setdefault(partition, total)
        if before != total:
            raise context.conflict(
                f"Total buckets of partition {{{context.partition_text(partition)}}} changed from {before} to "
                f"{total} without overwrite. Give up committing."
            )


def _apply(
    base: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], context: ConflictContext
) -> dict[FileIdentifier, ManifestEntry]:
    """Return the live files after ``delta``."""
    live = {entry.identifier(): entry for entry in base}
    touched: set[FileIdentifier] = set()
    for entry in delta:
        identifier = entry.identifier()
        if entry.kind == FileKind.DELETE and live.pop(identifier, None) is None:
            raise _deletion_conflict(entry, "Trying to delete file {} which is not previously added.", context)
        if entry.kind == FileKind.ADD:
            # Java: a file that one commit deletes and adds would be lost by readers, which collect deletes first.
            if identifier in live or identifier in touched:
                raise _deletion_conflict(entry, "Trying to add file {} which is already added.", context)
            live[identifier] = entry
        touched.add(identifier)
    return live


def _deletion_conflict(entry: ManifestEntry, reason: str, context: ConflictContext) -> CommitConflictError:
    location = f"{context.partition_text(entry.partition)}/bucket-{entry.bucket}/{entry.file.file_name}".lstrip("/")
    return context.conflict(
        "File deletion conflicts detected! Give up committing. "
        + reason.format(f"{location} (level {entry.file.level})")
    )


def _check_row_ranges(merged: dict[FileIdentifier, ManifestEntry], context: ConflictContext) -> None:
    """Check that files with columns of the same rows have the same rows (Java: ``DataEvolutionConflictDetection``)."""
    files = [entry.file for entry in merged.values() if entry.file.first_row_id is not None]
    whole = [file for file in files if not holds_part(file.file_name)]
    first = np.array([file.first_row_id for file in whole], dtype=np.int64)
    end = first + np.array([file.row_count for file in whole], dtype=np.int64)
    order = np.lexsort((end, first))
    first, end = first[order], end[order]
    same = (first[1:] == first[:-1]) & (end[1:] == end[:-1])
    bad = np.flatnonzero((first[1:] < np.maximum.accumulate(end)[:-1]) & ~same)
    if len(bad):
        left, right = (whole[order[at]].file_name for at in (bad[0], bad[0] + 1))
        raise context.conflict(
            f"Row id conflicts detected! Give up committing. Files {left} and {right} hold columns of the same rows, "
            "but not of all of them: the rows were compacted or changed meanwhile."
        )


def check_rows_exist(base: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], context: ConflictContext) -> None:
    """Check that new files hold columns of rows that are there (Java: ``checkRowIdExistence``).

    Args:
        base: live entries of the partitions that `delta` changes.
        delta: entries to commit.
        context: for the message.

    Raises:
        CommitConflictError: the rows were deleted with their files, or have other files now.
    """
    live = {
        (entry.partition, entry.file.first_row_id, entry.file.row_count)
        for entry in base
        if entry.file.first_row_id is not None and not holds_part(entry.file.file_name)
    }
    starts = sorted((first, rows) for _, first, rows in live)
    first, end = np.array([first for first, _ in starts]), np.array([first + rows for first, rows in starts])
    for entry in delta:
        file = entry.file
        if entry.kind != FileKind.ADD or file.first_row_id is None:
            continue
        exists = (entry.partition, file.first_row_id, file.row_count) in live
        if holds_part(entry.file.file_name) and len(starts):
            at = max(int(np.searchsorted(first, file.first_row_id, side="right")) - 1, 0)
            exists = bool(first[at] <= file.first_row_id and file.first_row_id + file.row_count <= end[at])
        if not exists:
            raise context.conflict(
                f"Row id existence conflict! Give up committing. File {file.file_name} holds columns of the rows "
                f"{file.first_row_id} to {file.first_row_id + file.row_count - 1}, which no data file has any more: "
                "they were deleted or compacted meanwhile."
            )


def _check_levels(
    merged: dict[FileIdentifier, ManifestEntry], delta: Sequence[ManifestEntry], context: ConflictContext
) -> None:
    """Check that key ranges do not overlap within a level above 0; only where ``delta`` adds files."""
    touched = {
        (entry.partition, entry.bucket, entry.file.level)
        for entry in delta
        if entry.kind == FileKind.ADD and entry.file.level >= 1
    }
    if not touched:
        return
    numbers = {level: number for number, level in enumerate(touched)}
    candidates: list[ManifestEntry] = []
    runs: list[int] = []
    for entry in merged.values():
        number = numbers.get((entry.partition, entry.bucket, entry.file.level)) if entry.file.level >= 1 else None
        if number is not None:
            candidates.append(entry)
            runs.append(number)
    keys = [entry.file.min_key for entry in candidates] + [entry.file.max_key for entry in candidates]
    lowest, highest = np.split(key_ranks(keys, context.key_types), 2)
    run_numbers = np.asarray(runs, dtype=np.int64)
    order = np.lexsort((lowest, run_numbers))
    left, right = order[:-1], order[1:]
    overlaps = np.flatnonzero((run_numbers[left] == run_numbers[right]) & (highest[left] >= lowest[right]))
    if len(overlaps):
        first, second = candidates[left[overlaps[0]]], candidates[right[overlaps[0]]]
        raise context.conflict(
            f"LSM conflicts detected! Give up committing. Conflict files are: {first.file.file_name} and "
            f"{second.file.file_name}, both at level {first.file.level} of bucket {first.bucket} in partition "
            f"{{{context.partition_text(first.partition)}}}."
        )


def check_deletion_vectors(
    base_files: Iterable[ManifestEntry],
    base_index: Iterable[IndexManifestEntry],
    delta_files: Sequence[ManifestEntry],
    delta_index: Sequence[IndexManifestEntry],
    context: ConflictContext,
    *,
    bucketed: bool,
) -> None:
    """Check that deletion vectors replace the ones that were read.

    Equals Java's comparison of (data file, vector file) pairs: a vector that is deleted must be the one the table has,
    a file that goes must go together with its vector, and a new vector must not hide one made meanwhile. Java compares
    them in tables without buckets only, and loses vectors of others where two commits change one bucket; it also leaves
    vectors of files that are gone, which any commit may take away.

    Args:
        base_files: live files.
        base_index: the latest index manifest.
        delta_files: entries to commit.
        delta_index: entries to commit.
        context: the table and the users.
        bucketed: a bucket has one index file of vectors, which a new one replaces.

    Raises:
        CommitConflictError: another commit changed the vectors of the same data file, or of the same bucket's files.
    """
    base_index = list(base_index)
    if bucketed:
        _check_vectors_of_buckets(base_index, delta_index, context)
    holder = _vector_holders(entry for entry in base_index if entry.kind == FileKind.ADD)
    live = {entry.file.file_name for entry in base_files}
    removed = _vector_holders(entry for entry in delta_index if entry.kind == FileKind.DELETE)
    added = _vector_holders(entry for entry in delta_index if entry.kind == FileKind.ADD)
    gone = {entry.file.file_name for entry in delta_files if entry.kind == FileKind.DELETE}
    new = {entry.file.file_name for entry in delta_files if entry.kind == FileKind.ADD}
    for data_file in removed.keys() | added.keys() | gone - new:  # a file that changes its level keeps its vector
        reason = None
        if data_file not in live and data_file not in new and data_file not in removed.keys() - added.keys():
            reason = f"Trying to create deletion vector on file {data_file} which is not previously added."
        elif removed.get(data_file) != holder.get(data_file):
            reason = f"The deletion vector of file {data_file} was changed by another commit."
        if reason:
            raise context.conflict(f"File deletion conflicts detected! Give up committing. {reason}")


def _check_vectors_of_buckets(
    base_index: Sequence[IndexManifestEntry], delta_index: Sequence[IndexManifestEntry], context: ConflictContext
) -> None:
    """Check that the index file of each changed bucket is the one that was read."""
    vectors = [entry for entry in delta_index if entry.index_type == DELETION_VECTORS_INDEX]
    read = {(e.partition, e.bucket): e.file_name for e in vectors if e.kind == FileKind.DELETE}
    latest = {(e.partition, e.bucket): e.file_name for e in base_index if e.index_type == DELETION_VECTORS_INDEX}
    for location in dict.fromkeys((entry.partition, entry.bucket) for entry in vectors):
        if read.get(location) != latest.get(location):
            raise context.conflict(
                f"File deletion conflicts detected! Give up committing. Deletion vectors of bucket {location[1]} in "
                f"partition {{{context.partition_text(location[0])}}} were changed by another commit."
            )


def _vector_holders(entries: Iterable[IndexManifestEntry]) -> dict[str, str]:
    """Return the index file that holds each data file's deletion vector."""
    return {
        vector.data_file_name: entry.file_name
        for entry in entries
        if entry.index_type == DELETION_VECTORS_INDEX
        for vector in entry.deletion_vectors or ()
    }


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
