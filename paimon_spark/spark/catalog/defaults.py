"""Defaults of columns as Spark's SQL: Paimon keeps a text, Spark an expression in the metadata of a column.

Spark fills columns that an INSERT leaves out, and DEFAULT in VALUES, with ``CURRENT_DEFAULT``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spec import data_types as t
from paimon_spark.spec.filter_text import literal_text
from paimon_spark.write.rows import default_scalar

_KEYS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def struct_with_defaults(fields: Iterable[t.DataField]) -> StructType:
    """The Spark schema of a table's columns, with comments and defaults."""
    fields = tuple(fields)
    struct = to_spark_struct(fields)
    return StructType([_with_default(*pair) for pair in zip(struct.fields, fields, strict=True)])


def _with_default(column: StructField, field: t.DataField) -> StructField:
    sql = default_sql(field)
    if sql is None:
        return column
    metadata = {**(column.metadata or {}), **dict.fromkeys(_KEYS, sql)}
    return StructField(column.name, column.dataType, column.nullable, metadata)


def default_sql(field: t.DataField) -> str | None:
    """A column's default as an SQL expression; None where there is none, or none that can be read."""
    if field.default_value is None:
        return None
    try:
        value = default_scalar(field).as_py()
    except SchemaMismatchError:
        return None  # writes say what is wrong with it; reads and DESCRIBE must not fail
    if isinstance(field.type, t.ArrayType | t.VectorType | t.MapType | t.RowType):
        return _expression(value, field.type)
    return _time_or_literal(value, field.type)


def _expression(value: Any, data_type: t.DataType) -> str:
    """A nested value, or one within; of exactly its type, as Spark casts no nested defaults."""
    if value is None:
        return "NULL"
    match data_type:
        case t.ArrayType() | t.VectorType():
            return f"array({', '.join(_expression(item, data_type.element) for item in value)})"
        case t.MapType():
            pairs = [(_expression(k, data_type.key), _expression(v, data_type.value)) for k, v in value]
            return f"map({', '.join(part for pair in pairs for part in pair)})"
        case t.RowType():
            parts = [
                (literal_text(field.name), _expression(value[field.name], field.type)) for field in data_type.fields
            ]
            return f"named_struct({', '.join(part for pair in parts for part in pair)})"
        case t.TinyIntType() | t.SmallIntType() | t.FloatType() | t.DoubleType():
            return f"CAST('{value}' AS {data_type.with_nullable(True).sql()})"
    return _time_or_literal(value, data_type)


def _time_or_literal(value: Any, data_type: t.DataType) -> str:
    if isinstance(data_type, t.TimeType):
        return str(value.hour * 3_600_000 + value.minute * 60_000 + value.second * 1000 + value.microsecond // 1000)
    return literal_text(value)
