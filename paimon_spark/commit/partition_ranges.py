"""Ranges of partitions, to leave out manifests that cannot hold any of them.

Equals Java's ``PartitionPredicate.fromMultiple``: the range of every partition column.
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
