"""Paimon types as Arrow types, the convention of everything below ``spark/`` (equal to the Java oracle's).

TIMESTAMP(p) has the coarsest Arrow unit that holds it: 0 s, 1-3 ms, 4-6 us, 7-9 ns; LTZ the same with time zone UTC.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spec import data_types as t

VARIANT_STRUCT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
)
"""The Arrow type of VARIANT."""

_PLAIN: dict[type[t.DataType], pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.TinyIntType: pa.int8(),
    t.SmallIntType: pa.int16(),
    t.IntType: pa.int32(),
    t.BigIntType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.DateType: pa.date32(),
    t.TimeType: pa.time32("ms"),
    t.CharType: pa.string(),
    t.VarCharType: pa.string(),
    t.BinaryType: pa.binary(),
    t.VarBinaryType: pa.binary(),
    t.BlobType: pa.binary(),
    t.GeometryType: pa.binary(),
    t.GeographyType: pa.binary(),
    t.VariantType: VARIANT_STRUCT,
}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit of a timestamp of this precision."""
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow_type(data_type: t.DataType) -> pa.DataType:
    """The Arrow type of a Paimon type; its own nullability belongs to the field (`to_arrow_field`).

    Raises:
        UnsupportedError: The type has no Arrow form.
    """
    plain = _PLAIN.get(type(data_type))
    if plain is not None:
        return plain
    match data_type:
        case t.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case t.TimestampType():
            return pa.timestamp(timestamp_unit(data_type.precision))
        case t.LocalZonedTimestampType():
            return pa.timestamp(timestamp_unit(data_type.precision), tz="UTC")
        case t.ArrayType() | t.VectorType():
            return pa.list_(_field("element", data_type.element))
        case t.MapType():
            return pa.map_(_field("key", data_type.key.with_nullable(False)), _field("value", data_type.value))
        case t.MultisetType():
            return pa.map_(
                _field("key", data_type.element.with_nullable(False)), pa.field("value", pa.int32(), nullable=False)
            )
        case t.RowType():
            return pa.struct([to_arrow_field(f) for f in data_type.fields])
    raise UnsupportedError(f"Type {data_type} has no Arrow form.")


def _field(name: str, data_type: t.DataType) -> pa.Field:
    return pa.field(name, to_arrow_type(data_type), nullable=data_type.nullable)


def to_arrow_field(data_field: t.DataField) -> pa.Field:
    """The Arrow field of a column: name, type, nullability."""
    return _field(data_field.name, data_field.type)


def to_arrow_schema(fields: Iterable[t.DataField]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([to_arrow_field(f) for f in fields])


_FROM_PLAIN: tuple[tuple[pa.DataType, t.DataType], ...] = (
    (pa.bool_(), t.BooleanType()),
    (pa.int8(), t.TinyIntType()),
    (pa.int16(), t.SmallIntType()),
    (pa.int32(), t.IntType()),
    (pa.int64(), t.BigIntType()),
    (pa.uint8(), t.SmallIntType()),
    (pa.uint16(), t.IntType()),
    (pa.uint32(), t.BigIntType()),
    (pa.float16(), t.FloatType()),
    (pa.float32(), t.FloatType()),
    (pa.float64(), t.DoubleType()),
    (pa.date32(), t.DateType()),
    (pa.date64(), t.DateType()),
    (pa.string(), t.VarCharType(t.VarCharType.MAX)),
    (pa.large_string(), t.VarCharType(t.VarCharType.MAX)),
    (pa.string_view(), t.VarCharType(t.VarCharType.MAX)),
    (pa.binary(), t.VarBinaryType(t.VarBinaryType.MAX)),
    (pa.large_binary(), t.VarBinaryType(t.VarBinaryType.MAX)),
    (pa.binary_view(), t.VarBinaryType(t.VarBinaryType.MAX)),
    (VARIANT_STRUCT, t.VariantType()),
    (pa.time32("s"), t.TimeType(0)),
    (pa.time32("ms"), t.TimeType(3)),
    (pa.time64("us"), t.TimeType(6)),
    (pa.time64("ns"), t.TimeType(9)),
)
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow_type(arrow_type: pa.DataType, *, nullable: bool = True) -> t.DataType:
    """The Paimon type that holds all values of an Arrow type. ROW fields inside it get id 0: give ids afterwards.

    Raises:
        UnsupportedError: No Paimon type holds it.
    """
    return _from_arrow(arrow_type).with_nullable(nullable)


def _from_arrow(arrow_type: pa.DataType) -> t.DataType:
    if pa.types.is_dictionary(arrow_type):
        return _from_arrow(arrow_type.value_type)
    for arrow, plain in _FROM_PLAIN:
        if arrow == arrow_type:
            return plain
    if pa.types.is_decimal(arrow_type):
        try:
            return t.DecimalType(arrow_type.precision, arrow_type.scale)
        except SchemaError as error:
            raise UnsupportedError(f"Arrow type {arrow_type} has no Paimon form: {error}") from None
    if pa.types.is_timestamp(arrow_type):
        precision = _PRECISIONS[arrow_type.unit]
        return t.TimestampType(precision) if arrow_type.tz is None else t.LocalZonedTimestampType(precision)
    if pa.types.is_fixed_size_binary(arrow_type):
        return t.BinaryType(arrow_type.byte_width)
    if pa.types.is_map(arrow_type):
        return t.MapType(_from_field(arrow_type.key_field), _from_field(arrow_type.item_field))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return t.ArrayType(_from_field(arrow_type.value_field))
    if pa.types.is_fixed_size_list(arrow_type):
        element = _from_field(arrow_type.value_field)
        try:
            return t.VectorType(element, arrow_type.list_size)
        except SchemaError:
            return t.ArrayType(element)
    if pa.types.is_struct(arrow_type):
        return t.RowType(tuple(t.DataField(0, f.name, _from_field(f)) for f in arrow_type))
    raise UnsupportedError(f"Arrow type {arrow_type} has no Paimon form.")


def _from_field(arrow_field: pa.Field) -> t.DataType:
    return from_arrow_type(arrow_field.type, nullable=arrow_field.nullable)


def from_arrow_schema(schema: pa.Schema) -> tuple[t.DataField, ...]:
    """Columns for an Arrow schema, all ids 0: `schema.create_schema` gives them.

    Raises:
        UnsupportedError: No Paimon type holds a column.
    """
    return tuple(t.DataField(0, f.name, _from_field(f)) for f in schema)
