"""Comparisons of columns with literals that Spark and our reader decide alike, as text of the option `filter`.

What a WHERE says is still decided by Spark; the option only spares reading rows that cannot pass. So a comparison is
taken only where both sides are of one kind, and nothing depends on casts, time zones or rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from paimon_spark.spec import data_types as t
from paimon_spark.spec.sql_text import literal_text, quoted_name

_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as it was written."""

    kind: Literal["number", "text", "date", "boolean"]
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with literals."""

    column: str
    operator: str
    """One of = <> < <= > >= IN BETWEEN, IS NULL and IS NOT NULL."""
    values: tuple[Value, ...]


def filter_option(comparisons: Iterable[Comparison], fields: Sequence[t.DataField]) -> str | None:
    """Return the comparisons that the reader can evaluate, joined by AND; None without one."""
    texts = [text for comparison in comparisons if (text := _text(comparison, fields)) is not None]
    return " AND ".join(f"({text})" for text in texts) or None


def _text(comparison: Comparison, fields: Sequence[t.DataField]) -> str | None:
    found = [field for field in fields if field.name.lower() == comparison.column.lower()]
    if len(found) != 1:
        return None
    column = quoted_name(found[0].name)
    if not comparison.values:
        return f"{column} {comparison.operator}"
    values = [_literal(value, found[0].type) for value in comparison.values]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if comparison.operator == "IN":
        return f"{column} IN ({', '.join(known)})"
    return f"{column} {comparison.operator} {' AND '.join(known)}"


def _literal(value: Value, data_type: t.DataType) -> str | None:
    """Return the literal as a value of the column's type; None where Spark would cast the literal or the column."""
    match data_type:
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType() | t.DecimalType():
            return value.text if value.kind == "number" and _is_plain_number(value.text) else None
        case t.CharType() | t.VarCharType():
            return literal_text(value.text) if value.kind == "text" else None
        case t.DateType():
            return f"DATE '{value.text}'" if value.kind in ("date", "text") and _is_plain_date(value.text) else None
        case t.BooleanType():
            return value.text if value.kind == "boolean" else None
    return None


def _is_plain_number(text: str) -> bool:
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = whole + fraction
    return digits.isascii() and digits.isdigit() and bool(whole) and len(digits) <= _MAX_DIGITS


def _is_plain_date(text: str) -> bool:
    year, _, rest = text.partition("-")
    month, _, day = rest.partition("-")
    sizes = (len(year), len(month), len(day)) == (4, 2, 2)
    return sizes and all(part.isascii() and part.isdigit() for part in (year, month, day))
