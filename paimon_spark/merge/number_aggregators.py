"""Aggregate functions that compute: sum, product, bool_and, bool_or.

Source: Java ``FieldSumAgg``, ``FieldProductAgg``, ``FieldBoolAndAgg``, ``FieldBoolOrAgg``, ``DecimalUtils``. Floats are
added strictly in row order. Integers that leave their type are an error (as in Paimon 2.x; 1.x wrapped around).

Sum and product of DECIMAL columns as Java computes them on unscaled numbers.

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
from paimon_spark.merge.aggregators import AggregateOptions, Aggregator, FieldState, Merged, valid_mask
from paimon_spark.merge.segments import Indices, Mask, Segments, reduce_exactly
from paimon_spark.merge.sort import decimal_words

Numbers = npt.NDArray[Any]
_JAVA_NAMES = {1: "byte", 2: "short", 4: "int", 8: "long"}

_COMPACT_DIGITS = 18
_LONG = 2**63


class _Arithmetic:
    """Java's arithmetic of one numeric type on numpy arrays; overflow of integers raises DataError."""

    def __init__(self, options: AggregateOptions, dtype: np.dtype[Any]) -> None:
        self.options = options
        self.dtype = dtype
        self.exact = dtype.kind == "i"

    def _check(self, bad: Mask, left: Numbers, right: Numbers, symbol: str) -> None:
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"Aggregate function '{self.options.function}' of column '{self.options.field}': "
                f"{_JAVA_NAMES[self.dtype.itemsize]} overflow: {left[at]} {symbol} {right[at]}. "
                "Use a wider type for the column."
            )

    def add(self, left: Numbers, right: Numbers) -> Numbers:
        total = left + right
        if self.exact:
            self._check(((left ^ total) & (right ^ total)) < 0, left, right, "+")
        return total

    def subtract(self, left: Numbers, right: Numbers) -> Numbers:
        difference = left - right
        if self.exact:
            self._check(((left ^ right) & (left ^ difference)) < 0, left, right, "-")
        return difference

    def multiply(self, left: Numbers, right: Numbers) -> Numbers:
        product = left * right
        if self.exact:
            minimum = np.iinfo(self.dtype).min
            divisor = np.where(left == 0, 1, left)
            swapped = (left == -1) & (right == minimum)
            quotient = np.where(swapped, right, product // np.where(swapped, 1, divisor))
            wrong = swapped | ((left != 0) & ((quotient != right) | (quotient * left != product)))
            self._check(wrong, left, right, "*")
        return product

    def divide(self, left: Numbers, right: Numbers) -> Numbers:
        if not self.exact:
            return left / right
        zero = right == 0
        if zero.any():
            raise DataError(
                f"Aggregate function '{self.options.function}' of column '{self.options.field}': / by zero "
                "while a row is retracted."
            )
        self._check((right == -1) & (left == np.iinfo(self.dtype).min), left, right, "/")
        wide, divisor = left.astype(np.int64), right.astype(np.int64)
        quotient = np.abs(wide) // np.abs(divisor)
        if self.dtype.itemsize == 8:  # abs of the smallest long is itself
            smallest = np.iinfo(np.int64).min
            quotient = np.where(wide == smallest, _divide_smallest(right), quotient)
            quotient = np.where(divisor == smallest, wide == smallest, quotient)
        return np.where((left < 0) != (right < 0), -quotient, quotient).astype(self.dtype)

    def negate(self, values: Numbers) -> Numbers:
        return self.subtract(np.zeros_like(values), values) if self.exact else -values


def _divide_smallest(right: Numbers) -> Numbers:
    """abs(Long.MIN_VALUE) / abs(right), where that fits."""
    magnitude = np.abs(right).view(np.uint64)
    return (np.uint64(2**63) // np.where(magnitude == 0, 1, magnitude)).view(np.int64)


class _NumberState(FieldState):
    """Accumulators of numbers with a validity."""

    def __init__(self, owner: Sum, values: pa.Array, keys: int) -> None:
        super().__init__(owner.options)
        self._owner = owner
        self._type = values.type
        self._numbers, self._valid = _numbers(values), valid_mask(values)
        self._arithmetic = owner.arithmetic(values.type)
        self._held = np.zeros(keys, self._numbers.dtype)
        self._present = np.zeros(keys, np.bool_)

    def assign(self, keys: Indices, rows: Indices) -> None:
        """The accumulators become the rows' numbers."""
        self._held[keys], self._present[keys] = self._numbers[rows], self._valid[rows]

    def add(self, keys: Indices, rows: Indices) -> None:
        """Null is the identity."""
        keys, rows = keys[self._valid[rows]], rows[self._valid[rows]]
        both = self._present[keys]
        self.assign(keys[~both], rows[~both])
        self._set(keys[both], self._owner.forward(self._arithmetic)(self._held[keys[both]], self._numbers[rows[both]]))

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Addition and multiplication commute."""
        self.add(keys, rows)

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Takes the number back; a null accumulator becomes its negative (sum) or stays null (product)."""
        keys, rows = keys[self._valid[rows]], rows[self._valid[rows]]
        both = self._present[keys]
        if self._owner.negates and not both.all():
            self._present[keys[~both]] = True
            self._set(keys[~both], self._arithmetic.negate(self._numbers[rows[~both]]))
        self._set(keys[both], self._owner.backward(self._arithmetic)(self._held[keys[both]], self._numbers[rows[both]]))

    def _set(self, keys: Indices, numbers: Numbers) -> None:
        self._held[keys] = numbers

    def result(self) -> pa.Array:
        """The numbers."""
        return pa.array(self._held, mask=~self._present).cast(self._type)


class Sum(Aggregator):
    """sum: nulls do not count."""

    negates = True

    def arithmetic(self, arrow_type: pa.DataType) -> _Arithmetic:
        """The arithmetic of the column's type."""
        return _Arithmetic(self.options, np.dtype(arrow_type.to_pandas_dtype()))

    def forward(self, arithmetic: _Arithmetic) -> Any:
        """What a row does."""
        return arithmetic.add

    def backward(self, arithmetic: _Arithmetic) -> Any:
        """What a retraction does."""
        return arithmetic.subtract

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        if pa.types.is_decimal(values.type):
            return DecimalNumbers(self.options, values, keys)
        return _NumberState(self, values, keys)

    def merge(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Sums each segment; integers by running sums, floats strictly in order."""
        if pa.types.is_decimal(values.type):
            totals = sum_longs(values, segments) if type(self) is Sum else None
            return super().merge(values, segments) if totals is None else totals
        chosen, present = segments.select(valid_mask(values)[segments.rows])
        return self._merged(values, _slots(values)[chosen.rows], chosen, present, len(segments.starts))

    def merge_retracting(self, values: pa.Array, segments: Segments, retracts: Mask) -> Merged:
        """Sums with the sign of each row; what cannot be negated, and products, row by row."""
        if type(self) is not Sum:
            return super().merge_retracting(values, segments, retracts)
        if pa.types.is_decimal(values.type):
            gone = np.zeros(len(values), np.bool_)
            gone[segments.rows[retracts]] = True
            totals = sum_longs(values, segments, negative=gone)
            return super().merge_retracting(values, segments, retracts) if totals is None else totals
        valid = valid_mask(values)[segments.rows]
        chosen, present = segments.select(valid)
        numbers, negative = _slots(values)[chosen.rows], retracts[valid]
        if numbers.dtype.kind == "i" and bool((negative & (numbers == np.iinfo(np.int64).min)).any()):
            return super().merge_retracting(values, segments, retracts)
        if numbers.dtype.kind == "i":
            numbers = numbers.astype(np.int64)  # -(-128) of a TINYINT is only too large when it is the sum
        signed = np.where(negative, -numbers, numbers)
        return self._merged(values, signed, chosen, present, len(segments.starts))

    def _merged(
        self, values: pa.Array, numbers: Numbers, chosen: Segments, present: Indices, segments: int
    ) -> pa.Array:
        """Folds the numbers of the chosen rows; segments without any are null."""
        arithmetic = self.arithmetic(values.type)
        if not len(present):
            merged = numbers[:0]
        elif arithmetic.exact and type(self) is Sum:
            merged = self._running_sums(numbers, chosen, arithmetic)
        else:
            with np.errstate(all="ignore"):
                whole = None if arithmetic.exact else self._whole
                merged = reduce_exactly(chosen.starts, chosen.counts, numbers, self.forward(arithmetic), whole)
        held = np.zeros(segments, arithmetic.dtype)
        held[present] = merged
        missing = np.ones(segments, np.bool_)
        missing[present] = False
        return pa.array(held, mask=missing).cast(values.type)

    def _whole(self, numbers: Numbers) -> Any:
        return np.add.accumulate(numbers)[-1]

    def _running_sums(self, numbers: Numbers, segments: Segments, arithmetic: _Arithmetic) -> Numbers:
        wide = numbers.astype(np.int64)
        ends = np.append(segments.starts[1:], len(wide)) - 1
        totals = np.cumsum(wide)
        before = totals[segments.starts] - wide[segments.starts]
        running = totals - np.repeat(before, segments.counts)  # wraps like long, which cancels out
        previous = running - wide
        if arithmetic.dtype.itemsize == 8:
            bad = ((previous ^ running) & (wide ^ running)) < 0
        else:
            limits = np.iinfo(arithmetic.dtype)
            bad = (running > limits.max) | (running < limits.min)
        arithmetic._check(bad, previous, wide, "+")
        sums: Numbers = running[ends].astype(arithmetic.dtype)
        return sums


class Product(Sum):
    """product: nulls do not count."""

    negates = False

    def forward(self, arithmetic: _Arithmetic) -> Any:
        """What a row does."""
        return arithmetic.multiply

    def backward(self, arithmetic: _Arithmetic) -> Any:
        """What a retraction does."""
        return arithmetic.divide

    def _whole(self, numbers: Numbers) -> Any:
        return np.multiply.accumulate(numbers)[-1]


class And(Aggregator):
    """bool_and: true when no value is false; nulls do not count."""

    stop = False

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _BooleanState(self.options, values, keys, self.stop)

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The row of a deciding value, else of any value."""
        valid = valid_mask(values)[segments.rows]
        decides = valid & (_numbers(values)[segments.rows] == self.stop)
        deciding = segments.last_where(decides)
        return np.where(deciding >= 0, deciding, segments.last_where(valid))


class Or(And):
    """bool_or: true when a value is true; nulls do not count."""

    stop = True


class _BooleanState(FieldState):
    def __init__(self, options: AggregateOptions, values: pa.Array, keys: int, stop: bool) -> None:
        super().__init__(options)
        self._values, self._valid, self._stop = _numbers(values), valid_mask(values), stop
        self._rows = np.full(keys, -1, np.int64)

    def assign(self, keys: Indices, rows: Indices) -> None:
        """The accumulators become the rows' values."""
        self._rows[keys] = rows

    def add(self, keys: Indices, rows: Indices) -> None:
        """Takes a value where there is none, and a deciding one."""
        held = self._rows[keys]
        empty = (held < 0) | ~self._valid[held]
        taken = self._valid[rows] & (empty | (self._values[rows] == self._stop))
        self._rows[keys[taken]] = rows[taken]

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """The order does not matter."""
        self.add(keys, rows)

    def result(self) -> Indices:
        """The row numbers."""
        return self._rows


def _slots(values: pa.Array) -> Numbers:
    """The numbers as they lie in memory; a null's may be anything."""
    dtype = np.dtype(values.type.to_pandas_dtype())
    return np.frombuffer(values.buffers()[1], dtype)[values.offset : values.offset + len(values)]


def _numbers(values: pa.Array) -> Numbers:
    """The values as numpy numbers; a null's is zero."""
    if values.null_count:
        values = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
    return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


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
