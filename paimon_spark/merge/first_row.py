"""Merge engine first-row: the oldest row of a key stays (Java ``FirstRowMergeFunction``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.errors import DataError
from paimon_spark.merge.merged_rows import MergeInput
from paimon_spark.merge.segments import Indices, Segments
from paimon_spark.merge.winning_rows import WinningRows
from paimon_spark.spec.row_kind import is_add

_NO_DELETES = (
    "By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records.\n"
    "You can config 'ignore-delete' to ignore the DELETE/UPDATE_BEFORE records."
)


@dataclass(frozen=True, slots=True)
class FirstRow(WinningRows):
    """The oldest row of a key wins. -U and -D rows that do not count are ignored; others are an error."""

    def _winners(self, merging: MergeInput) -> Indices:
        order, starts, counts = merging.key_order.order, merging.key_order.starts, merging.key_order.counts
        oldest: Indices = order[starts]
        if not merging.has_retracts:
            return oldest
        # Java: a single row of a key is given to the merge function in lookup compactions only, so a lone -D stays.
        several = counts > (0 if self.layout.merges_single_rows else 1)
        if not self.ignore_delete and bool((several & merging.keys_with_retracts).any()):
            raise DataError(_NO_DELETES)
        first_adds = Segments(order, starts).first_where(is_add(merging.kinds[order]))
        winners = np.where(several, first_adds, oldest)
        return winners[winners >= 0]
