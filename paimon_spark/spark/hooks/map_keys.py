"""Scans are told which values a query wants of keys of maps (`spec/filter_keys.py`)."""

from __future__ import annotations

from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_optimizer_rule

_CLASS = "PaimonMapKeys"


def install_map_keys(gateway: Gateway, state: JavaObject) -> None:
    """Let the optimizer of a session state know the rule; errors as of `add_optimizer_rule`."""
    add_optimizer_rule(gateway, state, _CLASS)
