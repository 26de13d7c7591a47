"""Columns and filters of streams: Spark pushes neither down into a stream, so an optimizer rule of ours does.

In the plan of each batch it finds our stream below a projection and filters, asks it for one that reads less, and puts
that one in its place. The rule is a Java class.
"""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonStreamColumns"


def install_stream_columns(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
