"""Merge engines by which one row of each key wins as it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.merged_rows import MergeInput, rows_table
from paimon_spark.merge.segments import Indices
from paimon_spark.spec.row_kind import is_add


@dataclass(frozen=True, slots=True)
class WinningRows(MergeEngine):
    """One row of a key wins.

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

    @abstractmethod
    def _winners(self, merging: MergeInput) -> Indices:
        """Positions of the rows that win, in key order."""
