"""Blob files: the values of one BLOB column, each a record of its own, with an index of their lengths at the end.

Equals Java's ``BlobFileFormat``, ``BlobFormatWriter`` and ``BlobFileMeta`` (docs/internals/format.md §12). A value is
large, so values are read and written one by one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.data_types import BlobType, DataField, holds_blobs
from paimon_spark.spec.predicate import matching
from paimon_spark.storage.blob_descriptor import Longs, descriptor, descriptor_array
from paimon_spark.storage.blob_elements import (
    check_blob_keys,
    decode_elements,
    decode_lengths,
    encode_elements,
    encode_lengths,
    leaves,
)
from paimon_spark.storage.column_reading import corrupt_as
from paimon_spark.storage.data_file import (
    DataFileReader,
    FileResult,
    NewFile,
    Source,
    StoreFileWriter,
    Wanted,
)
from paimon_spark.storage.described_files import BlobInput
from paimon_spark.storage.store_options import redact

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
            lengths = decode_lengths(self._at(start, count))
        except ValueError as error:
            raise self._damaged(str(error)) from None
        bad = (lengths < AROUND) & (lengths != NULL) & (lengths != PLACEHOLDER)
        if bad.any() or (lengths > start).any() or int(np.maximum(lengths, 0).sum()) != start:
            raise self._damaged("its index does not fit its size")
        return lengths

    def _read(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The one column (see DataFileReader); a value that an older file has is null here."""
        (field,) = wanted.fields
        if not holds_blobs(field.type):
            raise UnsupportedError(
                f"Column '{field.name}' of type {field.type.sql()} in a blob file cannot be read yet."
            )
        if wanted.row_groups is not None and not list(wanted.row_groups):
            return
        schema = to_arrow_schema(wanted.fields)
        rows = np.arange(self.num_rows)
        for part in portions(self.lengths, wanted.batch_rows, wanted.batch_bytes):
            batch = pa.RecordBatch.from_arrays([self.values(rows[part], field)], schema=schema)
            kept = batch if wanted.predicate is None else matching(wanted.predicate, batch)
            if kept.num_rows:
                yield kept

    def values(self, rows: Longs, field: t.DataField) -> pa.Array:
        """The values of some rows; null where they are null, or in an older file.

        Raises:
            CorruptTableError: a record is damaged.
        """
        values = [self.record(row) for row in rows.tolist()]
        if not isinstance(field.type, t.BlobType):
            return self.collections(values, field, lambda at, span: memoryview(values[at])[span[0] : sum(span)])  # type: ignore[arg-type]
        return pa.array(values, pa.binary())

    def collections(
        self,
        records: Sequence[bytes | None],
        field: t.DataField,
        value: Callable[[int, tuple[int, int]], bytes | memoryview],
    ) -> pa.Array:
        """Arrays or maps of blobs.

        Args:
            records: of rows; None for null.
            field: the column.
            value: gives an element by the position of its record in `records`, its start and length there.

        Raises:
            CorruptTableError: a record is damaged.
        """
        found: list[list[Any] | None] = []
        for at, record in enumerate(records):
            if record is None:
                found.append(None)
                continue
            try:
                keys, spans = decode_elements(field.name, field.type, record)
            except ValueError as error:
                raise self._damaged(f"a record of column '{field.name}' is damaged, {error}") from None
            items = [None if span is None else bytes(value(at, span)) for span in spans]
            found.append(items if keys is None else list(zip(keys, items, strict=True)))
        return pa.array(found, to_arrow_type(field.type))

    def record(self, row: int) -> bytes | None:
        """What the record of a row holds; None where it is null, or in an older file."""
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


class BlobWriter(StoreFileWriter):
    """Writes one blob file."""

    def __init__(self, new: NewFile) -> None:
        super().__init__(new)  # values are stored as they are, without compression
        (self._field,) = new.fields
        self._names = [self._field.name]
        check_blob_keys(self._field.name, self._field.type)
        self._lengths: list[int] = []
        self._size = 0
        self.input: BlobInput | None = None
        """What becomes of values that are descriptors; None where they are written as they are."""
        self._target = new.file_io.open_output(new.path)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append values; rows may have the column `IS_PLACEHOLDER` besides."""
        if rows.schema.names not in (self._names, [*self._names, IS_PLACEHOLDER]):
            raise ValueError(f"rows have the columns {rows.schema.names}, the file has {self._names}")
        older = rows.column(1).to_pylist() if rows.num_columns > 1 else repeat(False, rows.num_rows)
        column, plain = rows.column(0), isinstance(self._field.type, t.BlobType)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        given = self.input
        if given is not None and not any(given.concerns(leaves(chunk)) for chunk in chunks):
            given = None
        for value, is_older in zip(column, older, strict=True):
            if not value.is_valid:
                self._lengths.append(PLACEHOLDER if is_older else NULL)
                continue
            if not plain:
                whole = None if given is None else given.whole
                self.write_record(encode_elements(self._field.name, self._field.type, value, whole))
                continue
            parts = [value.as_buffer()] if given is None else given.parts(value.as_buffer())
            if parts is None:
                self._lengths.append(NULL)
            else:
                self.write_record(parts)

    def write_record(self, parts: Iterable[Any]) -> int:
        """Append one record that is not null; return where what it holds begins in the file.

        Args:
            parts: what it holds, as buffers; each is written before the next is asked for.
        """
        begin, length, checksum = self._size + HEAD, AROUND, zlib.crc32(_MAGIC)
        self._target.write(_MAGIC)
        for part in parts:
            length += memoryview(part).nbytes
            checksum = zlib.crc32(part, checksum)
            self._target.write(part)
        number = struct.pack("<q", length)
        self._target.write(number + struct.pack("<I", zlib.crc32(number, checksum)))
        self._lengths.append(length)
        self._size += length
        return begin

    @property
    def bytes_written(self) -> int:
        """Bytes of the records."""
        return self._size

    def close(self) -> FileResult:
        """Write the index."""
        try:
            index = encode_lengths(self._lengths)
            self._target.write(index + struct.pack("<ib", len(index), _VERSION))
            self._target.close()
        except BaseException:
            self.abort()
            raise
        return FileResult(self.path, self._size + len(index) + _FOOTER, len(self._lengths))


def descriptors(reader: BlobReader, rows: Longs, field: DataField) -> pa.Array:
    """The descriptors of the values of some rows of a blob file; null where they are null.

    Args:
        reader: of the file.
        rows: positions in the file.
        field: the column; in an array or a map each element has its descriptor.
    """
    if not isinstance(field.type, BlobType):
        offsets = reader.offsets[rows].tolist()
        records = [reader.record(row) for row in rows.tolist()]
        return reader.collections(
            records, field, lambda at, span: descriptor(reader.path, offsets[at] + HEAD + span[0], span[1])
        )
    nulls = reader.lengths[rows] < 0
    found = descriptor_array(reader.path, reader.offsets[rows] + HEAD, reader.lengths[rows] - AROUND)
    return found.take(pa.array(np.arange(len(rows)), mask=nulls)) if nulls.any() else found
