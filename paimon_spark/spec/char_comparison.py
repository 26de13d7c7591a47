"""Conditions on CHAR(n) columns, in which trailing spaces up to the length do not count, as in SQL.

Spark stores such values padded with spaces, other engines may not: a condition holds for both alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_spark.spec.predicate_tree import Leaf, Predicate, all_of


def char_forms(texts: Iterable[str | None], length: int) -> tuple[str | None, ...]:
    """All that a file may hold for some values of a CHAR column: with no trailing space up to as many as fit."""
    forms: dict[str | None, None] = {}
    for text in texts:
        if text is None:
            forms[None] = None
            continue
        short = text.rstrip(" ")
        forms |= dict.fromkeys(short.ljust(count) for count in range(len(short), max(length, len(short)) + 1))
    return tuple(forms)


def compare_char(op: str, name: str, text: str, length: int) -> Predicate:
    """A comparison of a CHAR column with a text.

    Args:
        op: as in `Leaf`, of the six comparisons and ``eq_null_safe``.
        name: of the column.
        text: what it is compared with.
        length: of the column's type.
    """
    short = text.rstrip(" ")
    match op:
        case "eq":
            return Leaf("in", name, char_forms((text,), length))
        case "ne":
            return Leaf("not_in", name, char_forms((text,), length))
        case "eq_null_safe":
            return all_of((Leaf("is_not_null", name), Leaf("in", name, char_forms((text,), length))))
        case "lt" | "ge":  # a value is in order with the bare text as its bare form is
            return Leaf(op, name, (short,))
    return Leaf(op, name, (short.ljust(length),))  # le, gt: likewise with the padded text
