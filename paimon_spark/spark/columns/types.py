"""Paimon types as Spark types and back, mapped as the official Spark connector maps them (``SparkTypeUtils``); CHAR(n).

The columns of a load or save as other engines than Spark give them to a Python data source.

CHAR(n) columns are padded with blanks to n characters where they are read, as by the official connector. Files hold
what was written, padded or not (Java and Flink do not pad). Spark pads where a column's metadata says CHAR, and the
literals that the column is compared with. Statements that change rows compare padded values, and write the values as
they are stored: a key that is padded on the way would be another key.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spec import data_types as paimon
from paimon_spark.spec.data_types import CharType
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.data_types import DataField

_ATOMIC: dict[type[paimon.DataType], spark.DataType] = {
    paimon.BooleanType: spark.BooleanType(),
    paimon.TinyIntType: spark.ByteType(),
    paimon.SmallIntType: spark.ShortType(),
    paimon.IntType: spark.IntegerType(),
    paimon.BigIntType: spark.LongType(),
    paimon.FloatType: spark.FloatType(),
    paimon.DoubleType: spark.DoubleType(),
    paimon.CharType: spark.StringType(),  # never padded, so Spark must not know that it is CHAR
    paimon.VarCharType: spark.StringType(),
    paimon.BinaryType: spark.BinaryType(),
    paimon.VarBinaryType: spark.BinaryType(),
    paimon.BlobType: spark.BinaryType(),
    paimon.DateType: spark.DateType(),
    paimon.TimeType: spark.IntegerType(),  # milliseconds of the day
    paimon.TimestampType: spark.TimestampNTZType(),
    paimon.LocalZonedTimestampType: spark.TimestampType(),
    paimon.VariantType: spark.VariantType(),
}

_FROM_SPARK: dict[type[spark.DataType], paimon.DataType] = {
    spark.BooleanType: paimon.BooleanType(),
    spark.ByteType: paimon.TinyIntType(),
    spark.ShortType: paimon.SmallIntType(),
    spark.IntegerType: paimon.IntType(),
    spark.LongType: paimon.BigIntType(),
    spark.FloatType: paimon.FloatType(),
    spark.DoubleType: paimon.DoubleType(),
    spark.StringType: paimon.VarCharType(length=paimon.VarCharType.MAX),
    spark.BinaryType: paimon.VarBinaryType(length=paimon.VarBinaryType.MAX),
    spark.DateType: paimon.DateType(),
    spark.TimestampNTZType: paimon.TimestampType(precision=6),
    spark.TimestampType: paimon.LocalZonedTimestampType(precision=6),
    spark.VariantType: paimon.VariantType(),
}

CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps CHAR(n) and VARCHAR(n) of a column it shows as STRING
_BINARY_ORDER = "UTF8_BINARY"
_CHAR_PATTERN = re.compile(r"(char|varchar)\((\d+)\)")


def to_spark_type(data_type: paimon.DataType) -> spark.DataType:
    """The Spark type that shows a Paimon type; its nullability belongs to the field and is not kept.

    Raises:
        UnsupportedError: Spark has no type for it (GEOMETRY, GEOGRAPHY).
    """
    if isinstance(data_type, paimon.DecimalType):
        return spark.DecimalType(data_type.precision, data_type.scale)
    if isinstance(data_type, paimon.ArrayType | paimon.VectorType):
        return spark.ArrayType(to_spark_type(data_type.element), data_type.element.nullable)
    if isinstance(data_type, paimon.MapType):
        return spark.MapType(to_spark_type(data_type.key), to_spark_type(data_type.value), data_type.value.nullable)
    if isinstance(data_type, paimon.MultisetType):
        return spark.MapType(to_spark_type(data_type.element), spark.IntegerType(), valueContainsNull=True)
    if isinstance(data_type, paimon.RowType):
        return to_spark_struct(data_type.fields)
    known = _ATOMIC.get(type(data_type))
    if known is None:
        raise UnsupportedError(
            f"columns of type {data_type.sql()} cannot be read by Spark: leave them out by `columns`"
        )
    return known


def to_spark_struct(fields: Iterable[paimon.DataField]) -> spark.StructType:
    """The Spark schema of columns, with their comments."""
    return spark.StructType(
        [
            spark.StructField(
                field.name,
                to_spark_type(field.type),
                field.type.nullable,
                {"comment": field.description} if field.description else None,
            )
            for field in fields
        ]
    )


def from_spark_type(data_type: spark.DataType, *, nullable: bool, where: str) -> paimon.DataType:
    """The Paimon type that a column of a Spark type is created with (timestamps get precision 6).

    Nested rows get field ids of -1: creating the table numbers them.

    Raises:
        UnsupportedError: Paimon has no such type (intervals, NullType, user-defined types); `where` names the column.
    """
    found: paimon.DataType | None
    if isinstance(data_type, spark.DecimalType):
        found = paimon.DecimalType(precision=data_type.precision, scale=data_type.scale)
    elif isinstance(data_type, spark.CharType):
        found = paimon.CharType(length=data_type.length)
    elif isinstance(data_type, spark.VarcharType):
        found = paimon.VarCharType(length=data_type.length)
    elif isinstance(data_type, spark.ArrayType):
        element = from_spark_type(data_type.elementType, nullable=data_type.containsNull, where=f"{where}.element")
        found = paimon.ArrayType(element=element)
    elif isinstance(data_type, spark.MapType):
        found = paimon.MapType(
            key=from_spark_type(data_type.keyType, nullable=False, where=f"{where}.key"),
            value=from_spark_type(data_type.valueType, nullable=data_type.valueContainsNull, where=f"{where}.value"),
        )
    elif isinstance(data_type, spark.StructType):
        found = paimon.RowType(fields=tuple(from_spark_field(field, where=f"{where}.") for field in data_type.fields))
    else:
        found = _FROM_SPARK.get(type(data_type))
    if isinstance(data_type, spark.StringType) and getattr(data_type, "collation", _BINARY_ORDER) != _BINARY_ORDER:
        raise UnsupportedError(
            f"column {where} has the collation {data_type.collation}, which Paimon does not keep: leave COLLATE out of "
            "the column, and name it in queries"
        )
    if found is None:
        raise UnsupportedError(
            f"Not a supported type: {data_type.simpleString()}. This is the type of column {where} in Spark, "
            "which Paimon does not have"
        )
    return found.with_nullable(nullable)


def from_spark_field(field: spark.StructField, *, where: str = "") -> paimon.DataField:
    """A column to create: its type, nullability and comment; field id -1."""
    data_type = from_spark_type(field.dataType, nullable=field.nullable, where=f"{where}{field.name}")
    text = (field.metadata or {}).get(CHAR_METADATA)
    match = _CHAR_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match and isinstance(field.dataType, spark.StringType):
        kind = paimon.CharType if match[1] == "char" else paimon.VarCharType
        data_type = kind(length=int(match[2]), nullable=field.nullable)
    comment = (field.metadata or {}).get("comment")
    return paimon.DataField(-1, field.name, data_type, description=comment)


def from_spark_struct(schema: spark.StructType) -> tuple[paimon.DataField, ...]:
    """The columns of a table created for rows of a Spark schema.

    Raises:
        SchemaError: two columns differ by case only, or not at all.
        UnsupportedError: a column has a type that Paimon does not have.
    """
    lowered = [name.lower() for name in schema.names]
    twice = sorted({name for name in schema.names if lowered.count(name.lower()) > 1})
    if twice:
        raise SchemaError(f"a table cannot have two columns of one name (case does not count): {', '.join(twice)}")
    return tuple(from_spark_field(field) for field in schema.fields)


def as_nullable(data_type: spark.DataType) -> spark.DataType:
    """The same type with all that is inside it nullable."""
    if isinstance(data_type, spark.StructType):
        fields = [spark.StructField(f.name, as_nullable(f.dataType), True, f.metadata) for f in data_type.fields]
        return spark.StructType(fields)
    if isinstance(data_type, spark.ArrayType):
        return spark.ArrayType(as_nullable(data_type.elementType), containsNull=True)
    if isinstance(data_type, spark.MapType):
        key, value = as_nullable(data_type.keyType), as_nullable(data_type.valueType)
        return spark.MapType(key, value, valueContainsNull=True)
    return data_type


def saved_columns(schema: spark.StructType) -> tuple[paimon.DataField, ...]:
    """The columns of a table that a save creates: all nullable (keys become NOT NULL later), as in Spark's own saves.

    Spark hands over the optimised query's schema, where a column is NOT NULL because this save's rows hold no null; the
    next save's rows may. `PaimonTable.create` and CREATE TABLE keep NOT NULL.

    Raises:
        SchemaError, UnsupportedError: as `from_spark_struct`.
    """
    nullable = as_nullable(schema)
    assert isinstance(nullable, spark.StructType)
    return from_spark_struct(nullable)


def spark_arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches of these rows, on every PySpark 4 version."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")  # 4.2 and later
    return to_arrow_schema(schema)


_THROUGH_ARROW = (
    spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.FloatType,
    spark.DoubleType, spark.DecimalType, spark.BinaryType, spark.DateType, spark.TimestampType, spark.TimestampNTZType,
)  # fmt: skip


def comes_through_arrow(data_type: spark.DataType | None) -> bool:
    """Whether a function of Arrow batches can hand on values of a type as they are, on every Spark."""
    match data_type:
        case spark.ArrayType():
            return comes_through_arrow(data_type.elementType)
        case spark.MapType():
            return comes_through_arrow(data_type.keyType) and comes_through_arrow(data_type.valueType)
        case spark.StructType():
            return all(comes_through_arrow(field.dataType) for field in data_type.fields)
        case spark.StringType():
            return data_type == spark.StringType()
    return isinstance(data_type, _THROUGH_ARROW)


def default_size(data_type: spark.DataType) -> int:
    """Bytes of a value, as Spark's ``defaultSize`` says."""
    match data_type:
        case spark.BooleanType() | spark.ByteType():
            return 1
        case spark.ShortType():
            return 2
        case spark.IntegerType() | spark.FloatType() | spark.DateType():
            return 4
        case spark.LongType() | spark.DoubleType() | spark.TimestampType() | spark.TimestampNTZType():
            return 8
        case spark.DecimalType():
            return 8 if data_type.precision <= 18 else 16
        case spark.BinaryType():
            return 100
        case spark.StructType():
            return sum(default_size(nested.dataType) for nested in data_type.fields)
    return 20


def spark_struct(schema: StructType | pa.Schema) -> StructType:
    """Return the columns as Spark has them; Sail gives them as an Arrow schema."""
    if not isinstance(schema, pa.Schema):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    plain: Any = pa.schema([field.with_type(_plain(field.type)) for field in schema])
    return from_arrow_schema(plain, prefer_timestamp_ntz=True)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without what Spark's own conversion does not know: views, and dictionaries."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    return kind


_STORED = "_paimon_stored"
"""A struct of the CHAR columns as the files hold them; no column of a table has a name that begins so."""


def padded_by_spark(struct: StructType, fields: Iterable[DataField]) -> StructType:
    """The columns with metadata by which Spark pads those of type CHAR(n); nested ones stay as they are stored."""
    lengths = _lengths(fields)
    return StructType(
        [
            StructField(
                column.name,
                column.dataType,
                column.nullable,
                {**(column.metadata or {}), **_char(lengths[column.name])},
            )
            if column.name in lengths
            else column
            for column in struct.fields
        ]
    )


def is_char(column: StructField) -> bool:
    """Whether a column of Spark's says that it is CHAR(n)."""
    return str((column.metadata or {}).get(CHAR_METADATA, "")).startswith("char(")


def padded(rows: DataFrame, fields: Iterable[DataField]) -> DataFrame:
    """Rows as stored, with their CHAR columns padded, and behind all columns what `stored` needs."""
    lengths = {name: length for name, length in _lengths(fields).items() if name in rows.columns}
    if not lengths:
        return rows
    plain = [sf.col(quoted_name(name)) for name in rows.columns]
    shown = [
        pad(column, lengths[name]).alias(name, metadata=_char(lengths[name])) if name in lengths else column
        for name, column in zip(rows.columns, plain, strict=True)
    ]
    return rows.select(*shown, sf.struct(*(sf.col(quoted_name(name)) for name in lengths)).alias(_STORED))


def stored(rows: DataFrame, names: Sequence[str]) -> list[Column]:
    """Columns of rows as the files hold them: of those of `padded` the values before padding."""
    known = rows.schema[_STORED].dataType if _STORED in rows.columns else StructType()
    assert isinstance(known, StructType)
    return [
        sf.col(_STORED).getField(name).alias(name) if name in known.names else sf.col(quoted_name(name))
        for name in names
    ]


def select_stored(rows: DataFrame, names: Sequence[str], *more: Column) -> DataFrame:
    """Return rows with the columns `stored`, and more: by one call of the JVM a column where nothing was padded."""
    if more or _STORED in rows.columns:
        return rows.select(*stored(rows, names), *more)
    return rows.selectExpr(*map(quoted_name, names))


def pad(column: Column, length: int) -> Column:
    """A text with blanks up to a length in characters; longer ones stay."""
    return sf.when(sf.char_length(column) < length, sf.rpad(column, length, " ")).otherwise(column)


def _char(length: int) -> dict[str, str]:
    """Metadata by which Spark pads the literals that a column is compared with."""
    return {CHAR_METADATA: f"char({length})"}


def _lengths(fields: Iterable[DataField]) -> dict[str, int]:
    return {field.name: field.type.length for field in fields if isinstance(field.type, CharType)}
