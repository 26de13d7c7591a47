"""Blob files: the values of one BLOB column, each a record of its own, with an index of their lengths at the end.

Equals Java's ``BlobFileFormat``, ``BlobFormatWriter`` and ``BlobFileMeta`` (docs/format.md §12). A value is large, so
values are read and written one by one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Predicate
from paimon_spark.storage.avro_columns import decode_longs
from paimon_spark.storage.avro_encoding import encode_longs
from paimon_spark.storage.column_reading import corrupt_as
from paimon_spark.storage.data_file import (
    DEFAULT_BATCH_BYTES,
    DEFAULT_BATCH_ROWS,
    DataFileReader,
    DataFileWriter,
    FileResult,
    Source,
)
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.store_options import redact

Longs = npt.NDArray[np.int64]

NULL: Final = -1
"""Length of a null in the index."""
PLACEHOLDER: Final = -2
"""Length of a value that an older file of the same rows has."""
IS_PLACEHOLDER: Final = "_IS_PLACEHOLDER"
"""A second column of rows to write: whether an older file of the same rows has the value."""
_MAGIC: Final = struct.pack("<i", 1_481_511_375)
_VERSION: Final = 1
_FOOTER: Final = 5
HEAD: Final = 4
AROUND: Final = 16
"""Bytes of a record that are not its value: the magic number before; the record's length and a CRC32 behind."""


class BlobReader(DataFileReader):
    """Reads one blob file."""

    def __init__(self, file_io: Source, path: str, size: int | None) -> None:
        self.path = path
        with corrupt_as(path, "blob"):
            self._file = file_io.open_input(path, size)
        try:
            self.size_bytes = self._file.size()
            self.lengths = self._index()
        except BaseException:
            self._file.close()
            raise
        stored = np.maximum(self.lengths, 0)
        self.offsets: Longs = np.cumsum(stored) - stored
        self.num_rows = len(self.lengths)
        self.row_group_rows = [self.num_rows] if self.num_rows else []
        self.schema = pa.schema([("blob", pa.binary())])

    def _index(self) -> Longs:
        """The length of each record."""
        if self.size_bytes < _FOOTER:
            raise self._damaged(f"it has {self.size_bytes} bytes")
        footer = self._at(self.size_bytes - _FOOTER, _FOOTER)
        count, version = struct.unpack("<ib", footer)
        if version != _VERSION:
            raise self._damaged(f"its version is {version}")
        start = self.size_bytes - _FOOTER - count
        if count < 0 or start < 0:
            raise self._damaged(f"its index has {count} bytes")
        try:
            lengths = _decoded(self._at(start, count))
        except ValueError as error:
            raise self._damaged(str(error)) from None
        bad = (lengths < AROUND) & (lengths != NULL) & (lengths != PLACEHOLDER)
        if bad.any() or (lengths > start).any() or int(np.maximum(lengths, 0).sum()) != start:
            raise self._damaged("its index does not fit its size")
        return lengths

    def read_batches(
        self,
        fields: Sequence[t.DataField],
        *,
        row_groups: Sequence[int] | None = None,
        predicate: pc.Expression | None = None,
        pages: Predicate | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        use_threads: bool = False,
        dictionaries: Set[str] = frozenset(),
    ) -> Iterator[pa.RecordBatch]:
        """The one column (see DataFileReader); a value that an older file has is null here."""
        (field,) = fields
        if not isinstance(field.type, t.BlobType):
            raise UnsupportedError(
                f"Column '{field.name}' of type {field.type.sql()} in a blob file cannot be read yet."
            )
        if row_groups is not None and not list(row_groups):
            return
        schema = to_arrow_schema(fields)
        rows = np.arange(self.num_rows)
        for part in portions(self.lengths, batch_rows, batch_bytes):
            batch = pa.RecordBatch.from_arrays([self.values(rows[part])], schema=schema)
            kept = batch if predicate is None else batch.filter(predicate)
            if kept.num_rows:
                yield kept

    def values(self, rows: Longs) -> pa.Array:
        """The values of some rows; null where they are null, or in an older file.

        Args:
            rows: positions in the file.

        Raises:
            CorruptTableError: a record is damaged.
        """
        return pa.array([self._value(row) for row in rows.tolist()], pa.binary())

    def _value(self, row: int) -> bytes | None:
        length = int(self.lengths[row])
        if length < 0:
            return None
        record = self._at(int(self.offsets[row]), length)
        found, checksum = struct.unpack("<qI", record[-12:])
        if record[:HEAD] != _MAGIC or found != length or zlib.crc32(record[:-4]) != checksum:
            raise self._damaged(f"the record of row {row} is damaged")
        return record[HEAD : length - 12]

    def _at(self, offset: int, count: int) -> bytes:
        with corrupt_as(self.path, "blob"):
            data = bytes(self._file.read_at(count, offset))
        if len(data) != count:
            raise self._damaged(f"it ends {count - len(data)} bytes early")
        return data

    def _damaged(self, reason: str) -> CorruptTableError:
        return CorruptTableError(f"The file is not a valid blob file of this table: {reason}.", path=redact(self.path))

    def prune_row_groups(self, predicate: Predicate) -> list[int]:
        """All: a blob file has no statistics."""
        return list(range(self.num_row_groups))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def portions(lengths: Longs, batch_rows: int, batch_bytes: int) -> Iterator[slice]:
    """Cut rows into runs of at most so many rows, and bytes where one row has not more.

    Args:
        lengths: bytes of each row, negative for none.
        batch_rows: most rows.
        batch_bytes: most bytes.
    """
    ends = np.cumsum(np.maximum(lengths, 0))
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        reached = int(np.searchsorted(ends, before + batch_bytes, side="right"))
        end = min(max(reached, start + 1), start + batch_rows, len(lengths))
        yield slice(start, end)
        start = end


def _encoded(lengths: Longs) -> bytes:
    """Numbers as zig-zag varints of their differences (Java: ``DeltaVarintCompressor``)."""
    if not len(lengths):
        return b""
    encoded = encode_longs(np.diff(lengths, prepend=0))
    return bytes(encoded.buffers()[2])


def _decoded(data: bytes) -> Longs:
    """What `_encoded` was given.

    Raises:
        ValueError: these are no such numbers.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 128)
    if len(data) != (ends[-1] + 1 if len(ends) else 0):
        raise ValueError("its index is cut off")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    return np.cumsum(decode_longs(np.frombuffer(data + bytes(10), np.uint8), starts))


class BlobWriter(DataFileWriter):
    """Writes one blob file."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[t.DataField],
        compression: str,
        zstd_level: int,
        options: Mapping[str, str],
    ) -> None:
        del compression, zstd_level, options  # values are stored as they are
        self.path = path
        self._names = [field.name for field in fields]
        self._file_io = file_io
        self._lengths: list[int] = []
        self._size = 0
        self._target = file_io.open_output(path)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append values; rows may have the column `IS_PLACEHOLDER` besides."""
        if rows.schema.names not in (self._names, [*self._names, IS_PLACEHOLDER]):
            raise ValueError(f"rows have the columns {rows.schema.names}, the file has {self._names}")
        older = rows.column(1).to_pylist() if rows.num_columns > 1 else repeat(False, rows.num_rows)
        for value, is_older in zip(rows.column(0), older, strict=True):
            if not value.is_valid:
                self._lengths.append(PLACEHOLDER if is_older else NULL)
                continue
            data = value.as_buffer()
            length = data.size + AROUND
            number = struct.pack("<q", length)
            checksum = zlib.crc32(number, zlib.crc32(data, zlib.crc32(_MAGIC)))
            for part in (_MAGIC, data, number, struct.pack("<I", checksum)):
                self._target.write(part)
            self._lengths.append(length)
            self._size += length

    @property
    def bytes_written(self) -> int:
        """Bytes of the records."""
        return self._size

    def close(self) -> FileResult:
        """Write the index."""
        try:
            index = _encoded(np.array(self._lengths, dtype=np.int64))
            self._target.write(index + struct.pack("<ib", len(index), _VERSION))
            self._target.close()
        except BaseException:
            self.abort()
            raise
        return FileResult(self.path, self._size + len(index) + _FOOTER, len(self._lengths))

    def abort(self) -> None:
        """Close and delete the file."""
        try:
            self._target.close()
        finally:
            self._file_io.delete_quietly(self.path)
