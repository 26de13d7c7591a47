"""A Column of a Connect session as SQL: what conditions on partitions are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.sql_text import literal_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BETWEEN = {"==": "=", "=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"}


def condition_text(condition: Any, spark: SparkSession) -> str:
    """Return a condition, a Column or the name of a boolean column, as SQL.

    Raises:
        UnsupportedError: it is more than comparisons of columns with literals.
    """
    from pyspark.sql.connect.column import Column

    if isinstance(condition, str):
        return condition
    if not isinstance(condition, Column):
        raise UnsupportedError(f"overwrite(…) takes a Column, not a {type(condition).__name__}: col('dt') == 'x'")
    return _text(condition.to_plan(spark.client))


def column_name(column: Any, spark: SparkSession) -> str:
    """Return the name of a column by which a table is partitioned.

    Raises:
        UnsupportedError: it is a transform.
    """
    message = column.to_plan(spark.client)
    if message.WhichOneof("expr_type") != "unresolved_attribute":
        raise UnsupportedError(f"Unsupported partition transform: {column}. Paimon partitions by columns as they are")
    return str(message.unresolved_attribute.unparsed_identifier).strip("`")


def _text(message: Any) -> str:
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return str(message.unresolved_attribute.unparsed_identifier)
    if kind == "expression_string":
        return f"({message.expression_string.expression})"
    if kind == "literal":
        return _literal(message.literal)
    if kind == "unresolved_function":
        return _function(message.unresolved_function)
    raise UnsupportedError(f"overwrite(…) cannot take this condition: give it as text, sf.expr(\"dt = 'x'\") ({kind})")


def _literal(literal: Any) -> str:
    from pyspark.sql.connect.expressions import LiteralExpression

    if literal.WhichOneof("literal_type") == "null":
        return "NULL"
    value = LiteralExpression._to_value(literal)
    return str(value).lower() if isinstance(value, bool) else literal_text(value)


def _function(function: Any) -> str:
    name, values = function.function_name.lower(), [_text(argument) for argument in function.arguments]
    if name in _BETWEEN and len(values) == 2:
        return f"({values[0]} {_BETWEEN[name]} {values[1]})"
    match name, values:
        case ("not" | "!", [value]):
            return f"(NOT {value})"
        case ("isnull", [value]):
            return f"({value} IS NULL)"
        case ("isnotnull", [value]):
            return f"({value} IS NOT NULL)"
        case ("in", [value, *others]) if others:
            return f"({value} IN ({', '.join(others)}))"
    raise UnsupportedError(f"overwrite(…) cannot take the function {name}: compare columns with literals")
