"""Aggregations that Spark pushes down: answered from metadata, or computed in tasks as far as they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark

from paimon_spark.read.aggregate import AggregateCall, AggregateRows, Aggregation, aggregate_snapshot, counts_rows
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.plain_files import merged_splits
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.catalog.basic_scan import LocalRowsProxy
from paimon_spark.spark.catalog.driver_read import is_small
from paimon_spark.spark.catalog.native_scan import is_native
from paimon_spark.spark.catalog.pushed_expressions import Tree, field_reference
from paimon_spark.spark.catalog.scan_plan import partition_columns_last
from paimon_spark.spark.columns.types import to_spark_struct, to_spark_type
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.table.two_branches import other_branch

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan

_FLOATS: Final[tuple[type, ...]] = (spark.FloatType, spark.DoubleType)
_BITS: Final[Mapping[type[spark.DataType], int]] = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32}
_NUMBERS: Final[tuple[type, ...]] = (*_FLOATS, *_BITS, spark.LongType)
_FLAT: Final = (
    *_NUMBERS, spark.BooleanType, spark.StringType, spark.BinaryType, spark.DecimalType, spark.DateType,
    spark.TimestampType, spark.TimestampNTZType,
)  # fmt: skip
_MOST_DIGITS: Final = 28
"""Sums of decimals have ten digits more, up to 38."""
_BITS_OF_DOUBLES: Final = 53


def to_aggregation(functions: Sequence[Tree], groups: Sequence[Tree]) -> Aggregation | None:
    """Return Spark's ``Aggregation`` as a Paimon one; None unless all functions are counts, extremes, sums.

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
    if kind not in ("Count", "Min", "Max", "Sum") or (distinct and (kind != "Count" or len(arguments) > 1)):
        return None
    name = field_reference(arguments[0])
    return None if name is None else AggregateCall("count distinct" if distinct else kind.lower(), name)


def averaged_columns(functions: Sequence[Tree]) -> set[str | None]:
    """Return the columns of averages. Spark asks for their sums and counts next."""
    return {field_reference(arguments[0]) for kind, _, arguments in functions if kind == "Avg"}


def aggregated_rows(plan: ScanPlan, wanted: Aggregation) -> AggregateRows | None:
    """Return the result of an aggregation from metadata; None where rows must be read."""
    if isinstance(plan.source, ChangeRange) or plan.view is not ROWS or other_branch(plan.table) is not None:
        return None
    return aggregate_snapshot(plan.read_table, plan.source, plan.predicate, wanted)


def row_count(plan: ScanPlan) -> int | None:
    """Return how many rows a scan has, where metadata says it; no files are planned for it."""
    if plan.metadata_predicates or plan.only_partitions is not None or plan.limit is not None:
        return None
    found = aggregated_rows(plan, Aggregation((AggregateCall("count"),)))
    return None if found is None else int(found.rows[0][0])


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


def plan_of_tasks(
    gateway: Gateway, plan: ScanPlan, wanted: Aggregation, averaged: Set[str | None], settings: Mapping[str, str]
) -> ScanPlan | None:
    """Return the plan of the columns that tasks aggregate; None where Spark aggregates the rows itself.

    It does where its own Parquet reader finds the rows, and where the driver reads a few of them. Where files overlap,
    it costs as much as tasks do.

    Args:
        gateway: the JVM.
        plan: of all rows, with no filter that Spark evaluates.
        wanted: the aggregation.
        averaged: columns of which Spark wanted the average before it asked for sums and counts.
        settings: of the session, `WANTED_SETTINGS` as far as they are set.
    """
    schema = plan.table.schema
    names = list(dict.fromkeys((*wanted.group_by, *(call.column for call in wanted.calls if call.column is not None))))
    if not names or plan.view is not ROWS or not all(map(schema.has_field, names)):
        return None
    struct = partition_columns_last(to_spark_struct(schema.field(name) for name in names), schema.partition_keys)
    kinds = {column.name: column.dataType for column in struct}
    if not all(type(kind) in _FLAT for kind in kinds.values()):
        return None
    if not all(call.column is None or _is_taken(call, kinds[call.column], wanted) for call in wanted.calls):
        return None
    if not plan.plan.splits:
        return None
    columns = plan.of_columns(struct).planned_as(plan)
    if is_small(gateway, columns):
        return None
    if not merged_splits(columns.plan) and is_native(gateway, columns, settings, filtered=True):
        return None
    return columns if all(name is not None and _is_exact_average(columns, name) for name in averaged) else None


def _is_taken(call: AggregateCall, kind: spark.DataType, wanted: Aggregation) -> bool:
    if call.function == "sum":
        # the rule of partial push-down casts each partial sum to the type of the column, and Spark's to ten digits more
        return isinstance(kind, _NUMBERS) or (isinstance(kind, spark.DecimalType) and kind.precision <= _MOST_DIGITS)
    if call.function == "count distinct":
        return False
    return call.function == "count" or not (wanted.group_by and isinstance(kind, _FLOATS))


def _is_exact_average(plan: ScanPlan, name: str) -> bool:
    """Return whether the sum of a column divided by its count is the average that Spark computes.

    Of integers Spark adds up doubles: the same as long as no sum has more than 53 bits.
    """
    kind = to_spark_type(plan.table.schema.field(name).type)
    bits = _BITS.get(type(kind))
    if bits is None:
        return not isinstance(kind, spark.LongType)
    return plan.row_count << (bits - 1) <= 1 << _BITS_OF_DOUBLES
