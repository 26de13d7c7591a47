"""The registry of aggregate functions (docs/internals/format.md §10, Java ``FieldAggregatorFactory``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paimon_spark.errors import OptionError
from paimon_spark.merge.aggregators import (
    PRIMARY_KEY,
    AggregateOptions,
    Aggregator,
    aggregate_options,
    unknown_function,
)
from paimon_spark.merge.collection_aggregators import Collect, MergeMap, MergeMapWithKeyTime
from paimon_spark.merge.nested_aggregators import NestedPartialUpdate, NestedUpdate
from paimon_spark.merge.number_aggregators import And, Or, Product, Sum
from paimon_spark.merge.sketch_aggregators import UniteBitmaps, UniteHllSketches, UniteThetaSketches
from paimon_spark.merge.text_aggregators import ListAgg
from paimon_spark.merge.value_aggregators import (
    FirstNonNullValue,
    FirstValue,
    Largest,
    LastNonNullValue,
    LastValue,
    PrimaryKey,
    Smallest,
)
from paimon_spark.spec.data_types import ArrayType, CharType, DataType, MapType, RowType, VarCharType

FUNCTIONS: dict[str, Callable[[AggregateOptions], Aggregator]] = {
    PRIMARY_KEY: PrimaryKey,
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "first_not_null_value": FirstNonNullValue,
    "max": Largest,
    "min": Smallest,
    "sum": Sum,
    "product": Product,
    "bool_and": And,
    "bool_or": Or,
    "listagg": ListAgg,
    "collect": Collect,
    "merge_map": MergeMap,
    "merge_map_with_keytime": MergeMapWithKeyTime,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
    "rbm32": UniteBitmaps,
    "rbm64": UniteBitmaps,
    "hll_sketch": UniteHllSketches,
    "theta_sketch": UniteThetaSketches,
}


def create_aggregator(function: str, field: str, data_type: DataType, options: Mapping[str, str]) -> Aggregator:
    """The aggregator of a column; ``spec.merge_validation`` has checked the function against the column's type.

    Raises:
        OptionError: The function does not exist, or its options do not fit the column.
        UnsupportedError: The function needs a library that is not installed.
    """
    given = aggregate_options(function, field, data_type, options)
    factory = FUNCTIONS.get(function)
    if factory is None:
        raise unknown_function(function)
    problem = _key_time_problem(given) if function == "merge_map_with_keytime" else None
    if function in ("nested_update", "nested_partial_update"):
        problem = _nested_problem(given)
    if problem is not None:
        raise OptionError(f"{problem} (column '{field}', aggregate function '{function}').")
    return factory(given)


def _key_time_problem(options: AggregateOptions) -> str | None:
    if not isinstance(options.type, MapType) or not isinstance(options.type.value, RowType):
        return f"Data type for field '{options.field}' must be MAP of ROW but was '{options.type}'"
    names = [nested.name for nested in options.type.value.fields]
    if options.time_field is not None and options.time_field not in names:
        return (
            f"Timestamp field '{options.time_field}' not found in ROW type for field '{options.field}'. "
            f"Available fields: {names}"
        )
    time = options.type.value.fields[-1 if options.time_field is None else names.index(options.time_field)]
    if not isinstance(time.type, VarCharType | CharType):
        return f"Timestamp field '{time.name}' of field '{options.field}' must be STRING but was '{time.type}'"
    return None


def _nested_problem(options: AggregateOptions) -> str | None:
    if not isinstance(options.type, ArrayType) or not isinstance(options.type.element, RowType):
        return f"Data type for nested table column must be 'Array<Row>' but was '{options.type}'"
    names = [nested.name for nested in options.type.element.fields]
    missing = [name for name in (*options.nested_key, *options.nested_sequence) if name not in names]
    if missing:
        return f"Field {missing[0]} can not be found in the nested table, whose fields are {names}"
    return None
