"""The shuffle in front of a write: by bucket, so that each (partition, bucket) has one task, or by partition alone.

A task writes a file into each partition that it has rows of. So a query of 200 tasks leaves 200 small files in each
partition of an append table without buckets, unless its rows are shuffled. They are rebalanced: adaptive execution
joins small partitions in a task and splits large ones (``spark.sql.adaptive.advisoryPartitionSizeInBytes``). A query is
left as it is whose rows are sorted, limited or distributed by the user, or are all of one partition.

The Arrow batches in which Spark hands the rows of a write to Python, and how many rows each has.

Spark limits the bytes of an Arrow batch (`MOST_BYTES`, 64 MB by default), and to keep the limit it asks each column for
its size after each row. That takes more time than writing the values. Our jobs go without that limit, and with few rows
a batch instead. Only where columns are numbers, times and texts, where nobody has set the limit, and where the job runs
no Python function of the user's, which would see the smaller batches.

How the rows of one write of the catalog are spread over tasks before they are written.

All rows of one key must reach one task, so that the order in which a statement gives them decides. Spark is asked to
cluster them by key; a rule of its optimizer then puts Paimon's bucket instead of the key (`distributed_rows`), so that
each bucket has one task. An SQL expression gives the bucket; where there is none, Python does. Without that rule
several tasks write one bucket, each with a range of sequence numbers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.columns.bucket_expression import bucket_expression, kept_as_given
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import MOST_BYTES, numbered
from paimon_spark.spark.jobs.clustering import (
    PACKED_STRUCT,
    clustering,
    holds_full_buckets,
    key_ranges,
    may_be_cut,
    packed,
)
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import DISTRIBUTED_WRITES, REBALANCED_WRITES, SMALL_BATCHES, missing_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, called_by
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import java_list, python_struct, resolved_expressions, scala_seq
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.table_write import TaskRows
from paimon_spark.spec.schema import BucketMode
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.write.packed_rows import TASK
from paimon_spark.write.routing import partitions_are_free, partitions_together

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.plan import WritePlan
    from paimon_spark.write.routing import KeyRanges

_OUTPUT = 1  # field of DataSourceV2Relation
_PARTITIONS, _ADVISORY = 2, 3  # fields of RepartitionByExpression
_KNOWN_SIZES = ("Scan", "Range", "InMemory", "LogicalRelation", "LocalRelation", "OneRow")
_KEPT_SIZES = ("Project", "Filter", "Union", "Sort", "Repartition", "SubqueryAlias", "View", "Limit", "Sample")

MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
NO_LIMIT = str(2**31 - 1)
"""The value at which Spark does not look at the size."""
_USUAL_ROWS = 10_000
_BATCH_BYTES = 64 << 20
_FEWEST_ROWS, _MOST_ROWS = 256, 1024
_TEXT_BYTES = 64 << 10
"""Texts of this size still make no larger batch than Spark's limit, unless a row has many."""
_VALUE_BYTES = 16
_PLAIN = (t.NumericType, t.BooleanType, t.DateType, t.TimestampType, t.TimestampNTZType, t.StringType)

_MOST_ADVISORY_BYTES = 1 << 30


class DistributedRows:
    """The rows of one write, and what is known about the tasks that they come to."""

    def __init__(
        self,
        gateway: Gateway,
        table: FileStoreTable,
        distribution: WriteDistribution,
        options: Mapping[str, str],
        *,
        overwrite: bool,
        opened: FileStoreTable | None,
    ) -> None:
        """Keep the write; its rows are not known yet.

        Args:
            gateway: the JVM.
            table: that is written.
            distribution: what the write asks Spark for.
            options: of the write, as our data source has them.
            overwrite: whether something is replaced.
            opened: the table as the statement opened it; None where the write opens it by its own options.
        """
        self.gateway = gateway
        self.opened = opened
        self.table = table
        self.distribution = distribution
        self.options = dict(options)
        self.overwrite = overwrite
        self.one_task_per_bucket = distribution.one_task_per_bucket
        """Whether all rows of one (partition, bucket) come to one task, of dynamic buckets all rows of one key."""
        self.packed = False
        """Whether rows come packed, in two columns (`write.packed_rows`)."""
        self.assignment: WritePlan | None = None
        """The plan by which keys of dynamic buckets are assigned."""
        self.key_ranges: KeyRanges | None = None
        """Where buckets are shared by several tasks."""
        self.batches = WriteBatches(gateway)
        """How many rows Python gets at a time."""
        self._seen = False

    def of_tasks(self) -> TaskRows:
        """Which rows come to one task, once the statement is optimised."""
        return TaskRows(self.one_task_per_bucket, self.assignment, self.packed, self.key_ranges)

    def distribute(self, command: JavaObject) -> JavaObject:
        """The write whose rows are shuffled by bucket. Called while Spark optimises the statement."""
        query = command.query()
        self.batches.plan(query)
        if self.distribution.rebalanced_by:
            return self._rebalanced(command)
        if missing_of(self.gateway, DISTRIBUTED_WRITES):
            return command
        if self._seen or query.getClass().getSimpleName() != "RepartitionByExpression":
            return command
        self._seen = True
        child = query.child()
        partitions = [quoted_name(name) for name in self.distribution.partitions]
        tasks = self.distribution.num_partitions
        self.key_ranges = self._ranges(child)
        if self.distribution.bucket is not None and self.key_ranges is None:
            self.one_task_per_bucket = True
            if not partitions:  # few buckets: no two of them come to one task by chance
                tasks = self._most_tasks()
            keys = clustering(partitions, self.distribution.bucket, tasks, self.distribution.buckets)
            return command.withNewQuery(self._clustered(query, child, keys))
        if self.distribution.packed or self.key_ranges is not None:
            rows = self._packed(child, self._most_tasks())
            shuffled = self._clustered(query, rows, [TASK])
            return self._of_columns(command, java_list(rows.output())).withNewQuery(shuffled)
        return command

    def _rebalanced(self, command: JavaObject) -> JavaObject:
        """The write whose rows are shuffled by partition, if the query says nothing else about them."""
        if self._seen or missing_of(self.gateway, REBALANCED_WRITES):
            return command
        self._seen = True
        names = self.gateway.strings(self.distribution.rebalanced_by)
        return new_object(self.gateway, "PaimonFreeRows").rebalanced(command, names)

    def _most_tasks(self) -> int:
        """Number of partitions of the shuffle, of which Spark may join some."""
        if self.key_ranges is not None:
            return self.key_ranges.tasks
        return self.distribution.num_partitions or int(compat.SQL_CONF.of(self.gateway).get().numShufflePartitions())

    def _ranges(self, child: JavaObject) -> KeyRanges | None:
        """Where buckets are cut; a job finds it if Spark knows, before the query runs, that the rows are so many."""
        size = int(str(child.stats().sizeInBytes()))
        if not may_be_cut(self.table, size) or not _is_known(child) or called_by(self.gateway, "ExplainCommand"):
            return None
        schema = spark_arrow_schema(python_struct(child.schema()))
        if holds_full_buckets(self.table, schema):
            return None
        frame, struct = self._frame(child)
        return key_ranges(frame, schema, self._planned(struct), size)

    def _planned(self, struct: StructType) -> WritePlan:
        """Return the plan that assigns rows to tasks."""
        plan = PaimonDataSource(self.options).planned_assignment(struct, overwrite=self.overwrite, opened=self.opened)
        return replace(plan, key_ranges=self.key_ranges)

    def _frame(self, plan: JavaObject) -> tuple[DataFrame, StructType]:
        """The rows of a plan, their columns numbered, and the columns under their own names."""
        session = compat.CLASSIC_SESSION.of(self.gateway).active()
        rows = compat.DATASET.of(self.gateway).ofRows(session, plan)
        frame = DataFrame(rows, SparkSession(self.gateway.context, session))
        struct = python_struct(plan.schema())
        return numbered(frame), struct

    def _clustered(self, shuffle: JavaObject, child: JavaObject, texts: list[str]) -> JavaObject:
        """Return Spark's shuffle with other expressions and another child."""
        values = [shuffle.productElement(number) for number in range(shuffle.productArity())]
        values[0] = scala_seq(self.gateway, resolved_expressions(self.gateway, child, texts))
        values[1] = child
        if self.key_ranges is not None:  # tasks that Spark does not join again
            values[_PARTITIONS] = self.gateway.jvm.scala.Option.apply(self._most_tasks())
            values[_ADVISORY] = self.gateway.jvm.scala.Option.empty()
        return shuffle.copy(*values)

    def _packed(self, child: JavaObject, tasks: int) -> JavaObject:
        """The rows as two columns: the number of their task, and many rows in one value."""
        nothing, none = scala_seq(self.gateway, []), self.gateway.jvm.scala.Option.empty()
        frame, struct = self._frame(compat.LOCAL_RELATION(self.gateway, child.output(), nothing, False, none))
        plan = self._planned(struct)
        self.packed = self.one_task_per_bucket = True
        self.assignment = None if plan.dynamic is None else plan
        rows = packed(frame, spark_arrow_schema(struct), plan, tasks)
        return self._grafted(java_frame(rows).queryExecution().analyzed(), child)

    def _grafted(self, plan: JavaObject, child: JavaObject) -> JavaObject:
        """Replace the columns below a plan by the rows themselves."""
        below = java_list(plan.children())
        if not below:
            return child
        return plan.withNewChildren(scala_seq(self.gateway, [self._grafted(each, child) for each in below]))

    def _of_columns(self, command: JavaObject, columns: list[JavaObject]) -> JavaObject:
        """The write into a relation that has other columns: Spark compares them with those of the rows."""
        relation = command.table()
        values = [relation.productElement(number) for number in range(relation.productArity())]
        values[_OUTPUT] = scala_seq(self.gateway, [column.newInstance() for column in columns])
        return command.withNewTable(relation.copy(*values))

    def written_schema(self, schema: JavaObject) -> JavaObject:
        """The columns that a task is given, of the JVM's type ``StructType``."""
        return java_struct(self.gateway, PACKED_STRUCT) if self.packed else schema


def _is_known(plan: JavaObject) -> bool:
    """Return whether Spark knows the size of rows from their source; the size of a join or an aggregate is a guess."""
    name = str(plan.getClass().getSimpleName())
    below = java_list(plan.children())
    if not below:
        return any(part in name for part in _KNOWN_SIZES)
    return any(part in name for part in _KEPT_SIZES) and all(_is_known(each) for each in below)


def batch_properties(struct: t.StructType, settings: Mapping[str, str]) -> dict[str, str]:
    """Return properties of a job by which Spark sends rows in small batches; none where its limit of bytes must stay.

    Args:
        struct: the columns that Python gets.
        settings: what the session has set.
    """
    if MOST_BYTES in settings or not all(isinstance(field.dataType, _PLAIN) for field in struct):
        return {}
    given = int(settings.get(MOST_ROWS, _USUAL_ROWS))
    texts = sum(isinstance(field.dataType, t.StringType) for field in struct)
    fitting = _BATCH_BYTES // (_VALUE_BYTES * len(struct) + _TEXT_BYTES * texts or 1)
    rows = max(_FEWEST_ROWS, min(fitting, _MOST_ROWS))
    return {MOST_BYTES: NO_LIMIT, MOST_ROWS: str(rows if given <= 0 else min(given, rows))}


_CLASS = "PaimonJobProperties"
_FEWEST_BYTES = 2 << 20  # a smaller write is as fast


class WriteBatches:
    """The batches of one write."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._properties: JavaObject | None = None
        self._planned = False

    def plan(self, query: JavaObject) -> None:
        """Look at the rows as they come to the write. Called while Spark optimises the statement; once is enough."""
        if not self._planned and not missing_of(self._gateway, SMALL_BATCHES):
            self._planned = True
            context = compat.SPARK_CONTEXT.of(self._gateway).getOrCreate()
            properties = new_object(self._gateway, _CLASS, (compat.SPARK_CONTEXT.name, context))
            self._properties = properties if properties.isPlain(query, _FEWEST_BYTES) else None

    def begin(self, struct: StructType) -> None:
        """Let the jobs of the running statement have such batches, until it ends."""
        if self._properties is None:
            return
        settings = self._gateway.string_dict(compat.SQL_CONF.of(self._gateway).get().settings())
        values = batch_properties(struct, settings)
        if values:
            self._properties.begin(self._gateway.string_map(values))

    def end(self) -> None:
        """What comes now has Spark's own batches again."""
        if self._properties is not None:
            self._properties.end()


@dataclass(frozen=True, slots=True)
class Parallelism:
    """What the session says about the number of tasks after a shuffle."""

    adaptive: bool
    """Spark joins small partitions of a shuffle (AQE), so it finds a number of tasks that fits the size of the data."""
    tasks: int
    """How many tasks run at once."""


@dataclass(frozen=True, slots=True)
class WriteDistribution:
    """What a write asks Spark for."""

    columns: tuple[str, ...] = ()
    """Rows that are equal in these columns come to one task; none: rows stay where they are."""
    num_partitions: int = 0
    """Exact number of tasks; 0 leaves it to Spark."""
    advisory_bytes: int = 0
    """Size of the data of a task towards which Spark joins partitions; 0 for Spark's own."""
    one_task_per_bucket: bool = False
    """Whether all rows of one (partition, bucket) come to one task."""
    bucket: str | None = None
    """SQL of the bucket of a row: where Spark's shuffle can use it, all rows of one (partition, bucket) come to one
    task."""
    buckets: int = 0
    """Number of buckets of a partition where it is fixed."""
    partitions: tuple[str, ...] = ()
    """The partition columns."""
    rebalanced_by: tuple[str, ...] = ()
    """Columns whose rows Spark brings together where the query says nothing else (`distributed_rows`)."""
    packed: bool = False
    """Whether Python gives the task of a row's bucket, assigns its key where buckets are dynamic, and packs the rows
    for Spark's shuffle: all rows of one (partition, bucket) come to one task then."""
    may_split: bool = False
    """Whether Spark may give rows that are equal in `columns` to several tasks where there are very many (AQE)."""

    def of_other_keys(self, names: Sequence[str]) -> WriteDistribution:
        """The same for rows that lack key columns, or have them in other types than the table: Python gives the bucket.

        Args:
            names: the columns of the rows.
        """
        if not self.columns or self.may_split or not names:
            return WriteDistribution()
        if self.one_task_per_bucket and self.num_partitions == 1:
            return replace(self, columns=(names[0],))
        # by any column: what Spark shuffles by is replaced
        return replace(self, columns=(names[0],), bucket=None, packed=True, one_task_per_bucket=False)


def write_distribution(table: FileStoreTable, parallelism: Parallelism) -> WriteDistribution:
    """The distribution for rows of a table."""
    schema = table.schema
    mode = schema.bucket_mode
    if mode is BucketMode.BUCKET_UNAWARE and partitions_together(schema):
        size = table.options.target_file_size_bytes(False)
        advisory = min(size, _MOST_ADVISORY_BYTES) if parallelism.adaptive else 0
        return WriteDistribution(tuple(schema.partition_keys), advisory_bytes=advisory, may_split=True)
    if parallelism.adaptive and partitions_are_free(schema):
        return WriteDistribution(rebalanced_by=tuple(schema.partition_keys))
    if mode not in (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC):
        return WriteDistribution()
    partitions = tuple(schema.partition_keys)
    kept = all(kept_as_given(schema.field(name)) for name in partitions)
    if mode is BucketMode.HASH_DYNAMIC:
        clustered = _sized(table, (*partitions, *schema.trimmed_primary_keys), parallelism, buckets=1)
        return replace(clustered, packed=True, partitions=partitions)
    buckets = table.options.bucket
    keys = tuple(schema.bucket_keys) or tuple(schema.field_names[:1])
    if buckets > 1:
        clustered = _sized(table, (*partitions, *keys), parallelism, buckets=buckets)
        bucket = bucket_expression(schema) if kept else None
        return replace(clustered, bucket=bucket, buckets=buckets, packed=bucket is None, partitions=partitions)
    if partitions:
        return replace(_sized(table, partitions, parallelism, buckets=1, one_task_per_bucket=kept), packed=not kept)
    return WriteDistribution(keys, num_partitions=1, one_task_per_bucket=True)


def _sized(
    table: FileStoreTable,
    columns: tuple[str, ...],
    parallelism: Parallelism,
    *,
    buckets: int,
    one_task_per_bucket: bool = False,
) -> WriteDistribution:
    """Return a distribution with few tasks: each task writes a file into every bucket of which it gets rows."""
    if parallelism.adaptive:
        size = table.options.target_file_size_bytes(bool(table.schema.primary_keys)) * buckets
        return WriteDistribution(
            columns, advisory_bytes=min(size, _MOST_ADVISORY_BYTES), one_task_per_bucket=one_task_per_bucket
        )
    several = table.schema.partition_keys or buckets == 1
    tasks = parallelism.tasks if several else min(parallelism.tasks, buckets)
    return WriteDistribution(columns, num_partitions=max(1, tasks), one_task_per_bucket=one_task_per_bucket)
