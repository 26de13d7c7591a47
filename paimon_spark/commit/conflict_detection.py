"""Conflict detection: whether changes can be applied to the table as it is now.

Equals Java's ``ConflictDetection`` and ``PrimaryKeyConflictDetection`` (docs/internals/format.md §8), with Java's key
words in the messages. Pure functions over the live entries of the changed partitions; nothing is read here.

Strict mode is here too: a commit is given up when others changed the same partitions since a given snapshot.

Equals Java's ``StrictModeChecker`` (option ``commit.strict-mode.last-safe-snapshot``, docs/internals/format.md §8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CommitConflictError
from paimon_spark.read.data_evolution import holds_part
from paimon_spark.spec.key_order import key_ranks
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    FileIdentifier,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.catalog_cache import forget

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.snapshot import Snapshot

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
