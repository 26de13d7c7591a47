"""The row views by the names behind the ``$`` of a table's name."""

from __future__ import annotations

from paimon_spark.read.audit_log import AUDIT_LOG
from paimon_spark.read.binlog import BINLOG
from paimon_spark.read.read_optimized import READ_OPTIMIZED
from paimon_spark.read.row_tracking import ROW_TRACKING
from paimon_spark.read.row_view import ROWS, RowView

ROW_VIEWS = {view.name: view for view in (AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)}
"""Every view with a name."""


def row_view(name: str | None) -> RowView | None:
    """Return the view of a system table's name (None: the rows themselves); None of any other system table."""
    return ROWS if name is None else ROW_VIEWS.get(name.lower())
