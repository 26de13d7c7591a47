"""Blob files: the values of one BLOB column, each a record of its own, with an index of their lengths at the end.

Equals Java's ``BlobFileFormat``, ``BlobFormatWriter`` and ``BlobFileMeta`` (docs/internals/format.md §12). A value is
large, so values are read and written one by one.

The records of a column that is ARRAY<BLOB> or MAP<X, BLOB> hold several values. They equal Java's
``ArrayBlobElementSerializer`` and ``MapBlobElementSerializer``: a magic number, a version, the number of elements, the
bytes of keys and values, and their lengths as a compressed index; -1 is null.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.avro_walk import decode_longs
from paimon_spark.spec.data_types import BlobType, DataField, holds_blobs
from paimon_spark.spec.predicate import matching
from paimon_spark.storage.arrow_layout import corrupt_as
from paimon_spark.storage.avro_encoding import encode_longs
from paimon_spark.storage.blob_descriptor import BlobInput, Longs, descriptor, descriptor_array
from paimon_spark.storage.data_file import (
    DataFileReader,
    FileResult,
    NewFile,
    Source,
    StoreFileWriter,
    Wanted,
)
from paimon_spark.storage.store_options import redact

_NULL: Final = -1
_RECORD_VERSION: Final = 1
_HEAD: Final = struct.Struct("<ibi")
_ARRAY: Final = 1_094_861_634
_MAP: Final = 0x4D424342
_DAY_MILLIS: Final = 86_400_000
_COMPACT_DIGITS: Final = 18
_CONTEXT: Final = Context(prec=38)


class Elements(NamedTuple):
    """What one record holds."""

    keys: list[Any] | None
    """Of a map; None in an array."""
    spans: list[tuple[int, int] | None]
    """Start and length of each value in the record; None for null."""


def check_blob_keys(name: str, kind: t.DataType) -> None:
    """Refuse keys of a MAP<X, BLOB> that blob files cannot hold.

    Raises:
        UnsupportedError: names the column.
    """
    if isinstance(kind, t.MapType):
        _key_codec(name, kind.key)


def encode_elements(
    name: str, kind: t.DataType, value: pa.Scalar, given: Callable[[pa.Buffer], Any] | None = None
) -> list[Any]:
    """Return the parts of the record of a list or map of blobs.

    Args:
        name: of the column.
        kind: ARRAY<BLOB> or MAP<X, BLOB>.
        value: not null.
        given: the bytes that an element stands for, None for null; they are its own where this is not given.
    """
    values = value.values
    if isinstance(kind, t.MapType):
        write, _ = _key_codec(name, kind.key)
        keys = [write(key) for key in _plain(values.field(0)).to_pylist()]
        parts, lengths = _parts(values.field(1), given)
        indexes = [encode_lengths([len(key) for key in keys]), encode_lengths(lengths)]
        head = _HEAD.pack(_MAP, _RECORD_VERSION, len(keys))
        return [head, *keys, *parts, *indexes, struct.pack("<ii", *map(len, indexes))]
    parts, lengths = _parts(values, given)
    index = encode_lengths(lengths)
    return [_HEAD.pack(_ARRAY, _RECORD_VERSION, len(lengths)), *parts, index, struct.pack("<i", len(index))]


def _parts(values: pa.Array, given: Callable[[pa.Buffer], Any] | None) -> tuple[list[Any], list[int]]:
    buffers = [value.as_buffer() if value.is_valid else None for value in values]
    if given is not None:
        buffers = [None if b is None else given(b) for b in buffers]
    return [b for b in buffers if b is not None], [_NULL if b is None else memoryview(b).nbytes for b in buffers]


def decode_elements(name: str, kind: t.DataType, record: bytes) -> Elements:
    """Return what `encode_elements` was given.

    Raises:
        ValueError: the record is damaged.
    """
    is_map = isinstance(kind, t.MapType)
    tail = 8 if is_map else 4
    if len(record) < _HEAD.size + tail:
        raise ValueError(f"it has {len(record)} bytes")
    magic, version, count = _HEAD.unpack_from(record)
    if (magic, version) != (_MAP if is_map else _ARRAY, _RECORD_VERSION) or count < 0:
        raise ValueError("it does not start as one")
    sizes = struct.unpack("<ii" if is_map else "<i", record[-tail:])
    end = len(record) - tail
    starts = [end - sum(sizes[at:]) for at in range(len(sizes))]
    if min(sizes) < 0 or starts[0] < _HEAD.size:
        raise ValueError("its index is larger than itself")
    indexes = [decode_lengths(record[start:stop]) for start, stop in pairwise([*starts, end])]
    if any(len(index) != count or (index < _NULL).any() for index in indexes):
        raise ValueError("its index does not have a length for each element")
    if sum(int(np.maximum(index, 0).sum()) for index in indexes) != starts[0] - _HEAD.size:
        raise ValueError("its index does not fit its size")
    at = _HEAD.size
    keys = None
    if isinstance(kind, t.MapType):
        _, read = _key_codec(name, kind.key)
        spans, at = _spans(indexes[0], at)
        keys = [None if span is None else read(record[span[0] : sum(span)]) for span in spans]
        if None in keys or len(set(keys)) < count:
            raise ValueError("a key is null or comes twice")
    return Elements(keys, _spans(indexes[-1], at)[0])


def _spans(lengths: Longs, at: int) -> tuple[list[tuple[int, int] | None], int]:
    found: list[tuple[int, int] | None] = []
    for length in lengths.tolist():
        found.append(None if length < 0 else (at, length))
        at += max(length, 0)
    return found, at


def encode_lengths(lengths: Sequence[int]) -> bytes:
    """Numbers as zig-zag varints of their differences (Java: ``DeltaVarintCompressor``)."""
    if not len(lengths):
        return b""
    known: Longs = np.array(lengths, np.int64)
    encoded = encode_longs(known - np.concatenate([np.zeros(1, np.int64), known[:-1]]))
    return bytes(encoded.buffers()[2])


def decode_lengths(data: bytes) -> Longs:
    """What `encode_lengths` was given.

    Raises:
        ValueError: these are no such numbers.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 128)
    if len(data) != (ends[-1] + 1 if len(ends) else 0):
        raise ValueError("its index is cut off")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    return np.cumsum(decode_longs(np.frombuffer(data + bytes(10), np.uint8), starts))


def _plain(keys: pa.Array) -> pa.Array:
    """Keys with dates as days and times as milliseconds."""
    return keys.view(pa.int32()) if pa.types.is_date32(keys.type) or pa.types.is_time32(keys.type) else keys


_Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def _key_codec(name: str, kind: t.DataType) -> _Codec:
    match kind:
        case t.TinyIntType():
            return _number("<b")
        case t.SmallIntType():
            return _number("<h")
        case t.IntType() | t.DateType():
            return _number("<i")
        case t.TimeType():
            return _time()
        case t.DecimalType():
            return _decimal(kind.precision, kind.scale)
        case t.BigIntType():
            return _number("<q")
        case t.BooleanType():
            return _number("<?")
        case t.CharType() | t.VarCharType():
            return str.encode, bytes.decode
        case t.BinaryType() | t.VarBinaryType():
            return bytes, bytes
    raise UnsupportedError(
        f"Column '{name}' is a map of blobs whose keys are {kind.sql()}, which is not supported: keys can be whole "
        "numbers, decimals, booleans, dates, times, texts and binaries."
    )


def _number(code: str) -> _Codec:
    packed = struct.Struct(code)

    def read(data: bytes) -> Any:
        if len(data) != packed.size:
            raise ValueError("a key has not the size of its type")
        return packed.unpack(data)[0]

    return packed.pack, read


def _time() -> _Codec:
    write, number = _number("<i")

    def read(data: bytes) -> Any:
        millis = number(data)
        if not 0 <= millis < _DAY_MILLIS:
            raise ValueError("a key is no time of a day")
        return millis

    return write, read


def _decimal(precision: int, scale: int) -> _Codec:
    """The digits as a number: of 8 bytes for up to 18 digits, else as Java's ``BigInteger``."""
    compact = struct.Struct("<q") if precision <= _COMPACT_DIGITS else None

    def write(key: Decimal) -> bytes:
        digits = int(key.scaleb(scale, _CONTEXT))
        if compact is not None:
            return compact.pack(digits)
        return digits.to_bytes((digits if digits >= 0 else ~digits).bit_length() // 8 + 1, "big", signed=True)

    def read(data: bytes) -> Any:
        if (compact is not None and len(data) != compact.size) or not data:
            raise ValueError("a key has not the size of its type")
        digits = int.from_bytes(data, "big" if compact is None else "little", signed=True)
        if abs(digits) >= 10**precision:
            raise ValueError("a key has more digits than its type")
        return Decimal(digits).scaleb(-scale, _CONTEXT)

    return write, read


def leaves(column: pa.Array) -> pa.Array:
    """The values of these rows alone: of BLOB the column itself, else elements of arrays or values of maps."""
    return column if pa.types.is_binary(column.type) else leaves(_inner(column))


def leaf_bounds(column: pa.Array) -> npt.NDArray[np.int64]:
    """Where the values of each row begin among the `leaves`, and where the last of them end; shape (rows + 1,)."""
    if pa.types.is_binary(column.type):
        return np.arange(len(column) + 1)
    offsets = column.offsets.to_numpy().astype(np.int64)
    bounds: npt.NDArray[np.int64] = leaf_bounds(_inner(column))[offsets - offsets[0]]
    return bounds


def with_leaves(column: pa.Array, values: pa.Array) -> pa.Array:
    """The column with other values in its shape."""
    if pa.types.is_binary(column.type):
        return values
    inner = with_leaves(_inner(column), values)
    offsets, nulls = pc.subtract(column.offsets, column.offsets[0]), column.is_null()
    if pa.types.is_map(column.type):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys = column.keys.slice(start, end - start)
        return pa.MapArray.from_arrays(offsets, keys, inner, type=column.type, mask=nulls)
    return pa.ListArray.from_arrays(offsets, inner, type=column.type, mask=nulls)


def _inner(column: pa.Array) -> pa.Array:
    """The elements, or the values of maps, of these rows alone."""
    start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    values = column.items if pa.types.is_map(column.type) else column.values
    return values.slice(start, end - start)


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
