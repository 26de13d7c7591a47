"""The form that the rows of a save need before a shuffle: keys that the table stores as equal must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.source.read_columns import find_field
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_WHOLE_NUMBERS = (spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType())


def shuffle_columns(schema: TableSchema, struct: spark.StructType) -> list[str] | None:
    """Return the columns of the rows as SQL; those by which rows are shuffled are cast as the table stores them.

    Equal keys must be equal when Spark shuffles: CHAR(n) is padded, as by SQL INSERT, and numbers are widened.

    Returns:
        None where the rows are so already.
    """
    keys = _shuffle_keys(schema)
    shown: list[str] = []
    changed = False
    for column in struct.fields:
        name = quoted_name(column.name)
        field = _matching(schema.fields, column.name)
        text = name
        if field is not None and isinstance(field.type, CharType) and isinstance(column.dataType, spark.StringType):
            length = field.type.length
            text = f"CASE WHEN char_length({name}) < {length} THEN rpad({name}, {length}, ' ') ELSE {name} END"
        elif field is not None and field.name in keys and _widens(column.dataType, to_spark_type(field.type)):
            text = f"CAST({name} AS {to_spark_type(field.type).simpleString()})"
        alias = field.name if field is not None and field.name in keys else column.name
        changed |= text != name or alias != column.name
        shown.append(text if text == quoted_name(alias) else f"{text} AS {quoted_name(alias)}")
    return shown if changed else None


def with_shuffle_columns(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """Return rows with the columns that `shuffle_columns` tells."""
    columns = shuffle_columns(schema, rows.schema)
    return rows if columns is None else rows.selectExpr(*columns)


def has_keys_of(schema: TableSchema, struct: spark.StructType) -> bool:
    """Whether the rows have the columns by which they are assigned, in the types of the table."""
    types = {column.name: column.dataType for column in struct.fields}
    known = {field.name: field.type for field in schema.fields}
    return all(types.get(name) == to_spark_type(known[name]) for name in _shuffle_keys(schema))


def _shuffle_keys(schema: TableSchema) -> set[str]:
    return {*schema.partition_keys, *schema.primary_keys, *schema.bucket_keys}


def _matching(fields: Sequence[DataField], name: str) -> DataField | None:
    try:
        return find_field(fields, name)
    except SchemaMismatchError:  # our writer says so
        return None


def _widens(given: spark.DataType, wanted: spark.DataType) -> bool:
    if given in _WHOLE_NUMBERS and wanted in _WHOLE_NUMBERS:
        return _WHOLE_NUMBERS.index(given) < _WHOLE_NUMBERS.index(wanted)
    return False
