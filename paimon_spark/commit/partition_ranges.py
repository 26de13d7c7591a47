"""Conditions over partition columns for sets of partitions: their ranges, to leave out manifests, or exactly them.

The ranges equal Java's ``PartitionPredicate.fromMultiple``: the range of every partition column.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from paimon_spark.spec.predicate import Always, And, Leaf, Or, Predicate

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def range_predicate(table: FileStoreTable, partitions: Collection[bytes]) -> Predicate | None:
    """Return a predicate that is true for all of ``partitions`` and for few others, to prune manifests with.

    None when the table is not partitioned.
    """
    if not table.schema.partition_keys:
        return None
    if not partitions:
        return Always(False)
    batch = table.manifests.partition_batch(sorted(partitions))
    ranges: list[Predicate] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        within: list[Predicate] = [Leaf("is_null", name, ())] if column.null_count else []
        if column.null_count < len(column):
            order = pc.sort_indices(column.drop_null())
            ends = column.drop_null().take(order)
            within.append(Leaf("between", name, (ends[0].as_py(), ends[-1].as_py())))
        ranges.append(within[0] if len(within) == 1 else Or(tuple(within)))
    return And(tuple(ranges))


def exact_predicate(table: FileStoreTable, partitions: Collection[bytes]) -> Predicate | None:
    """Return a predicate over partition columns that is true for exactly ``partitions``.

    None when the table is not partitioned.
    """
    if not table.schema.partition_keys:
        return None
    rows = table.manifests.partition_batch(sorted(partitions)).to_pylist()
    return Or(
        tuple(
            And(tuple(Leaf("is_null", n, ()) if v is None else Leaf("eq", n, (v,)) for n, v in row.items()))
            for row in rows
        )
    )
