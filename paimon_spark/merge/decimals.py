"""Sum and product of DECIMAL columns as Java computes them on unscaled numbers.

Source: Java ``DecimalUtils.add/subtract``, ``Decimal.fromBigDecimal``, ``FieldProductAgg``. Up to 18 digits a sum is
long arithmetic that may silently exceed the precision; what leaves a long, or more than 18 digits, becomes null beyond
the precision. Products and quotients round half up to the column's scale.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import AggregateOptions, FieldState
from paimon_spark.merge.segments import Indices, Segments

_COMPACT_DIGITS = 18
_LONG = 2**63


class DecimalNumbers(FieldState):
    """Accumulators of unscaled numbers as Python integers: exact, and slower than the other functions.

    ``sum_longs`` handles the usual sums without it.
    """

    def __init__(self, options: AggregateOptions, values: pa.Array, keys: int) -> None:
        super().__init__(options)
        self._type = values.type
        self._words = decimal_words(values)
        self._valid = values.is_valid().to_numpy(zero_copy_only=False)
        self._held: npt.NDArray[Any] = np.full(keys, None, object)
        self._limit = 10**self._type.precision
        self._unit = 10**self._type.scale
        self._is_sum = options.function == "sum"

    def assign(self, keys: Indices, rows: Indices) -> None:
        """The accumulators become the rows' numbers."""
        self._held[keys] = self._integers(rows)

    def add(self, keys: Indices, rows: Indices) -> None:
        """Null is the identity."""
        operation = self._sum if self._is_sum else self._product
        self._apply(keys, rows, operation, lambda value: value)

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Addition and multiplication commute."""
        self.add(keys, rows)

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Takes the number back; a null accumulator becomes its negative (sum) or stays null (product)."""
        if self._is_sum:
            self._apply(keys, rows, lambda held, value: self._sum(held, -value), lambda value: -value)
        else:
            self._apply(keys, rows, self._quotient, lambda value: None)

    def result(self) -> pa.Array:
        """The numbers as decimals."""
        return decimals_from_integers(self._held, self._type)

    def _apply(self, keys: Indices, rows: Indices, both: Any, alone: Any) -> None:
        for key, value in zip(keys, self._integers(rows), strict=True):
            if value is not None:
                held = self._held[key]
                self._held[key] = alone(value) if held is None else both(held, value)

    def _integers(self, rows: Indices) -> npt.NDArray[Any]:
        chosen = self._words[rows]
        numbers: npt.NDArray[Any] = chosen[:, 1].astype(object) * 2**64 + chosen[:, 0].view(np.uint64).astype(object)
        numbers[~self._valid[rows]] = None
        return numbers

    def _sum(self, held: int, value: int) -> int | None:
        total = held + value
        if self._type.precision <= _COMPACT_DIGITS and -_LONG <= total < _LONG:
            return total
        return self._within(total)

    def _product(self, held: int, value: int) -> int | None:
        return self._within(_half_up(held * value, self._unit))

    def _quotient(self, held: int, value: int) -> int | None:
        divisor = value // (math.gcd(held, value) or 1)
        for prime in (2, 5):
            while divisor and divisor % prime == 0:
                divisor //= prime
        if abs(divisor) != 1:
            raise DataError(
                f"Aggregate function '{self.options.function}' of column '{self.options.field}': a row cannot be "
                + (
                    "retracted by a division by zero."
                    if value == 0
                    else "retracted: Non-terminating decimal expansion."
                )
            )
        return self._within(_half_up(held * self._unit, value))

    def _within(self, number: int) -> int | None:
        return number if abs(number) < self._limit else None


def _half_up(number: int, divisor: int) -> int:
    if divisor < 0:
        number, divisor = -number, -divisor
    magnitude = (2 * abs(number) + divisor) // (2 * divisor)
    return magnitude if number >= 0 else -magnitude


def decimal_words(values: pa.Array) -> npt.NDArray[np.int64]:
    """Unscaled values as rows of (low 64 bits, high 64 bits)."""
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)


def decimals_from_words(
    words: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_], arrow_type: pa.DataType
) -> pa.Array:
    """Decimals from (low, high) words; the precision is not checked, as Java does not."""
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(arrow_type, len(words), [validity, pa.py_buffer(np.ascontiguousarray(words))])


def decimals_from_integers(numbers: npt.NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """Decimals from unscaled Python integers and None."""
    missing = np.array([number is None for number in numbers], np.bool_)
    data = b"".join((0 if number is None else int(number)).to_bytes(16, "little", signed=True) for number in numbers)
    return decimals_from_words(np.frombuffer(data, np.int64).reshape(-1, 2), missing, arrow_type)


def sum_longs(values: pa.Array, segments: Segments, negative: npt.NDArray[np.bool_] | None = None) -> pa.Array | None:
    """Sums of each segment where all unscaled numbers and all sums fit a long, else None.

    Args:
        values: The decimals.
        segments: Their rows are positions in ``values``.
        negative: For each of ``values``, whether it is subtracted; None when none is.
    """
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    chosen, present = segments.select(valid[segments.rows])
    words = decimal_words(values)[chosen.rows]
    low, high = words[:, 0], words[:, 1]
    if bool((high != low >> 63).any()):
        return None
    totals = np.zeros(len(segments.starts), np.int64)
    if len(present):
        largest = np.maximum.reduceat(np.abs(low.astype(np.float64)), chosen.starts)
        if bool((largest * chosen.counts >= _LONG / 2).any()):
            return None
        if negative is not None:
            low = np.where(negative[chosen.rows], -low, low)
        totals[present] = np.add.reduceat(low, chosen.starts)
    missing = np.ones(len(totals), np.bool_)
    missing[present] = False
    return decimals_from_words(np.stack([totals, totals >> 63], axis=1), missing, values.type)
