"""Conditions on expressions of partition columns leave out partitions (`catalog.narrowed_scans`)."""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonPartitionFilters"


def install_partition_filters(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
