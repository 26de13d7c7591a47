"""Aggregate functions over ARRAY and MAP columns, and listagg, which joins texts.

collect, merge_map…, nested_update, nested_partial_update are Java ``FieldCollectAgg``, ``FieldMergeMapAgg``,
``FieldMergeMapWithKeyTimeAgg``, ``FieldNestedUpdateAgg``, ``FieldNestedPartialUpdateAgg``. The last two are over
ARRAY<ROW>, a table inside a column. Where Java leaves elements in the order of a hash table, ours stand in the order of
their first occurrence: no order is promised. listagg is Java ``FieldListaggAgg`` as of 2.x, which skips blank texts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import (
    AggregateOptions,
    Aggregator,
    FieldState,
    Merged,
    fold,
    no_retraction,
    valid_mask,
)
from paimon_spark.merge.elements import (
    Lists,
    dense_codes,
    equality_codes,
    first_occurrences,
    groups_of,
    last_occurrences,
    occurrence_numbers,
    pair_codes,
)
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks
from paimon_spark.merge.stream import take_rows
from paimon_spark.spec.data_types import ArrayType, BinaryType, MapType, MultisetType, RowType, VarBinaryType

_FOLD_CLASSES = (16, 1024)


class CombiningAggregator(Aggregator):
    """A function that is given by how two arrays of values, one pair per key, become one."""

    @abstractmethod
    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Java ``agg(accumulator, input)`` for many keys."""

    def combine_late(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Java ``aggReversed``: the arguments swapped."""
        return self.combine(value, held)

    def take_back(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Java ``retract``."""
        raise no_retraction(self.options)

    def combine_all(self, values: pa.Array, segments: Segments) -> Merged:
        """All rows of keys that have no late row; by default position after position."""
        return self._fold(values, segments)

    def state(self, values: pa.Array, keys: int) -> FieldState:
        """Accumulators."""
        return _CombiningState(self, values, keys)

    def merge(self, values: pa.Array, segments: Segments) -> Merged:
        """Keys with late rows go position after position, the others all at once."""
        if segments.late is None:
            return self.combine_all(values, segments)
        late = np.logical_or.reduceat(segments.late, segments.starts)
        parts = []
        for numbers, merge in ((np.flatnonzero(~late), self.combine_all), (np.flatnonzero(late), self._fold)):
            picked = segments.pick(numbers)
            if merge == self.combine_all:
                picked = Segments(picked.rows, picked.starts)
            parts.append((numbers, _as_values(values, merge(values, picked))))
        return _scattered(parts, len(segments.starts))

    def _fold(self, values: pa.Array, segments: Segments) -> Merged:
        """Long and short segments apart, so that a few long ones do not cost a step over all keys each time."""
        counts = segments.counts
        classes = np.searchsorted(_FOLD_CLASSES, counts)
        parts = []
        for number in np.unique(classes):
            numbers = np.flatnonzero(classes == number)
            merged = fold(self.state(values, len(numbers)), segments.pick(numbers))
            parts.append((numbers, _as_values(values, merged)))
        return _scattered(parts, len(counts)) if parts else values.slice(0, 0)


def _as_values(values: pa.Array, merged: Merged) -> pa.Array:
    return take_rows(values, merged) if isinstance(merged, np.ndarray) else merged


def _scattered(parts: list[tuple[Indices, pa.Array]], size: int) -> pa.Array:
    slots = np.empty(size, np.int64)
    slots[np.concatenate([numbers for numbers, _ in parts])] = np.arange(size)
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(slots))


class _CombiningState(FieldState):
    def __init__(self, owner: CombiningAggregator, values: pa.Array, keys: int) -> None:
        super().__init__(owner.options)
        self._owner = owner
        self._values = values
        self._held: pa.Array = pa.nulls(keys, values.type)

    def assign(self, keys: Indices, rows: Indices) -> None:
        """The accumulators become the rows' values."""
        self._store(keys, take_rows(self._values, rows))

    def add(self, keys: Indices, rows: Indices) -> None:
        """Combines."""
        self._store(keys, self._owner.combine(take_rows(self._held, keys), take_rows(self._values, rows)))

    def add_late(self, keys: Indices, rows: Indices) -> None:
        """Combines reversed."""
        self._store(keys, self._owner.combine_late(take_rows(self._held, keys), take_rows(self._values, rows)))

    def retract(self, keys: Indices, rows: Indices) -> None:
        """Takes back."""
        self._store(keys, self._owner.take_back(take_rows(self._held, keys), take_rows(self._values, rows)))

    def result(self) -> pa.Array:
        """The values."""
        return self._held

    def _store(self, keys: Indices, values: pa.Array) -> None:
        if not len(keys):
            return
        slots = np.arange(len(self._held))
        slots[keys] = len(self._held) + np.arange(len(keys))
        self._held = take_rows(pa.concat_arrays([self._held, values]), slots)


def interleaved(held: pa.Array, value: pa.Array) -> Lists:
    """The lists (held, value) of each key one behind the other: key k has lists 2k and 2k + 1."""
    pairs = np.arange(2 * len(held)).reshape(2, -1).T.ravel()
    return Lists.of(take_rows(pa.concat_arrays([held, value]), pairs))


def pair_starts(keys: int) -> Indices:
    """Where the pairs of ``interleaved`` start."""
    return np.arange(keys, dtype=np.int64) * 2


def where(mask: Mask, left: pa.Array, right: pa.Array) -> pa.Array:
    """Left where the mask holds, else right."""
    if mask.all():
        return left
    return take_rows(pa.concat_arrays([left, right]), np.arange(len(mask)) + np.where(mask, 0, len(mask)))


def only_where(
    mask: Mask, held: pa.Array, value: pa.Array, combine: Callable[[pa.Array, pa.Array], pa.Array]
) -> pa.Array:
    """Combines where the mask holds and keeps what is held elsewhere."""
    if mask.all():
        return combine(held, value)
    slots = np.arange(len(held))
    chosen = np.flatnonzero(mask)
    if not len(chosen):
        return held
    slots[chosen] = len(held) + np.arange(len(chosen))
    return take_rows(pa.concat_arrays([held, combine(take_rows(held, chosen), take_rows(value, chosen))]), slots)


class Collect(CombiningAggregator):
    """collect: the elements of all arrays; with ``distinct`` each once.

    Late arrays are appended too, but stand in front with ``ignore-retract``: Java's ``FieldIgnoreRetractAgg`` does not
    pass ``aggReversed`` on, so this function's own, which keeps the accumulator in front, is not called.
    """

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        element = options.type.element if isinstance(options.type, ArrayType) else None
        # Java: elements it cannot hash are compared with those in front only, which are taken to be distinct already
        self._trusts_front = isinstance(
            element, ArrayType | MapType | MultisetType | RowType | BinaryType | VarBinaryType
        )

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Appends the elements."""
        return self._joined(interleaved(held, value), pair_starts(len(held)), held_first=True)

    def combine_late(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Appends the elements, or puts them in front with ``ignore-retract``."""
        return self.combine(value, held) if self.options.ignore_retract else self.combine(held, value)

    def merge(self, values: pa.Array, segments: Segments) -> Merged:
        """Puts the elements of all rows together."""
        rows = segments.rows
        if segments.late is not None and self.options.ignore_retract:
            if self.options.distinct and self._trusts_front:
                return super().merge(values, segments)
            rows = segments.latest_first
        return self._joined(Lists.of(take_rows(values, rows)), segments.starts)

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Appends the elements of all rows."""
        return self._joined(Lists.of(take_rows(values, segments.rows)), segments.starts)

    def take_back(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Removes one equal element for each element."""
        parts = interleaved(held, value)
        lists = parts.joined(pair_starts(len(held)))
        joint = dense_codes(pair_codes(lists.owners, equality_codes(lists.children[0])))
        taken = parts.owners % 2 == 1
        retracted = np.bincount(joint[taken], minlength=int(joint.max()) + 1 if len(joint) else 0)
        kept = np.zeros(len(joint), np.bool_)
        kept[~taken] = occurrence_numbers(joint[~taken]) >= retracted[joint[~taken]]
        remaining = lists.chosen(np.flatnonzero(kept))
        return Lists(remaining.type, remaining.children, remaining.counts, valid_mask(held)).to_array()

    def _joined(self, parts: Lists, starts: Indices, *, held_first: bool = False) -> pa.Array:
        lists = parts.joined(starts)
        if self.options.distinct:
            kept = first_occurrences(lists.owners, equality_codes(lists.children[0]))
            if held_first and self._trusts_front:
                kept |= parts.owners % 2 == 0
            lists = lists.chosen(np.flatnonzero(kept))
        return lists.to_array()


class MergeMap(CombiningAggregator):
    """merge_map: the entries of all maps; a newer entry replaces one with the same key."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Puts the newer entries over the held ones; with one side null the other stays as it is."""
        both = valid_mask(held) & valid_mask(value)
        return only_where(both, where(valid_mask(held), held, value), value, self._combined)

    def _combined(self, held: pa.Array, value: pa.Array) -> pa.Array:
        return self._joined(interleaved(held, value), pair_starts(len(held)))

    def combine_all(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Puts the entries of all rows."""
        return self._joined(Lists.of(take_rows(values, segments.rows)), segments.starts)

    def take_back(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Removes the keys of the retracted map."""
        parts = interleaved(held, value)
        lists = parts.joined(pair_starts(len(held)))
        joint = pair_codes(lists.owners, equality_codes(lists.children[0]))
        taken = parts.owners % 2 == 1
        kept = ~taken & ~np.isin(joint, joint[taken])
        remaining = lists.chosen(np.flatnonzero(kept))
        return Lists(remaining.type, remaining.children, remaining.counts, valid_mask(held)).to_array()

    @staticmethod
    def _joined(parts: Lists, starts: Indices) -> pa.Array:
        lists = parts.joined(starts)
        codes = equality_codes(lists.children[0])
        first = np.flatnonzero(first_occurrences(lists.owners, codes))
        last = np.flatnonzero(last_occurrences(lists.owners, codes))
        joint = pair_codes(lists.owners, codes)
        newest = last[np.argsort(joint[last], kind="stable")]
        by_code = np.argsort(joint[first], kind="stable")
        chosen = np.empty(len(first), np.int64)
        chosen[by_code] = newest  # the newest value stands where its key came first
        return lists.chosen(chosen).to_array()


class MergeMapWithKeyTime(CombiningAggregator):
    """merge_map_with_keytime: per key the entry with the greater time (a text); a null value removes the key."""

    def __init__(self, options: AggregateOptions) -> None:
        super().__init__(options)
        row = options.type.value if isinstance(options.type, MapType) else None
        names = [field.name for field in row.fields] if isinstance(row, RowType) else []
        self._time_field = names.index(options.time_field) if options.time_field else len(names) - 1

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Merges the entries of the newer map into the held one; with one side null the other stays as it is."""
        both = valid_mask(held) & valid_mask(value)
        return only_where(both, where(valid_mask(held), held, value), value, self._combined)

    def _combined(self, held: pa.Array, value: pa.Array) -> pa.Array:
        parts = interleaved(held, value)
        lists = parts.joined(pair_starts(len(held)))
        keys, rows = lists.children
        newer = parts.owners % 2 == 1
        present = valid_mask(rows)
        times = rows.flatten()[self._time_field]
        timed = present & valid_mask(times)
        ranks = np.where(timed, dense_ranks([times]) + 1, 0)
        joint = pair_codes(lists.owners, equality_codes(keys))
        chosen = _newest_entries(joint, newer, present, timed, ranks)
        return lists.chosen(chosen).to_array()


def _newest_entries(joint: Indices, newer: Mask, present: Mask, timed: Mask, ranks: Indices) -> Indices:
    """Which entries remain, in element order: Java's put, remove and compare for entries in the order they come.

    Of the newer map's entries a null row removes what stood before, a row without time is skipped, and a row with time
    replaces one that is missing, null, without time or of a smaller time.
    """
    counts_as = ~newer | ~present | timed
    elements = np.flatnonzero(counts_as)
    order, starts = groups_of(joint[elements])
    elements = elements[order]
    if not len(elements):
        return elements
    counts = np.diff(starts, append=len(elements))
    owners = np.repeat(np.arange(len(starts)), counts)
    positions = np.arange(len(elements))
    removes = newer[elements] & ~present[elements]
    barrier = np.maximum.reduceat(np.where(removes, positions, -1), starts)
    alive = positions > barrier[owners]
    best = np.where(alive, ranks[elements], -1)
    greatest = np.maximum.reduceat(best, starts)
    first_best = np.minimum.reduceat(np.where(alive & (best == greatest[owners]), positions, len(elements)), starts)
    found: Indices = np.sort(elements[first_best[first_best < len(elements)]])
    return found


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
        """For each key the position in ``order`` of its row: the last one, or the last of the greatest sequence."""
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


# Character.isWhitespace
_BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


def filled_mask(texts: pa.Array) -> Mask:
    """Where a text is neither null nor blank."""
    lengths = pc.binary_length(pc.utf8_trim(texts, characters=_BLANKS)).fill_null(0)
    return lengths.to_numpy() > 0  # type: ignore[no-any-return]


class ListAgg(CombiningAggregator):
    """listagg: newer texts behind, late ones in front; with ``distinct`` a newer text adds only its new tokens."""

    def combine(self, held: pa.Array, value: pa.Array) -> pa.Array:
        """Appends the newer text."""
        held_filled, value_filled = filled_mask(held), filled_mask(value)
        pairs = np.arange(2 * len(held)).reshape(2, -1).T.ravel()
        texts = take_rows(pa.concat_arrays([held, value]), pairs)
        both = held_filled & value_filled
        joined = self._joined(texts, np.repeat(both, 2), pair_starts(len(held)))
        return where(both, joined, where(value_filled, value, held))

    def merge(self, values: pa.Array, segments: Segments) -> Merged:
        """Joins the texts of all rows: late ones, latest first, then those in order."""
        if self.options.distinct and not self.options.delimiter:
            return self._fold(values, segments)  # tokens that were joined without a delimiter are one token
        fallback = np.full(len(segments.starts), -1, np.int64)
        if segments.late is not None:
            fallback = segments.last_where(segments.late)  # Java: a late text stands while nothing filled came
        texts = take_rows(values, segments.latest_first)
        filled = filled_mask(texts)
        any_filled = np.logical_or.reduceat(filled, segments.starts) if len(segments.starts) else filled
        return where(any_filled, self._joined(texts, filled, segments.starts), take_rows(values, fallback))

    def _joined(self, texts: pa.Array, used: Mask, starts: Indices) -> pa.Array:
        """For each run of texts the used ones joined; null where none is used."""
        owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(texts)))
        rows = np.flatnonzero(used)
        pieces, owners = take_rows(texts, rows), owners[rows]
        if self.options.distinct:
            pieces, owners = self._distinct(pieces, owners)
        counts = np.bincount(owners, minlength=len(starts)).astype(np.int64)
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pieces), self.options.delimiter)
        return where(counts > 0, joined.cast(texts.type), pa.nulls(len(starts), texts.type))

    def _distinct(self, texts: pa.Array, owners: Indices) -> tuple[pa.Array, Indices]:
        """The first text of each owner as a whole, then of the others each token that has not come before."""
        lists = Lists.of(pc.split_pattern(texts, self.options.delimiter or " "))
        tokens = lists.children[0]
        of_text = lists.owners
        first_texts = np.concatenate(([True], owners[1:] != owners[:-1])) if len(owners) else np.empty(0, np.bool_)
        new = first_occurrences(owners[of_text], equality_codes(tokens)) & filled_mask(tokens)
        added = np.flatnonzero(new & ~first_texts[of_text])
        whole = np.flatnonzero(first_texts)
        pieces = pa.concat_arrays([take_rows(texts, whole), take_rows(tokens, added)])
        text_numbers = np.concatenate([whole, of_text[added]])
        order = np.argsort(text_numbers, kind="stable")
        return take_rows(pieces, order), owners[text_numbers[order]]
