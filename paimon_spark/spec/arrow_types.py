"""Paimon types as Arrow types, the convention of everything below ``spark/`` (equal to the Java oracle's).

TIMESTAMP(p) has the coarsest Arrow unit that holds it: 0 s, 1-3 ms, 4-6 us, 7-9 ns; LTZ the same with time zone UTC.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
    DataField,
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

VARIANT_STRUCT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
)
"""The Arrow type of VARIANT."""

_PLAIN: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    TinyIntType: pa.int8(),
    SmallIntType: pa.int16(),
    IntType: pa.int32(),
    BigIntType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time32("ms"),
    CharType: pa.string(),
    VarCharType: pa.string(),
    BinaryType: pa.binary(),
    VarBinaryType: pa.binary(),
    BlobType: pa.binary(),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
    VariantType: VARIANT_STRUCT,
}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit of a timestamp of this precision."""
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Paimon type; its own nullability belongs to the field (`to_arrow_field`).

    Raises:
        UnsupportedError: The type has no Arrow form.
    """
    plain = _PLAIN.get(type(data_type))
    if plain is not None:
        return plain
    match data_type:
        case DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case TimestampType():
            return pa.timestamp(timestamp_unit(data_type.precision))
        case LocalZonedTimestampType():
            return pa.timestamp(timestamp_unit(data_type.precision), tz="UTC")
        case ArrayType() | VectorType():
            return pa.list_(_field("element", data_type.element))
        case MapType():
            return pa.map_(_field("key", data_type.key.with_nullable(False)), _field("value", data_type.value))
        case MultisetType():
            return pa.map_(
                _field("key", data_type.element.with_nullable(False)), pa.field("value", pa.int32(), nullable=False)
            )
        case RowType():
            return pa.struct([to_arrow_field(f) for f in data_type.fields])
    raise UnsupportedError(f"Type {data_type} has no Arrow form.")


def _field(name: str, data_type: DataType) -> pa.Field:
    return pa.field(name, to_arrow_type(data_type), nullable=data_type.nullable)


def to_arrow_field(data_field: DataField) -> pa.Field:
    """The Arrow field of a column: name, type, nullability."""
    return _field(data_field.name, data_field.type)


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([to_arrow_field(f) for f in fields])


_FROM_PLAIN: tuple[tuple[pa.DataType, DataType], ...] = (
    (pa.bool_(), BooleanType()),
    (pa.int8(), TinyIntType()),
    (pa.int16(), SmallIntType()),
    (pa.int32(), IntType()),
    (pa.int64(), BigIntType()),
    (pa.uint8(), SmallIntType()),
    (pa.uint16(), IntType()),
    (pa.uint32(), BigIntType()),
    (pa.float16(), FloatType()),
    (pa.float32(), FloatType()),
    (pa.float64(), DoubleType()),
    (pa.date32(), DateType()),
    (pa.date64(), DateType()),
    (pa.string(), VarCharType(VarCharType.MAX)),
    (pa.large_string(), VarCharType(VarCharType.MAX)),
    (pa.string_view(), VarCharType(VarCharType.MAX)),
    (pa.binary(), VarBinaryType(VarBinaryType.MAX)),
    (pa.large_binary(), VarBinaryType(VarBinaryType.MAX)),
    (pa.binary_view(), VarBinaryType(VarBinaryType.MAX)),
    (VARIANT_STRUCT, VariantType()),
    (pa.time32("s"), TimeType(0)),
    (pa.time32("ms"), TimeType(3)),
    (pa.time64("us"), TimeType(6)),
    (pa.time64("ns"), TimeType(9)),
)
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow_type(arrow_type: pa.DataType, *, nullable: bool = True) -> DataType:
    """The Paimon type that holds all values of an Arrow type. ROW fields inside it get id 0: give ids afterwards.

    Raises:
        UnsupportedError: No Paimon type holds it.
    """
    return _from_arrow(arrow_type).with_nullable(nullable)


def _from_arrow(arrow_type: pa.DataType) -> DataType:
    if pa.types.is_dictionary(arrow_type):
        return _from_arrow(arrow_type.value_type)
    for arrow, plain in _FROM_PLAIN:
        if arrow == arrow_type:
            return plain
    if pa.types.is_decimal(arrow_type):
        try:
            return DecimalType(arrow_type.precision, arrow_type.scale)
        except SchemaError as error:
            raise UnsupportedError(f"Arrow type {arrow_type} has no Paimon form: {error}") from None
    if pa.types.is_timestamp(arrow_type):
        precision = _PRECISIONS[arrow_type.unit]
        return TimestampType(precision) if arrow_type.tz is None else LocalZonedTimestampType(precision)
    if pa.types.is_fixed_size_binary(arrow_type):
        return BinaryType(arrow_type.byte_width)
    if pa.types.is_map(arrow_type):
        return MapType(_from_field(arrow_type.key_field), _from_field(arrow_type.item_field))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return ArrayType(_from_field(arrow_type.value_field))
    if pa.types.is_fixed_size_list(arrow_type):
        element = _from_field(arrow_type.value_field)
        try:
            return VectorType(element, arrow_type.list_size)
        except SchemaError:
            return ArrayType(element)
    if pa.types.is_struct(arrow_type):
        return RowType(tuple(DataField(0, f.name, _from_field(f)) for f in arrow_type))
    raise UnsupportedError(f"Arrow type {arrow_type} has no Paimon form.")


def _from_field(arrow_field: pa.Field) -> DataType:
    return from_arrow_type(arrow_field.type, nullable=arrow_field.nullable)


def from_arrow_schema(schema: pa.Schema) -> tuple[DataField, ...]:
    """Columns for an Arrow schema, all ids 0: `schema.create_schema` gives them.

    Raises:
        UnsupportedError: No Paimon type holds a column.
    """
    return tuple(DataField(0, f.name, _from_field(f)) for f in schema)
