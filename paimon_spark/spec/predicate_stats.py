"""Predicates over statistics: which files cannot hold a matching row. Vectorised over all files at once.

For each leaf two bounds and a null count say which values a file can hold. They may be loose (truncated strings) or
missing; a file is only dropped when no row that the statistics allow makes the predicate true. Statistics of
FLOAT and DOUBLE say nothing about NaN (some writers leave NaN out of them), so any such column may hold NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.predicate import Leaf, Predicate, fold, is_nan, literal_scalar

Mask = npt.NDArray[np.bool_]
ColumnStats = tuple[pa.Array, pa.Array, pa.Array]

_MANY_LITERALS = 32


def prune_stats(predicate: Predicate, stats: Mapping[str, ColumnStats], row_counts: pa.Array) -> Mask:
    """Which of many files may hold a row for which the predicate is true.

    Args:
        predicate: The predicate.
        stats: For each column (min, max, null count), arrays with one value per file; null means unknown. An unknown
            null count makes the file's other two unknown too. A column that is not there is unknown for all files.
        row_counts: Rows of each file.

    Returns:
        One flag per file: True to keep it, False when no row of it can match.
    """
    rows = len(row_counts)
    counts = _to_int64(row_counts)

    def leaf(node: Leaf, negated: bool) -> Mask:
        if node.field not in stats or node.key is not None:
            return np.ones(rows, dtype=np.bool_)
        column = _Column(stats[node.field], counts)
        try:
            return column.can_be_false(node) if negated else column.can_be_true(node)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError):
            return np.ones(rows, dtype=np.bool_)  # a literal that does not compare with the statistics

    return fold(
        predicate,
        leaf,
        lambda parts: reduce(np.logical_and, parts),
        lambda parts: reduce(np.logical_or, parts),
        lambda value: np.full(rows, value, dtype=np.bool_),
    )


def like_prefix(pattern: str) -> str:
    r"""The text that every match of an SQL LIKE pattern starts with; `\` makes `%`, `_` and `\` ordinary."""
    prefix: list[str] = []
    escaped = False
    for char in pattern:
        if escaped:
            prefix.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "%_":
            break
        else:
            prefix.append(char)
    return "".join(prefix)


def _to_int64(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.cast(_flat(array), pa.int64()), -1))


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _mask(array: Any, *, unknown: bool) -> Mask:
    return np.asarray(pc.fill_null(array, unknown), dtype=np.bool_)


class _Column:
    """The statistics of one column in all files."""

    def __init__(self, stats: ColumnStats, row_counts: npt.NDArray[np.int64]) -> None:
        low, high, nulls = (_flat(array) for array in stats)
        null_counts = _to_int64(nulls)
        known = null_counts >= 0
        self.floating = pa.types.is_floating(low.type)
        if self.floating:
            low, high = (pc.if_else(pc.is_nan(bound), None, bound) for bound in (low, high))
        hidden = pa.array(~known)
        self.low = pc.if_else(hidden, pa.scalar(None, low.type), low) if low.type != pa.null() else low
        self.high = pc.if_else(hidden, pa.scalar(None, high.type), high) if high.type != pa.null() else high
        self.has_null: Mask = ~known | (null_counts > 0)
        self.has_value: Mask = ~known | (null_counts != row_counts)

    def can_be_true(self, leaf: Leaf) -> Mask:
        """Files that may hold a row for which the leaf is true."""
        op, literals = leaf.op, leaf.literals
        match op:
            case "is_null":
                return self.has_null
            case "is_not_null":
                return self.has_value
            case "eq_null_safe":
                return self.has_null if literals[0] is None else self._equal(literals[0])
            case "in":
                return self._in(tuple(value for value in literals if value is not None))
            case "not_in":
                return self._none() if None in literals else self._other_than(literals)
            case "between":
                return self._above(literals[0], inclusive=True) & self._below(literals[1], inclusive=True)
        literal = literals[0]
        if literal is None:
            return self._none()
        return self._one(op, literal)

    def can_be_false(self, leaf: Leaf) -> Mask:
        """Files that may hold a row for which the leaf is false."""
        op, literals = leaf.op, leaf.literals
        if op in ("starts_with", "ends_with", "contains", "like") and literals[0] is None:
            return self._none()
        match op:
            case "is_null":
                return self.has_value
            case "is_not_null":
                return self.has_null
            case "eq_null_safe":
                if literals[0] is None:
                    return self.has_value
                return self.has_null | self._other_than(literals)
            case "in":
                return self._none() if None in literals else self._other_than(literals)
            case "not_in":
                return self._in(tuple(value for value in literals if value is not None))
            case "between":
                return self._below(literals[0], inclusive=False) | self._above(literals[1], inclusive=False)
            case "starts_with":
                return self.has_value & ~self._all_start_with(literals[0])
            case "ends_with" | "contains" | "like":
                return self.has_value
        negated = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}[op]
        return self._none() if literals[0] is None else self._one(negated, literals[0])

    def _one(self, op: str, literal: Any) -> Mask:
        match op:
            case "eq":
                return self._equal(literal)
            case "ne":
                return self._other_than((literal,))
            case "lt" | "le":
                return self._below(literal, inclusive=op == "le")
            case "gt" | "ge":
                return self._above(literal, inclusive=op == "ge")
            case "starts_with":
                return self._prefix(literal)
            case "like" if isinstance(literal, str):
                return self._prefix(like_prefix(literal))
        return self.has_value

    def _none(self) -> Mask:
        return np.zeros(len(self.has_value), dtype=np.bool_)

    def _compare(self, function: str, bound: pa.Array, literal: Any) -> Mask:
        """A comparison of a bound with a literal; true where the bound is unknown."""
        if bound.type == pa.null():
            return np.ones(len(self.has_value), dtype=np.bool_)
        if self.floating:
            if isinstance(literal, int) and abs(literal) > 2**53:
                return np.ones(len(self.has_value), dtype=np.bool_)
            bound, scalar = pc.cast(bound, pa.float64()), pa.scalar(float(literal), pa.float64())
        else:
            scalar = literal_scalar(literal, bound.type)
        return _mask(getattr(pc, function)(bound, scalar), unknown=True)

    def _below(self, literal: Any, *, inclusive: bool) -> Mask:
        """Files that may hold a value less than (or equal to) the literal."""
        if literal is None:
            return self._none()
        if is_nan(literal):
            return self.has_value
        return self.has_value & self._compare("less_equal" if inclusive else "less", self.low, literal)

    def _above(self, literal: Any, *, inclusive: bool) -> Mask:
        """Files that may hold a value greater than (or equal to) the literal."""
        if literal is None:
            return self._none()
        if self.floating:
            return self.has_value  # NaN is greater
        return self.has_value & self._compare("greater_equal" if inclusive else "greater", self.high, literal)

    def _equal(self, literal: Any) -> Mask:
        if is_nan(literal):
            return self.has_value
        return (
            self.has_value
            & self._compare("less_equal", self.low, literal)
            & self._compare("greater_equal", self.high, literal)
        )

    def _in(self, literals: Sequence[Any]) -> Mask:
        if not literals:
            return self._none()
        if len(literals) > _MANY_LITERALS:
            if any(is_nan(value) for value in literals):
                return self.has_value
            at_least = self._compare("less_equal", self.low, max(literals))
            return self.has_value & at_least & self._compare("greater_equal", self.high, min(literals))
        return reduce(np.logical_or, [self._equal(literal) for literal in literals])

    def _other_than(self, literals: Sequence[Any]) -> Mask:
        """Files that may hold a value that is none of the literals."""
        if self.floating or self.low.type == pa.null():
            return self.has_value
        only = self._none()
        for literal in literals if len(literals) <= _MANY_LITERALS else ():
            scalar = literal_scalar(literal, self.low.type)
            low_is, high_is = (_mask(pc.equal(bound, scalar), unknown=False) for bound in (self.low, self.high))
            only |= low_is & high_is
        return self.has_value & ~only

    def _prefix(self, prefix: str | bytes) -> Mask:
        """Files that may hold a value that starts with the prefix."""
        if not prefix:
            return self.has_value
        # low <= every value with the prefix at its greatest: compare only as much of low as the prefix is long
        at_least = self._compare("greater_equal", self.high, prefix)
        at_most = self._compare("less_equal", self.low, prefix)
        if self.low.type != pa.null():
            at_most |= _mask(pc.starts_with(self.low, prefix), unknown=True)
        return self.has_value & at_least & at_most

    def _all_start_with(self, prefix: str | bytes) -> Mask:
        if self.low.type == pa.null() or self.high.type == pa.null():
            return self._none()
        both = [_mask(pc.starts_with(bound, prefix), unknown=False) for bound in (self.low, self.high)]
        return both[0] & both[1]
