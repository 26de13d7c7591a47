"""Merge engine deduplicate: the newest row of a key wins, deletes included (Java ``DeduplicateMergeFunction``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.merge.merged_rows import MergeInput
from paimon_spark.merge.segments import Indices
from paimon_spark.merge.winning_rows import WinningRows
from paimon_spark.spec.row_kind import is_add


@dataclass(frozen=True, slots=True)
class Deduplicate(WinningRows):
    """The newest row of a key wins."""

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
