"""The views of a table's rows: the rows themselves, and those with a name behind the ``$`` of the table's name."""

from __future__ import annotations

from paimon_spark.read.audit_log import AUDIT_LOG
from paimon_spark.read.binlog import BINLOG
from paimon_spark.read.branch_plan import plan_rows
from paimon_spark.read.read_optimized import READ_OPTIMIZED
from paimon_spark.read.row_tracking import ROW_TRACKING
from paimon_spark.read.table_scan import RowView
from paimon_spark.table.nullability import fields_as_stored

ROWS = RowView("", fields_as_stored, plan_rows)
"""The rows of the table themselves."""

NAMED_VIEWS = {view.name: view for view in (AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)}
"""Every view with a name."""


def find_view(name: str | None) -> RowView | None:
    """Return the view of a system table's name (None: the rows themselves); None of any other system table."""
    return ROWS if name is None else NAMED_VIEWS.get(name.lower())
