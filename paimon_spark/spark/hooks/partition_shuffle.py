"""Rows of one partition come to one task before they are written, unless the query distributes its rows.

A task writes a file into each partition that it has rows of. So a query of 200 tasks leaves 200 small files in each
partition, unless its rows are shuffled first. For partitioned append tables without buckets an optimizer rule adds
Spark's own ``RebalancePartitions`` to a write: adaptive execution then joins small partitions in a task and splits
large ones (``spark.sql.adaptive.advisoryPartitionSizeInBytes``). A query is left as it is whose rows are sorted,
limited or distributed by the user, or are all of one partition. The rule is a Java class; it asks Python about writes
that it would change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col

from paimon_spark.spark.catalog.distribution import write_distribution
from paimon_spark.spark.catalog.write import WriteProxy, session_parallelism
from paimon_spark.spark.jvm import features
from paimon_spark.spark.jvm.function_proxy import FUNCTION, FunctionProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, gateway_of
from paimon_spark.spark.jvm.plan_tables import python_object
from paimon_spark.spark.jvm.rules import add_optimizer_rule, optimizer_rule
from paimon_spark.spark.session.pyspark_members import java_frame, java_state
from paimon_spark.spec.filter_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable

_CLASS = "PaimonPartitionShuffle"


def install_partition_shuffle(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS, (FUNCTION, PartitionShuffleProxy(gateway)))


def rebalanced(df: DataFrame, table: FileStoreTable) -> DataFrame:
    """Return the rows of a write by path, shuffled by partition as the catalog's writes shuffle them.

    Args:
        df: the rows, of a classic session; columns are matched by name.
        table: the table with the options of the write.
    """
    spark = df.sparkSession
    gateway = gateway_of(spark)
    if features.missing_of(gateway, features.REBALANCED_WRITES):
        return df
    names = {name.lower(): name for name in df.columns}
    wanted = write_distribution(table, session_parallelism(gateway)).rebalanced_by
    columns = [names[name.lower()] for name in wanted if name.lower() in names]
    if not columns or len(columns) < len(wanted):
        return df
    state = java_state(spark)
    install_partition_shuffle(gateway, state)
    rule = optimizer_rule(state, _CLASS)
    if rule is None or not rule.isFree(java_frame(df).queryExecution().optimizedPlan(), gateway.strings(columns)):
        return df
    return df.hint("rebalance", *(col(quoted_name(name)) for name in columns))


class PartitionShuffleProxy(FunctionProxy):
    """Gives the columns by which rows of a write are brought together; answers ``java.util.function.Function``."""

    def apply(self, write: JavaObject) -> JavaObject:
        """Return a ``String[]``; empty where rows stay, or the write asks Spark for a distribution."""
        found = python_object(self.gateway, write)
        names = found.distribution.rebalanced_by if isinstance(found, WriteProxy) else ()
        return self.gateway.strings(names)
