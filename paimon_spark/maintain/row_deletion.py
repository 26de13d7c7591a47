"""Rows that a statement takes out: by deletion vectors, or by files that are written anew without them.

Of append tables rows become deletion vectors of one commit. Equals what Java's Spark connector does with
``deletion-vectors.enabled``: DELETE deletes rows, UPDATE the old rows and adds files with the new ones.

For files that are written anew the rows are given by file and position, as for deletion vectors; what becomes of them
is written by the statement. Files of a primary-key table keep their level, and their rows their sequence numbers: so
they merge with others as before. Equals the end of Java's copy-on-write commands. Runs on the driver; tasks rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paimon_spark.commit.conflict_detection import RowsRead
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import CommitConflictError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.compact.compaction import Executor, rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite
from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.deletion_vector import Positions, decode_vector, encode_vector, positions_of
from paimon_spark.spec.manifest import FileSource
from paimon_spark.table.deletion_vectors import NO_VECTORS, VectorLocation, Vectors, deleted_rows, vectors_of
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors, delete_index_files
from paimon_spark.write.message import CommitMessage, TaskMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, IndexManifestEntry, ManifestEntry
    from paimon_spark.spec.snapshot import Operation, Snapshot
    from paimon_spark.table.table import FileStoreTable

DeletedPositions = tuple[str, bytes]
"""Path of a data file, and positions of deleted rows as `encode_positions` gives them."""


def encode_positions(positions: Positions) -> bytes:
    """Pack positions, ascending and each once, for the way from a task to the driver."""
    return encode_vector(positions, wide=True)[0]


def commit_deletions(
    table: FileStoreTable,
    messages: Sequence[TaskMessage | CommitMessage],
    snapshot_id: int,
    deleted: Sequence[DeletedPositions],
    *,
    columns_read: Iterable[str] | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    after_commit: Callable[[Snapshot], None] | None = None,
    **how: Any,
) -> int | None:
    """Commit deleted rows together with what tasks wrote; index files of a commit that is void are deleted.

    Args:
        table: without primary key, with deletion vectors.
        messages: of the tasks.
        snapshot_id: the snapshot in which the rows were found.
        deleted: the deleted rows; a file may come several times.
        columns_read: with data evolution: columns by which the rows were found; None for all.
        ranges: with data evolution: first row ids and numbers of rows of other files that were read.
        after_commit: as of `commit`.
        how: further arguments of `commit`.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile.
        CommitConflictError: another commit changed the vectors of the same file, or took the file away.
        CorruptTableError: an index file is missing or damaged.
    """
    entries = _deleted_files(table, snapshot_id, deleted)
    rows = _deleted_rows_of(entries, deleted)
    changes = changed_vectors(table, table.manifests.index_entries(table.snapshots.get(snapshot_id)), rows)
    if table.schema.kind.has_data_evolution:
        files = [entry.file for entry in entries.values()]
        known = [(file.first_row_id, file.row_count) for file in files if file.first_row_id is not None]
        how["of_rows"] = RowsRead.of(table.schema, [*known, *ranges], columns_read)
    index = [CommitMessage(changes[-1].partition, changes[-1].bucket, -1, (), index_changes=changes)]
    with undone_where_void(lambda: delete_index_files(table, changes)):
        made = commit(table, [*messages, *index], after_commit=after_commit, **how)
    report(replace(RowCounts.deleted(sum(len(each.positions) for each in rows)), snapshot_id=made))
    return made


def _deleted_files(
    table: FileStoreTable, snapshot_id: int, deleted: Sequence[DeletedPositions]
) -> dict[str, ManifestEntry]:
    names = {path.rpartition("/")[2] for path, _ in deleted}
    live = table.manifests.live_entries(table.snapshots.get(snapshot_id), names=names)
    entries = {entry.file.file_name: entry for entry in live}
    missing = names - entries.keys()
    if missing:
        raise CommitConflictError(f"Snapshot {snapshot_id} of table {table.path} has no file {min(missing)}.")
    return entries


def _deleted_rows_of(entries: Mapping[str, ManifestEntry], deleted: Sequence[DeletedPositions]) -> list[DeletedRows]:
    parts: dict[str, list[bytes]] = {}
    for path, positions in deleted:
        parts.setdefault(path.rpartition("/")[2], []).append(positions)
    return [_deleted_rows(entries[name], packed) for name, packed in parts.items()]


def _deleted_rows(entry: ManifestEntry, packed: Iterable[bytes]) -> DeletedRows:
    rows, name = entry.file.row_count, entry.file.file_name
    found = [positions_of(decode_vector(data, len(data), rows, path=name), rows) for data in packed]
    positions = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
    return DeletedRows(entry.partition, entry.bucket, name, rows, positions)


@dataclass(frozen=True)
class RowsOfFile:
    """Some rows of one data file."""

    entry: ManifestEntry
    positions: Positions
    repeated: bool
    """Whether one of them was reported more than once."""


def rows_of_files(table: FileStoreTable, snapshot: Snapshot, deleted: Sequence[DeletedPositions]) -> list[RowsOfFile]:
    """Put together the rows that tasks have reported, file by file.

    Raises:
        CommitConflictError: the snapshot has no such file.
    """
    parts: dict[str, list[bytes]] = {}
    for path, packed in deleted:
        parts.setdefault(path.rpartition("/")[2], []).append(packed)
    live = table.manifests.live_entries(snapshot, names=parts)
    entries = {entry.file.file_name: entry for entry in live}
    missing = parts.keys() - entries.keys()
    if missing:
        raise CommitConflictError(f"Snapshot {snapshot.id} of table {table.path} has no file {min(missing)}.")
    return [_rows_of_file(entries[name], packed) for name, packed in parts.items()]


def _rows_of_file(entry: ManifestEntry, parts: Iterable[bytes]) -> RowsOfFile:
    rows, name = entry.file.row_count, entry.file.file_name
    found = [positions_of(decode_vector(data, len(data), rows, path=name), rows) for data in parts]
    positions = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
    return RowsOfFile(entry, positions, repeated=len(positions) < sum(map(len, found)))


def write_without(
    table: FileStoreTable,
    removed: Sequence[RowsOfFile],
    execute: Executor = rewrite_here,
    vectors: Vectors = NO_VECTORS,
) -> TaskMessage:
    """Write files anew without some of their rows; return the files that come and go.

    Args:
        table: the table. Files of one without primary key have no deletion vectors.
        removed: the rows, at most once for each file.
        vectors: those that the files have already, which go with the files.
        execute: does the rewriting.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    locations: dict[tuple[bytes, int, int], list[RowsOfFile]] = {}
    for rows in removed:
        locations.setdefault((rows.entry.partition, rows.entry.bucket, rows.entry.total_buckets), []).append(rows)
    units = [(location, bin_files) for location, found in locations.items() for bin_files in _bins(table, found)]
    rewrites = [_rewrite(table, bin_files, vectors) for _, bin_files in units]
    made: Mapping[int, CommitMessage] = {
        at: CommitMessage(*units[at][0], _as_sources(table, result.files))
        for at, result in enumerate(execute(table, rewrites))
    }
    gone = [
        CommitMessage(*location, new_files=(), deleted_files=tuple(rows.entry.file for rows in found))
        for location, found in locations.items()
    ]
    kept = sum(file.row_count for message in made.values() for file in message.new_files)
    return TaskMessage((*made.values(), *gone), kept)


def _as_sources(table: FileStoreTable, files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    """Files of append tables count as written; those of levels above 0 as compacted."""
    if table.schema.kind.is_keyed:
        return tuple(files)
    return tuple(replace(file, file_source=FileSource.APPEND) for file in files)


def _bins(table: FileStoreTable, files: Sequence[RowsOfFile]) -> list[list[RowsOfFile]]:
    """Put files together up to the target size; those of which no row stays are left out.

    Files with keys stay alone: each has its level, and others may lie between two of them.
    """
    if table.schema.kind.is_keyed:
        return [[rows] for rows in files if len(rows.positions) < rows.entry.file.row_count]
    target = table.options.target_file_size_bytes(False)
    bins: list[list[RowsOfFile]] = []
    size = target
    for rows in sorted(files, key=lambda rows: rows.entry.file.min_sequence_number):
        if len(rows.positions) == rows.entry.file.row_count:
            continue
        if size + rows.entry.file.file_size > target:
            bins.append([])
            size = 0
        bins[-1].append(rows)
        size += rows.entry.file.file_size
    return bins


def _rewrite(table: FileStoreTable, bin_files: Sequence[RowsOfFile], vectors: Vectors) -> Rewrite:
    entry = bin_files[0].entry
    keyed = table.schema.kind.is_keyed
    counts = not keyed and table.schema.kind.has_buckets
    return Rewrite(
        entry.partition,
        entry.bucket,
        entry.file.level if keyed else 0,
        tuple((_file_without(table, rows, vectors),) for rows in bin_files),
        first_sequence=entry.file.min_sequence_number if counts else 0,
    )


def _file_without(table: FileStoreTable, rows: RowsOfFile, vectors: Vectors) -> SplitFile:
    entry, positions = rows.entry, rows.positions
    before = vectors.get((entry.partition, entry.bucket, entry.file.file_name))
    if before is not None:
        count = entry.file.row_count
        positions = np.union1d(positions, positions_of(deleted_rows(table.file_io, before, count), count))
    data, length = encode_vector(positions, wide=True)
    path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
    vector = VectorLocation(path, 0, length, len(positions), data)
    return SplitFile.of(entry.file, path)._replace(deletion_vector=vector)


def remove_rows(
    table: FileStoreTable,
    snapshot: Snapshot,
    deleted: Sequence[DeletedPositions],
    operation: Operation,
    execute: Executor = rewrite_here,
) -> int | None:
    """Write files of a primary-key table anew without some rows, in one commit; return its snapshot id.

    Level and sequence numbers stay, so the rows that are left merge with others as before. There is no changelog.

    Raises:
        CommitConflictError: another commit changed rows of these files meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    removed = rows_of_files(table, snapshot, deleted)
    if not removed:
        return None
    messages: list[TaskMessage | CommitMessage] = [write_without(table, removed, execute, vectors_of(table, snapshot))]
    dropped = [(rows.entry.partition, rows.entry.bucket, rows.entry.file.file_name) for rows in removed]
    changes = changed_vectors(table, table.manifests.index_entries(snapshot), dropped=dropped)
    if changes:
        first = removed[0].entry
        messages.append(CommitMessage(first.partition, first.bucket, first.total_buckets, (), index_changes=changes))
    with undone_where_void(lambda: _discard(table, messages, changes)):
        made = commit(
            table,
            messages,
            operation=operation,
            planned_on=SnapshotIdentity.of(snapshot),
            rows_read=True,
            after_commit=maintenance(table),
        )
    report(replace(RowCounts.deleted(sum(len(rows.positions) for rows in removed)), snapshot_id=made))
    return made


def _discard(
    table: FileStoreTable,
    messages: Sequence[TaskMessage | CommitMessage],
    changes: Sequence[IndexManifestEntry],
) -> None:
    """Delete what was written for a commit that did not take place."""
    made = (each for message in messages if isinstance(message, TaskMessage) for each in message.messages)
    delete_written(table, [(each.partition, each.bucket, file) for each in made for file in each.new_files])
    delete_index_files(table, changes)
