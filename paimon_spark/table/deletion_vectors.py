"""The deletion vectors of a snapshot: where they lie, and what they delete (Java: ``DeletionFile``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, ExpiredFileError
from paimon_spark.spec.deletion_vector import Bits, decode_vector, stored_bytes
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX
from paimon_spark.storage.store_options import redact

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import IndexManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable


class VectorLocation(NamedTuple):
    """Where the deletion vector of a data file lies."""

    path: str
    """Of the index file."""
    offset: int
    """Bytes."""
    length: int
    """As recorded: bytes, see docs/internals/format.md §4.2 for what it covers."""
    cardinality: int | None = None
    """How many rows it deletes; None where old files do not say."""
    data: bytes | None = None
    """The vector itself, where it is in no file: a statement that writes a file anew has made it."""


FileKey = tuple[bytes, int, str]
"""Partition, bucket and name of a data file."""
Vectors = Mapping[FileKey, VectorLocation]
NO_VECTORS: Final[Vectors] = {}


def vectors_of(table: FileStoreTable, snapshot: Snapshot | None) -> Vectors:
    """Return where the deletion vectors of a snapshot lie; none where the table does not use them. Runs on the driver.

    Raises:
        CorruptTableError: the index manifest is missing or damaged, or names a file outside the table.
    """
    if snapshot is None or not table.options.deletion_vectors_enabled:
        return NO_VECTORS
    return vector_locations(table, table.manifests.index_entries(snapshot))


def vector_locations(table: FileStoreTable, entries: Iterable[IndexManifestEntry]) -> dict[FileKey, VectorLocation]:
    """Return where the deletion vectors of index files lie."""
    found: dict[FileKey, VectorLocation] = {}
    for entry in entries:
        if entry.index_type != DELETION_VECTORS_INDEX or not entry.deletion_vectors:
            continue
        path = table.paths.index_file_path(entry)
        for meta in entry.deletion_vectors:
            location = VectorLocation(path, meta.offset, meta.length, meta.cardinality)
            found[entry.partition, entry.bucket, meta.data_file_name] = location
    return found


def vector_bytes(file_io: FileIO, location: VectorLocation) -> bytes:
    """Read what an index file holds at an offset: the vector, and a few bytes behind it.

    Raises:
        CorruptTableError: the index file is missing, or there cannot be a vector.
    """
    if location.data is not None:
        return location.data
    if location.offset < 0 or location.length < 0:
        raise CorruptTableError(
            f"A deletion vector has {location.length} bytes at {location.offset}.", path=location.path
        )
    try:
        with file_io.open_input(location.path) as source:
            source.seek(location.offset)
            data: bytes = source.read(min(stored_bytes(location.length), max(0, source.size() - location.offset)))
    except FileNotFoundError:
        raise ExpiredFileError("The index file of deletion vectors is missing.", path=redact(location.path)) from None
    return data


def deleted_rows(file_io: FileIO, location: VectorLocation, rows: int) -> Bits:
    """Read the deletion vector of a data file of ``rows`` rows: one bit for each row, set where it is deleted.

    Raises:
        CorruptTableError: the index file is missing or damaged, or marks rows that the data file does not have.
    """
    bits = decode_vector(vector_bytes(file_io, location), location.length, rows, path=redact(location.path))
    deleted = pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)]).true_count
    if location.cardinality is not None and location.cardinality != deleted:
        raise CorruptTableError(
            f"A deletion vector marks {deleted} rows, but its index manifest says {location.cardinality}.",
            path=redact(location.path),
        )
    return bits
