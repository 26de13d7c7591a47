"""DEFAULT clauses as the texts that schemas keep. Called on the driver while a table is made or altered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import DataError, SchemaError, UnsupportedError
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jvm import compat
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.casts import cast_array, cast_default

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_NESTED = (t.ArrayType, t.MapType, t.RowType)
_CONSTRUCTORS = ("array", "map", "struct", "named_struct")
_STRING = t.VarCharType(length=t.VarCharType.MAX)


def stored_default(gateway: Gateway, sql: str, field: t.DataField) -> str | None:
    """The text that Paimon keeps for a column's default; None for NULL.

    As in the official connector it is the literal as it was written, as far as that is what the text means; a typed
    literal (``DATE'2024-01-31'``) becomes its text, and so does a nested value that Java would read differently.

    Args:
        gateway: to the JVM.
        sql: the expression of the statement.
        field: the column.

    Raises:
        UnsupportedError: the default is no literal; such as ``current_date()`` mean another value in each INSERT. Or no
            text means the value (elements with quotes, commas or brackets in them).
    """
    parser = compat.SQL_EXPRESSIONS.of(gateway)
    parsed = parser.parseExpression(sql)
    if isinstance(field.type, _NESTED):
        return _nested(gateway, sql, parsed, field)
    if not (parsed.resolved() and parsed.foldable() and parsed.deterministic()):
        raise UnsupportedError(f"the default of column {field.name} must be a literal, not {sql}")
    return _literal(gateway, sql, parsed)


def _literal(gateway: Gateway, sql: str, parsed: JavaObject) -> str | None:
    zone = compat.SQL_CONF.of(gateway).get().sessionLocalTimeZone()
    text_type = gateway.jvm.org.apache.spark.sql.types.DataType.fromDDL("STRING")
    cast = compat.CAST(
        gateway, parsed, text_type, gateway.jvm.scala.Option.apply(zone), compat.EVAL_MODE.of(gateway).ANSI()
    )
    value = cast.eval(None)
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value.toString())
    return sql if sql in (text, f"'{text}'") else text


def _nested(gateway: Gateway, sql: str, parsed: JavaObject, field: t.DataField) -> str | None:
    if not _is_constant(gateway, parsed):
        raise UnsupportedError(
            f"the default of column {field.name} must be an array, a map or a struct of literals, not {sql}"
        )
    session = compat.CLASSIC_SESSION.of(gateway).active()
    wanted = gateway.data_type(to_spark_type(field.type).json()).sql()
    rows = DataFrame(
        session.sql(f"SELECT CAST({sql} AS {wanted}) AS v"), SparkSession(gateway.context, session)
    ).collect()
    if rows[0][0] is None:
        return None
    arrow_type = to_arrow_type(field.type)
    value = pa.scalar(_plain(rows[0][0], field.type), arrow_type)
    bracketed = cast_array(pa.array([value.as_py()], arrow_type), field.type, _STRING)[0].as_py()
    for text in (sql, _called(value.as_py(), field.type), bracketed):
        try:
            if cast_default(text, field.type).as_py() == value.as_py():
                return str(text)
        except (DataError, SchemaError):
            continue
    raise UnsupportedError(
        f"the default {sql} of column {field.name} cannot be kept: schemas keep a text, in which elements cannot hold "
        "commas, brackets, quotes, or blanks at their ends"
    )


def _is_constant(gateway: Gateway, node: JavaObject) -> bool:
    if node.resolved():
        return bool(node.foldable() and node.deterministic())
    children = gateway.jvm.scala.jdk.javaapi.CollectionConverters.asJava(node.children())
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedFunction":
        if node.nameParts().mkString(".").lower() not in _CONSTRUCTORS:
            return False
    elif kind not in ("Cast", "UnaryMinus", "UnaryPositive", "CreateNamedStruct"):
        return False
    return all(_is_constant(gateway, child) for child in children)


def _plain(value: Any, data_type: t.DataType) -> Any:
    """A value of Spark's as pyarrow takes it."""
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
    """A value as the function call that makes it, texts without quotes."""
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
