"""Rows that a scan knows without reading become constants of the query, so that no Spark task is run for them.

Spark plans such a scan (``LocalScan``: what metadata answers) as a table in the driver, but gives the columns their
names in a step that runs as a job. An optimizer rule turns the scan into Spark's own ``LocalRelation``, and what is
computed of it as well. The rule is a Java class; it asks Python nothing.
"""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import java_list

_CLASS = "PaimonLocalRows"


def install_local_rows(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of the session of a session state know the rule. Calling it again does no harm.

    Raises:
        Py4JError: this Spark lacks a class that the rule is made of.
    """
    methods = state.experimentalMethods()
    rules = methods.extraOptimizations()
    if _CLASS in [rule.getClass().getName() for rule in java_list(rules)]:
        return
    rule = new_object(gateway, _CLASS)
    getattr(methods, "extraOptimizations_$eq")(rules.appended(rule))
