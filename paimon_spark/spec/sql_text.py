"""Names, values and predicate trees as SQL text; `parse_filter` reads the text of a tree back as the same tree.

Patterns by which names are chosen: regular expressions of procedures, and those of SHOW.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

from paimon_spark.errors import OptionError
from paimon_spark.spec.predicate import Always, And, Leaf, Not, Or, Predicate

_INFIX = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>"}
_MOST_TEXT = 1000
_LIKE_PARTS = {"starts_with": ("", "%"), "ends_with": ("%", ""), "contains": ("%", "%")}


def filter_text(predicate: Predicate) -> str:
    """The condition as SQL.

    Raises:
        ValueError: an IN without values, for which SQL has no words.
    """
    match predicate:
        case Always():
            return "TRUE" if predicate.value else "FALSE"
        case Not():
            return f"NOT ({filter_text(predicate.child)})"
        case And() | Or():
            if not predicate.children:
                return "TRUE" if isinstance(predicate, And) else "FALSE"
            word = " AND " if isinstance(predicate, And) else " OR "
            return word.join(f"({filter_text(child)})" for child in predicate.children)
        case Leaf():
            return _leaf_text(predicate)
    raise ValueError(f"{type(predicate).__name__} is no predicate")


def short_filter_text(predicate: Predicate) -> str:
    """The condition as SQL, for people; an IN without values, which SQL cannot express, as the tree shows it."""
    shown = _cut(predicate)
    try:
        text = filter_text(shown)
    except ValueError:
        text = str(shown)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _cut(predicate: Predicate) -> Predicate:
    """A predicate without the literals that are not shown in any case: there may be very many."""
    match predicate:
        case Leaf():
            return replace(predicate, literals=predicate.literals[:_MOST_TEXT])
        case And() | Or():
            return replace(predicate, children=tuple(map(_cut, predicate.children)))
        case Not():
            return replace(predicate, child=_cut(predicate.child))
    return predicate


def _leaf_text(leaf: Leaf) -> str:
    column = quoted_name(leaf.field) + ("" if leaf.key is None else f"[{literal_text(leaf.key)}]")
    if leaf.op in _INFIX:
        return f"{column} {_INFIX[leaf.op]} {literal_text(leaf.literals[0])}"
    if leaf.op in ("is_null", "is_not_null"):
        return f"{column} IS {'NOT ' if leaf.op == 'is_not_null' else ''}NULL"
    if leaf.op in ("in", "not_in"):
        if not leaf.literals:
            raise ValueError(f"column {leaf.field} is compared with an empty list")
        values = ", ".join(literal_text(value) for value in leaf.literals)
        return f"{column} {'NOT ' if leaf.op == 'not_in' else ''}IN ({values})"
    if leaf.op == "between":
        return f"{column} BETWEEN {literal_text(leaf.literals[0])} AND {literal_text(leaf.literals[1])}"
    pattern = leaf.literals[0]
    if pattern is not None and leaf.op in _LIKE_PARTS:
        before, after = _LIKE_PARTS[leaf.op]
        pattern = before + "".join(f"\\{char}" if char in "%_\\" else char for char in pattern) + after
    return f"{column} LIKE {literal_text(pattern)}"


def quoted_name(name: str) -> str:
    """A column name in back quotes."""
    return f"`{name.replace('`', '``')}`"


_UNSAFE = {"'": "', char(39), '", "\\": "', char(92), '"}


def spark_literal(value: Any) -> str:
    """A Python value as SQL that means it in every session of Spark.

    What a backslash means in a literal is for ``spark.sql.parser.escapedStringLiterals`` to say; so quotes and
    backslashes are characters by their number.
    """
    if not isinstance(value, str) or ("\\" not in value and "'" not in value):
        return literal_text(value)
    return "concat('" + "".join(_UNSAFE.get(character, character) for character in value) + "')"


def literal_text(value: Any) -> str:
    """A Python value of a predicate or of a column's default as a literal of Spark's SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case float() if not math.isfinite(value):
            return f"'{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}'"
        case int() | float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case np.datetime64():
            return f"TIMESTAMP_NTZ '{str(value).replace('T', ' ')}'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case datetime():
            return f"TIMESTAMP_LTZ '{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
    raise ValueError(f"a {type(value).__name__} has no literal")


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Which names are meant: those that match one expression as a whole, less those that match another."""

    including: re.Pattern[str]
    excluding: re.Pattern[str] | None

    @classmethod
    def of(cls, including: str | None = None, excluding: str | None = None) -> NamePatterns:
        """Compile the expressions.

        Raises:
            OptionError: one of them is no regular expression.
        """
        return cls(_compiled(including) or re.compile(".*"), _compiled(excluding))

    def match(self, name: str) -> bool:
        """Return whether a name is meant."""
        return bool(self.including.fullmatch(name)) and not (self.excluding and self.excluding.fullmatch(name))


def _compiled(text: str | None) -> re.Pattern[str] | None:
    if text is None or not text.strip():
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise OptionError(f"'{text}' is no regular expression: {error}.") from error


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern of SHOW: ``*`` is any text, ``|`` separates names, case is ignored."""
    if pattern is None:
        return list(names)
    texts = [".*".join(re.escape(part) for part in text.strip().split("*")) for text in pattern.split("|")]
    return [name for name in names if any(re.fullmatch(text, name, re.IGNORECASE) for text in texts)]
