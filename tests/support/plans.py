"""Plans of reads, as a reader makes them."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import ReadPlan, RowView, TableScan
from paimon_spark.spec.predicate import Predicate
from paimon_spark.table.table import FileStoreTable


def plan_of(
    table: FileStoreTable,
    view: RowView = ROWS,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
) -> ReadPlan:
    """Return the plan of a read with the options of the table."""
    scan = TableScan.of(table, view)
    return scan.select(columns=columns, predicate=predicate, parallelism=parallelism, limit=limit).plan()
