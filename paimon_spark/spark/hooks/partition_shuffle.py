"""Rows of one partition come to one task before they are written, unless the query distributes its rows.

A task writes a file into each partition that it has rows of. So a query of 200 tasks leaves 200 small files in each
partition, unless its rows are shuffled first. For partitioned append tables without buckets an optimizer rule adds
Spark's own ``RebalancePartitions`` to a write: adaptive execution then joins small partitions in a task and splits
large ones (``spark.sql.adaptive.advisoryPartitionSizeInBytes``). A query is left as it is whose rows are sorted,
limited or distributed by the user, or are all of one partition. The rule is a Java class; it asks Python about writes
that it would change.
"""

from __future__ import annotations

from paimon_spark.spark.catalog.write import WriteProxy
from paimon_spark.spark.jvm.function_proxy import FUNCTION, FunctionProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import python_object
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonPartitionShuffle"


def install_partition_shuffle(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS, (FUNCTION, PartitionShuffleProxy(gateway)))


class PartitionShuffleProxy(FunctionProxy):
    """Gives the columns by which rows of a write are brought together; answers ``java.util.function.Function``."""

    def apply(self, write: JavaObject) -> JavaObject:
        """Return a ``String[]``; empty where rows stay, or the write asks Spark for a distribution."""
        found = python_object(self.gateway, write)
        names = found.distribution.rebalanced_by if isinstance(found, WriteProxy) else ()
        return self.gateway.strings(names)
