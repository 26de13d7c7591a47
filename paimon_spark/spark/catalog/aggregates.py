"""Answers Spark's ``LocalScan``: counts, minima and maxima from metadata, as rows that no task reads."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from paimon_spark.read.aggregate import AggregateCall, AggregateRows, Aggregation, aggregate_snapshot
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.catalog.expressions import Tree, field_reference, tree_of
from paimon_spark.spark.catalog.schemas import java_struct
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.faces import FacedProxy, Value, none_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.table.two_branches import other_branch

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan

_READ = "org.apache.spark.sql.connector.read"
_JAVA_PICKLE_PROTOCOL = 3


def to_aggregation(functions: Sequence[Tree], groups: Sequence[Tree]) -> Aggregation | None:
    """Spark's ``Aggregation`` as ours; None when it asks for more than counts and extremes of columns.

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
    """What `to_aggregation` takes, of an ``Aggregation`` of the JVM."""
    functions: list[Tree] = []
    for function in aggregation.aggregateExpressions():
        kind = str(function.getClass().getSimpleName())
        children = [tree_of(gateway, child) for child in function.children()]
        functions.append([kind, kind == "Count" and bool(function.isDistinct()), children])
    return functions, [tree_of(gateway, expression) for expression in aggregation.groupByExpressions()]


def aggregated_rows(plan: ScanPlan, wanted: Aggregation) -> AggregateRows | None:
    """The answer for the rows of a scan; None where the rows must be read."""
    if isinstance(plan.source, ChangeRange) or plan.view is not ROWS or other_branch(plan.table) is not None:
        return None
    return aggregate_snapshot(plan.table, plan.source, plan.predicate, wanted)


class LocalScanProxy(FacedProxy):
    """A scan whose rows are there already."""

    interfaces = (f"{_READ}.LocalScan",)

    def __init__(self, gateway: Gateway, name: str, answer: AggregateRows) -> None:
        super().__init__(gateway)
        self.name = name
        self.answer = answer
        self.struct: spark.StructType = to_spark_struct(answer.fields)

    def readSchema(self) -> JavaObject:
        """The columns of the groups, then those of the functions."""
        return java_struct(self.gateway, self.struct)

    def description(self) -> str:
        """For EXPLAIN."""
        return f"paimon {self.name} metadata only: {', '.join(self.struct.names)}"

    def rows(self) -> JavaObject:
        """The rows as Spark's ``InternalRow[]``, in calls whose number does not depend on them."""
        return internal_rows(self.gateway, self.struct, self.internal_rows())

    def internal_rows(self) -> list[tuple[Any, ...]]:
        """The rows as Spark keeps them."""
        return [self.struct.toInternal(row) for row in self.answer.rows]

    def answers(self) -> dict[str, Value]:
        """Everything: Python is asked nothing."""
        schema = self.struct.json()
        rows = packed_rows(self.internal_rows())
        return {
            "readSchema": ["struct", schema],
            "description": self.description(),
            "rows": ["rows", schema, base64.b64encode(rows).decode()],
            "toBatch": None,
            "supportedCustomMetrics": none_of("org.apache.spark.sql.connector.metric.CustomMetric"),
            "reportDriverMetrics": none_of("org.apache.spark.sql.connector.metric.CustomTaskMetric"),
            "columnarSupportMode": ["constant", f"{_READ}.Scan$ColumnarSupportMode", "UNSUPPORTED"],
        }

    def toBatch(self) -> None:
        """Never called for a local scan."""

    def supportedCustomMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def reportDriverMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> JavaObject:
        """Rows, no columns."""
        return self.gateway.enum_constant(f"{_READ}.Scan$ColumnarSupportMode", "UNSUPPORTED")


def internal_rows(gateway: Gateway, struct: spark.StructType, rows: list[tuple[Any, ...]]) -> JavaObject:
    """Rows of internal values (``StructType.toInternal``) as an ``InternalRow[]``, through one pickle."""
    packed = compat.UNPICKLER(gateway).loads(packed_rows(rows))
    array_type = gateway.data_type(spark.ArrayType(struct, False).json())
    converted = compat.EVALUATE_PYTHON.of(gateway).makeFromJava(array_type).apply(packed)
    row_class = gateway.java_class("[Lorg.apache.spark.sql.catalyst.InternalRow;")
    return gateway.jvm.java.util.Arrays.copyOf(converted.array(), len(rows), row_class)


def packed_rows(rows: list[tuple[Any, ...]]) -> bytes:
    """Rows of internal values as Java unpickles them."""
    return pickle.dumps(rows, _JAVA_PICKLE_PROTOCOL)
