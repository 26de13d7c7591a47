"""The registry of aggregate functions (format.md §10, Java ``FieldAggregatorFactory``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paimon_spark.errors import OptionError
from paimon_spark.merge.aggregators import (
    PRIMARY_KEY,
    AggregateOptions,
    Aggregator,
    aggregate_options,
    unknown_function,
    unsupported_function,
)
from paimon_spark.merge.collection_aggregators import Collect, MergeMap, MergeMapWithKeyTime
from paimon_spark.merge.nested_aggregators import NestedPartialUpdate, NestedUpdate
from paimon_spark.merge.number_aggregators import And, Or, Product, Sum
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
from paimon_spark.spec.data_types import (
    MAX_LENGTH,
    ArrayType,
    BigIntType,
    BlobType,
    BooleanType,
    CharType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TinyIntType,
    VarCharType,
    VariantType,
    VectorType,
)

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
}
_UNSUPPORTED = ("hll_sketch", "theta_sketch")
_NUMERIC = (TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType)
_INCOMPARABLE = (
    ArrayType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    VariantType,
    BlobType,
    GeometryType,
    GeographyType,
)


def create_aggregator(function: str, field: str, data_type: DataType, options: Mapping[str, str]) -> Aggregator:
    """The aggregator of a column.

    Raises:
        OptionError: The function does not exist, or does not fit the column's type or the options.
        UnsupportedError: The function is known but not supported.
    """
    given = aggregate_options(function, field, data_type, options)
    if function in _UNSUPPORTED:
        raise unsupported_function(given)
    factory = FUNCTIONS.get(function)
    if factory is None:
        raise unknown_function(function)
    problem = _type_problem(given)
    if problem is not None:
        raise OptionError(f"{problem} (column '{field}', aggregate function '{function}').")
    return factory(given)


def _type_problem(options: AggregateOptions) -> str | None:
    """What is wrong with the column's type, in Java's words."""
    data_type, function = options.type, options.function
    problem = None
    if function in ("sum", "product") and not isinstance(data_type, _NUMERIC):
        problem = f"Data type for {function} column must be 'NumericType' but was '{data_type}'"
    elif function in ("max", "min") and isinstance(data_type, _INCOMPARABLE):
        problem = f"Data type for {function} column '{options.field}' must be comparable but was '{data_type}'"
    elif function in ("bool_and", "bool_or") and not isinstance(data_type, BooleanType):
        problem = f"Data type for {function.replace('_', ' ')} column must be 'BooleanType' but was '{data_type}'"
    elif function == "listagg":
        if not isinstance(data_type, VarCharType):
            problem = f"Data type for list agg column must be 'VarCharType' but was '{data_type}'"
        elif data_type.length != MAX_LENGTH:
            problem = f"Data type for list agg column must be STRING (unbounded VARCHAR), but was {data_type}"
    elif function == "collect" and not isinstance(data_type, ArrayType):
        problem = f"Data type for collect column must be 'Array' but was '{data_type}'"
    elif function == "merge_map" and not isinstance(data_type, MapType):
        problem = f"Data type for merge map column must be 'MAP' but was '{data_type}'"
    elif function == "merge_map_with_keytime":
        problem = _key_time_problem(options)
    elif function in ("nested_update", "nested_partial_update"):
        problem = _nested_problem(options)
    return problem


def _key_time_problem(options: AggregateOptions) -> str | None:
    data_type, field = options.type, options.field
    if not isinstance(data_type, MapType):
        return f"Data type for field '{field}' must be 'MAP' but was '{data_type}'"
    if not isinstance(data_type.value, RowType):
        return f"Value type of MAP for field '{field}' must be ROW but was '{data_type.value}'"
    names = [nested.name for nested in data_type.value.fields]
    if len(names) < 2:
        return f"ROW type for field '{field}' must have at least 2 fields, but found {len(names)}"
    if options.time_field is not None and options.time_field not in names:
        return (
            f"Timestamp field '{options.time_field}' not found in ROW type for field '{field}'. "
            f"Available fields: {names}"
        )
    time = data_type.value.fields[-1 if options.time_field is None else names.index(options.time_field)]
    if not isinstance(time.type, VarCharType | CharType):
        return f"Timestamp field '{time.name}' of field '{field}' must be STRING but was '{time.type}'"
    return None


def _nested_problem(options: AggregateOptions) -> str | None:
    data_type = options.type
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.element, RowType):
        return f"Data type for nested table column must be 'Array<Row>' but was '{data_type}'"
    names = [nested.name for nested in data_type.element.fields]
    missing = [name for name in (*options.nested_key, *options.nested_sequence) if name not in names]
    if missing:
        return f"Field {missing[0]} can not be found in the nested table, whose fields are {names}"
    if options.function == "nested_partial_update" and not options.nested_key:
        return f"nested_partial_update needs the option 'fields.{options.field}.nested-key'"
    return None
