"""Clauses behind a table's name in a query: VERSION AS OF, TIMESTAMP AS OF, WITH ('option' = 'value').

They are cut out of the text before it is parsed as SQL; blanks take their place, so that positions stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import ParseException

from paimon_spark.spark.statements.cursor import Cursor, Kind, Token

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "DATE")
_OPERATORS = ("+", "-", "*", "/", "%", "||")


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause behind a table's name."""

    start: int
    end: int
    version: str | None = None
    timestamp: str | None = None
    """An expression that Spark can evaluate."""
    options: Mapping[str, str] = field(default_factory=dict)


def version_clauses(text: str, tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses of a query in their order."""
    found: list[Clause] = []
    cursor = Cursor(text, tokens)
    while not cursor.at_end():
        begin = cursor.at
        try:
            clause = _clause(cursor) if begin else None
        except ParseException:  # the words mean something else, such as a column `version` with the alias `of`
            clause = None
        if clause is None:
            cursor.at = begin + 1
        else:
            found.append(clause)
    return found


def without_clauses(text: str, clauses: Sequence[Clause]) -> str:
    """Replace the clauses of a text by blanks."""
    for clause in clauses:
        text = text[: clause.start] + " " * (clause.end - clause.start) + text[clause.end :]
    return text


def _clause(cursor: Cursor) -> Clause | None:
    first = cursor.tokens[cursor.at]
    if cursor.sees("WITH", "("):
        cursor.take("WITH")
        options = cursor.properties()
        return Clause(first.start, cursor.tokens[cursor.at - 1].end, options=options)
    cursor.take("FOR")
    if cursor.take("VERSION", "AS", "OF") or cursor.take("SYSTEM_VERSION", "AS", "OF"):
        token = cursor.peek()
        if token is None or token.kind not in (Kind.STRING, Kind.NUMBER):
            cursor.fail("a number or a text is expected after VERSION AS OF")
        cursor.at += 1
        return Clause(first.start, token.end, version=token.text)
    if cursor.take("TIMESTAMP", "AS", "OF") or cursor.take("SYSTEM_TIME", "AS", "OF"):
        start = cursor.peek()
        _expression(cursor)
        last = cursor.tokens[cursor.at - 1]
        assert start is not None
        return Clause(first.start, last.end, timestamp=cursor.text[start.start : last.end])
    return None


def _expression(cursor: Cursor) -> None:
    """Step over an expression of operands and operators."""
    _operand(cursor)
    while cursor.take_any(*_OPERATORS):
        _operand(cursor)


def _operand(cursor: Cursor) -> None:
    while cursor.take_any("-", "+"):
        pass
    token = cursor.peek()
    if token is None:
        cursor.fail("an expression is expected")
    if token.is_sign("("):
        cursor.group()
    elif cursor.take("INTERVAL"):
        _interval(cursor)
    elif token.is_word(*_TYPES) and (following := cursor.peek(1)) is not None and following.kind is Kind.STRING:
        cursor.at += 2
    elif token.kind in (Kind.STRING, Kind.NUMBER):
        cursor.at += 1
    elif token.is_sign(":"):
        cursor.at += 2  # a named parameter
    elif token.kind in (Kind.WORD, Kind.QUOTED):
        cursor.name()
        if cursor.sees("("):
            cursor.group()
    else:
        cursor.fail("an expression is expected")


def _interval(cursor: Cursor) -> None:
    while True:
        token = cursor.peek(1) if cursor.sees("-") or cursor.sees("+") else cursor.peek()
        if token is None or token.kind not in (Kind.STRING, Kind.NUMBER):
            return
        cursor.take_any("-", "+")
        cursor.at += 1
        unit = cursor.peek()
        if unit is None or not unit.is_word(*_UNITS, *(f"{name}S" for name in _UNITS)):
            return
        cursor.at += 1
        if cursor.take("TO"):
            cursor.at += 1
            return
