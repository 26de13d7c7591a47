"""Answers Spark's ``ScanBuilder``, ``Scan`` and ``Statistics``: which columns, rows and files one scan reads.

Every scan has a builder and a plan of its own, nothing that is pushed down is shared. What a scan reads is in
`ScanPlan`; here it is told to Spark. It runs on the driver, in calls whose number depends on neither files nor columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from paimon_spark.read.metadata_columns import PARTITION
from paimon_spark.read.metadata_pruning import pruned_metadata_fields
from paimon_spark.read.plan import residual_filter
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.catalog.aggregates import LocalScanProxy, aggregated_rows, to_aggregation
from paimon_spark.spark.catalog.expressions import to_predicate
from paimon_spark.spark.catalog.native_scan import Judged, is_native, native_batch
from paimon_spark.spark.catalog.python_source import planned_batch
from paimon_spark.spark.catalog.scan_plan import ScanPlan, cheapest_column, partition_columns_last
from paimon_spark.spark.catalog.schemas import java_struct
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.sql.read_version import with_read_options

if TYPE_CHECKING:
    from paimon_spark.read.aggregate import AggregateRows
    from paimon_spark.spark.catalog.loading import LoadedTable
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_READ = "org.apache.spark.sql.connector.read"
_PREDICATE = "org.apache.spark.sql.connector.expressions.filter.Predicate"


class ScanBuilderProxy(Proxy):
    """Gathers what Spark pushes down for one scan: predicates, then aggregates, a limit, and columns."""

    interfaces = (
        f"{_READ}.ScanBuilder",
        f"{_READ}.SupportsPushDownRequiredColumns",
        f"{_READ}.SupportsPushDownV2Filters",
        f"{_READ}.SupportsPushDownLimit",
        f"{_READ}.SupportsPushDownAggregates",
    )

    def __init__(self, gateway: Gateway, loaded: LoadedTable, options: Mapping[str, str], view: RowView = ROWS) -> None:
        super().__init__(gateway)
        self.loaded = loaded
        self.view = view
        self.table = with_read_options(loaded.table, options, pinned=loaded.pinned)
        self.struct: StructType = to_spark_struct(view.fields(self.table))
        self.predicates: tuple[Predicate, ...] = ()
        self.metadata_predicates: tuple[Predicate, ...] = ()
        self.pushed: list[JavaObject] = []
        self.judged: list[Judged] = []
        self.limit: int | None = None
        self.left_to_spark = False
        self.aggregated: AggregateRows | None = None
        self.first: ScanPlan | None = None
        """An earlier scan of the same relation, on whose source this one stays."""

    def pruneColumns(self, required: JavaObject) -> None:
        """The columns that the query needs; of rows the nested fields."""
        struct = StructType.fromJson(json.loads(required.json()))
        # without a column Spark 4.0 counts no rows
        self.struct = struct if len(struct) else cheapest_column(self.struct, self.table.schema.partition_keys)

    def pushPredicates(self, predicates: JavaObject) -> JavaObject:
        """Take what the predicate tree can say; give back what Spark must judge, and what it may judge once more.

        Only a filter that stays in its plan makes Spark think a table worth a runtime filter on the other side of a
        join. So predicates that we judge row by row are given back too: few rows are left by then. Those that planning
        judges, over partition columns, are not: limits and aggregates can go past them.
        """
        rest = []
        for predicate in predicates:
            ours, metadata = pushed_down(self.gateway, self.view, self.table, predicate)
            if metadata is not None:
                self.metadata_predicates += (metadata,)
                self.pushed.append(predicate)
            if ours is not None:
                self.predicates += (ours,)
                self.pushed.append(predicate)
                self.judged.append((ours, predicate))
            if ours is None or residual_filter(self.table.schema, ours) is not None:
                rest.append(predicate)
        self.left_to_spark = bool(rest)
        return self.gateway.array(_PREDICATE, rest)

    def pushedPredicates(self) -> JavaObject:
        """What was taken."""
        return self.gateway.array(_PREDICATE, self.pushed)

    def supportsIterativePushdown(self) -> bool:
        """One round is enough."""
        return False

    def pushLimit(self, limit: int) -> bool:
        """Plan no more files than hold so many rows."""
        self.limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        """Spark still cuts the rows."""
        return True

    def supportCompletePushDown(self, aggregation: JavaObject) -> bool:
        """Whether Spark may leave the whole aggregation to us."""
        return self._aggregate(aggregation)

    def pushAggregation(self, aggregation: JavaObject) -> bool:
        """Answer counts and extremes from metadata, where they are exact there."""
        return self._aggregate(aggregation)

    def _aggregate(self, aggregation: JavaObject) -> bool:
        if self.aggregated is None and not self.left_to_spark:
            wanted = to_aggregation(aggregation)
            if wanted is not None:
                plan = self._on_source(ScanPlan(self.table, self.struct, self.predicates, view=self.view))
                self.aggregated = aggregated_rows(plan, wanted)
        return self.aggregated is not None

    def build(self) -> Any:
        """The scan."""
        if self.aggregated is not None:
            return LocalScanProxy(self.gateway, self.loaded.name, self.aggregated)
        struct = partition_columns_last(self.struct, self.table.schema.partition_keys)
        plan = ScanPlan(self.table, struct, self.predicates, self.metadata_predicates, self.limit, self.view)
        scan = ScanProxy(self.gateway, self.loaded.name, self._on_source(plan), self.judged)
        scan.names_errors = self.names_errors
        return scan

    def _on_source(self, plan: ScanPlan) -> ScanPlan:
        return plan if self.first is None else plan.after(self.first)


class ScanProxy(Proxy):
    """One scan. Its batch is made once: plans compare batches by identity when they reuse exchanges."""

    interfaces = (f"{_READ}.Scan", f"{_READ}.SupportsReportStatistics", f"{_READ}.SupportsRuntimeV2Filtering")

    def __init__(self, gateway: Gateway, name: str, plan: ScanPlan, pushed: Sequence[Judged] = ()) -> None:
        super().__init__(gateway)
        self.name = name
        self.pushed = pushed
        self.plan = plan
        self._native: bool | None = None
        self._batch: JavaObject | None = None

    def readSchema(self) -> JavaObject:
        """The columns that come out."""
        return java_struct(self.gateway, self.plan.struct)

    def description(self) -> str:
        """For EXPLAIN."""
        reader = ", reader=spark-parquet" if self._is_native() else ""
        return f"paimon {self.name} {self.plan.describe()}{reader}"

    def toBatch(self) -> JavaObject:
        """Spark's Parquet batch where the files are the rows, else its Python batch over our reader."""
        if self._batch is None:
            reader = self.plan.reader()
            if self._is_native():
                self._batch = native_batch(self.gateway, self.plan, reader.packed_splits(), self.pushed)
                self._native = self._batch is not None
            if self._batch is None:
                schema = java_struct(self.gateway, self.plan.struct)
                self._batch = planned_batch(self.gateway, schema, self.plan.struct, reader)
        return self._batch

    def _is_native(self) -> bool:
        """Whether Spark's reader is used: said once, since Spark gives the reader of the first batch all later ones."""
        if self._native is None:
            self._native = is_native(self.gateway, self.plan)
        return self._native

    def filterAttributes(self) -> JavaObject:
        """Columns by which a join may leave out files while the query runs, as far as they are read.

        They are the partition columns, and the metadata columns that say the file and the bucket.
        """
        expressions = self.gateway.jvm.org.apache.spark.sql.connector.expressions
        schema = self.plan.table.schema
        known = (*schema.partition_keys, *(field.name for field in pruned_metadata_fields(schema)))
        names = [name for name in known if name in self.plan.struct.names and self.plan.view is ROWS]
        references = [expressions.Expressions.column(quoted(name)) for name in names]
        return self.gateway.array("org.apache.spark.sql.connector.expressions.NamedReference", references)

    def filter(self, predicates: JavaObject) -> None:
        """Leave out files by what the other side of a join turned out to hold; the snapshot stays."""
        found = [pushed_down(self.gateway, self.plan.view, self.plan.table, predicate) for predicate in predicates]
        ours = tuple(predicate for predicate, _ in found if predicate is not None)
        metadata_predicates = tuple(metadata for _, metadata in found if metadata is not None)
        if ours or metadata_predicates:
            self.plan = self.plan.narrowed(ours, metadata_predicates)
            self._batch = None

    def pushedPredicates(self) -> JavaObject:
        """Of the filters that came while the query runs none is told again."""
        return self.gateway.array(_PREDICATE, [])

    def supportsIterativePushdown(self) -> bool:
        """One round is enough."""
        return False

    def estimateStatistics(self) -> Any:
        """Rows and bytes for the optimiser; DESCRIBE EXTENDED is told no rows where merging makes them fewer."""
        rows = None if self.plan.merges and self._is_described() else self.plan.row_count
        return StatisticsProxy(self.gateway, rows, self.plan.size_bytes)

    def _is_described(self) -> bool:
        jvm = self.gateway.jvm
        trace = jvm.org.apache.commons.lang3.exception.ExceptionUtils.getStackTrace(jvm.java.lang.Throwable())
        return "DescribeTableExec" in trace

    def estimateSizeInBytes(self) -> JavaObject:
        """Bytes for the optimiser."""
        return self.gateway.jvm.java.util.OptionalLong.of(self.plan.size_bytes)

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Files that the predicates rule out are not counted."""
        return True

    def supportedCustomMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def reportDriverMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> JavaObject:
        """As Spark's Python reader says of each partition."""
        return columnar_support(self.gateway, "PARTITION_DEFINED")


def pushed_down(
    gateway: Gateway, view: RowView, table: FileStoreTable, predicate: JavaObject
) -> tuple[Predicate | None, Predicate | None]:
    """What of us can judge one of Spark's predicates: over the table's columns, or else over a file's place."""
    if view is not ROWS:
        return to_predicate(predicate, view.fields(table), gateway=gateway), None
    schema = table.schema
    partition = () if schema.has_field(PARTITION) else schema.partition_keys
    ours = to_predicate(predicate, schema.fields, partition, gateway=gateway)
    return ours, None if ours is not None else to_predicate(predicate, pruned_metadata_fields(schema), gateway=gateway)


class StatisticsProxy(Proxy):
    """How much a scan reads."""

    interfaces = (f"{_READ}.Statistics",)

    def __init__(self, gateway: Gateway, rows: int | None, size_bytes: int) -> None:
        super().__init__(gateway)
        self.rows = rows
        self.size_bytes = size_bytes

    def sizeInBytes(self) -> JavaObject:
        """Bytes in Spark's rows, guessed by the types."""
        return self.gateway.jvm.java.util.OptionalLong.of(self.size_bytes)

    def numRows(self) -> JavaObject:
        """Rows of the files."""
        optional = self.gateway.jvm.java.util.OptionalLong
        return optional.empty() if self.rows is None else optional.of(self.rows)

    def columnStats(self) -> JavaObject:
        """None are kept."""
        return self.gateway.jvm.java.util.Collections.emptyMap()


def columnar_support(gateway: Gateway, name: str) -> JavaObject:
    """A constant of ``Scan.ColumnarSupportMode``."""
    return gateway.enum_constant(f"{_READ}.Scan$ColumnarSupportMode", name)


def quoted(name: str) -> str:
    """A column's name as Spark parses it."""
    return f"`{name.replace('`', '``')}`"
