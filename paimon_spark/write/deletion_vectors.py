"""New deletion vectors: deleted rows are merged into the vectors that a snapshot has, and index files written.

Equals Java's ``BucketedDvMaintainer`` and ``AppendDeleteFileMaintainer`` (docs/internals/format.md §4.2). A bucket has
one index file, which is replaced as a whole; a table without buckets has index files of about
``deletion-vector.index-file.target-size``, of which only those are replaced that hold a changed vector. Runs on the
driver or in a task, once for each commit or bucket.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.spec.deletion_vector import INDEX_FILE_VERSION, Positions, encode_vector, positions_of, whole_vector
from paimon_spark.spec.file_names import FileNameSequence, index_file_names
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, DeletionVectorMeta, FileKind, IndexManifestEntry
from paimon_spark.storage.store_options import redact
from paimon_spark.table.deletion_vectors import FileKey, deleted_rows, vector_bytes, vector_locations

if TYPE_CHECKING:
    from paimon_spark.table.deletion_vectors import VectorLocation
    from paimon_spark.table.table import FileStoreTable


class DeletedRows(NamedTuple):
    """Rows of one data file that are deleted now, besides those that its vector deletes already."""

    partition: bytes
    bucket: int
    file_name: str
    row_count: int
    """Rows of the file, deleted ones too."""
    positions: Positions
    """Of the rows, ascending, each once."""


class _Vector(NamedTuple):
    """A vector to be written."""

    file_name: str
    data: bytes
    length: int
    cardinality: int | None


def changed_vectors(
    table: FileStoreTable,
    entries: Iterable[IndexManifestEntry],
    deleted: Iterable[DeletedRows] = (),
    dropped: Collection[FileKey] = (),
) -> tuple[IndexManifestEntry, ...]:
    """Write the index files that a commit needs, and tell how it changes the index manifest.

    Args:
        table: whose rows are deleted.
        entries: of the index manifest of the snapshot that was read, at least those of the changed buckets.
        deleted: at most one for each data file.
        dropped: data files that the commit takes out, and their vectors with them (a compaction).

    Returns:
        What to put into ``CommitMessage.index_changes`` or ``compact_index_changes`` (of any one message of the
        commit): index files to delete, then those to add. The commit is a conflict if others have replaced one of those
        to delete, or given a vector to one of the files. If the commit does not take place, `delete_index_files` takes
        the written files away.

    Raises:
        CommitConflictError: rows are deleted of a file that is dropped.
        CorruptTableError: an index file is missing or damaged.
        DataError: a position is beyond its file, or too large for the table's vectors.
    """
    old = [entry for entry in entries if entry.index_type == DELETION_VECTORS_INDEX]
    locations = vector_locations(table, old)
    new = {(rows.partition, rows.bucket, rows.file_name): rows for rows in deleted}
    both = next((key for key in new if key in dropped), None)
    if both is not None:
        raise CommitConflictError(f"Rows are deleted of data file {both[2]}, which the same commit takes out.")
    writing = _IndexFiles(table)
    written: list[IndexManifestEntry] = []
    touched: dict[str, IndexManifestEntry] = {}
    try:
        for partition, bucket in dict.fromkeys([key[:2] for key in (*new, *dropped)]):
            here = [entry for entry in old if (entry.partition, entry.bucket) == (partition, bucket)]
            changes = {key[2]: rows for key, rows in new.items() if key[:2] == (partition, bucket)}
            gone = {key[2] for key in dropped if key[:2] == (partition, bucket)}
            replaced = [entry for entry in here if _is_changed(entry, changes.keys() | gone)]
            if not replaced and not changes:
                continue
            if writing.bucketed:
                replaced = here  # one file has all vectors of a bucket
            kept = list(_kept(table, replaced, locations, changes.keys() | gone))
            merged = [_merged(table, rows, locations.get((partition, bucket, name))) for name, rows in changes.items()]
            touched |= {entry.file_name: entry for entry in replaced}
            written += writing.write(partition, bucket, (*kept, *merged))
    except BaseException:
        delete_index_files(table, written)
        raise
    return (*(replace(entry, kind=FileKind.DELETE) for entry in touched.values()), *written)


def delete_index_files(table: FileStoreTable, changes: Iterable[IndexManifestEntry]) -> None:
    """Delete the index files that `changed_vectors` wrote for a commit that did not take place."""
    for entry in changes:
        if entry.kind == FileKind.ADD:
            with contextlib.suppress(Exception):  # a leftover is an orphan file
                table.file_io.delete_quietly(table.paths.index_file_path(entry))


def _is_changed(entry: IndexManifestEntry, names: Collection[str]) -> bool:
    return any(meta.data_file_name in names for meta in entry.deletion_vectors or ())


def _kept(
    table: FileStoreTable,
    entries: Sequence[IndexManifestEntry],
    locations: dict[FileKey, VectorLocation],
    without: Collection[str],
) -> Iterator[_Vector]:
    """Yield the vectors of index files that stay as they are, but for some data files."""
    for entry in entries:
        for meta in entry.deletion_vectors or ():
            if meta.data_file_name not in without:
                location = locations[entry.partition, entry.bucket, meta.data_file_name]
                data = whole_vector(vector_bytes(table.file_io, location), location.length, path=redact(location.path))
                yield _Vector(meta.data_file_name, data, meta.length, meta.cardinality)


def _merged(table: FileStoreTable, rows: DeletedRows, before: VectorLocation | None) -> _Vector:
    """Return the vector of a file with what is deleted now."""
    positions = rows.positions
    if len(positions) and not 0 <= int(positions[0]) <= int(positions[-1]) < rows.row_count:
        raise DataError(f"Data file {rows.file_name} has {rows.row_count} rows: row {positions[-1]} cannot be deleted.")
    if before is not None:
        known = positions_of(deleted_rows(table.file_io, before, rows.row_count), rows.row_count)
        positions = np.union1d(known, positions)
    data, length = encode_vector(positions, wide=bool(table.options.value("deletion-vectors.bitmap64")))
    return _Vector(rows.file_name, data, length, len(positions))


class _IndexFiles:
    """Writes index files of deletion vectors."""

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._names: FileNameSequence = index_file_names()
        self.bucketed = table.schema.kind.has_buckets
        self._target_bytes = int(table.options.value("deletion-vector.index-file.target-size"))

    def write(self, partition: bytes, bucket: int, vectors: Sequence[_Vector]) -> list[IndexManifestEntry]:
        """Write the vectors of a bucket: one file, or without buckets files of about the target size."""
        written: list[IndexManifestEntry] = []
        pending: list[_Vector] = []
        size = len(INDEX_FILE_VERSION)
        for vector in vectors:
            pending.append(vector)
            size += len(vector.data)
            if size > self._target_bytes and not self.bucketed:
                written.append(self._write_file(partition, bucket, pending))
                pending, size = [], len(INDEX_FILE_VERSION)
        return [*written, self._write_file(partition, bucket, pending)] if pending else written

    def _write_file(self, partition: bytes, bucket: int, vectors: Sequence[_Vector]) -> IndexManifestEntry:
        metas = []
        position = len(INDEX_FILE_VERSION)
        for vector in vectors:
            metas.append(DeletionVectorMeta(vector.file_name, position, vector.length, vector.cardinality))
            position += len(vector.data)
        data = INDEX_FILE_VERSION + b"".join(vector.data for vector in vectors)
        entry = IndexManifestEntry(
            FileKind.ADD,
            partition,
            bucket,
            DELETION_VECTORS_INDEX,
            self._names.next(),
            len(data),
            len(metas),
            tuple(metas),
        )
        self._table.file_io.write_bytes(self._table.paths.index_file_path(entry), data)
        return entry
