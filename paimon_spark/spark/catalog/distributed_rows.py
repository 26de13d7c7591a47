"""The shuffle in front of a write: by bucket, so that each (partition, bucket) has one task, or by partition alone.

A task writes a file into each partition that it has rows of. So a query of 200 tasks leaves 200 small files in each
partition of an append table without buckets, unless its rows are shuffled. They are rebalanced: adaptive execution
joins small partitions in a task and splits large ones (``spark.sql.adaptive.advisoryPartitionSizeInBytes``). A query is
left as it is whose rows are sorted, limited or distributed by the user, or are all of one partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.distribution import WriteDistribution
from paimon_spark.spark.catalog.write_batches import WriteBatches
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.jobs.clustering import PACKED_STRUCT, clustering, packed
from paimon_spark.spark.jobs.key_ranges import holds_full_buckets, key_ranges, may_be_cut
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import DISTRIBUTED_WRITES, REBALANCED_WRITES, missing_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, called_by
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_expressions import resolved_expressions
from paimon_spark.spark.jvm.plan_tables import java_list, scala_seq
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.write.packed_rows import TASK

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.key_ranges import KeyRanges
    from paimon_spark.write.plan import WritePlan

_OUTPUT = 1  # field of DataSourceV2Relation
_PARTITIONS, _ADVISORY = 2, 3  # fields of RepartitionByExpression
_KNOWN_SIZES = ("Scan", "Range", "InMemory", "LogicalRelation", "LocalRelation", "OneRow")
_KEPT_SIZES = ("Project", "Filter", "Union", "Sort", "Repartition", "SubqueryAlias", "View", "Limit", "Sample")


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
        schema = spark_arrow_schema(_columns(child))
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
        struct = _columns(plan)
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


def _columns(plan: JavaObject) -> StructType:
    return StructType.fromJson(json.loads(plan.schema().json()))


def _is_known(plan: JavaObject) -> bool:
    """Return whether Spark knows the size of rows from their source; the size of a join or an aggregate is a guess."""
    name = str(plan.getClass().getSimpleName())
    below = java_list(plan.children())
    if not below:
        return any(part in name for part in _KNOWN_SIZES)
    return any(part in name for part in _KEPT_SIZES) and all(_is_known(each) for each in below)
