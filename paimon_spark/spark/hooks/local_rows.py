"""Scans of given rows become constants of the query, for which Spark runs no task.

Spark plans such a scan (``LocalScan``: what metadata answers) as a table in the driver, but gives the columns their
names in a step that runs as a job. An optimizer rule turns the scan into Spark's own ``LocalRelation``, and what is
computed of it as well. The rule is a Java class; it asks Python nothing.
"""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonLocalRows"


def install_local_rows(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
