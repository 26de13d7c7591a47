"""Answers Spark's ``Scan`` for an aggregation by tasks: they send partial results, Spark aggregates these."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from paimon_spark.read.aggregate import Aggregation, result_fields
from paimon_spark.spark.catalog.basic_scan import ReaderScanProxy
from paimon_spark.spark.catalog.pushed_aggregates import is_counted_by_tasks, plan_of_tasks
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.source.aggregate_reader import AggregateReader
from paimon_spark.spark.source.count_reader import CountReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

    from paimon_spark.spark.catalog.scan_plan import ScanPlan

_READ = "org.apache.spark.sql.connector.read"


def task_scan(
    gateway: Gateway,
    name: str,
    plan: ScanPlan,
    wanted: Aggregation,
    averaged: Set[str | None],
    settings: Mapping[str, str],
) -> AggregateScanProxy | None:
    """Return the scan in which tasks aggregate; None where Spark aggregates the rows. Arguments: `plan_of_tasks`."""
    counted = is_counted_by_tasks(plan, wanted)
    found = plan if counted else plan_of_tasks(gateway, plan, wanted, averaged, settings)
    return None if found is None else AggregateScanProxy(gateway, name, found, wanted)


class AggregateScanProxy(ReaderScanProxy):
    """One scan of partial results."""

    interfaces = (f"{_READ}.Scan", f"{_READ}.SupportsReportStatistics")

    def __init__(self, gateway: Gateway, name: str, plan: ScanPlan, wanted: Aggregation) -> None:
        """Describe the scan.

        Args:
            gateway: the JVM.
            name: of the table.
            plan: of all rows that count; of the columns that are aggregated, or none.
            wanted: the aggregation; without columns in `plan` counts of rows, of the table or by partition columns.
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
            "description": self.description(),
            "estimateStatistics": ["statistics", rows, size],
            "estimateSizeInBytes": ["long", size],
            "reflectsFullyPushedDownFilters": True,
        }

    def description(self) -> str:
        """For EXPLAIN."""
        work = "aggregated" if self._has_columns else "counted"
        return f"paimon {self.name} {self.plan.describe()}, {work} by tasks: {', '.join(self.struct.names)}"

    @property
    def _has_columns(self) -> bool:
        return bool(len(self.plan.struct))

    def _size(self) -> tuple[int, int]:
        by_rows = self._has_columns and self.wanted.group_by
        rows = self.plan.row_count if by_rows else len(self.plan.plan.splits)
        return rows, rows * 8 * len(self.struct)

    def _reader(self) -> DataSourceReader:
        target = spark_arrow_schema(self.struct)
        if self._has_columns:
            return AggregateReader(self.plan.reader(), self.wanted, target)
        return CountReader(self.plan.table, self.plan.reader(), self.wanted.group_by, target)
