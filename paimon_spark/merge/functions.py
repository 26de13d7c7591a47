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
from paimon_spark.merge.number_aggregators import And, Or, Product, Sum
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
    ArrayType,
    BigIntType,
    BlobType,
    BooleanType,
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
    _check_type(given)
    return factory(given)


def _check_type(options: AggregateOptions) -> None:
    data_type = options.type
    noun = {
        "sum": "sum",
        "product": "product",
        "max": "max",
        "min": "min",
        "bool_and": "bool and",
        "bool_or": "bool or",
    }
    what = noun.get(options.function)
    if options.function in ("sum", "product") and not isinstance(data_type, _NUMERIC):
        raise OptionError(
            f"Data type for {what} column must be 'NumericType' but was '{data_type}' (column '{options.field}')."
        )
    if options.function in ("max", "min") and isinstance(data_type, _INCOMPARABLE):
        raise OptionError(f"Data type for {what} column '{options.field}' must be comparable but was '{data_type}'.")
    if options.function in ("bool_and", "bool_or") and not isinstance(data_type, BooleanType):
        raise OptionError(
            f"Data type for {what} column must be 'BooleanType' but was '{data_type}' (column '{options.field}')."
        )
