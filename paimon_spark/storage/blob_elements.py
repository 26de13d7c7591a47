"""The records of blob files whose column is ARRAY<BLOB> or MAP<X, BLOB>: several values in one record.

Equals Java's ``ArrayBlobElementSerializer`` and ``MapBlobElementSerializer``. A record has a magic number, a version,
the number of elements, the bytes of keys and values, and their lengths as a compressed index; -1 is null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.avro_walk import decode_longs
from paimon_spark.storage.avro_encoding import encode_longs

Longs = npt.NDArray[np.int64]

_NULL: Final = -1
_VERSION: Final = 1
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
        head = _HEAD.pack(_MAP, _VERSION, len(keys))
        return [head, *keys, *parts, *indexes, struct.pack("<ii", *map(len, indexes))]
    parts, lengths = _parts(values, given)
    index = encode_lengths(lengths)
    return [_HEAD.pack(_ARRAY, _VERSION, len(lengths)), *parts, index, struct.pack("<i", len(index))]


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
    if (magic, version) != (_MAP if is_map else _ARRAY, _VERSION) or count < 0:
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
