"""Conditions and values that are Columns, told as SQL: what is known of texts is known of them, too.

Files that hold no row for a condition are not read; a MERGE by a key is one, however its condition is written.

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
    """A column of no DataFrame in particular, by its name or the parts of it."""

    parts: tuple[str, ...]


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
        return ColumnName(tuple(_elements(node.nameParts())))
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
        names: list[str] = expression._unparsed_identifier.split(".")
        return ColumnName(tuple(names)) if all(map(str.isidentifier, names)) else None
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
    "=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR",
    "+": "+", "-": "-", "*": "*",
}  # fmt: skip
_FUNCTIONS: Final = frozenset({"coalesce", "upper", "lower", "trim", "length", "concat", "greatest", "least", "abs"})
_NOT: Final = ("!", "not")
_BEHIND: Final = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_SPECIAL: Final = frozenset("'\"\\$")
"""What these mean in a text, settings of the session say, and its variables."""


def condition_parts(condition: str | Column) -> list[str]:
    """Return what is ANDed in a condition, as SQL. Parts of a Column that cannot be told as SQL are left out."""
    return conjuncts(condition) if isinstance(condition, str) else list(_parts(_expression_of(condition)))


def as_sql(given: str | Column) -> str | Column:
    """Return an expression as SQL; a Column as it is, if not all of it can be told."""
    if isinstance(given, str):
        return given
    expression = _expression_of(given)
    if isinstance(expression, Sql):
        return expression.text
    texts = list(map(_bare, _joined_by_and(expression)))
    known = [text for text in texts if text is not None]
    return " AND ".join(known) if len(known) == len(texts) else given


def _parts(expression: Expression) -> Iterator[str]:
    for each in _joined_by_and(expression):
        if isinstance(each, Sql):
            yield from conjuncts(each.text)
        elif (text := _bare(each)) is not None:
            yield text


def _joined_by_and(expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.name == "and":
        return [part for each in expression.arguments for part in _joined_by_and(each)]
    return [expression]


def _text(expression: Expression) -> str | None:
    match expression:
        case Sql(text):  # a comment at its end would hide the bracket
            return None if "--" in text or "/*" in text else f"({text})"
        case ColumnName(parts):
            return ".".join(map(quoted_name, parts))
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
        case [_, *_] if name in _FUNCTIONS:
            return f"{name}({', '.join(arguments)})"
    return None


def _bare(expression: Expression) -> str | None:
    """Return the text without the brackets that stand around a comparison, or a calculation."""
    text = _text(expression)
    is_infix = isinstance(expression, Call) and expression.name in _INFIX and expression.name not in ("and", "or")
    return text[1:-1] if is_infix and text is not None else text


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
