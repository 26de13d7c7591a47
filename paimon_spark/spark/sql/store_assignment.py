"""Spark's ANSI store assignment: how the columns of a query are cast to those of the target table.

A value that the column's type cannot hold is an error, whatever ``spark.sql.ansi.enabled`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql import types as t

from paimon_spark.spark.sql.warehouses import analysis_error, quoted
from paimon_spark.spec.filter_text import literal_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DATETIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)
_NOT_ATOMIC = (t.ArrayType, t.MapType, t.StructType, t.VariantType, t.NullType)


def assigned(rows: DataFrame, fields: Sequence[t.StructField], table: Sequence[str], *, ansi: bool) -> list[Column]:
    """Return the columns of rows, named 0, 1, 2, …, as columns of the table, by position.

    Args:
        rows: the query, with its own names.
        fields: the table's columns.
        table: its name, for messages.
        ansi: whether the session's casts fail where a value is lost.

    Raises:
        AnalysisException: a column cannot be stored in one of that type.
    """
    for field, source in zip(fields, rows.schema.fields, strict=True):
        if not can_assign(source.dataType, field.dataType):
            raise analysis_error(
                "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
                f"Cannot write incompatible data for the table {quoted(table)}: Cannot safely cast "
                f'{quoted([field.name])} "{source.dataType.simpleString().upper()}" to '
                f'"{field.dataType.simpleString().upper()}".',
            )
    pairs = enumerate(zip(fields, rows.schema.fields, strict=True))
    return [
        _cast(sf.col(str(number)), source.dataType, field, ansi=ansi).alias(field.name)
        for number, (field, source) in pairs
    ]


def assigned_literal(expression: str, field: t.StructField, *, ansi: bool) -> Column:
    """Return the value of a PARTITION clause as a column."""
    return _cast(sf.expr(expression), None, field, ansi=ansi).alias(field.name)


def can_assign(source: t.DataType, target: t.DataType) -> bool:
    """Whether Spark's ANSI store assignment takes a value of one type for a column of another."""
    if source == target or isinstance(source, t.NullType):
        return True
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return can_assign(source.elementType, target.elementType)
        case t.MapType(), t.MapType():
            return can_assign(source.keyType, target.keyType) and can_assign(source.valueType, target.valueType)
        case t.StructType(), t.StructType():
            pairs = zip(source.fields, target.fields, strict=False)
            same = len(source.fields) == len(target.fields)
            return same and all(can_assign(a.dataType, b.dataType) for a, b in pairs)
        case t.NumericType(), t.NumericType():
            return True
        case _, t.StringType():
            return not isinstance(source, _NOT_ATOMIC)
    return isinstance(source, _DATETIMES) and isinstance(target, _DATETIMES)


def _cast(column: Column, source: t.DataType | None, field: t.StructField, *, ansi: bool) -> Column:
    if source == field.dataType:
        return column
    if ansi:
        return column.cast(field.dataType)
    message = f"[CAST_OVERFLOW_IN_TABLE_INSERT] A value of column {field.name} cannot be stored as "
    message += f"{field.dataType.simpleString().upper()}."
    tried = column.try_cast(field.dataType)
    failed = column.isNotNull() & tried.isNull()
    return sf.when(failed, sf.expr(f"raise_error({literal_text(message)})")).otherwise(tried)
