"""Which merge engine a table has (``merge-engine``; docs/internals/format.md §10), and those by which one row wins.

These give a row as it is: deduplicate the newest of a key, deletes included (Java ``DeduplicateMergeFunction``), and
first-row the oldest (Java ``FirstRowMergeFunction``). What partial-update and aggregation make of several rows is in
modules of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError, SchemaError, UnsupportedError
from paimon_spark.merge.aggregation import aggregation_for
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.partial_update import partial_update_for
from paimon_spark.merge.segments import Indices, Segments
from paimon_spark.merge.stream import MergeInput, rows_table
from paimon_spark.spec.option_validation import validate_merge_engine, validate_sequence_field
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import is_add


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


__all__ = ["KeyLayout", "MergeEngine", "merge_engine_for"]


def merge_engine_for(schema: TableSchema) -> MergeEngine:
    """The merge engine of a primary-key table; driver and task.

    Raises:
        SchemaError: The table has no primary key.
        OptionError: Options of the merge engine contradict each other or the columns.
        UnsupportedError: The engine or an aggregate function is not supported.
    """
    if not schema.kind.is_keyed:
        raise SchemaError("Only a table with a primary key has a merge engine; this one has none.")
    validate_sequence_field(schema)
    validate_merge_engine(schema)
    options = schema.core_options
    layout = KeyLayout(schema.trimmed_primary_keys, options.sequence_fields, options.sequence_descending)
    match options.merge_engine:
        case "deduplicate":
            return Deduplicate(layout, options.ignore_delete)
        case "partial-update":
            return partial_update_for(schema, layout)
        case "aggregation":
            return aggregation_for(schema, layout)
        case "first-row":
            return FirstRow(layout, options.ignore_delete)
    raise UnsupportedError(f"Merge engine '{options.merge_engine}' is not supported.")
