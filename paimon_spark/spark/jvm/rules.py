"""Rules of ours in the analyzer and the optimizer of a session: Java classes, which may ask Python about plans."""

from __future__ import annotations

from typing import Any

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object


def add_rule(
    gateway: Gateway,
    state: JavaObject,
    lists: tuple[compat.SparkField, ...],
    java_class: str,
    *values: tuple[str, Any],
    first: bool = False,
) -> None:
    """Put a rule into lists of the analyzer of a session state. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        lists: fields of the analyzer.
        java_class: the rule, one of this package's Java classes.
        values: class and value of each argument of its constructor.
        first: put it before the rules that are there, else behind them.

    Raises:
        Py4JError: the class cannot be compiled.
        PaimonError: this Spark has no such list.
    """
    analyzer = state.analyzer()
    if java_class in str(lists[0].get(gateway, analyzer)):
        return
    rule = new_object(gateway, java_class, *values)
    for rules in lists:
        held = rules.get(gateway, analyzer)
        rules.set(gateway, analyzer, held.prepended(rule) if first else held.appended(rule))


def add_optimizer_rule(gateway: Gateway, state: JavaObject, java_class: str, *values: tuple[str, Any]) -> None:
    """Put a rule behind those of the optimizer of a session state. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        java_class: the rule, one of this package's Java classes.
        values: class and value of each argument of its constructor.

    Raises:
        Py4JError: this Spark lacks a class that the rule is made of.
    """
    methods = state.experimentalMethods()
    if f"{java_class}@" not in str(methods.extraOptimizations()):
        rule = new_object(gateway, java_class, *values)
        getattr(methods, "extraOptimizations_$eq")(methods.extraOptimizations().appended(rule))


def add_strategy(gateway: Gateway, state: JavaObject, java_class: str) -> None:
    """Put a strategy before those by which a session state plans. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        java_class: the strategy, one of this package's Java classes.

    Raises:
        Py4JError: this Spark lacks a class that the strategy is made of.
    """
    methods = state.experimentalMethods()
    if java_class not in str(methods.extraStrategies()):
        getattr(methods, "extraStrategies_$eq")(methods.extraStrategies().appended(new_object(gateway, java_class)))
