"""Conditions of a Connect plan as comparisons of columns with literals, the other conjuncts left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from paimon_spark.spark.session.connect_plans import RELATION_COMMON, messages
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.query_trees import Comparison, NotUnderstoodError, Value, read_query
from paimon_spark.spec.sql_text import quoted_name

_OPERATORS = {"==": "=", "=": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NULLS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


Condition = tuple[Any, bool]
"""An expression of the protocol, and whether its IS NULL means nulls of the rows themselves, not of an outer join."""


def comparisons_of(
    condition: Any, names: tuple[str, ...], elsewhere: frozenset[int] = frozenset()
) -> Iterator[Comparison]:
    """Yield what each row must pass, as far as it is understood.

    Args:
        condition: an expression of the protocol.
        names: of the rows' table, if it has one there; columns are qualified by its last part, or by more.
        elsewhere: ids of plans whose columns are others.
    """
    kind = condition.WhichOneof("expr_type")
    if kind == "expression_string":
        yield from _of_text(condition.expression_string.expression, names)
    elif kind == "unresolved_function":
        function, name = condition.unresolved_function, condition.unresolved_function.function_name.lower()
        if name == "and":
            for argument in function.arguments:
                yield from comparisons_of(argument, names, elsewhere)
        elif (found := _comparison(name, list(function.arguments), names, elsewhere)) is not None:
            yield found


def names_of(relation: Any) -> tuple[str, ...]:
    """What may qualify the columns of rows below a filter."""
    while (kind := relation.WhichOneof("rel_type")) == "filter":
        relation = relation.filter.input
    alias = relation.subquery_alias if kind == "subquery_alias" else None
    return () if alias is None else (*alias.qualifier, alias.alias)


def conditions_of_side(join: Any, side: str, above: Sequence[Condition]) -> tuple[Condition, ...]:
    """The conditions that hold for the rows of a side of a join, or nothing above uses these rows.

    Args:
        join: a message of the protocol.
        side: ``left`` or ``right``.
        above: conditions that the rows of the join must pass.
    """
    is_right = side == "right"
    kind = _kind(join)
    gets_nulls = kind in ("FULL_OUTER", "LEFT_OUTER" if is_right else "RIGHT_OUTER")
    is_hidden = is_right and kind in ("LEFT_SEMI", "LEFT_ANTI")
    found = () if is_hidden else tuple((one, own_nulls and not gets_nulls) for one, own_nulls in above)
    of_one_side = ("LEFT_OUTER", "LEFT_ANTI") if is_right else ("RIGHT_OUTER",)
    if join.HasField("join_condition") and kind in ("INNER", "CROSS", "LEFT_SEMI", *of_one_side):
        found += ((join.join_condition, True),)
    return found


def comparisons_of_side(join: Any, side: str, conditions: Sequence[Condition]) -> Iterator[Comparison]:
    """Yield what conditions of a side of a join say of its columns.

    A name without a table is a column of this side where it has one of that name, or ambiguous, which is an error. Of
    the columns of USING only those of one side come out of the join.
    """
    own, other = (join.left, join.right) if side == "left" else (join.right, join.left)
    shown = {"RIGHT_OUTER": "right", "FULL_OUTER": ""}.get(_kind(join), "left")
    using = () if shown == side else tuple(name.lower() for name in join.using_columns)
    elsewhere = frozenset(common.plan_id for common in messages(other, RELATION_COMMON))
    for condition, own_nulls in conditions:
        for found in comparisons_of(condition, names_of(own), elsewhere):
            if (own_nulls or found.operator != "IS NULL") and found.column.lower() not in using:
                yield replace(found, is_exact=True)


def _kind(join: Any) -> str:
    return str(join.JoinType.Name(join.join_type)).removeprefix("JOIN_TYPE_")


def _of_text(text: str, names: tuple[str, ...]) -> Iterator[Comparison]:
    table = ".".join(map(quoted_name, names)) or "_"
    try:
        query = read_query(f"SELECT 1 FROM {table} WHERE {text}")
    except NotUnderstoodError:
        return
    if len(query.tables) == 1:
        yield from query.tables[0].comparisons


def _comparison(
    function: str, arguments: list[Any], names: tuple[str, ...], elsewhere: frozenset[int]
) -> Comparison | None:
    if not arguments:
        return None
    column, values = _column(arguments[0], names, elsewhere), arguments[1:]
    operator = _NULLS.get(function) if not values else "IN" if function == "in" else _OPERATORS.get(function)
    if column is None and function in _OPERATORS and len(values) == 1:
        column, values = _column(values[0], names, elsewhere), arguments[:1]
        operator = None if operator is None else _MIRRORED.get(operator, operator)
    literals = [literal for value in values if (literal := _literal(value)) is not None]
    if column is None or operator is None or len(literals) < len(values):
        return None
    return Comparison(column, operator, tuple(literals))


def _column(message: Any, names: tuple[str, ...], elsewhere: frozenset[int]) -> str | None:
    attribute = message.unresolved_attribute
    if message.WhichOneof("expr_type") != "unresolved_attribute" or attribute.is_metadata_column:
        return None
    if attribute.HasField("plan_id") and attribute.plan_id in elsewhere:
        return None
    try:
        *qualifier, column = split_name(attribute.unparsed_identifier)
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
