"""Plans of reads, as a reader makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    whole_files: bool = True,
) -> ReadPlan:
    """Return the plan of a read with the options of the table."""
    scan = replace(TableScan.of(table, view), whole_files=whole_files)
    return scan.select(columns=columns, predicate=predicate, parallelism=parallelism, limit=limit).plan()
