"""Aggregate functions of columns, and those whose result is the value of one of the rows.

Source: docs/internals/format.md §10; Java ``FieldAggregatorFactory`` and the ``Field*Agg`` classes. Here is how
functions are named, what they need, and how they fold rows of a key. Each aggregator has two forms:

- ``merge``: all rows of many keys at once, for keys without retractions;
- ``state``: one accumulator per key that takes one row per key at a time (``add``, ``add_late``, ``retract``), for keys
  with retractions. It is vectorised over keys.

A result is either row numbers (the value is that row's value; -1 is null) or an array of values, one per key.

First, last, smallest and largest values (Java: ``FieldLastValueAgg``, ``FieldLastNonNullValueAgg``,
``FieldFirstValueAgg``, ``FieldFirstNonNullValueAgg``, ``FieldMaxAgg``, ``FieldMinAgg``, ``FieldPrimaryKeyAgg``) work on
row numbers; no value is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError, OptionError
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks, fixed_values, has_fixed_width_order
from paimon_spark.spec.data_types import DataType

PRIMARY_KEY = "primary-key"
_RETRACTING = frozenset(
    ("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update", PRIMARY_KEY)
)
_FIRST_AS_IS = frozenset(
    (
        *("sum", "product", "max", "min", "last_value", "last_non_null_value", "bool_and", "bool_or", "merge_map"),
        *("rbm32", "rbm64", "hll_sketch", "theta_sketch", PRIMARY_KEY),
    )
)
_FOLD_CLASSES = (16, 1024)
_UNBOUNDED = 2**31 - 1

Merged: TypeAlias = Indices | pa.Array


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """The options of one aggregated column.

    Attributes:
        function: Name of the aggregate function.
        field: Name of the column.
        type: Type of the column.
        delimiter: ``list-agg-delimiter``.
        distinct: ``distinct`` of listagg and collect.
        nested_key: ``nested-key``.
        nested_sequence: ``nested-sequence-field``.
        null_keys: ``nested-key-null-strategy``: merge, ignore or error.
        count_limit: ``count-limit``.
        time_field: ``ts-field`` of merge_map_with_keytime, or None for the last field.
        ignore_retract: ``ignore-retract``.
    """

    function: str
    field: str
    type: DataType
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    nested_sequence: tuple[str, ...] = ()
    null_keys: str = "merge"
    count_limit: int = _UNBOUNDED
    time_field: str | None = None
    ignore_retract: bool = False


def aggregate_options(function: str, field: str, data_type: DataType, options: Mapping[str, str]) -> AggregateOptions:
    """Reads the ``fields.<field>.*`` options of an aggregated column."""

    def text(name: str) -> str | None:
        return options.get(f"fields.{field}.{name}")

    def flag(name: str) -> bool:
        return (text(name) or "false").strip().lower() == "true"

    def names(name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in (text(name) or "").split(",") if part.strip())

    delimiter, limit = text("list-agg-delimiter"), text("count-limit")
    strategy = (text("nested-key-null-strategy") or "merge").strip().lower()
    if strategy not in ("merge", "ignore", "error"):
        raise OptionError(
            f"Unsupported nested-key-null-strategy '{strategy}' of column '{field}'. Use merge, ignore or error."
        )
    if text("nested-key-null-strategy") is not None and not names("nested-key"):
        raise OptionError(
            f"Option 'fields.{field}.nested-key-null-strategy' requires 'fields.{field}.nested-key' to be configured."
        )
    if names("nested-sequence-field") and not names("nested-key"):
        raise OptionError(
            f"Option 'fields.{field}.nested-sequence-field' requires 'fields.{field}.nested-key' to be configured."
        )
    try:
        count_limit = _UNBOUNDED if limit is None else int(limit)
    except ValueError:
        raise OptionError(f"Option 'fields.{field}.count-limit' must be a whole number, but is '{limit}'.") from None
    return AggregateOptions(
        function=function,
        field=field,
        type=data_type,
        delimiter="," if delimiter is None else delimiter,
        distinct=flag("distinct"),
        nested_key=names("nested-key"),
        nested_sequence=names("nested-sequence-field"),
        null_keys=strategy,
        count_limit=count_limit,
        time_field=text("ts-field"),
        ignore_retract=flag("ignore-retract"),
    )


class FieldState(ABC):
    """Accumulators of one column, one per key; each call gives at most one row to a key."""

    def __init__(self, options: AggregateOptions) -> None:
        self.options = options

    @abstractmethod
    def assign(self, keys: Indices, rows: Indices) -> None:
        """Set the accumulators to the values of the rows."""

    @abstractmethod
    def add(self, keys: Indices, rows: Indices) -> None:
        """Java ``agg(accumulator, input)``."""

    @abstractmethod
    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Java ``aggReversed(accumulator, input)``: the row is older than the accumulator."""

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Java ``retract(accumulator, input)``.

        Raises:
            DataError: The function cannot take a row back.
        """
        raise no_retraction(self.options)

    @abstractmethod
    def result(self) -> Merged:
        """The accumulators as row numbers or values."""


def no_retraction(options: AggregateOptions) -> DataError:
    """The error of a function that cannot take a row back."""
    return DataError(
        f"Aggregate function '{options.function}' does not support retraction (column '{options.field}'). "
        "If you allow this function to ignore retraction messages, "
        f"you can configure 'fields.{options.field}.ignore-retract'='true'."
    )


class Aggregator(ABC):
    """One aggregate function for one column."""

    def __init__(self, options: AggregateOptions) -> None:
        self.options = options

    @abstractmethod
    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators for that many keys, all null; row numbers given to them are positions in ``values``."""

    def merge(self, values: pa.Array, segments: Segments) -> Merged:
        """Folds the rows of each segment; segment rows are positions in ``values``."""
        return fold(self.state(values, len(segments.starts)), segments)

    def merge_retracting(self, values: pa.Array, segments: Segments, retracts: Mask) -> Merged:
        """Folds the rows of each segment, none of which is late, of which some are taken back.

        Args:
            values: The column.
            segments: Their rows are positions in ``values``.
            retracts: For each of ``segments.rows``, whether it is taken back.

        Raises:
            DataError: The function cannot take a row back.
        """
        return fold_retracting(self, values, segments, retracts, None)

    @property
    def takes_first_as_is(self) -> bool:
        """Whether a row that meets nothing is held as it is, and nothing else is remembered of it."""
        return self.options.function in _FIRST_AS_IS

    def check_retracts(self, retracts: Mask) -> None:
        """Refuses rows to be taken back by a function that cannot.

        Raises:
            DataError: The function cannot take a row back.
        """
        if self.options.function not in _RETRACTING and bool(retracts.any()):
            raise no_retraction(self.options)


def fold(state: FieldState, segments: Segments) -> Merged:
    """Folds rows position by position inside their segments."""
    for keys, positions in segments.by_position():
        rows = segments.rows[positions]
        if segments.late is None:
            state.add(keys, rows)
            continue
        late = segments.late[positions]
        if not late.all():
            state.add(keys[~late], rows[~late])
        if late.any():
            state.add_late(keys[late], rows[late])
    return state.result()


def fold_retracting(
    aggregator: Aggregator, values: pa.Array, segments: Segments, retracts: Mask, replaces: Mask | None
) -> Merged:
    """Folds rows position by position, long and short segments apart.

    Args:
        aggregator: The function.
        values: The column.
        segments: Their rows are positions in ``values``; none is late.
        retracts: For each of ``segments.rows``, whether it is taken back.
        replaces: For each of them, whether it replaces what is held; None when none does.
    """
    classes = np.searchsorted(_FOLD_CLASSES, segments.counts)
    slots = Segments(np.arange(len(segments.rows)), segments.starts)
    parts: list[tuple[Indices, Merged]] = []
    for number in np.unique(classes):
        chosen = np.flatnonzero(classes == number)
        state = aggregator.state(values, len(chosen))
        part = slots.pick(chosen)
        for keys, positions in part.by_position():
            at = part.rows[positions]
            _fold_one(state, keys, segments.rows[at], retracts[at], None if replaces is None else replaces[at])
        parts.append((chosen, state.result()))
    if len(parts) == 1:
        return parts[0][1]
    where = np.empty(len(classes), np.int64)
    where[np.concatenate([chosen for chosen, _ in parts])] = np.arange(len(classes))
    arrays = [
        values.take(pa.array(merged, mask=merged < 0)) if isinstance(merged, np.ndarray) else merged
        for _, merged in parts
    ]
    return pa.concat_arrays(arrays).take(pa.array(where))


def _fold_one(state: FieldState, keys: Indices, rows: Indices, retracts: Mask, replaces: Mask | None) -> None:
    if replaces is not None and replaces.any():
        state.assign(keys[replaces], rows[replaces])
        keys, rows, retracts = keys[~replaces], rows[~replaces], retracts[~replaces]
    if retracts.any():
        state.retract(keys[retracts], rows[retracts])
    if not retracts.all():
        state.add(keys[~retracts], rows[~retracts])


def unknown_function(name: str) -> OptionError:
    """The error of a name that is no aggregate function."""
    return OptionError(f"Use unsupported aggregation: {name} or spell aggregate function incorrectly!")


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
