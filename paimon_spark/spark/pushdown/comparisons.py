"""Conditions of a Connect plan as comparisons of columns with literals, the other conjuncts left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.query_trees import Comparison, NotUnderstoodError, Value, read_query
from paimon_spark.spec.sql_text import quoted_name

_OPERATORS = {"==": "=", "=": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NULLS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


def comparisons_of(condition: Any, names: tuple[str, ...]) -> Iterator[Comparison]:
    """Yield what each row must pass, as far as it is understood.

    Args:
        condition: an expression of the protocol.
        names: of the rows' table, if it has one there; columns are qualified by its last part, or by more.
    """
    kind = condition.WhichOneof("expr_type")
    if kind == "expression_string":
        yield from _of_text(condition.expression_string.expression, names)
    elif kind == "unresolved_function":
        function, name = condition.unresolved_function, condition.unresolved_function.function_name.lower()
        if name == "and":
            for argument in function.arguments:
                yield from comparisons_of(argument, names)
        elif (found := _comparison(name, list(function.arguments), names)) is not None:
            yield found


def _of_text(text: str, names: tuple[str, ...]) -> Iterator[Comparison]:
    table = ".".join(map(quoted_name, names)) or "_"
    try:
        query = read_query(f"SELECT 1 FROM {table} WHERE {text}")
    except NotUnderstoodError:
        return
    if len(query.tables) == 1:
        yield from query.tables[0].comparisons


def _comparison(function: str, arguments: list[Any], names: tuple[str, ...]) -> Comparison | None:
    if not arguments:
        return None
    column, values = _column(arguments[0], names), arguments[1:]
    operator = _NULLS.get(function) if not values else "IN" if function == "in" else _OPERATORS.get(function)
    if column is None and function in _OPERATORS and len(values) == 1:
        column, values = _column(values[0], names), arguments[:1]
        operator = None if operator is None else _MIRRORED.get(operator, operator)
    literals = [literal for value in values if (literal := _literal(value)) is not None]
    if column is None or operator is None or len(literals) < len(values):
        return None
    return Comparison(column, operator, tuple(literals))


def _column(message: Any, names: tuple[str, ...]) -> str | None:
    if message.WhichOneof("expr_type") != "unresolved_attribute" or message.unresolved_attribute.is_metadata_column:
        return None
    try:
        *qualifier, column = split_name(message.unresolved_attribute.unparsed_identifier)
    except ValueError:  # Spark says what is wrong with it
        return None
    own = [name.lower() for name in names]
    return column if not qualifier or own[-len(qualifier) :] == [part.lower() for part in qualifier] else None


def _literal(message: Any) -> Value | None:
    if message.WhichOneof("expr_type") != "literal" or message.literal.WhichOneof("literal_type") == "null":
        return None
    from pyspark.sql.connect.expressions import LiteralExpression

    match value := LiteralExpression._to_value(message.literal):
        case bool():
            return Value("boolean", str(value).upper())
        case int() | Decimal():
            return Value("number", format(value, "f") if isinstance(value, Decimal) else str(value))
        case str():
            return Value("text", value)
        case date() if not isinstance(value, datetime):
            return Value("date", value.isoformat())
    return None
