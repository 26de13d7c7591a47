"""Counts, minima and maxima that Spark pushes down, answered from metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.read.aggregate import AggregateCall, AggregateRows, Aggregation, aggregate_snapshot, counts_rows
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.catalog.basic_scan import LocalRowsProxy
from paimon_spark.spark.catalog.pushed_expressions import Tree, field_reference, tree_of
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.table.two_branches import other_branch

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan


def to_aggregation(functions: Sequence[Tree], groups: Sequence[Tree]) -> Aggregation | None:
    """Return Spark's ``Aggregation`` as a Paimon one; None unless all functions are counts and extremes of columns.

    Args:
        functions: of each its class's name, whether it is of distinct values, and its arguments.
        groups: what rows are grouped by.
    """
    calls = [_call(*function) for function in functions]
    names = [field_reference(group) for group in groups]
    if None in calls or None in names:
        return None
    return Aggregation(
        tuple(call for call in calls if call is not None), tuple(name for name in names if name is not None)
    )


def _call(kind: str, distinct: bool, arguments: Sequence[Tree]) -> AggregateCall | None:
    if kind == "CountStar":
        return AggregateCall("count")
    if kind not in ("Count", "Min", "Max") or distinct:
        return None
    name = field_reference(arguments[0])
    return None if name is None else AggregateCall(kind.lower(), name)


def aggregation_trees(gateway: Gateway, aggregation: JavaObject) -> tuple[list[Tree], list[Tree]]:
    """Return the arguments of `to_aggregation` for an ``Aggregation`` of the JVM."""
    functions: list[Tree] = []
    for function in aggregation.aggregateExpressions():
        kind = str(function.getClass().getSimpleName())
        children = [tree_of(gateway, child) for child in function.children()]
        functions.append([kind, kind == "Count" and bool(function.isDistinct()), children])
    return functions, [tree_of(gateway, expression) for expression in aggregation.groupByExpressions()]


def aggregated_rows(plan: ScanPlan, wanted: Aggregation) -> AggregateRows | None:
    """Return the result of an aggregation from metadata; None where rows must be read."""
    if isinstance(plan.source, ChangeRange) or plan.view is not ROWS or other_branch(plan.table) is not None:
        return None
    return aggregate_snapshot(plan.table, plan.source, plan.predicate, wanted)


def is_counted_by_tasks(plan: ScanPlan, wanted: Aggregation) -> bool:
    """Return whether tasks can count the rows where metadata does not: of merged splits of a snapshot.

    Spark adds the counts up, and needs one at least.
    """
    schema = plan.table.schema
    if isinstance(plan.source, ChangeRange) or plan.view is not ROWS or other_branch(plan.table) is not None:
        return False
    if not schema.primary_keys or not counts_rows(schema, wanted):
        return False
    return bool(plan.plan.splits) and plan.plan.residual is None


def answered_scan(gateway: Gateway, name: str, answer: AggregateRows) -> LocalRowsProxy:
    """The scan of an aggregation that metadata answers: the columns of the groups, then those of the functions."""
    struct = to_spark_struct(answer.fields)
    text = f"paimon {name} metadata only: {', '.join(struct.names)}"
    return LocalRowsProxy(gateway, struct, text, [struct.toInternal(row) for row in answer.rows])
