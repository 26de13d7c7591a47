"""``t$ro``: the rows of the highest level only, which nothing has to be merged for (Java ``ReadOptimizedTable``).

What was written since the last full compaction is missing. A table without primary key has nothing to merge: ``$ro`` is
the table itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.fallback import plan_branches
from paimon_spark.read.plan import ReadPlan
from paimon_spark.read.row_view import PlanRequest, ReadSource, RowView
from paimon_spark.table.nullability import fields_as_stored

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def _plan(table: FileStoreTable, source: ReadSource, request: PlanRequest) -> ReadPlan:
    if isinstance(source, ChangeRange):
        raise UnsupportedError(
            "$ro shows the rows of one version: read changes from the table itself, or its $audit_log"
        )
    return plan_branches(
        table,
        source,
        request.columns,
        predicate=request.predicate,
        parallelism=request.parallelism,
        limit=request.limit,
        level_of=_top_level,
    )


def _top_level(table: FileStoreTable) -> int | None:
    return table.options.num_levels - 1 if table.schema.primary_keys else None


READ_OPTIMIZED = RowView("ro", fields_as_stored, _plan)
"""Rows of the highest level."""
