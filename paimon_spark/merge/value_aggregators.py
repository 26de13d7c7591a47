"""Aggregate functions whose result is the value of one of the rows: first, last, smallest, largest.

Source: Java ``FieldLastValueAgg``, ``FieldLastNonNullValueAgg``, ``FieldFirstValueAgg``, ``FieldFirstNonNullValueAgg``,
``FieldMaxAgg``, ``FieldMinAgg``, ``FieldPrimaryKeyAgg``. All work on row numbers; no value is copied.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.merge.aggregators import AggregateOptions, Aggregator, FieldState
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks, fixed_values, has_fixed_width_order


def valid_mask(values: pa.Array) -> Mask:
    """Where the values are not null."""
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    if values.buffers()[0] is None:  # a type whose nulls are no bits of its own
        return values.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    bits = np.frombuffer(values.buffers()[0], np.uint8)
    begin = values.offset // 8
    found = np.unpackbits(bits[begin:], count=values.offset % 8 + len(values), bitorder="little")
    return found[values.offset % 8 :].view(np.bool_)


class RowState(FieldState):
    """Accumulators that are row numbers: a plain column, which takes every row it is given."""

    def __init__(self, options: AggregateOptions, keys: int) -> None:
        super().__init__(options)
        self.rows = np.full(keys, -1, np.int64)

    def assign(self, keys: Indices, rows: Indices) -> None:
        """The accumulators become the rows' values."""
        self.rows[keys] = rows

    def add(self, keys: Indices, rows: Indices) -> None:
        """Takes the value, null or not."""
        self.rows[keys] = rows

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """An older value changes nothing."""

    def retract(self, keys: Indices, rows: Indices) -> None:
        """The value becomes null."""
        self.rows[keys] = -1

    def result(self) -> Indices:
        """The row numbers."""
        return self.rows


class _NullAwareState(RowState):
    def __init__(self, options: AggregateOptions, keys: int, valid: Mask) -> None:
        super().__init__(options, keys)
        self.valid = valid

    def holds_value(self, keys: Indices) -> Mask:
        rows = self.rows[keys]
        held: Mask = (rows >= 0) & self.valid[rows]
        return held


class LastValue(Aggregator):
    """last_value: the newest row's value, null included."""

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return RowState(self.options, keys)

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The newest row that is not late."""
        if segments.late is None:
            return segments.last_rows
        return segments.last_where(~segments.late)

    def merge_retracting(self, values: pa.Array, segments: Segments, retracts: Mask) -> Indices:
        """The last row, or null when it is taken back."""
        gone = retracts[np.append(segments.starts[1:], len(segments.rows)) - 1]
        return np.where(gone, -1, segments.last_rows)


class PrimaryKey(LastValue):
    """primary-key: every row has the same value; a retraction keeps it."""

    def merge_retracting(self, values: pa.Array, segments: Segments, retracts: Mask) -> Indices:
        """The last row."""
        return segments.last_rows

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _PrimaryKeyState(self.options, keys)


class _PrimaryKeyState(RowState):
    def retract(self, keys: Indices, rows: Indices) -> None:
        """Takes the value."""
        self.rows[keys] = rows


class LastNonNullValue(Aggregator):
    """last_non_null_value: the newest value that is not null."""

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _LastNonNullState(self.options, keys, valid_mask(values))

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The newest value in order, else the first late one (late values only fill a null)."""
        valid = valid_mask(values)[segments.rows]
        if segments.late is None:
            return segments.last_where(valid)
        newest = segments.last_where(valid & ~segments.late)
        return np.where(newest >= 0, newest, segments.first_where(valid))

    def merge_retracting(self, values: pa.Array, segments: Segments, retracts: Mask) -> Indices:
        """The last row with a value, or null when that is taken back."""
        last = segments.last_position(valid_mask(values)[segments.rows])
        return np.where((last < 0) | retracts[last], -1, segments.rows[last])


class _LastNonNullState(_NullAwareState):
    def add(self, keys: Indices, rows: Indices) -> None:
        """A null changes nothing."""
        taken = self.valid[rows]
        self.rows[keys[taken]] = rows[taken]

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Fills a null only."""
        empty = ~self.holds_value(keys)
        self.rows[keys[empty]] = rows[empty]

    def retract(self, keys: Indices, rows: Indices) -> None:
        """A value that is not null makes the accumulator null."""
        self.rows[keys[self.valid[rows]]] = -1


class FirstValue(Aggregator):
    """first_value: the oldest row's value, null included."""

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _FirstState(self.options, keys)

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The last late row, each of which was older than all before it; without one, the first row."""
        first = segments.rows[segments.starts]
        if segments.late is None:
            return first
        late = segments.last_where(segments.late)
        return np.where(late >= 0, late, first)


class _FirstState(RowState):
    def __init__(self, options: AggregateOptions, keys: int) -> None:
        super().__init__(options, keys)
        self.initialized = np.zeros(keys, np.bool_)

    def add(self, keys: Indices, rows: Indices) -> None:
        """Takes the first row it is given."""
        fresh = ~self.initialized[keys]
        self.rows[keys[fresh]] = rows[fresh]
        self.initialized[keys] = True

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Takes the row, unless nothing was taken yet: then the accumulator counts as taken."""
        known = self.initialized[keys]
        self.rows[keys[known]] = rows[known]
        self.initialized[keys] = True

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Not supported."""
        FieldState.retract(self, keys, rows)


class FirstNonNullValue(Aggregator):
    """first_non_null_value: the oldest value that is not null."""

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _FirstNonNullState(self.options, keys, valid_mask(values))

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The row that initialises the accumulator, or the last late row after it (null included)."""
        valid = valid_mask(values)[segments.rows]
        if segments.late is None:
            return segments.first_where(valid)
        none = len(segments.rows)
        late = segments.late
        positions = np.arange(none)

        def or_none(found: Indices) -> Indices:
            return np.where(found < 0, none, found)

        in_order = or_none(segments.first_position(valid & ~late))
        filler = or_none(segments.first_position(valid & late))  # fills the null without initialising
        confirming = or_none(segments.first_position(late & (positions > filler[segments.owners])))
        initial = np.minimum(in_order, confirming)
        value = np.where(in_order <= confirming, in_order, filler)
        value = np.where(initial == none, filler, value)
        last_late = segments.last_position(late & (positions > initial[segments.owners]))
        value = np.where(last_late >= 0, last_late, value)
        return np.where(value == none, -1, segments.rows[np.minimum(value, none - 1)])


class _FirstNonNullState(_NullAwareState):
    def __init__(self, options: AggregateOptions, keys: int, valid: Mask) -> None:
        super().__init__(options, keys, valid)
        self.initialized = np.zeros(keys, np.bool_)

    def add(self, keys: Indices, rows: Indices) -> None:
        """Takes the first value that is not null."""
        fresh = ~self.initialized[keys] & self.valid[rows]
        self.rows[keys[fresh]] = rows[fresh]
        self.initialized[keys[fresh]] = True

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Java swaps the arguments: an accumulator with a value counts as taken, else the row is taken as it is."""
        keeps = ~self.initialized[keys] & self.holds_value(keys)
        self.initialized[keys[keeps]] = True
        self.rows[keys[~keeps]] = rows[~keeps]

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Not supported."""
        FieldState.retract(self, keys, rows)


class Largest(Aggregator):
    """max: the largest value; nulls do not count."""

    sign = 1

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _ExtremeState(self.options, keys, valid_mask(values), self._ordered(values))

    def merge(self, values: pa.Array, segments: Segments) -> Indices:
        """The row of the extreme value of each segment."""
        result = np.full(len(segments.starts), -1, np.int64)
        chosen, present = segments.select(valid_mask(values)[segments.rows])
        if len(present):
            ordered = self._ordered(values)[chosen.rows]
            best = np.maximum.reduceat(ordered, chosen.starts)
            result[present] = chosen.last_where(ordered == np.repeat(best, chosen.counts))
        return result

    def _ordered(self, values: pa.Array) -> Indices:
        ordered = fixed_values(values) if has_fixed_width_order(values.type) else dense_ranks([values])
        return ordered if self.sign > 0 else ~ordered


class Smallest(Largest):
    """min: the smallest value; nulls do not count."""

    sign = -1


class _ExtremeState(_NullAwareState):
    def __init__(self, options: AggregateOptions, keys: int, valid: Mask, ordered: Indices) -> None:
        super().__init__(options, keys, valid)
        self.ordered = ordered

    def add(self, keys: Indices, rows: Indices) -> None:
        """Takes a value beyond the accumulator."""
        taken = self.valid[rows] & (~self.holds_value(keys) | (self.ordered[rows] > self.ordered[self.rows[keys]]))
        self.rows[keys[taken]] = rows[taken]

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """The order does not matter."""
        self.add(keys, rows)

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Not supported."""
        FieldState.retract(self, keys, rows)
