"""Defaults of columns: the text that a schema keeps for a DEFAULT clause, and the SQL that a kept text means.

Spark fills columns that an INSERT leaves out, and DEFAULT in VALUES, with ``CURRENT_DEFAULT`` of a column's metadata.
Schemas keep defaults of arrays, maps and structs as texts of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from paimon_spark.errors import DataError, SchemaError, SchemaMismatchError, UnsupportedError
from paimon_spark.spark.columns.types import to_spark_struct, to_spark_type
from paimon_spark.spark.statements.cursor import Kind, tokenize
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.casts import cast_array, cast_default
from paimon_spark.spec.sql_text import spark_literal
from paimon_spark.write.rows import default_scalar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NESTED = (t.ArrayType, t.MapType, t.RowType)
CONSTRUCTORS = ("array", "map", "struct", "named_struct")
"""Functions of which the default of a nested column may be made."""
_STRING = t.VarCharType(length=t.VarCharType.MAX)


def nested_default(sql: str, value: Any, field: t.DataField) -> str | None:
    """Return the text that Paimon keeps for the default of a nested column; None for NULL.

    Args:
        sql: the expression of the statement.
        value: what Spark makes of it, of the column's type.
        field: the column.

    Raises:
        UnsupportedError: no text means the value (elements with quotes, commas or brackets in them).
    """
    if value is None:
        return None
    arrow_type = to_arrow_type(field.type)
    scalar = pa.scalar(_plain(value, field.type), arrow_type)
    bracketed = cast_array(pa.array([scalar.as_py()], arrow_type), field.type, _STRING)[0].as_py()
    for text in (sql, _called(scalar.as_py(), field.type), bracketed):
        try:
            if cast_default(text, field.type).as_py() == scalar.as_py():
                return str(text)
        except (DataError, SchemaError):
            continue
    raise UnsupportedError(
        f"the default {sql} of column {field.name} cannot be kept: schemas keep a text, in which elements cannot hold "
        "commas, brackets, quotes, or blanks at their ends"
    )


def _plain(value: Any, data_type: t.DataType) -> Any:
    """Return a value of Spark as pyarrow takes it."""
    if value is None:
        return None
    match data_type:
        case t.ArrayType():
            return [_plain(item, data_type.element) for item in value]
        case t.MapType():
            return [(_plain(key, data_type.key), _plain(item, data_type.value)) for key, item in value.items()]
        case t.RowType():
            return {field.name: _plain(item, field.type) for field, item in zip(data_type.fields, value, strict=True)}
    return value


def _called(value: Any, data_type: t.DataType) -> str:
    """Return a value as the function call that makes it; strings have no quotes."""
    if value is None:
        return "null"
    match data_type:
        case t.ArrayType():
            return f"array({', '.join(_called(item, data_type.element) for item in value)})"
        case t.MapType():
            pairs = [part for k, v in value for part in (_called(k, data_type.key), _called(v, data_type.value))]
            return f"map({', '.join(pairs)})"
        case t.RowType():
            return f"struct({', '.join(_called(value[f.name], f.type) for f in data_type.fields)})"
    return str(cast_array(pa.array([value], to_arrow_type(data_type)), data_type, _STRING)[0].as_py())


_CONSTANTS = frozenset(("true", "false", "null"))
_OF_TEXTS = ("concat", "char")
"""Functions by which `spark_literal` says quotes and backslashes, so that SHOW CREATE TABLE can be run."""
_OPERATORS = frozenset(("and", "or", "not", "div", "cast", "as", "interval"))
_TYPES = frozenset(
    (
        *("boolean", "tinyint", "smallint", "int", "integer", "bigint", "float", "real", "double", "decimal"),
        *("string", "char", "varchar", "binary", "date", "timestamp", "timestamp_ntz", "timestamp_ltz"),
        *("array", "map", "struct"),
    )
)
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
    """Return a column's default as SQL; None without a default, or where its text is no value of the column."""
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
    """Return a value as SQL of exactly its type: Spark does not cast nested defaults."""
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
                (spark_literal(field.name), _expression(value[field.name], field.type)) for field in data_type.fields
            ]
            return f"named_struct({', '.join(part for pair in parts for part in pair)})"
        case t.TinyIntType() | t.SmallIntType() | t.FloatType() | t.DoubleType():
            return f"CAST('{value}' AS {data_type.with_nullable(True).sql()})"
    return _time_or_literal(value, data_type)


def _time_or_literal(value: Any, data_type: t.DataType) -> str:
    if isinstance(data_type, t.TimeType):
        return str(value.hour * 3_600_000 + value.minute * 60_000 + value.second * 1000 + value.microsecond // 1000)
    return spark_literal(value)


def inserted_default(field: t.DataField) -> str:
    """Return what DEFAULT means for a column in the rows of an INSERT, as SQL.

    Raises:
        SchemaMismatchError: the text that the schema keeps is no value of the column.
    """
    if field.default_value is None:
        return "NULL"
    default_scalar(field)
    return default_sql(field) or "NULL"


def stored_default(spark: SparkSession, sql: str, field: t.DataField) -> str | None:
    """Return the text that Paimon keeps for a DEFAULT clause; None for NULL.

    As in the official connector it is the literal as it was written, as far as that is what the text means; a typed
    literal (``DATE'2024-01-31'``) becomes its text, and so does a nested value that Java would read differently.

    Raises:
        UnsupportedError: it is not made of literals; ``current_date()`` has another value in each INSERT. Or no text
            means the value (elements with quotes, commas or brackets in them).
    """
    if isinstance(field.type, NESTED):
        if not _is_made_of_literals(sql, CONSTRUCTORS):
            raise UnsupportedError(
                f"the default of column {field.name} must be an array, a map or a struct of literals, not {sql}"
            )
        return nested_default(sql, _value_of(spark, sql, to_spark_type(field.type)), field)
    if not _is_made_of_literals(sql):
        raise UnsupportedError(
            f"Unsupported default value `{sql}`: the default of column {field.name} must be a literal"
        )
    text: str | None = _value_of(spark, sql, StringType())
    return sql if text is not None and sql in (text, f"'{text}'") else text


def _value_of(spark: SparkSession, sql: str, data_type: Any) -> Any:
    """Evaluate an expression without columns by Spark, without a job."""
    return spark.sql("SELECT 1").select(sf.expr(f"({sql})").cast(data_type)).collect()[0][0]


def _is_made_of_literals(sql: str, functions: Iterable[str] = ()) -> bool:
    """Return whether an expression has literals, operators, casts and the named functions only."""
    tokens = tokenize(sql) or []
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.kind is Kind.QUOTED or token.is_sign(";"):
            return False
        if token.kind is not Kind.WORD:
            continue
        word = token.text.lower()
        calls = following is not None and following.is_sign("(")
        if calls and word not in ("cast", *_OF_TEXTS, *_TYPES - {"array", "map", "struct"}, *functions):
            return False
        is_typed_literal = following is not None and following.kind is Kind.STRING
        if not is_typed_literal and word not in _CONSTANTS | _OPERATORS | _TYPES | {*functions, *_OF_TEXTS}:
            return False
    return bool(tokens)
