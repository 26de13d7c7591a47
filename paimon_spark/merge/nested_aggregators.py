"""Aggregate functions over ARRAY<ROW>, a table inside a column: nested_update and nested_partial_update.

Source: Java ``FieldNestedUpdateAgg``, ``FieldNestedPartialUpdateAgg``. With a key Java keeps the rows in a hash table;
ours stand in the order in which their keys came first: no order is promised.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import AggregateOptions
from paimon_spark.merge.collection_aggregators import CombiningAggregator, interleaved, only_where, pair_starts
from paimon_spark.merge.elements import (
    Lists,
    equality_codes,
    first_occurrences,
    groups_of,
    occurrence_numbers,
    pair_codes,
)
from paimon_spark.merge.merged_rows import take_rows
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks
from paimon_spark.merge.value_aggregators import valid_mask
from paimon_spark.spec.data_types import ArrayType, RowType


class _NestedTable(CombiningAggregator):
    """What both functions share: the fields of the rows, their key and what a null in it does."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        row = options.type.element if isinstance(options.type, ArrayType) else None
        self._names = [field.name for field in row.fields] if isinstance(row, RowType) else []

    def _fields(self, elements: pa.Array, names: tuple[str, ...]) -> list[pa.Array]:
        children = elements.flatten()
        return [children[self._names.index(name)] for name in names]

    def _usable(self, elements: pa.Array) -> Mask:
        """Elements that are not null and whose key has no null that makes them invalid."""
        usable = valid_mask(elements)
        if self.options.null_keys == "merge" or not self.options.nested_key:
            return usable
        complete = np.ones(len(elements), np.bool_)
        for child in self._fields(elements, self.options.nested_key):
            complete &= valid_mask(child)
        if self.options.null_keys == "error" and bool((usable & ~complete).any()):
            raise DataError(
                f"Nested key contains null values. Primary key fields must not be null (column '{self.options.field}')."
            )
        return usable & complete

    def _keys(self, owners: Indices, elements: pa.Array) -> Indices:
        joint = owners
        for child in self._fields(elements, self.options.nested_key):
            joint = pair_codes(joint, equality_codes(child))
        return joint


class NestedUpdate(_NestedTable):
    """nested_update: rows are appended, or put by their key."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Adds the newer rows to the held ones; a null array changes nothing."""
        changed = valid_mask(value)
        if not self.options.nested_key:
            held_rows = Lists.of(held)
            changed &= ~held_rows.valid | (held_rows.counts < self.options.count_limit)
        return only_where(changed, held, value, self._combined)

    def _combined(self, held: pa.Array, value: pa.Array) -> pa.Array:
        parts = interleaved(held, value)
        held_sizes = parts.counts[::2]
        return self._added(parts, pair_starts(len(held)), parts.owners % 2 == 0, held_sizes).to_array()

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Adds the rows of all."""
        parts = Lists.of(take_rows(values, segments.rows))
        none_held = np.zeros(len(segments.starts), np.int64)
        return self._added(parts, segments.starts, np.zeros(len(parts.owners), np.bool_), none_held).to_array()

    def take_back(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Removes all rows that equal a retracted one, by key or as a whole."""
        return only_where(valid_mask(held) & valid_mask(value), held, value, self._taken_back)

    def _taken_back(self, held: pa.Array, value: pa.Array) -> pa.Array:
        parts = interleaved(held, value)
        lists = parts.joined(pair_starts(len(held)))
        elements = lists.children[0]
        taken = parts.owners % 2 == 1
        usable = self._usable(elements)
        joint = self._keys(lists.owners, elements)
        if not self.options.nested_key:
            joint = pair_codes(lists.owners, equality_codes(elements))
        kept = ~taken & usable & ~np.isin(joint, joint[taken & usable])
        if self.options.nested_key:
            kept[kept] = _last_of_each(joint[kept])
        return lists.chosen(np.flatnonzero(kept)).to_array()

    def _added(self, parts: Lists, starts: Indices, unlimited: Mask, held_sizes: Indices) -> Lists:
        """The rows of each run of lists put together.

        Args:
            parts: The lists.
            starts: Where each run starts.
            unlimited: Elements that ``count-limit`` does not drop: those that are held.
            held_sizes: For each run, how many elements are held, null ones included.
        """
        lists = parts.joined(starts)
        elements = lists.children[0]
        usable = np.flatnonzero(self._usable(elements))
        owners, unlimited = lists.owners[usable], unlimited[usable]
        if not self.options.nested_key:
            kept = unlimited.copy()
            newer = owners[~unlimited]
            kept[~unlimited] = occurrence_numbers(newer) < self.options.count_limit - held_sizes[newer]
            return lists.chosen(usable[kept])
        chosen = elements.take(pa.array(usable))
        joint = self._keys(owners, chosen)
        order, group_starts = groups_of(joint)
        winners = order[self._winning(chosen, order, group_starts)]
        oldest = order[group_starts]  # the key's location is where it came first; that is also what the limit counts
        slots = _distinct_before(owners, joint)
        kept_keys = unlimited[oldest] | (slots[oldest] < self.options.count_limit)
        by_location = np.argsort(oldest[kept_keys], kind="stable")
        return lists.chosen(usable[winners[kept_keys][by_location]])

    def _winning(self, elements: pa.Array, order: Indices, starts: Indices) -> Indices:
        """For each key the place in ``order`` of its row: the last one, or the last of the greatest sequence."""
        if not len(starts):
            return starts
        if not self.options.nested_sequence:
            return np.append(starts[1:], len(order)) - 1
        ranks = dense_ranks(self._fields(elements, self.options.nested_sequence))[order]
        greatest = np.maximum.reduceat(ranks, starts)
        at = ranks == np.repeat(greatest, np.diff(starts, append=len(order)))
        winning: Indices = np.maximum.reduceat(np.where(at, np.arange(len(order)), -1), starts)
        return winning


class NestedPartialUpdate(_NestedTable):
    """nested_partial_update: rows of one key become one, whose fields are the newest that are not null."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Merges the newer rows into the held ones; a null array changes nothing."""
        return only_where(valid_mask(value), held, value, self._combined)

    def _combined(self, held: pa.Array, value: pa.Array) -> pa.Array:
        return self._merged(interleaved(held, value), pair_starts(len(held)))

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Merges the rows of all."""
        return self._merged(Lists.of(take_rows(values, segments.rows)), segments.starts)

    def _merged(self, parts: Lists, starts: Indices) -> pa.Array:
        lists = parts.joined(starts)
        elements = lists.children[0]
        usable = np.flatnonzero(self._usable(elements))
        chosen = elements.take(pa.array(usable))
        owners = lists.owners[usable]
        joint = self._keys(owners, chosen)
        order, group_starts = groups_of(joint)
        by_location = np.argsort(order[group_starts], kind="stable")
        children = []
        for child in chosen.flatten():
            valid = valid_mask(child)[order]
            positions = np.where(valid, np.arange(len(order)), -1)
            newest = np.maximum.reduceat(positions, group_starts) if len(order) else positions
            rows = np.where(newest < 0, -1, order[newest]) if len(order) else newest
            children.append(take_rows(child, rows[by_location]))
        row_type = parts.type.value_type
        fields = [row_type.field(i) for i in range(row_type.num_fields)]
        counts = np.bincount(owners[order[group_starts]], minlength=len(lists.counts)).astype(np.int64)
        structs = pa.StructArray.from_arrays(children, fields=fields)
        return Lists(lists.type, (structs,), counts, lists.valid).to_array()


def _distinct_before(owners: Indices, joint: Indices) -> Indices:
    """For each element, how many other keys of its owner came before it."""
    first = np.cumsum(first_occurrences(owners, joint)) - 1
    _, starts = groups_of(owners)
    before: Indices = first - np.repeat(first[starts], np.diff(starts, append=len(owners)))
    return before


def _last_of_each(joint: Indices) -> Mask:
    order, starts = groups_of(joint)
    found = np.zeros(len(joint), np.bool_)
    if len(joint):
        found[order[np.append(starts[1:], len(order)) - 1]] = True
    return found
