"""Layout of BinaryRow and BinaryArray: which slot a type has, how wide it is (Java: ``BinaryRow``, ``BinaryArray``)."""

from __future__ import annotations

from enum import IntEnum

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VariantType,
    VectorType,
)

HEADER_BITS = 8
"""Bits before the first null bit of a row: the row kind byte."""

MAX_INLINE_BYTES = 7
"""Strings and binaries up to this length live in their 8-byte slot."""

WIDE_DECIMAL_BYTES = 16
"""Bytes that a DECIMAL(p > 18) always takes in the variable part, null or not."""


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


_KINDS: dict[type[DataType], SlotKind] = {
    BooleanType: SlotKind.BOOLEAN,
    TinyIntType: SlotKind.INT8,
    SmallIntType: SlotKind.INT16,
    IntType: SlotKind.INT32,
    BigIntType: SlotKind.INT64,
    FloatType: SlotKind.FLOAT32,
    DoubleType: SlotKind.FLOAT64,
    DateType: SlotKind.DATE,
    TimeType: SlotKind.TIME,
    CharType: SlotKind.STRING,
    VarCharType: SlotKind.STRING,
    BinaryType: SlotKind.BYTES,
    VarBinaryType: SlotKind.BYTES,
    BlobType: SlotKind.BYTES,
    GeometryType: SlotKind.BYTES,
    GeographyType: SlotKind.BYTES,
    ArrayType: SlotKind.NESTED,
    MapType: SlotKind.NESTED,
    MultisetType: SlotKind.NESTED,
    RowType: SlotKind.NESTED,
    VariantType: SlotKind.NESTED,
    VectorType: SlotKind.NESTED,
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


def slot_kind(data_type: DataType) -> SlotKind:
    """Return how values of the type are laid out.

    Raises:
        UnsupportedError: the type has no place in a BinaryRow.
    """
    if isinstance(data_type, DecimalType):
        return SlotKind.DECIMAL if data_type.is_compact else SlotKind.WIDE_DECIMAL
    if isinstance(data_type, TimestampType | LocalZonedTimestampType):
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
