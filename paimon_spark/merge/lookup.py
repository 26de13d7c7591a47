"""Merging level-0 rows with the newest older row of their key; what changed is the changelog of the compaction.

Equals Java's ``LookupMergeFunction``, ``LookupChangelogMergeFunctionWrapper`` and ``FirstRowMergeFunctionWrapper``.
A row of a higher level is the merged value of all older rows of its key: of several only that of the lowest level
counts. Java looks up key by key; here the rows of higher levels come sorted, and keys are joined a piece at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.merge.changelog_rows import changelog_rows
from paimon_spark.merge.sort import packed_normalized_keys, sort_order, whole_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.merge.segments import Indices, Mask


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
