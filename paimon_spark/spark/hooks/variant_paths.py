"""Scans are told which paths of VARIANT columns a query touches (`read.variant_paths`)."""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonVariantPaths"


def install_variant_paths(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
