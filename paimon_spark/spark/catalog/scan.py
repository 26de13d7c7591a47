"""Answers Spark's ``ScanBuilder`` and ``Scan``: which columns, rows and files one scan reads.

Every scan has a builder and a plan of its own, nothing that is pushed down is shared. What a scan reads is in
`ScanPlan`; here it is given to Spark, on the driver. ``PaimonProxy`` in the JVM asks once for what is pushed down, once
for the scan and once for its batch (see `answer_proxy`).

An aggregation by tasks is a scan too: they send partial results, which Spark aggregates. Other scans read less: some
partitions, rows that a join found, some paths of VARIANT columns.

Spark pushes conditions like ``upper(p) = 'A'`` down to no source. ``PaimonPartitionFilters`` evaluates those that are
over partition columns only for the values of each partition, by Spark's own functions, and gives the scan the positions
of the partitions that are left. The optimiser gets what ANALYZE found of a scan's columns (Java:
``PaimonStatistics``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from paimon_spark.errors import PaimonError
from paimon_spark.options import canonical_options
from paimon_spark.read.aggregate import Aggregation, result_fields
from paimon_spark.read.plain_files import PARTITION_TYPES
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import RowView, residual_filter
from paimon_spark.spark.catalog import pushed_aggregates
from paimon_spark.spark.catalog.basic_scan import BasicScanProxy, LocalRowsProxy, ReaderScanProxy, python_batch
from paimon_spark.spark.catalog.bucketed_scan import BUCKETING, bucket_key, buckets_of, by_bucket, partitions_of
from paimon_spark.spark.catalog.driver_read import ChangedScans, is_small, read_here, rows_here
from paimon_spark.spark.catalog.loading import LoadedTable, loaded_for_read
from paimon_spark.spark.catalog.native_scan import (
    WANTED_SETTINGS,
    is_native,
    native_part,
    native_position_filter,
    note_refusal,
    parquet_batch,
    partition_rows,
    why_not_native,
)
from paimon_spark.spark.catalog.position_filter import PositionFilter, already_filtered, may_need_position_filter
from paimon_spark.spark.catalog.pushed_aggregates import is_counted_by_tasks, plan_of_tasks
from paimon_spark.spark.catalog.pushed_expressions import Tree, pushed_down
from paimon_spark.spark.catalog.scan_plan import ScanPlan, cheapest_column, partition_columns_last, touched_paths
from paimon_spark.spark.catalog.stream import stream_of_plan
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct, to_spark_type
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy, none_of
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.jvm.node_metrics import SCAN_METRICS, shows_metrics
from paimon_spark.spark.source.aggregate_reader import AggregateReader, CountReader
from paimon_spark.spark.source.stream_source import batch_options
from paimon_spark.spark.sql.read_version import with_read_options
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.statistics import statistics_of, value_of_text

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

    from paimon_spark.read.aggregate import AggregateRows
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.statistics import AnalyzedColumn


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
            **_supported_metrics(self.gateway),
            **_reported_metrics(self.gateway, self.plan),
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


def _supported_metrics(gateway: Gateway) -> dict[str, Value]:
    """The metrics that Spark's UI shows at a scan."""
    return {"supportedCustomMetrics": ["metrics", SCAN_METRICS]} if shows_metrics(gateway) else {}


def _reported_metrics(gateway: Gateway, plan: ScanPlan) -> dict[str, Value]:
    """Their values."""
    return {"reportDriverMetrics": ["metric values", plan.metrics()]} if shows_metrics(gateway) else {}


def known_partitions(plan: ScanPlan) -> dict[str, Any]:
    """The partitions that a scan reads: names and kinds of columns that come out, and their values in each."""
    keys = plan.table.schema.partition_keys
    wanted = [name for name in plan.filterable if name in keys]
    columns = [f for f in plan.table.schema.fields if f.name in wanted and isinstance(f.type, PARTITION_TYPES)]
    kinds, rows = partition_rows(plan.table, columns, plan.partitions)
    return {"names": [column.name for column in columns], "kinds": kinds, "rows": rows}


def scan_of_less(plan: ScanPlan, answer: str) -> ScanPlan | None:
    """The scan of some partitions, or of some paths of VARIANT columns; None where the whole values count.

    Args:
        plan: of the scan that is asked.
        answer: JSON: ``{"partitions": positions}`` of `known_partitions`, ``{"columns": struct}`` for more columns, or
            what `touched_paths` reads.
    """
    given = json.loads(answer)
    if not isinstance(given, dict):
        return plan.of_paths(touched_paths(answer))
    if "columns" in given:
        struct = StructType.fromJson(json.loads(given["columns"]))
        return plan.of_columns(partition_columns_last(struct, plan.table.schema.partition_keys))
    known = plan.partitions
    return plan.of_partitions(frozenset(known[position] for position in given["partitions"]))


def scan_of_rows(plan: ScanPlan, predicates: Sequence[Tree]) -> ScanPlan:
    """The scan of rows for which predicates of Spark's are true, as far as they are ours; else the same one."""
    found = [pushed_down(plan.view, plan.table, predicate) for predicate in predicates]
    ours = tuple(predicate for predicate, _ in found if predicate is not None)
    of_files = tuple(metadata for _, metadata in found if metadata is not None)
    return plan.narrowed(ours, of_files) if ours or of_files else plan


_KINDS: tuple[tuple[type[spark.DataType] | tuple[type[spark.DataType], ...], str], ...] = (
    (spark.BooleanType, "boolean"),
    (spark.ByteType, "tinyint"),
    (spark.ShortType, "smallint"),
    ((spark.IntegerType, spark.DateType), "int"),
    ((spark.LongType, spark.TimestampType, spark.TimestampNTZType), "bigint"),
    (spark.FloatType, "float"),
    (spark.DoubleType, "double"),
    (spark.DecimalType, "decimal"),
)


def column_statistics(plan: ScanPlan) -> list[list[Any]]:
    """Return what ANALYZE found of the columns of a scan, as ``PaimonStatistics.java`` takes it.

    Statistics of another schema, or of a column that has another id now, are left out; so is a file that cannot be
    read, since no query needs it.
    """
    if plan.view is not ROWS or not isinstance(plan.source, Snapshot):
        return []
    try:
        found = statistics_of(plan.table, plan.source)
    except (OSError, PaimonError):
        return []
    if found is None or found.schema_id != plan.table.schema.id:
        return []
    wanted = set(plan.struct.names)
    fields = {field.name: field for field in plan.table.schema.fields if field.name in wanted}
    rows = (_row(fields[name], column) for name, column in found.col_stats.items() if name in fields)
    return [row for row in rows if row is not None]


def _row(field: DataField, column: AnalyzedColumn) -> list[Any] | None:
    kind = next((name for types, name in _KINDS if isinstance(to_spark_type(field.type), types)), None)
    if field.id != column.col_id:
        return None
    least, greatest = (None if kind is None else _inside(text, field) for text in (column.min, column.max))
    name = quoted_name(field.name)
    return [name, column.distinct_count, column.null_count, column.avg_len, column.max_len, kind, least, greatest]


def _inside(text: str | None, field: DataField) -> str | None:
    """The text of a value as Spark keeps it inside; None where the file holds something else."""
    try:
        value = None if text is None else value_of_text(text, field.type)
    except (ValueError, ArithmeticError):
        return None
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


_PREDICATE = "org.apache.spark.sql.connector.expressions.filter.Predicate"


class ScanBuilderProxy(AnswerProxy):
    """Collects what Spark pushes down for one scan: predicates, then aggregates, a limit, and columns."""

    interfaces = (
        f"{_READ}.ScanBuilder",
        f"{_READ}.SupportsPushDownRequiredColumns",
        f"{_READ}.SupportsPushDownV2Filters",
        f"{_READ}.SupportsPushDownLimit",
        f"{_READ}.SupportsPushDownAggregates",
    )

    noted: ClassVar[Mapping[str, tuple[str, Value]]] = {"pruneColumns": ("_prune", None), "pushLimit": ("_limit", True)}
    asked: ClassVar[Mapping[str, str]] = {
        "pushPredicates": "_asked_predicates",
        "supportCompletePushDown": "_asked_aggregation",
        "pushAggregation": "_asked_aggregation",
        "build": "_asked_scan",
    }
    settings = WANTED_SETTINGS

    def __init__(self, gateway: Gateway, loaded: LoadedTable, options: Mapping[str, str], view: RowView = ROWS) -> None:
        super().__init__(gateway)
        self.view = view
        self.options = canonical_options(dict(options))
        shared = batch_options(self.options)
        self.loaded = loaded_for_read(loaded, shared)
        self.given = {key: value for key, value in self.options.items() if key not in shared}  # streams differ in them
        self.table = with_read_options(self.loaded.table, shared, pinned=loaded.pinned)
        self.struct: StructType = to_spark_struct(view.fields(self.table))
        self.predicates: tuple[Predicate, ...] = ()
        self.metadata_predicates: tuple[Predicate, ...] = ()
        self.skipping: list[Predicate] = []
        """Predicates by which a reader may skip row groups, in the order in which Spark pushed them."""
        self.limit: int | None = None
        self.left_to_spark = False
        self.aggregated: AggregateRows | None = None
        self.in_tasks: AggregateScanProxy | None = None  # the scan of an aggregation of which tasks compute parts
        self.averaged: set[str | None] = set()
        """Columns of which Spark wanted the average before it asked for sums and counts."""
        self.first: ScanPlan | None = None
        """An earlier scan of the same relation, on whose source this one stays."""
        self.judged: ScanPlan | None = None
        """The scan of no columns by which it was decided that neither metadata nor tasks aggregate."""
        self.changed: ChangedScans | None = None
        """The scans of a statement that changes rows of this table; None where none does."""

    def answers(self) -> dict[str, Value]:
        """What does not depend on the query."""
        return {
            "pushedPredicates": none_of(_PREDICATE),
            "supportsIterativePushdown": False,
            "isPartiallyPushed": True,
        }

    def _prune(self, required: str) -> None:
        struct = StructType.fromJson(json.loads(required))
        # without a column Spark 4.0 counts no rows
        self.struct = struct if len(struct) else cheapest_column(self.struct, self.table.schema.partition_keys)

    def _asked_predicates(self, question: Question) -> Reply:
        rest, pushed, skipping = self._take(question.arguments[0])
        return Reply(["picked", rest], remember={"pushedPredicates": ["picked", pushed]}, keep=skipping)

    def _take(self, predicates: Sequence[Tree]) -> tuple[list[int], list[int], list[int]]:
        """Take predicates: positions of those that Spark evaluates (too), of those taken, of those `skipping`.

        Only a filter that stays in its plan makes Spark think a table worth a runtime filter on the other side of a
        join. So predicates that our reader evaluates row by row are returned too: few rows are left by then. Those that
        planning evaluates, over partition columns, are not: limits and aggregates can be pushed past them.
        """
        rest, pushed, skipping = [], [], []
        self.skipping = []
        for position, predicate in enumerate(predicates):
            ours, metadata = pushed_down(self.view, self.table, predicate)
            if metadata is not None:
                self.metadata_predicates += (metadata,)
                pushed.append(position)
            if ours is not None:
                self.predicates += (ours,)
                pushed.append(position)
                self.skipping.append(ours)
                skipping.append(position)
            if ours is None or residual_filter(self.table.schema, ours) is not None:
                rest.append(position)
        self.left_to_spark = bool(rest)
        return rest, pushed, skipping

    def _limit(self, limit: int) -> None:
        self.limit = limit

    def _asked_aggregation(self, question: Question) -> Reply:
        complete = self._aggregate(question.arguments[0], question.settings)
        return Reply(complete, remember={"pushAggregation": complete or self.in_tasks is not None})

    def _aggregate(self, trees: Sequence[Sequence[Tree]], settings: Mapping[str, str]) -> bool:
        self.averaged |= pushed_aggregates.averaged_columns(trees[0])
        wanted = pushed_aggregates.to_aggregation(*trees)
        if self.aggregated is None and not self.left_to_spark and wanted is not None:
            scan = ScanPlan(self.table, StructType(), self.predicates, view=self.view, given=self.given)
            plan = self._on_source(scan)
            self.aggregated = pushed_aggregates.aggregated_rows(plan, wanted)
            if self.aggregated is None:
                self.judged = plan
                self.in_tasks = task_scan(self.gateway, self.loaded.name, plan, wanted, self.averaged, settings)
        return self.aggregated is not None

    def _asked_scan(self, _question: Question) -> Reply:
        return Reply(described_proxy(self._scan()))

    def _scan(self) -> AnswerProxy:
        if self.in_tasks is not None:
            self.in_tasks.names_errors = self.names_errors
            return self.in_tasks
        if self.aggregated is not None:
            return pushed_aggregates.answered_scan(self.gateway, self.loaded.name, self.aggregated)
        struct = partition_columns_last(self.struct, self.table.schema.partition_keys)
        predicates = self.predicates, self.metadata_predicates
        plan = ScanPlan(self.table, struct, *predicates, self.limit, self.view, self.given)
        plan = self._on_source(plan)
        if self.changed is not None:
            plan, rows = self.changed.scanned(self.gateway, plan)
        else:
            rows = read_here(self.gateway, plan)
        if rows is not None:
            text = f"paimon {self.loaded.name} {plan.describe()}, reader=driver, {plan.sizes()}"
            return LocalRowsProxy(self.gateway, plan.struct, text, rows)
        return ScanProxy.of(self, self.loaded.name, plan, self.skipping)

    def _on_source(self, plan: ScanPlan) -> ScanPlan:
        plan = plan.after(self.first) if self.first else plan
        return plan.planned_as(self.judged) if self.judged else plan


class ScanProxy(BasicScanProxy):
    """One scan. Its batch is made once: plans compare batches by identity when they reuse exchanges."""

    interfaces = (
        f"{_READ}.Scan",
        f"{_READ}.SupportsReportStatistics",
        f"{_READ}.SupportsRuntimeV2Filtering",
        "java.util.function.Supplier",
        "java.util.function.Function",
        "java.util.concurrent.Callable",
        "java.security.PrivilegedAction",
    )

    asked: ClassVar[Mapping[str, str]] = {
        "get": "_asked_position_filter",
        "apply": "_asked_less",
        "call": "_asked_partitions",
        "run": "_asked_buckets",
        "rows": "_asked_rows",
        "parts": "_asked_parts",
        "toBatch": "_asked_batch",
        "toMicroBatchStream": "_asked_stream",
        "refused": "_asked_own_batch",
        "description": "_asked_description",
        "filter": "_asked_filter",
        "estimateStatistics": "_asked_statistics",
        "estimateSizeInBytes": "_asked_size",
    }
    settings = (*WANTED_SETTINGS, BUCKETING)

    def __init__(self, gateway: Gateway, name: str, plan: ScanPlan, pushed: Sequence[Predicate] = ()) -> None:
        super().__init__(gateway)
        self.name = name
        self.pushed = pushed
        self.plan = plan
        self._native: bool | None = None
        self._position_filter: PositionFilter | None = None
        self._by_bucket = False
        self._is_part = False

    @classmethod
    def of(cls, asked: AnswerProxy, name: str, plan: ScanPlan, pushed: Sequence[Predicate]) -> ScanProxy:
        """The scan that a builder or another scan answers."""
        scan = cls(asked.gateway, name, plan, pushed)
        scan.names_errors = asked.names_errors
        if isinstance(asked, ScanProxy):
            scan._by_bucket, scan._is_part = asked._by_bucket, asked._is_part
        return scan

    def answers(self) -> dict[str, Value]:
        """What does not depend on the files."""
        return {
            **super().answers(),
            **({} if may_need_position_filter(self.plan.table) else {"get": None}),
            **_supported_metrics(self.gateway),
            "bucketKey": bucket_key(self.plan),
            "filterAttributes": ["references", [] if self._is_part else self._filterable()],
            **({} if self._may_be_cut() else {"parts": None}),
            "pushedPredicates": none_of(_PREDICATE),
            "supportsIterativePushdown": False,
            "reflectsFullyPushedDownFilters": True,
        }

    def _struct(self) -> StructType:
        return self.plan.struct

    def _asked_description(self, question: Question) -> Reply:
        return Reply(self._describe(question.settings), once=True)

    def _describe(self, settings: Mapping[str, str]) -> str:
        if self._is_native(settings):
            reader = ", reader=spark-parquet"
        elif is_small(self.gateway, self.plan):
            reader = ", reader=driver"
        else:
            reason = why_not_native(self.gateway, self.plan)
            reader = f", reader=paimon ({reason})" if reason else ""
        return f"paimon {self.name} {self.plan.describe()}{reader}, {self.plan.sizes()}"

    def _asked_position_filter(self, question: Question) -> Reply:
        """Which rows Spark is to filter, where its Parquet reader can read all others as they are."""
        if self._native is None:
            self._position_filter = native_position_filter(self.gateway, self.plan, question.settings)
        if self._position_filter is None:
            return Reply(None, once=True)
        self._native = True
        keys = self.plan.table.schema.partition_keys
        answer = {"partition columns": sum(name in keys for name in self.plan.struct.names)}
        return Reply(answer, once=True, remember={"parts": None})

    def _may_be_cut(self) -> bool:
        plan = self.plan
        return plan.table.schema.kind.is_keyed and plan.limit is None and plan.view is ROWS and not self._is_part

    def _asked_parts(self, question: Question) -> Reply:
        """Two scans, of which Spark's Parquet reader reads one, where ours would read all files."""
        found = None
        if self._position_filter is None and not self._by_bucket:
            found = native_part(self.gateway, self.plan, question.settings)
        return Reply(found and ["list", [described_proxy(self._part(plan)) for plan in found]], once=True)

    def _part(self, plan: ScanPlan) -> ScanProxy:
        """The scan of some files. It takes no filters later: it would look for its files once more."""
        scan = ScanProxy.of(self, self.name, plan, self.pushed)
        scan._is_part = True
        return scan

    def _asked_less(self, question: Question) -> Reply:
        """The scan of some partitions, or of the paths of VARIANTs that the query touches."""
        plan = scan_of_less(self.plan, question.arguments[0])
        return Reply(plan and described_proxy(ScanProxy.of(self, self.name, plan, self.pushed)), repeated=True)

    def _asked_partitions(self, _question: Question) -> Reply:
        """The values of the partitions, by which the optimizer leaves out some."""
        return Reply(known_partitions(self.plan), once=True)

    def _asked_rows(self, _question: Question) -> Reply:
        """Which rows come out, as text: scans of the same ones can be one. None where it is not that simple."""
        if self._is_part or self._by_bucket or self._position_filter is not None:
            return Reply(None)
        return Reply(self.plan.rows_text())

    def _asked_buckets(self, question: Question) -> Reply:
        """Whether the scan reads by bucket from now on, and what its buckets are."""
        found = buckets_of(
            self.plan,
            self.plan.reader().packed_splits(),
            cores=self.gateway.context.defaultParallelism,
            wanted=question.settings.get(BUCKETING, "false").lower() == "true",
            filtered=self._position_filter is not None,
        )
        self._by_bucket = found is not None
        return Reply(found and found.answer(), once=True, forget=["toBatch"])

    def _asked_batch(self, question: Question) -> Reply:
        """Spark's Parquet batch where the files are the rows; few rows by their keys; else a Python batch."""
        reader = self.plan.reader()
        buckets = by_bucket(self.plan.plan.splits) if self._by_bucket else None
        tasks = None if buckets is None else list(buckets.values())
        if self._is_native(question.settings):
            filtered = self._position_filter
            value = parquet_batch(self.gateway, self.plan, self.pushed, position_filter=filtered, tasks=tasks)
        elif buckets is None and is_small(self.gateway, self.plan):
            value = rows_here(self.plan.struct, reader)
        else:
            value = python_batch(self.plan.struct, reader, None if buckets is None else partitions_of(buckets))
        if buckets is not None:
            value = ["bucketed batch", value, list(buckets)]
        shown: dict[str, Value] = {"description": self._describe(question.settings)}
        return Reply(value, once=True, remember={**shown, **_reported_metrics(self.gateway, self.plan)})

    def _asked_stream(self, _question: Question) -> Reply:
        """The same table as a stream."""
        return stream_of_plan(self.gateway, self.name, self.plan)

    def _asked_own_batch(self, question: Question) -> Reply:
        """This Spark does not let its Parquet reader be made: ours reads."""
        note_refusal(str(question.arguments[0]))
        self._native = False
        partitions = partitions_of(by_bucket(self.plan.plan.splits)) if self._by_bucket else None
        if self._position_filter is None:
            batch = python_batch(self.plan.struct, self.plan.reader(), partitions)
        else:
            keys = self.plan.table.schema.partition_keys
            batch = python_batch(*already_filtered(self.plan.struct, self.plan.reader(), keys), partitions)
        return Reply(batch, remember={"description": self._describe({})})

    def _is_native(self, settings: Mapping[str, str]) -> bool:
        """Whether Spark's reader is used. Decided once: all later batches go to the reader of the first one."""
        if self._native is None:
            self._native = is_native(self.gateway, self.plan, settings)
        return self._native

    def _filterable(self) -> list[str]:
        return [quoted_name(name) for name in self.plan.filterable]

    def _asked_filter(self, question: Question) -> Reply:
        self._narrow(question.arguments[0])
        return Reply(forget=["toBatch", "description"])

    def _narrow(self, predicates: Sequence[Tree]) -> None:
        narrowed = scan_of_rows(self.plan, predicates)
        if narrowed is not self.plan:
            self.plan = narrowed

    def _asked_statistics(self, question: Question) -> Reply:
        plan = self.plan
        counted = pushed_aggregates.row_count(plan) if question.described and not plan.is_planned else None
        if counted is not None:
            return Reply(["statistics", counted, plan.size_of(counted), column_statistics(plan)])
        rows = None if question.described and plan.merges else plan.row_count
        return Reply(["statistics", rows, plan.size_bytes, column_statistics(plan)])

    def _asked_size(self, _question: Question) -> Reply:
        return Reply(["long", self.plan.size_bytes])
