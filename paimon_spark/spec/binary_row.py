"""BinaryRow, the binary form of rows in manifests, keys, partitions and hashes, and one row of Python values in it.

Java: ``BinaryRow``, ``BinaryArray`` and their writers. The reference form of what `binary_row_encoder` and
`binary_row_decoder` do for whole columns, and the layout that all three share: which slot a type has, how wide it is.
A *raw* row is the row's bytes; a *serialized* one has its 4-byte big-endian arity in front, as manifests hold it
(Java: ``SerializationUtils.serializeBinaryRow``). Partition bytes are serialized rows.
Python values: DATE `date`, TIME `time`, TIMESTAMP `datetime` (WITH LOCAL TIME ZONE: aware, UTC), precision over 6: int
nanoseconds since 1970; DECIMAL `Decimal`, ROW dict, MAP and MULTISET list of pairs, ARRAY and VECTOR list, VARIANT dict
of `value` and `metadata`. When encoding, temporals may be integers of their Arrow unit.

"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from paimon_spark.errors import CorruptTableError, DataError, UnsupportedError
from paimon_spark.spec import data_types as t

HEADER_BITS = 8
"""Bits before the first null bit of a row: the row kind byte."""

MAX_INLINE_BYTES = 7
"""Strings and binaries up to this length live in their 8-byte slot."""

WIDE_DECIMAL_BYTES = 16
"""Bytes that a DECIMAL(p > 18) always takes in the variable part, null or not."""


def serialize_row(values: Sequence[Any], types: Sequence[t.DataType]) -> bytes:
    """Encode one row of Python values with its arity in front: partition bytes, keys and statistics of manifests."""
    return len(types).to_bytes(4, "big") + encode_row(values, types)


def deserialize_row(data: bytes, types: Sequence[t.DataType], *, path: str | None = None) -> list[Any]:
    """Decode one serialized row into Python values.

    Raises:
        CorruptTableError: the bytes are damaged, or have another arity.
    """
    if data[:4] != len(types).to_bytes(4, "big"):
        raise CorruptTableError(
            f"A BinaryRow of {len(types)} fields was expected, but it has {int.from_bytes(data[:4], 'big')}.", path=path
        )
    return decode_row(data[4:], types, path=path)


class SlotKind(IntEnum):
    """How a value of a type is laid out in a row."""

    BOOLEAN = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    DATE = 7
    TIME = 8
    DECIMAL = 9  # precision <= 18: the unscaled int64
    WIDE_DECIMAL = 10  # 16 reserved bytes
    MILLIS = 11  # timestamp of precision <= 3
    WIDE_TIMESTAMP = 12  # millis in 8 reserved bytes, nanos of the millisecond in the slot
    STRING = 13
    BYTES = 14
    NESTED = 15  # array, map, multiset, row, variant, vector: always in the variable part


_KINDS: dict[type[t.DataType], SlotKind] = {
    t.BooleanType: SlotKind.BOOLEAN,
    t.TinyIntType: SlotKind.INT8,
    t.SmallIntType: SlotKind.INT16,
    t.IntType: SlotKind.INT32,
    t.BigIntType: SlotKind.INT64,
    t.FloatType: SlotKind.FLOAT32,
    t.DoubleType: SlotKind.FLOAT64,
    t.DateType: SlotKind.DATE,
    t.TimeType: SlotKind.TIME,
    t.CharType: SlotKind.STRING,
    t.VarCharType: SlotKind.STRING,
    t.BinaryType: SlotKind.BYTES,
    t.VarBinaryType: SlotKind.BYTES,
    t.BlobType: SlotKind.BYTES,
    t.GeometryType: SlotKind.BYTES,
    t.GeographyType: SlotKind.BYTES,
    t.ArrayType: SlotKind.NESTED,
    t.MapType: SlotKind.NESTED,
    t.MultisetType: SlotKind.NESTED,
    t.RowType: SlotKind.NESTED,
    t.VariantType: SlotKind.NESTED,
    t.VectorType: SlotKind.NESTED,
}

ELEMENT_BYTES = {
    SlotKind.BOOLEAN: 1,
    SlotKind.INT8: 1,
    SlotKind.INT16: 2,
    SlotKind.INT32: 4,
    SlotKind.FLOAT32: 4,
    SlotKind.DATE: 4,
    SlotKind.TIME: 4,
}
"""Width of an element of a BinaryArray; 8 for the kinds that are not listed."""


def slot_kind(data_type: t.DataType) -> SlotKind:
    """Return how values of the type are laid out.

    Raises:
        UnsupportedError: the type has no place in a BinaryRow.
    """
    if isinstance(data_type, t.DecimalType):
        return SlotKind.DECIMAL if data_type.is_compact else SlotKind.WIDE_DECIMAL
    if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType):
        return SlotKind.MILLIS if data_type.is_compact else SlotKind.WIDE_TIMESTAMP
    kind = _KINDS.get(type(data_type))
    if kind is None:
        raise UnsupportedError(f"A BinaryRow cannot hold the type {data_type.sql()}.")
    return kind


def null_bits_bytes(arity: int) -> int:
    """Bytes of the row kind and the null bits in front of the slots of a row of `arity` fields."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


def fixed_bytes(arity: int) -> int:
    """Bytes of a row of `arity` fields before its variable part."""
    return null_bits_bytes(arity) + 8 * arity


def array_header_bytes(count: int) -> int:
    """Bytes of the element count and the null bits in front of the elements of a BinaryArray."""
    return 4 + (count + 31) // 32 * 4


def check_range(offset: int, length: int, size: int, path: str | None) -> None:
    """Check that a value's range lies within its row.

    Raises:
        CorruptTableError: it does not.
    """
    if offset < 0 or length < 0 or offset + length > size:
        raise CorruptTableError(
            f"A BinaryRow of {size} bytes points to bytes {offset} to {offset + length}: the file is damaged.",
            path=path,
        )


_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(prec=100)
_FORMATS = {
    SlotKind.BOOLEAN: "<?",
    SlotKind.INT8: "<b",
    SlotKind.INT16: "<h",
    SlotKind.INT32: "<i",
    SlotKind.INT64: "<q",
    SlotKind.FLOAT32: "<f",
    SlotKind.FLOAT64: "<d",
    SlotKind.DATE: "<i",
    SlotKind.TIME: "<i",
    SlotKind.DECIMAL: "<q",
    SlotKind.MILLIS: "<q",
}
_IN_VARIABLE_PART = (SlotKind.STRING, SlotKind.BYTES, SlotKind.NESTED, SlotKind.WIDE_DECIMAL, SlotKind.WIDE_TIMESTAMP)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _slot(offset: int, low: int) -> bytes:
    return struct.pack("<ii", low, offset)


def timestamp_nanos(value: Any, data_type: t.DataType) -> int:
    """Nanoseconds since 1970 of a `datetime`, or of an integer in the type's Arrow unit."""
    if isinstance(value, datetime.datetime):
        delta = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return delta // _MICROSECOND * 1000 + int(getattr(value, "nanosecond", 0))
    precision = data_type.precision if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) else 6
    return int(value) * (10**9 if precision == 0 else 10**6 if precision <= 3 else 10**3 if precision <= 6 else 1)


def unscaled(value: decimal.Decimal, data_type: t.DataType) -> int:
    """Unscaled integer of a decimal in the type's scale.

    Raises:
        DataError: the value has more digits than the type.
    """
    assert isinstance(data_type, t.DecimalType)
    scaled = decimal.Decimal(value).scaleb(data_type.scale, _EXACT)
    number = int(scaled)
    if number != scaled or abs(number) >= 10**data_type.precision:
        raise DataError(f"{value} does not fit {data_type.sql()}.")
    return number


def _fixed_value(value: Any, kind: SlotKind, data_type: t.DataType) -> bytes:
    if kind is SlotKind.DATE and isinstance(value, datetime.date):
        value = (value - _EPOCH_DATE).days
    elif kind is SlotKind.TIME and isinstance(value, datetime.time):
        value = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    elif kind is SlotKind.DECIMAL:
        value = unscaled(value, data_type)
    elif kind is SlotKind.MILLIS:
        value = timestamp_nanos(value, data_type) // 10**6
    return struct.pack(_FORMATS[kind], value)


def _variable_value(value: Any, kind: SlotKind, data_type: t.DataType, offset: int) -> tuple[bytes, bytes]:
    """Return the slot and the padded variable part of a value that is not null."""
    if kind is SlotKind.WIDE_TIMESTAMP:
        millis, nanos = divmod(timestamp_nanos(value, data_type), 10**6)
        return _slot(offset, nanos), struct.pack("<q", millis)
    if kind is SlotKind.WIDE_DECIMAL:
        number = unscaled(value, data_type)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return _slot(offset, size), number.to_bytes(size, "big", signed=True).ljust(WIDE_DECIMAL_BYTES, b"\0")
    if kind is SlotKind.NESTED:
        data = encode_nested(value, data_type)
        return _slot(offset, len(data)), _padded(data)
    data = value.encode() if isinstance(value, str) else bytes(value)
    if len(data) <= MAX_INLINE_BYTES:
        return data.ljust(7, b"\0") + bytes([0x80 | len(data)]), b""
    return _slot(offset, len(data)), _padded(data)


def encode_row(values: Sequence[Any], types: Sequence[t.DataType]) -> bytes:
    """Encode one row of Python values as the bytes of a BinaryRow (no arity in front, row kind INSERT)."""
    arity = len(types)
    row = bytearray(fixed_bytes(arity))
    start = null_bits_bytes(arity)
    for i, (value, data_type) in enumerate(zip(values, types, strict=True)):
        kind = slot_kind(data_type)
        at = start + 8 * i
        if value is None:
            row[(i + 8) // 8] |= 1 << ((i + 8) % 8)
            reserved = {SlotKind.WIDE_DECIMAL: WIDE_DECIMAL_BYTES, SlotKind.WIDE_TIMESTAMP: 8}.get(kind, 0)
            if reserved:
                row[at : at + 8] = _slot(len(row), 0)
                row += bytes(reserved)
        elif kind in _IN_VARIABLE_PART:
            row[at : at + 8], variable = _variable_value(value, kind, data_type, len(row))
            row += variable
        else:
            fixed = _fixed_value(value, kind, data_type)
            row[at : at + len(fixed)] = fixed
    return bytes(row)


def _encode_array(values: Sequence[Any], element: t.DataType) -> bytes:
    kind = slot_kind(element)
    width = ELEMENT_BYTES.get(kind, 8)
    header = array_header_bytes(len(values))
    data = bytearray(header + width * len(values))
    data += bytes(-len(data) % 8)
    struct.pack_into("<i", data, 0, len(values))
    for i, value in enumerate(values):
        at = header + width * i
        if value is None:  # Java: unlike in a row, nothing is reserved
            data[4 + i // 8] |= 1 << (i % 8)
        elif kind in _IN_VARIABLE_PART:
            data[at : at + 8], variable = _variable_value(value, kind, element, len(data))
            data += variable
        else:
            data[at : at + width] = _fixed_value(value, kind, element)
    return bytes(data)


def encode_nested(value: Any, data_type: t.DataType) -> bytes:
    """Encode a value of a nested type as it stands in the variable part of a row, without padding."""
    if isinstance(data_type, t.ArrayType):
        return _encode_array(value, data_type.element)
    if isinstance(data_type, t.MapType | t.MultisetType):
        pairs = list(value.items()) if isinstance(value, dict) else list(value)
        key_type, value_type = _pair_types(data_type)
        keys = _encode_array([k for k, _ in pairs], key_type)
        return struct.pack("<i", len(keys)) + keys + _encode_array([v for _, v in pairs], value_type)
    if isinstance(data_type, t.RowType):
        values = [value[f.name] for f in data_type.fields] if isinstance(value, dict) else list(value)
        return encode_row(values, [f.type for f in data_type.fields])
    if isinstance(data_type, t.VariantType):
        data, metadata = bytes(value["value"]), bytes(value["metadata"])
        return struct.pack("<i", len(data)) + data + metadata
    assert isinstance(data_type, t.VectorType)
    kind = slot_kind(data_type.element)
    return struct.pack("<i", len(value)) + b"".join(_fixed_value(v, kind, data_type.element) for v in value)


def _pair_types(data_type: t.MapType | t.MultisetType) -> tuple[t.DataType, t.DataType]:
    if isinstance(data_type, t.MapType):
        return data_type.key, data_type.value
    return data_type.element, t.IntType(nullable=False)


def decode_row(row: bytes, types: Sequence[t.DataType], *, path: str | None = None) -> list[Any]:
    """Decode the bytes of a BinaryRow (no arity in front) into one Python value per type.

    Raises:
        CorruptTableError: the bytes are no such row.
    """
    arity = len(types)
    check_range(0, fixed_bytes(arity), len(row), path)
    start = null_bits_bytes(arity)
    return [
        None
        if row[(i + 8) // 8] >> ((i + 8) % 8) & 1
        else _decode_slot(row, start + 8 * i, slot_kind(data_type), data_type, path)
        for i, data_type in enumerate(types)
    ]


def _decode_slot(data: bytes, at: int, kind: SlotKind, data_type: t.DataType, path: str | None) -> Any:
    if kind in _IN_VARIABLE_PART:
        low, offset = struct.unpack_from("<iI", data, at)
        if kind is SlotKind.WIDE_TIMESTAMP:
            check_range(offset, 8, len(data), path)
            if not 0 <= low < 10**6:
                raise CorruptTableError(f"A {data_type.sql()} has {low} nanoseconds in a millisecond.", path=path)
            return _from_nanos(struct.unpack_from("<q", data, offset)[0] * 10**6 + low, data_type, path)
        if offset >> 31 and kind is not SlotKind.NESTED and kind is not SlotKind.WIDE_DECIMAL:
            low, offset = offset >> 24 & 0x7F, at
            check_range(0, low, MAX_INLINE_BYTES, path)
        check_range(offset, low, len(data), path)
        return _from_bytes(data[offset : offset + low], kind, data_type, path)
    value = struct.unpack_from(_FORMATS[kind], data, at)[0]
    try:
        if kind is SlotKind.DATE:
            return _EPOCH_DATE + datetime.timedelta(days=value)
        if kind is SlotKind.TIME:
            return (_EPOCH + datetime.timedelta(milliseconds=value)).time() if 0 <= value < 86_400_000 else _bad(value)
        if kind is SlotKind.MILLIS:
            return _from_nanos(value * 10**6, data_type, path)
        if kind is SlotKind.DECIMAL:
            assert isinstance(data_type, t.DecimalType)
            return decimal.Decimal(value).scaleb(-data_type.scale, _EXACT)
    except OverflowError as error:
        raise CorruptTableError(f"{data_type.sql()} has the value {value}, out of range.", path=path) from error
    return value


def _bad(value: int) -> Any:
    raise OverflowError(value)


def _from_nanos(nanos: int, data_type: t.DataType, path: str | None) -> Any:
    if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) and data_type.precision > 6:
        if not -(1 << 63) <= nanos < 1 << 63:
            raise CorruptTableError(f"{data_type.sql()} lies {nanos} ns from 1970, out of range.", path=path)
        return nanos
    epoch = _EPOCH_UTC if isinstance(data_type, t.LocalZonedTimestampType) else _EPOCH
    try:
        return epoch + datetime.timedelta(microseconds=nanos // 1000)
    except OverflowError as error:
        raise CorruptTableError(f"{data_type.sql()} lies {nanos} ns from 1970, out of range.", path=path) from error


def _from_bytes(data: bytes, kind: SlotKind, data_type: t.DataType, path: str | None) -> Any:
    if kind is SlotKind.BYTES:
        return data
    if kind is SlotKind.STRING:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CorruptTableError(f"A {data_type.sql()} of a BinaryRow is not UTF-8.", path=path) from error
    if kind is SlotKind.WIDE_DECIMAL:
        assert isinstance(data_type, t.DecimalType)
        check_range(0, len(data), WIDE_DECIMAL_BYTES, path)
        number = int.from_bytes(data, "big", signed=True)
        return decimal.Decimal(number).scaleb(-data_type.scale, _EXACT)
    return decode_nested(data, data_type, path=path)


def _decode_array(data: bytes, element: t.DataType, path: str | None) -> list[Any]:
    check_range(0, 4, len(data), path)
    count = struct.unpack_from("<i", data)[0]
    kind = slot_kind(element)
    width = ELEMENT_BYTES.get(kind, 8)
    header = array_header_bytes(count)
    check_range(header, count * width, len(data), path)
    return [
        None if data[4 + i // 8] >> (i % 8) & 1 else _decode_slot(data, header + width * i, kind, element, path)
        for i in range(count)
    ]


def _split(data: bytes, path: str | None) -> tuple[bytes, bytes]:
    """Split what starts with the length of its first part."""
    check_range(0, 4, len(data), path)
    size = struct.unpack_from("<i", data)[0]
    check_range(4, size, len(data), path)
    return data[4 : 4 + size], data[4 + size :]


def _decode_map(data: bytes, data_type: t.MapType | t.MultisetType, path: str | None) -> list[tuple[Any, Any]]:
    key_type, value_type = _pair_types(data_type)
    keys, values = _split(data, path)
    decoded = _decode_array(keys, key_type, path), _decode_array(values, value_type, path)
    if len(decoded[0]) != len(decoded[1]):
        raise CorruptTableError(f"A map has {len(decoded[0])} keys but {len(decoded[1])} values.", path=path)
    return list(zip(*decoded, strict=True))


def _decode_vector(data: bytes, data_type: t.VectorType, path: str | None) -> list[Any]:
    check_range(0, 4, len(data), path)
    count = struct.unpack_from("<i", data)[0]
    kind = slot_kind(data_type.element)
    width = ELEMENT_BYTES.get(kind, 8)
    check_range(4, count * width, len(data), path)
    return [_decode_slot(data, 4 + width * i, kind, data_type.element, path) for i in range(count)]


def decode_nested(data: bytes, data_type: t.DataType, *, path: str | None = None) -> Any:
    """Decode a value of a nested type from its bytes in the variable part of a row.

    Raises:
        CorruptTableError: the bytes are no such value.
    """
    if isinstance(data_type, t.ArrayType):
        return _decode_array(data, data_type.element, path)
    if isinstance(data_type, t.MapType | t.MultisetType):
        return _decode_map(data, data_type, path)
    if isinstance(data_type, t.RowType):
        values = decode_row(data, [f.type for f in data_type.fields], path=path)
        return dict(zip((f.name for f in data_type.fields), values, strict=True))
    if isinstance(data_type, t.VariantType):
        return dict(zip(("value", "metadata"), _split(data, path), strict=True))
    assert isinstance(data_type, t.VectorType)
    return _decode_vector(data, data_type, path)
