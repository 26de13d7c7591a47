"""The shuffle that Spark puts in front of a write, by Paimon's own bucket: each (partition, bucket) has one task."""

from __future__ import annotations

from paimon_spark.spark.catalog.distribution import WriteDistribution
from paimon_spark.spark.jobs.shuffled_write import partition_keys
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.expressions import resolved_expressions
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import scala_seq
from paimon_spark.spec.filter_text import quoted_name

_MOST_LOCAL_ROWS = 10_000


class PlacedRows:
    """The rows of one write, and what is known about the tasks that they come to."""

    def __init__(self, gateway: Gateway, distribution: WriteDistribution) -> None:
        self.gateway = gateway
        self.distribution = distribution
        self.one_task_per_bucket = distribution.one_task_per_bucket
        """Whether all rows of one (partition, bucket) come to one task."""
        self._placed = False

    def place(self, query: JavaObject) -> JavaObject:
        """The query of the write with its shuffle by bucket. Called while Spark optimises the statement."""
        if self._placed or query.getClass().getSimpleName() != "RepartitionByExpression":
            return query
        self._placed = True
        child = query.child()
        if child.getClass().getSimpleName() == "LocalRelation" and child.data().size() <= _MOST_LOCAL_ROWS:
            self.one_task_per_bucket = True  # a few rows that the driver has: one task writes them, without a shuffle
            return compat.REPARTITION(self.gateway, 1, False, child)
        texts = self._clustering()
        if not texts:
            return query
        values = [query.productElement(number) for number in range(query.productArity())]
        values[0] = scala_seq(self.gateway, resolved_expressions(self.gateway, child, texts))
        self.one_task_per_bucket = True
        return query.copy(*values)

    def _clustering(self) -> list[str]:
        """What rows of one task are equal in, as SQL; nothing where Spark's own clustering stays."""
        bucket, tasks = self.distribution.bucket, self.distribution.num_partitions
        if bucket is None:
            return []
        if self.distribution.partitions or not tasks:
            return [*map(quoted_name, self.distribution.partitions), bucket]
        keys = ", ".join(map(str, partition_keys(tasks)))  # as many buckets for each task
        return [f"element_at(array({keys}), {bucket} % {tasks} + 1)"]
