"""``t$ro``: the rows of the highest level only, which need no merging (Java ``ReadOptimizedTable``).

What was written since the last full compaction is missing. A table without primary key has nothing to merge: ``$ro`` is
the table itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.branch_plan import plan_rows
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.table_scan import RowView, TableScan
from paimon_spark.table.nullability import fields_as_stored

if TYPE_CHECKING:
    from paimon_spark.read.plan import ReadPlan


def _plan(scan: TableScan) -> ReadPlan:
    if isinstance(scan.source, ChangeRange):
        raise UnsupportedError(
            "$ro shows the rows of one version: read changes from the table itself, or its $audit_log"
        )
    return plan_rows(replace(scan, top_level_only=True))


READ_OPTIMIZED = RowView("ro", fields_as_stored, _plan)
"""Rows of the highest level."""
