"""Long IN lists of plain numbers and texts, taken out before a text is parsed: a parser makes objects of each literal.

A text with comments, backslashes or double quotes is parsed as it is, since something else could look like a list.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from decimal import Decimal
from typing import Any, Final

from paimon_spark.spec.data_types import (
    BigIntType,
    DataType,
    IntType,
    SmallIntType,
    TinyIntType,
    VarCharType,
)
from paimon_spark.spec.filter_literals import fit_literal

PLACEHOLDER: Final = "_long_list_"
"""Lists stand in the shortened text as ``:_long_list_0``, ``:_long_list_1``, …"""

_SHORTEST_TEXT: Final = 2000
_FEWEST_VALUES: Final = 64
_LITERAL: Final = r"(?:-?[0-9]{1,60}(?:\.[0-9]{1,60})?|'[^']*')"
_PIECES: Final = re.compile(
    rf"'[^']*'|`[^`]*`|\bIN\s*\((?P<list>\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)*+)\)", re.ASCII | re.IGNORECASE
)
_LITERALS: Final = re.compile(_LITERAL)
_INTEGERS: Final = (TinyIntType, SmallIntType, IntType, BigIntType)
_ELSEWHERE: Final = ("--", "/*", "\\", '"', f":{PLACEHOLDER}")
_RAW_TEXT: Final = re.compile(r"\b[rRxXbB]'")


def without_long_lists(sql: str) -> tuple[str, list[list[str]]]:
    """The text with a placeholder for each long list, and the literals of the lists as they were written."""
    if len(sql) < _SHORTEST_TEXT or any(sign in sql for sign in _ELSEWHERE) or _RAW_TEXT.search(sql):
        return sql, []
    lists: list[list[str]] = []

    def shortened(found: re.Match[str]) -> str:
        values = [] if found["list"] is None else _LITERALS.findall(found["list"])
        if len(values) < _FEWEST_VALUES:
            return found[0]
        lists.append(values)
        return f"IN (:{PLACEHOLDER}{len(lists) - 1})"

    return _PIECES.sub(shortened, sql), lists


def fit_all(texts: list[str], data_type: DataType, time_zone: tzinfo | None) -> list[Any]:
    """The values of a column's type that equal one of the literals, in their order.

    Raises:
        LiteralError: they do not compare.
    """
    quoted = sum(text.startswith("'") for text in texts)
    if isinstance(data_type, VarCharType) and quoted == len(texts):
        return [text[1:-1] for text in texts]
    if isinstance(data_type, _INTEGERS) and not quoted and not any("." in text for text in texts):
        numbers = list(map(int, texts))
        if all(fit_literal(Decimal(end), data_type, time_zone).exact for end in (min(numbers), max(numbers))):
            return numbers
    values = (text[1:-1] if text.startswith("'") else Decimal(text) for text in texts)
    fitted = (fit_literal(value, data_type, time_zone) for value in values)
    return [each.value for each in fitted if each.exact]
