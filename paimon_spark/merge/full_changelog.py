"""Merging into the top level, with what became of each of its rows (Java ``FullChangelogMergeFunctionWrapper``).

The row of the top level is what a key was at the last full compaction; the merged row is what it is now.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from paimon_spark.merge.changelog_rows import changelog_rows
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.merged_rows import take_rows
from paimon_spark.merge.segments import Indices
from paimon_spark.merge.sort import VALUE_KIND, KeyOrder, sort_order, whole_column
from paimon_spark.spec.special_fields import RowKind, is_add


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
