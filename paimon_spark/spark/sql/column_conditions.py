"""The parts of a condition as SQL, also of one that is a Column: files that hold no row for them are not read.

Sessions of Connect have the expression of a Column in Python; of a classic one the JVM has it (``ColumnNode``), which
takes a few calls for each part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BooleanType, DateType, IntegralType, NullType, StringType

from paimon_spark.spark.statements.cursor import conjuncts
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator, by its name in lower case."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column of no DataFrame in particular."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: None, a bool, an int, a text or a date."""

    value: Any


@dataclass(frozen=True, slots=True)
class Sql:
    """An expression as SQL."""

    text: str


Expression = Call | ColumnName | Value | Sql | None
"""None is anything else."""

_MOST_PARTS: Final = 200
"""Of an expression: of a larger one the rest counts as anything else."""
_SAFE_DATE: Final = re.compile(r"(19|20)\d\d-\d\d-\d\d")
"""Dates that no change of calendars moves."""
_EPOCH: Final = date(1970, 1, 1)


def _expression_of(column: Column) -> Expression:
    """Return what a Column is made of."""
    parts = iter(range(_MOST_PARTS))
    java = getattr(column, "_jc", None)
    if java is not None:
        return _of_node(java.node(), parts)
    return _of_connect(getattr(column, "_expr", None), parts)


def _of_node(node: Any, parts: Iterator[int]) -> Expression:
    if next(parts, None) is None:
        return None
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedFunction" and not (node.isDistinct() or node.isUserDefinedFunction()):
        return Call(node.functionName().lower(), tuple(_of_node(each, parts) for each in _elements(node.arguments())))
    if kind == "UnresolvedAttribute" and node.planId().isEmpty() and not node.isMetadataColumn():
        names = _elements(node.nameParts())
        return ColumnName(names[0]) if len(names) == 1 else None
    if kind == "SqlExpression":
        return Sql(node.expression())
    return _value(node.value()) if kind == "Literal" else None


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _value(value: Any) -> Expression:
    if hasattr(value, "getClass"):
        is_date = value.getClass().getName() in ("java.sql.Date", "java.time.LocalDate")
        text = value.toString()
        return Value(date.fromisoformat(text)) if is_date and _SAFE_DATE.fullmatch(text) else None
    return Value(value) if value is None or isinstance(value, bool | int | str) else None


def _of_connect(expression: Any, parts: Iterator[int]) -> Expression:
    if next(parts, None) is None:
        return None
    kind = type(expression).__name__
    if kind == "UnresolvedFunction" and not expression._is_distinct:
        arguments: Sequence[Any] = expression._args
        return Call(expression._name.lower(), tuple(_of_connect(each, parts) for each in arguments))
    if (
        kind == "ColumnReference"
        and expression._plan_id is None
        and not getattr(expression, "_is_metadata_column", False)
    ):
        name: str = expression._unparsed_identifier
        return ColumnName(name) if name.isidentifier() else None
    if kind == "SQLExpression":
        return Sql(expression._expr)
    if kind != "LiteralExpression":
        return None
    value, data_type = expression._value, expression._dataType
    if isinstance(data_type, DateType) and value is not None:
        found = _EPOCH + timedelta(days=value)
        return Value(found) if _SAFE_DATE.fullmatch(found.isoformat()) else None
    is_plain = isinstance(data_type, IntegralType | StringType | BooleanType | NullType)
    return _value(value) if is_plain else None


_INFIX: Final = {
    "=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"
}  # fmt: skip
_NOT: Final = ("!", "not")
_BEHIND: Final = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_SPECIAL: Final = frozenset("'\"\\")
"""What these mean in a text, settings of the session say."""


def condition_parts(condition: str | Column) -> list[str]:
    """Return what is ANDed in a condition, as SQL. Parts of a Column that cannot be told as SQL are left out."""
    return conjuncts(condition) if isinstance(condition, str) else _parts(_expression_of(condition))


def _parts(expression: Expression) -> list[str]:
    match expression:
        case Sql(text):
            return conjuncts(text)
        case Call("and", arguments):
            return [part for each in arguments for part in _parts(each)]
    found = _text(expression)
    return [] if found is None else [found]


def _text(expression: Expression) -> str | None:
    match expression:
        case Sql(text):
            return f"({text})"
        case ColumnName(name):
            return quoted_name(name)
        case Value(value):
            return _literal(value)
        case Call(name, arguments):
            texts = [_text(each) for each in arguments]
            known = [text for text in texts if text is not None]
            return _call(name, known) if len(known) == len(texts) else None
    return None


def _call(name: str, arguments: list[str]) -> str | None:
    match arguments:
        case [left, right] if name in _INFIX:
            return f"({left} {_INFIX[name]} {right})"
        case [only] if name in _NOT:
            return f"(NOT {only})"
        case [only] if name in _BEHIND:
            return f"({only} {_BEHIND[name]})"
        case [first, *others] if name == "in" and others:
            return f"({first} IN ({', '.join(others)}))"
    return None


def _literal(value: object) -> str | None:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return None if _SPECIAL.intersection(value) else f"'{value}'"
    return str(value)
