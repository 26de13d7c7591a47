"""Rows come to the task that writes their bucket, or their partition, before they are written: one rule for all writes.

A V2 write can ask Spark for rows that are clustered by columns, or by functions whose Java class every executor has:
Paimon's bucket is neither. So an optimizer rule, a Java class, gives a write in a plan to the write
itself once Spark has put the shuffle into it (``V2Writes``), and takes the one that it answers: the shuffle by Paimon's
bucket, or, for partitioned append tables without buckets, Spark's own ``RebalancePartitions``
(`catalog.placed_rows`). Where this Spark does not know the classes that the rule is made of, rows stay clustered by the
columns of their keys: that is right, and leaves a file of every task in every bucket.
"""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonPlacedWrites"


def install_placed_writes(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
