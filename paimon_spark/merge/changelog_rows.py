"""The changelog of a compaction: what became of each key, as +I, -U and +U, or -D rows.

Equals what Java's ``LookupChangelogMergeFunctionWrapper`` and ``FullChangelogMergeFunctionWrapper`` give.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from paimon_spark.merge.diff import equal_values
from paimon_spark.merge.merged_rows import take_rows
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import SEQUENCE_NUMBER, VALUE_KIND, whole_column
from paimon_spark.spec.special_fields import RowKind, is_add

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
    # two places for each key: what it was, then what it is
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
