"""Answers Spark's ``Scan`` for counts of merged rows: tasks send how many there are, Spark adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.read.aggregate import Aggregation, result_fields
from paimon_spark.spark.catalog.basic_scan import ReaderScanProxy, StatisticsProxy
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm.faces import Value
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.source.count_reader import CountReader

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan

_READ = "org.apache.spark.sql.connector.read"


class CountScanProxy(ReaderScanProxy):
    """One scan of the numbers of rows."""

    interfaces = (f"{_READ}.Scan", f"{_READ}.SupportsReportStatistics")

    def __init__(self, gateway: Gateway, name: str, plan: ScanPlan, wanted: Aggregation) -> None:
        """Describe the scan.

        Args:
            gateway: the JVM.
            name: of the table.
            plan: of all rows that count.
            wanted: counts of rows, of the table or by partition columns.
        """
        super().__init__(gateway, to_spark_struct(result_fields(plan.table.schema, wanted)))
        self.name = name
        self.plan = plan
        self.wanted = wanted

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        rows, size = self._size()
        return {
            **super().answers(),
            "estimateStatistics": ["statistics", rows, size],
            "reflectsFullyPushedDownFilters": True,
        }

    def description(self) -> str:
        """For EXPLAIN."""
        return f"paimon {self.name} {self.plan.describe()}, counted by tasks: {', '.join(self.struct.names)}"

    def estimateStatistics(self) -> StatisticsProxy:
        """Rows and bytes for the optimiser: a row for each split at most."""
        return StatisticsProxy(self.gateway, *self._size())

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Partitions that the predicates rule out are not counted."""
        return True

    def _size(self) -> tuple[int, int]:
        rows = len(self.plan.plan.splits)
        return rows, rows * 8 * len(self.struct)

    def _reader(self) -> CountReader:
        target = spark_arrow_schema(self.struct)
        return CountReader(self.plan.table, self.plan.reader(), self.wanted.group_by, target)
