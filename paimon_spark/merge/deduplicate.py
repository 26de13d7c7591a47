"""Merge engine deduplicate: the newest row of a key wins, deletes included (Java ``DeduplicateMergeFunction``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.merged_rows import MergeInput, rows_table
from paimon_spark.merge.segments import Indices
from paimon_spark.spec.row_kind import is_add


@dataclass(frozen=True, slots=True)
class Deduplicate(MergeEngine):
    """The newest row of a key wins.

    Attributes:
        layout: Keys and order of rows.
        ignore_delete: -U and -D rows do not count.
    """

    layout: KeyLayout
    ignore_delete: bool = False

    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection, the key and the sequence fields."""
        return self.layout.with_order_columns(projection)

    def moved_columns(self, names: Sequence[str]) -> frozenset[str]:
        """All that do not decide the order."""
        return frozenset(names) - set(self.layout.with_order_columns(()))

    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        merging = MergeInput(rows, self.layout.sort(rows))
        winners = self._winners(merging)
        if drop_deletes and merging.has_retracts:
            winners = winners[is_add(merging.kinds[winners])]
        return rows_table(merging, winners, names, key_value_columns=key_value_columns)

    def _winners(self, merging: MergeInput) -> Indices:
        if not self.ignore_delete or not merging.has_retracts:
            return merging.newest
        # Java: a single row of a key is given to the merge function in lookup compactions only, so a lone -D stays.
        order, counts = merging.key_order.order, merging.key_order.counts
        if self.layout.merges_single_rows:
            counts = np.zeros_like(counts)
        positions = np.where(is_add(merging.kinds[order]), np.arange(len(order)), -1)
        last_add = np.maximum.reduceat(positions, merging.key_order.starts) if len(order) else positions
        kept = (last_add >= 0) | (counts == 1)
        winners: Indices = np.where(counts == 1, merging.newest, order[last_add])[kept]
        return winners
