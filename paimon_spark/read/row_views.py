"""The views of a table's rows: the rows themselves, and those with a name behind the ``$`` of the table's name.

``t$ro`` has the rows of the highest level only, which need no merging (Java ``ReadOptimizedTable``): what was written
since the last full compaction is missing. A table without primary key has nothing to merge: ``$ro`` is the table
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.read import audit_log
from paimon_spark.read.audit_log import BINLOG, ROW_TRACKING
from paimon_spark.read.blob_values import with_values
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.snapshot_reader import plan_rows
from paimon_spark.read.table_scan import RowView, TableScan

if TYPE_CHECKING:
    from paimon_spark.read.table_scan import ReadPlan


def _plan(scan: TableScan) -> ReadPlan:
    if isinstance(scan.source, ChangeRange):
        raise UnsupportedError(
            "$ro shows the rows of one version: read changes from the table itself, or its $audit_log"
        )
    return plan_rows(replace(scan, top_level_only=True))


READ_OPTIMIZED = RowView("ro", fields_as_stored, _plan)
"""Rows of the highest level."""


def _plan_values(plan: Callable[[TableScan], ReadPlan], scan: TableScan) -> ReadPlan:
    return with_values(plan(scan))


def _with_values(view: RowView) -> RowView:
    """A view whose BLOB columns have values, wherever these lie."""
    return replace(view, plan=partial(_plan_values, view.plan))


ROWS = _with_values(RowView("", fields_as_stored, plan_rows))
"""The rows of the table themselves."""

AUDIT_LOG = _with_values(audit_log.AUDIT_LOG)
"""Rows with their kinds."""
NAMED_VIEWS = {
    view.name: view for view in (AUDIT_LOG, *(_with_values(view) for view in (BINLOG, READ_OPTIMIZED, ROW_TRACKING)))
}
"""Every view with a name."""


def find_view(name: str | None) -> RowView | None:
    """Return the view of a system table's name (None: the rows themselves); None of any other system table."""
    return ROWS if name is None else NAMED_VIEWS.get(name.lower())
