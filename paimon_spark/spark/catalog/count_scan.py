"""Answers Spark's ``Scan`` for counts of merged rows: tasks send how many there are, Spark adds them up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import StructType

from paimon_spark.read.aggregate import Aggregation, result_fields
from paimon_spark.spark.catalog.basic_scan import BasicScanProxy, StatisticsProxy
from paimon_spark.spark.catalog.python_source import planned_batch, python_batch
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm.faces import Question, Reply, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.source.count_reader import CountReader

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan

_READ = "org.apache.spark.sql.connector.read"


class CountScanProxy(BasicScanProxy):
    """One scan of the numbers of rows. Its batch is made once."""

    interfaces = (f"{_READ}.Scan", f"{_READ}.SupportsReportStatistics")
    asked: ClassVar[Mapping[str, str]] = {"toBatch": "_asked_batch"}

    def __init__(self, gateway: Gateway, name: str, plan: ScanPlan, wanted: Aggregation) -> None:
        """Describe the scan.

        Args:
            gateway: the JVM.
            name: of the table.
            plan: of all rows that count.
            wanted: counts of rows, of the table or by partition columns.
        """
        super().__init__(gateway)
        self.name = name
        self.plan = plan
        self.wanted = wanted
        self.struct = to_spark_struct(result_fields(plan.table.schema, wanted))
        self._batch: JavaObject | None = None

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        rows, size = self._size()
        return {
            **super().answers(),
            "description": self.description(),
            "estimateStatistics": ["statistics", rows, size],
            "reflectsFullyPushedDownFilters": True,
        }

    def _struct(self) -> StructType:
        return self.struct

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

    def toBatch(self) -> JavaObject:
        """Spark's own Python batch over tasks that count."""
        if self._batch is None:
            self._batch = planned_batch(self.gateway, self.readSchema(), self.struct, self._reader())
        return self._batch

    def _asked_batch(self, _question: Question) -> Reply:
        return Reply(python_batch(self.struct, self._reader()), once=True)

    def _reader(self) -> CountReader:
        target = spark_arrow_schema(self.struct)
        return CountReader(self.plan.table, self.plan.reader(), self.wanted.group_by, target)
