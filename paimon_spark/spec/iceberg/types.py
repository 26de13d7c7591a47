"""Columns of a Paimon table as a schema of Iceberg, and single values as Iceberg's bytes.

Must equal Java's ``IcebergSchema``, ``IcebergDataField`` and ``IcebergConversions``; the ids of list elements, map keys
and map values are those that the Parquet files have.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Context
from typing import Any, Final

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.special_fields import element_id, key_id

Json = dict[str, Any]

_NAMES: Final[dict[type[t.DataType], str]] = {
    t.BooleanType: "boolean",
    t.TinyIntType: "int",
    t.SmallIntType: "int",
    t.IntType: "int",
    t.BigIntType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.DateType: "date",
    t.CharType: "string",
    t.VarCharType: "string",
    t.BinaryType: "binary",
    t.VarBinaryType: "binary",
}
_PACKED: Final[dict[type[t.DataType], str]] = {
    t.TinyIntType: "<i",
    t.SmallIntType: "<i",
    t.IntType: "<i",
    t.DateType: "<i",
    t.BigIntType: "<q",
    t.TimeType: "<q",
    t.TimestampType: "<q",
    t.LocalZonedTimestampType: "<q",
    t.FloatType: "<f",
    t.DoubleType: "<d",
}
_EXACT: Final = Context(prec=80)
_LEAST_PRECISION: Final = 3
_MOST_PRECISION: Final = 6


def iceberg_schema(schema_id: int, fields: Sequence[t.DataField]) -> Json:
    """The schema of a table as Iceberg's table metadata holds it.

    Raises:
        UnsupportedError: a column has a type that Iceberg readers would not read as Paimon does.
    """
    return {"type": "struct", "schema-id": schema_id, "fields": [_field(field, field.name) for field in fields]}


def highest_field_id(schema: Json) -> int:
    """The highest id of the columns (Java: ``IcebergSchema.highestFieldId``), 0 without any."""
    return max((int(field["id"]) for field in schema["fields"]), default=0)


def _field(field: t.DataField, path: str) -> Json:
    found: Json = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field.type, field.id, 0, path),
    }
    return found if field.description is None else {**found, "doc": field.description}


def _type(data_type: t.DataType, field_id: int, depth: int, path: str) -> str | Json:
    name = _NAMES.get(type(data_type))
    if name is not None:
        return name
    match data_type:
        case t.DecimalType():
            return f"decimal({data_type.precision}, {data_type.scale})"
        case t.TimeType() if data_type.precision <= _LEAST_PRECISION:
            return "time"
        case t.TimestampType() if _LEAST_PRECISION <= data_type.precision <= _MOST_PRECISION:
            return "timestamp"
        case t.LocalZonedTimestampType() if _LEAST_PRECISION <= data_type.precision <= _MOST_PRECISION:
            return "timestamptz"
        case t.ArrayType():
            element = data_type.element
            return {
                "type": "list",
                "element-id": element_id(field_id, depth + 1),
                "element-required": not element.nullable,
                "element": _type(element, field_id, depth + 1, f"{path}.element"),
            }
        case t.MapType() | t.MultisetType():
            counted = isinstance(data_type, t.MultisetType)
            key = data_type.element if isinstance(data_type, t.MultisetType) else data_type.key
            value = t.IntType(nullable=False) if isinstance(data_type, t.MultisetType) else data_type.value
            return {
                "type": "map",
                "key-id": key_id(field_id, depth + 1),
                "key": _type(key, field_id, depth + 1, f"{path}.key"),
                "value-id": element_id(field_id, depth + 1),
                "value-required": counted or not value.nullable,
                "value": _type(value, field_id, depth + 1, f"{path}.value"),
            }
        case t.RowType():
            return {"type": "struct", "fields": [_field(field, f"{path}.{field.name}") for field in data_type.fields]}
    raise UnsupportedError(_why_not(data_type, path))


def _why_not(data_type: t.DataType, path: str) -> str:
    reason = "Iceberg has no such type here"
    if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType):
        reason = "Paimon Iceberg compatibility only support timestamp type with precision from 3 to 6"
    elif isinstance(data_type, t.TimeType):
        reason = "Paimon Iceberg compatibility only support time type with precision from 0 to 3"
    return (
        f"Column '{path}' has the type {data_type.sql()}, and option 'metadata.iceberg.storage' is set: {reason}. Set "
        "the option to 'disabled', or give the column another type."
    )


def has_bounds(data_type: t.DataType) -> bool:
    """Whether minima and maxima of a column can be shown to Iceberg's readers."""
    return type(data_type) in _NAMES or isinstance(
        data_type, t.DecimalType | t.TimeType | t.TimestampType | t.LocalZonedTimestampType
    )


def plain_values(column: pa.Array, data_type: t.DataType) -> list[Any]:
    """The values of an Arrow column as `value_bytes` takes them: times and dates are integers."""
    match data_type:
        case t.DateType():
            column = column.cast(pa.int32())
        case t.TimeType():
            column = column.cast(pa.time64("us")).cast(pa.int64())
        case t.TimestampType() | t.LocalZonedTimestampType():
            zone = getattr(column.type, "tz", None)
            column = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return list(column.to_pylist())


def is_nan(value: Any) -> bool:
    """Whether a value is a number that no bound may be."""
    return isinstance(value, float) and math.isnan(value)


def value_bytes(value: Any, data_type: t.DataType) -> bytes:
    """A value as the bytes of bounds (Iceberg: "Binary single-value serialization")."""
    packed = _PACKED.get(type(data_type))
    if packed is not None:
        return struct.pack(packed, value)
    match data_type:
        case t.BooleanType():
            return b"\x01" if value else b"\x00"
        case t.DecimalType():
            unscaled = int(value.scaleb(data_type.scale, _EXACT))
            return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


def value_from_bytes(data: bytes, data_type: t.DataType) -> Any:
    """A value of `value_bytes` as partition values are: decimals stay bytes.

    Raises:
        ValueError: the bytes are of no such value.
    """
    packed = _PACKED.get(type(data_type))
    if packed is not None:
        try:
            return struct.unpack(packed, data)[0]
        except struct.error as error:
            raise ValueError(str(error)) from error
    match data_type:
        case t.BooleanType():
            return data != b"\x00"
        case t.CharType() | t.VarCharType():
            return data.decode()
    return data
