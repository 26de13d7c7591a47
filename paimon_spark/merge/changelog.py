"""What became of each key: the changelog of a compaction, or the difference of two states, as +I, -U, +U and -D rows.

Equals what Java's ``LookupChangelogMergeFunctionWrapper``, ``FullChangelogMergeFunctionWrapper`` and
``IncrementalDiffSplitRead.DiffMerger`` give. In a full compaction the row of the top level is what a key was at the
last one; the merged row is what it is now.

In one with lookup, level-0 rows are merged with the newest older row of their key: as in Java's
``LookupMergeFunction`` and ``FirstRowMergeFunctionWrapper``. A row of a higher level is the merged value of all older
rows of its key: of several only that of the lowest level counts. Java looks up key by key; here the rows of higher
levels come sorted, and keys are joined a piece at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.merge.elements import equality_codes
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
    KeyOrder,
    packed_normalized_keys,
    sort_order,
    whole_column,
)
from paimon_spark.merge.stream import output_table, take_rows
from paimon_spark.spec.special_fields import RowKind, is_add

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = "_SIDE"
"""Column of the input: 0 for rows of the earlier state, 1 for those of the later one."""


@dataclass(frozen=True, slots=True)
class Diff(MergeEngine):
    """Of each key the later row, where the earlier one differs or is missing.

    Attributes:
        layout: Keys of the rows.
        keep_deletes: Rows that only the earlier state has come as -D, and -D rows of the later one stay.
    """

    layout: KeyLayout
    keep_deletes: bool = False

    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection, the key and the mark of the side."""
        return list(dict.fromkeys([*projection, *self.layout.keys, SIDE]))

    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        earlier, later = _pairs(rows, self.layout.keys)
        kinds = whole_column(rows, VALUE_KIND).to_numpy().copy()
        adds = is_add(kinds)
        both = np.flatnonzero((earlier >= 0) & (later >= 0))
        same = np.zeros(len(earlier), np.bool_)
        same[both] = adds[earlier[both]] == adds[later[both]]
        for name in names:
            both = both[same[both]]
            if not len(both):
                break
            column = whole_column(rows, name)
            same[both] = equal_values(take_rows(column, earlier[both]), take_rows(column, later[both]))
        gone = later < 0
        kinds[earlier[gone]] = RowKind.DELETE
        kept = np.where(gone, self.keep_deletes & adds[earlier], ~same)
        chosen = np.where(gone, earlier, later)[kept]
        if drop_deletes:
            chosen = chosen[adds[chosen]]
        numbers = take_rows(whole_column(rows, SEQUENCE_NUMBER), chosen) if key_value_columns else None
        return output_table(
            [(name, take_rows(whole_column(rows, name), chosen)) for name in names],
            rows.schema,
            numbers,
            pa.array(kinds[chosen]) if key_value_columns else None,
        )


def _pairs(rows: pa.Table, keys: Sequence[str]) -> tuple[Indices, Indices]:
    """For each key, in order, its row of the earlier and of the later state; -1 where there is none."""
    found = sort_order(rows.select(list(keys)), keys)
    sides = whole_column(rows, SIDE).to_numpy()[found.order]
    numbers = np.repeat(np.arange(len(found.starts)), found.counts)
    pairs = np.full((2, len(found.starts)), -1, np.int64)
    pairs[sides, numbers] = found.order
    if np.count_nonzero(pairs >= 0) != len(found.order):
        raise CorruptTableError(
            "A state of the table holds a key in two buckets: the difference of two states cannot be computed."
        )
    return pairs[0], pairs[1]


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Where values are the same: nulls and NaN equal themselves, 0.0 is not -0.0."""
    if pa.types.is_nested(left.type):
        codes = equality_codes(pa.concat_arrays([left, right]))
        return codes[: len(left)] == codes[len(left) :]  # type: ignore[no-any-return]
    nulls = pc.and_(left.is_null(), right.is_null()).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(left.type):
        a, b = (side.fill_null(0).to_numpy(zero_copy_only=False) for side in (left, right))
        bits = np.dtype(f"i{a.dtype.itemsize}")
        same = (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
        valid = pc.and_(left.is_valid(), right.is_valid()).to_numpy(zero_copy_only=False)
        return nulls | (same & valid)  # type: ignore[no-any-return]
    equal = pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    return nulls | equal  # type: ignore[no-any-return]


_SYSTEM = (SEQUENCE_NUMBER, VALUE_KIND)


def changelog_rows(
    before: pa.Table,
    before_rows: Indices,
    after: pa.Table,
    after_rows: Indices,
    *,
    ignored: Collection[str] | None = None,
) -> pa.Table:
    """Compare the row of each key before and after.

    Args:
        before: KeyValue rows.
        before_rows: for each key its row of ``before``; -1 where it had none. A row of kind -U or -D is none.
        after: KeyValue rows with the same columns.
        after_rows: for each key its row of ``after``; -1 and -U or -D rows as above.
        ignored: None: a key that has a row before and after has changed. Otherwise it has where a value differs in
            another column than these (``changelog-producer.row-deduplicate``); kind and sequence number do not count.

    Returns:
        KeyValue rows in the order of the keys, each with its own sequence number; -U stands in front of +U.
    """
    was = _is_row(before, before_rows)
    now = _is_row(after, after_rows)
    both = np.flatnonzero(was & now)
    if ignored is not None:
        both = both[_changed(before, before_rows[both], after, after_rows[both], ignored)]
    # two positions for each key: what it was, then what it is
    kinds = np.empty((len(was), 2), np.int8)
    kinds[:] = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    rows = np.empty((len(was), 2), np.int64)
    rows[:, 0] = before_rows
    np.add(after_rows, before.num_rows, out=rows[:, 1])
    flat, chosen = kinds.ravel(), rows.ravel()
    if len(both) < len(was):
        updated = np.zeros(len(was), np.bool_)
        updated[both] = True
        kinds[~updated] = -1
        kinds[was & ~now, 0] = RowKind.DELETE
        kinds[now & ~was, 1] = RowKind.INSERT
        there = np.flatnonzero(flat >= 0)
        flat, chosen = flat[there], chosen[there]
    given, positions = pa.array(flat), pa.array(chosen)
    columns = []
    for name in after.schema.names:
        pool = pa.concat_arrays([whole_column(before, name), whole_column(after, name)])
        columns.append(given if name == VALUE_KIND else pool.take(positions))
    return pa.Table.from_arrays(columns, schema=after.schema)


def _is_row(rows: pa.Table, at: Indices) -> Mask:
    """For each key whether it has a row that is an insert or update."""
    found: Mask = at >= 0
    if found.any():
        found[found] = is_add(whole_column(rows, VALUE_KIND).to_numpy()[at[found]])
    return found


def _changed(
    before: pa.Table, before_at: Indices, after: pa.Table, after_at: Indices, ignored: Collection[str]
) -> Mask:
    """Which of these keys have another value in a column that counts."""
    same = np.ones(len(before_at), np.bool_)
    for name in after.schema.names:
        if name in ignored or name in _SYSTEM:
            continue
        left = np.flatnonzero(same)
        if not len(left):
            break
        column, other = whole_column(before, name), whole_column(after, name)
        same[left] = equal_values(take_rows(column, before_at[left]), take_rows(other, after_at[left]))
    return ~same


def merge_with_changelog(
    top: pa.Table, newer: pa.Table, engine: MergeEngine, *, ignored: Collection[str] | None
) -> tuple[pa.Table, pa.Table]:
    """Merge rows of the top level with newer ones.

    Args:
        top: KeyValue rows of the top level, sorted; each key once, and no key is in another piece.
        newer: KeyValue rows with the same columns, at least one: sorted runs one after the other, oldest first.
        engine: the merge engine of the table.
        ignored: as of ``changelog_rows``.

    Returns:
        The merged rows without deletes, and the rows of the changelog, both sorted by key.
    """
    rows = pa.concat_tables([top, newer])
    found = engine.layout.sort(rows)
    sorted_once: Any = replace(cast("Any", engine), layout=_SortedLayout.of(engine.layout, found))
    merged = sorted_once.merge(rows, drop_deletes=False, columns=None)
    before = _top_rows(found, top.num_rows)
    after = _rows_of_keys(rows, found.order[found.starts], merged, engine.layout)
    changed = np.flatnonzero((before < 0) | (found.counts > 1))
    changelog = changelog_rows(*_taken(top, before[changed]), *_taken(merged, after[changed]), ignored=ignored)
    return without_deletes(merged), changelog


@dataclass(frozen=True, slots=True)
class _SortedLayout(KeyLayout):
    """The layout of rows whose order is known."""

    order: KeyOrder | None = None

    @classmethod
    def of(cls, layout: KeyLayout, order: KeyOrder) -> _SortedLayout:
        return cls(**{field.name: getattr(layout, field.name) for field in fields(layout)}, order=order)

    def sort(self, rows: pa.Table) -> KeyOrder:
        assert self.order is not None
        return self.order


def inserted(rows: pa.Table) -> pa.Table:
    """The changelog of rows whose keys the top level does not have: +I, and nothing for deletes."""
    rows = without_deletes(rows)
    kinds = pa.array(np.full(rows.num_rows, RowKind.INSERT, np.int8))
    at = rows.schema.get_field_index(VALUE_KIND)
    return rows.set_column(at, rows.schema.field(at), kinds)


def without_deletes(rows: pa.Table) -> pa.Table:
    """The rows that are no -U or -D."""
    adds = is_add(whole_column(rows, VALUE_KIND).to_numpy())
    return rows if adds.all() else rows.filter(pa.array(adds))


def _top_rows(found: KeyOrder, top_rows: int) -> Indices:
    """For each key its row of the top level, which are the first of all rows; -1 where it has none."""
    first = found.order[found.starts]
    if np.count_nonzero(first < top_rows) == top_rows:  # they have the lowest sequence numbers
        return np.where(first < top_rows, first, -1)
    at = np.flatnonzero(found.order < top_rows)
    rows = np.full(len(found.starts), -1, np.int64)
    rows[np.searchsorted(found.starts, at, side="right") - 1] = found.order[at]
    return rows


def _rows_of_keys(rows: pa.Table, firsts: Indices, merged: pa.Table, layout: KeyLayout) -> Indices:
    """For each key, given by a row of it, its merged row; -1 where merging left none."""
    if merged.num_rows == len(firsts):
        return np.arange(len(firsts))
    names = list(layout.keys)
    given = rows.select(names).take(pa.array(firsts))
    pairs = sort_order(pa.concat_tables([given, merged.select(names)]), names)
    found = np.full(len(firsts), -1, np.int64)
    numbers = np.repeat(np.arange(len(pairs.starts)), pairs.counts)
    is_merged = pairs.order >= len(firsts)
    found[numbers[is_merged]] = pairs.order[is_merged] - len(firsts)
    return found


def _taken(rows: pa.Table, at: Indices) -> tuple[pa.Table, Indices]:
    """Only these rows, and where each of them is now; -1 stays."""
    there = np.flatnonzero(at >= 0)
    now = np.full(len(at), -1, np.int64)
    now[there] = np.arange(len(there))
    chosen = at[there]
    if len(chosen) == rows.num_rows and bool((chosen[1:] > chosen[:-1]).all()):
        return rows, now
    columns = [take_rows(whole_column(rows, name), chosen) for name in rows.schema.names]
    return pa.Table.from_arrays(columns, schema=rows.schema), now


@dataclass(frozen=True, slots=True)
class LookupResult:
    """What a lookup merge gives for some keys."""

    rows: pa.Table
    """KeyValue rows, one per key, in key order."""
    changelog: pa.Table | None
    """KeyValue rows, in key order; None where none is made."""
    found: Indices
    """Rows of the higher levels that were found; they are part of the merged rows now."""


@dataclass(frozen=True, slots=True)
class LookupMerge:
    """Merges rows of a compaction with those of the levels above it.

    Attributes:
        engine: Of the table; it merges keys with one row as well (`lookup_engine`).
        first_row: The merge engine is first-row: a key that a higher level has is dropped.
        whole_rows: Rows of higher levels come with all columns and take part in the merge; otherwise only keys are
            looked up.
        changelog: Whether a changelog is made.
        ignored: See `changelog_rows`.
    """

    engine: MergeEngine
    first_row: bool
    whole_rows: bool
    changelog: bool
    ignored: frozenset[str] | None = None

    def merge(self, higher: pa.Table | None, rows: pa.Table, above_zero: int) -> LookupResult:
        """Merges all rows of some keys.

        Args:
            higher: Rows of levels above those that are compacted, the highest level first, each level sorted by key;
                with all columns of ``rows`` or at least the keys. None: there are none.
            rows: KeyValue rows that are compacted, of which first those of levels above 0, the highest level first,
                then those of level 0, the oldest file first.
            above_zero: How many of ``rows`` come from levels above 0.

        Raises:
            DataError: A row cannot be merged.
        """
        keys = _Keys.of(higher, rows, above_zero, self.engine.keys)
        if self.first_row:
            return self._first_rows(keys, rows)
        taken = keys.from_higher if self.whole_rows and higher is not None else np.empty(0, np.int64)
        kept = np.arange(rows.num_rows) >= above_zero
        inner = keys.picked - keys.higher
        kept[inner[inner >= 0]] = True
        source = rows if kept.all() else rows.filter(pa.array(kept))
        if len(taken):
            assert higher is not None
            older = higher.select(rows.schema.names).take(pa.array(taken))
            source = pa.concat_tables([older.cast(rows.schema), source])
        merged = self.engine.merge(source, drop_deletes=False)
        changelog = None
        if self.changelog:
            before = np.full(len(keys.picked), -1, np.int64)
            before[inner >= 0] = len(taken) + (np.cumsum(kept) - 1)[inner[inner >= 0]]
            if len(taken):
                before[(inner < 0) & (keys.picked >= 0)] = np.arange(len(taken))
            after = keys.rows_of(merged, self.engine.keys)
            new = keys.level_0
            changelog = changelog_rows(source, before[new], merged, after[new], ignored=self.ignored)
        return LookupResult(merged, changelog, keys.from_higher)

    def _first_rows(self, keys: _Keys, rows: pa.Table) -> LookupResult:
        """Keep the first row of each key that no higher level has."""
        inner = keys.picked - keys.higher
        fresh = keys.picked < 0
        known = ~fresh & (inner < 0)
        source = rows if not known.any() else rows.filter(pa.array(~known[keys.key_of_row]))
        merged = self.engine.merge(source, drop_deletes=False)
        changelog = None
        if self.changelog:
            after = keys.rows_of(merged, self.engine.keys)[fresh]
            changelog = merged.take(pa.array(after[after >= 0]))
        return LookupResult(merged, changelog, np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that are compacted, in key order."""

    values: pa.Table
    """Their values, one row for each."""
    higher: int
    """Number of rows of higher levels; rows are numbered with these first."""
    picked: Indices
    """The row of each key with the lowest level above 0; -1 where there is none."""
    level_0: Mask
    """Which of them have a row of level 0."""
    key_of_row: Indices
    """Of each row that is compacted, the number of its key."""

    @classmethod
    def of(cls, higher: pa.Table | None, rows: pa.Table, above_zero: int, names: Sequence[str]) -> _Keys:
        """Group the rows by key."""
        outside = 0 if higher is None else higher.num_rows
        columns = [
            whole_column(rows, name)
            if higher is None
            else pa.concat_arrays([whole_column(higher, name), whole_column(rows, name)])
            for name in names
        ]
        values = pa.Table.from_arrays(columns, names=list(names))
        order = sort_order(values, names)
        counts, starts = order.counts, order.starts
        # rows of one key keep their order: higher levels, then those compacted, then level 0
        above = np.add.reduceat(order.order < outside + above_zero, starts)
        lowest = order.order[starts + np.maximum(above, 1) - 1]
        wanted = order.order[starts + counts - 1] >= outside
        numbers = np.repeat(np.cumsum(wanted) - 1, counts)
        inside = order.order >= outside
        key_of_row = np.empty(rows.num_rows, np.int64)
        key_of_row[order.order[inside] - outside] = numbers[inside]
        return cls(
            values.take(pa.array(order.order[starts[wanted]])),
            outside,
            np.where(above > 0, lowest, -1)[wanted],
            (counts > above)[wanted],
            key_of_row,
        )

    @property
    def from_higher(self) -> Indices:
        """The rows of higher levels that are the newest older ones, in key order."""
        found: Indices = self.picked[(self.picked >= 0) & (self.picked < self.higher)]
        return found

    def rows_of(self, merged: pa.Table, names: Sequence[str]) -> Indices:
        """For each key its row among merged ones, -1 where the engine gave none."""
        keys = len(self.picked)
        if merged.num_rows == keys:
            return np.arange(keys)
        pool = [pa.concat_arrays([whole_column(self.values, n), whole_column(merged, n)]) for n in names]
        order = sort_order(pa.Table.from_arrays(pool, names=list(names)), names)
        second = order.order[order.starts + order.counts - 1] - keys
        return np.where(order.counts > 1, second, -1)


def rows_of_keys(runs: Sequence[Sequence[pa.RecordBatch]], rows: pa.Table, names: Sequence[str]) -> pa.Table | None:
    """Choose the rows of sorted runs whose keys some other rows have.

    Args:
        runs: Batches sorted by key; a key is once in a run. Columns that are no keys may be dictionaries.
        rows: Rows in any order.
        names: Key columns.

    Returns:
        The rows in their order, run by run, with no column a dictionary; None where there are none.
    """
    found = [part for run in runs if run for part in _chosen(run, _positions(run, rows, names))]
    return pa.Table.from_batches(found) if found else None


def _positions(run: Sequence[pa.RecordBatch], rows: pa.Table, names: Sequence[str]) -> Indices:
    """The numbers of the rows of a run that have a key of ``rows``, ascending."""
    columns = [pa.concat_arrays([*(batch.column(n) for batch in run), whole_column(rows, n)]) for n in names]
    count = sum(batch.num_rows for batch in run)
    words = list(packed_normalized_keys(columns))
    if len(words) == 1:  # it alone orders the keys
        word = words[0](None)
        wanted = np.sort(word[count:], kind="stable")
        positions = np.minimum(np.searchsorted(word[:count], wanted), count - 1)
        positions = positions[word[positions] == wanted]
        distinct: Indices = positions[np.diff(positions, prepend=-1) > 0]
        return distinct
    order = sort_order(pa.Table.from_arrays(columns, names=list(names)), names)
    first, last = order.order[order.starts], order.order[order.starts + order.counts - 1]
    found: Indices = first[(first < count) & (last >= count)]
    return found


def _chosen(run: Sequence[pa.RecordBatch], positions: Indices) -> Iterator[pa.RecordBatch]:
    """Take rows of a run."""
    start = 0
    for batch in run:
        end = start + batch.num_rows
        low, high = np.searchsorted(positions, (start, end))
        if low < high:
            yield _plain(batch.take(pa.array(positions[low:high] - start)))
        start = end


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with no column a dictionary."""
    if not any(pa.types.is_dictionary(field.type) for field in batch.schema):
        return batch
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in batch.schema]
    return batch.cast(pa.schema(fields))


def lookup_engine(engine: MergeEngine) -> MergeEngine:
    """The engine as lookups use it: a key with one row is merged as well."""
    return replace(engine, layout=replace(engine.layout, merges_single_rows=True))  # type: ignore[type-var]
