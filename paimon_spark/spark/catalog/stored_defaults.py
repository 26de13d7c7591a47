"""DEFAULT clauses as the texts that schemas keep. Called on the driver while a table is made or altered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.plan_tables import java_list
from paimon_spark.spark.sql.stored_defaults import CONSTRUCTORS, NESTED, nested_default
from paimon_spark.spec import data_types as t

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject


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
    if isinstance(field.type, NESTED):
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
    if not _is_constant(parsed):
        raise UnsupportedError(
            f"the default of column {field.name} must be an array, a map or a struct of literals, not {sql}"
        )
    session = compat.CLASSIC_SESSION.of(gateway).active()
    wanted = gateway.data_type(to_spark_type(field.type).json()).sql()
    rows = DataFrame(
        session.sql(f"SELECT CAST({sql} AS {wanted}) AS v"), SparkSession(gateway.context, session)
    ).collect()
    return nested_default(sql, rows[0][0], field)


def _is_constant(node: JavaObject) -> bool:
    if node.resolved():
        return bool(node.foldable() and node.deterministic())
    children = java_list(node.children())
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedFunction":
        if node.nameParts().mkString(".").lower() not in CONSTRUCTORS:
            return False
    elif kind not in ("Cast", "UnaryMinus", "UnaryPositive", "CreateNamedStruct"):
        return False
    return all(_is_constant(child) for child in children)
