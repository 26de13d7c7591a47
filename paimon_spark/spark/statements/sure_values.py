"""Which SQL expressions have a value for every row: those that are an error for none, whatever a row holds.

What is not known here counts as one that may be an error. Types go by Spark's names, such as `decimal(10,2)`; casts
and arithmetic count as those of ANSI mode, in which a value that does not fit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_spark.spark.statements.dialect import parsed

Columns = Mapping[tuple[str, ...], str]
"""The types of columns, by the parts of each name that an expression may use, in lower case."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_DIGITS_OF_WHOLE = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (19, 0)}
_FLOATING = ("float", "double")
_PLAIN = (*_WHOLE, *_FLOATING, "string", "boolean", "date", "timestamp", "timestamp_ntz")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_DIGITS = 18
"""Decimals of as many digits compare with each other, and with whole numbers, without an overflow."""
_NULL = "void"


def sure_type(text: str, columns: Columns) -> str | None:
    """Return the type of an expression that has a value, or NULL, for every row; None where it may be an error."""
    try:
        trees = parsed(text)
        return _type(trees[0], columns) if len(trees) == 1 else None
    except (SqlglotError, RecursionError):
        return None


def casts_surely(source: str, target: str) -> bool:
    """Whether all values of one type can be cast to another."""
    if source in (target, _NULL):
        return True
    if target == "string":
        return source in _PLAIN or _digits(source) is not None
    if target in _FLOATING:
        return source in _WHOLE or (source, target) == _FLOATING or (_digits(source) is not None)
    if source in _WHOLE and target in _WHOLE:
        return _WHOLE.index(source) < _WHOLE.index(target)
    given, held = _digits(source) or _DIGITS_OF_WHOLE.get(source), _digits(target)
    return given is not None and held is not None and all(one <= other for one, other in zip(given, held, strict=True))


def _digits(kind: str) -> tuple[int, int] | None:
    """The digits of a decimal before and after the point."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def _type(node: Any, columns: Columns) -> str | None:
    find = _TYPES.get(type(node))
    return None if find is None else find(node, columns)


def _column(node: Any, columns: Columns) -> str | None:
    if not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    return columns.get(tuple(part.name.lower() for part in node.parts))


def _literal(node: Any, columns: Columns) -> str | None:
    if node.is_string:
        return "string"
    whole, dot, fraction = node.name.partition(".")
    if not (whole + fraction).isdigit():
        return None
    if dot:
        return f"decimal({len(whole) + len(fraction)},{len(fraction)})"
    value = int(whole)
    return "int" if value < 1 << 31 else "bigint" if value < 1 << 63 else None


def _negative(node: Any, columns: Columns) -> str | None:
    return _type(node.this, columns) if isinstance(node.this, exp.Literal) and not node.this.is_string else None


def _cast(node: Any, columns: Columns) -> str | None:
    target = node.to.sql("spark").lower().replace(" ", "")
    if type(node) is exp.Cast and isinstance(node.this, exp.Literal):  # DATE '…'
        return target if target in ("date", "timestamp", "timestamp_ntz") and _is_time(node.this.name) else None
    source = _type(node.this, columns)
    if source is None:
        return None
    return target if casts_surely(source, target) else None


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _comparison(node: Any, columns: Columns) -> str | None:
    return _boolean_if_comparable(columns, node.this, node.expression)


def _between(node: Any, columns: Columns) -> str | None:
    return _boolean_if_comparable(columns, node.this, node.args["low"], node.args["high"])


def _in(node: Any, columns: Columns) -> str | None:
    return _boolean_if_comparable(columns, node.this, *node.expressions) if node.expressions else None


def _boolean_if_comparable(columns: Columns, first: Any, *others: Any) -> str | None:
    own = _type(first, columns)
    types = [_type(other, columns) for other in others]
    if own is None or not all(other is not None and _are_comparable(own, other) for other in types):
        return None
    return "boolean"


def _are_comparable(one: str, other: str) -> bool:
    if _NULL in (one, other):
        return True
    return (one == other and one in _PLAIN) or (_is_number(one) and _is_number(other))


def _is_number(kind: str) -> bool:
    digits = _digits(kind)
    return kind in _WHOLE or kind in _FLOATING or (digits is not None and sum(digits) <= _MOST_DIGITS)


def _is_null(node: Any, columns: Columns) -> str | None:
    return "boolean" if isinstance(node.expression, exp.Null) and _type(node.this, columns) else None


def _logical(node: Any, columns: Columns) -> str | None:
    sides = [node.this] if isinstance(node, exp.Not) else [node.this, node.expression]
    return "boolean" if all(_type(side, columns) in ("boolean", _NULL) for side in sides) else None


def _floating(node: Any, columns: Columns) -> str | None:
    """Arithmetic of floating numbers, which has an infinity instead of an overflow."""
    types = [_type(side, columns) for side in (node.this, node.expression)]
    are_numbers = all(kind is not None and _is_number(kind) for kind in types)
    return "double" if are_numbers and any(kind in _FLOATING for kind in types) else None


def _quotient(node: Any, columns: Columns) -> str | None:
    if not _is_other_than_zero(node.expression):
        return None
    types = [_type(side, columns) for side in (node.this, node.expression)]
    return "double" if all(kind in _WHOLE for kind in types) else _floating(node, columns)


def _remainder(node: Any, columns: Columns) -> str | None:
    types = [_type(side, columns) for side in (node.this, node.expression)]
    if not _is_other_than_zero(node.expression) or not all(kind in _WHOLE for kind in types):
        return None
    return max((str(kind) for kind in types), key=_WHOLE.index)


def _is_other_than_zero(node: Any) -> bool:
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and bool(node.name.strip("0."))


def _text_of_text(node: Any, columns: Columns) -> str | None:
    has_more = any(value for key, value in node.args.items() if key != "this")
    return "string" if not has_more and _type(node.this, columns) == "string" else None


def _length(node: Any, columns: Columns) -> str | None:
    return "int" if _text_of_text(node, columns) else None


def _joined(node: Any, columns: Columns) -> str | None:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    return "string" if all(_type(part, columns) == "string" for part in parts) else None


def _chosen(node: Any, columns: Columns) -> str | None:
    if isinstance(node, exp.Coalesce):
        conditions, values = [], [node.this, *node.expressions]
    elif isinstance(node, exp.If):
        conditions, values = [node.this], [node.args["true"], node.args.get("false")]
    else:
        branches, default = node.args["ifs"], node.args.get("default")
        conditions, values = [branch.this for branch in branches], [*(each.args["true"] for each in branches), default]
        if node.this is not None:
            return None
    types = {_NULL if value is None else _type(value, columns) for value in values}
    are_sure = all(_type(condition, columns) in ("boolean", _NULL) for condition in conditions)
    chosen = types - {_NULL}
    return next(iter(chosen), _NULL) if are_sure and len(chosen) < 2 else None


_TYPES: dict[type, Callable[[Any, Columns], str | None]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, columns: "boolean",
    exp.Null: lambda node, columns: _NULL,
    exp.Paren: lambda node, columns: _type(node.this, columns),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _comparison),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is_null,
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logical),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _floating),
    exp.Div: _quotient,
    exp.Mod: _remainder,
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Trim), _text_of_text),
    exp.Length: _length,
    **dict.fromkeys((exp.Concat, exp.DPipe), _joined),
    **dict.fromkeys((exp.Coalesce, exp.If, exp.Case), _chosen),
}
