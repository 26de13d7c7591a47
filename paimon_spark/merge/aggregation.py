"""Merge engine aggregation: each column has a function that folds its values (Java ``AggregateMergeFunction``).

Keys are of three sorts: with one row (passed through, as Java's ``ReducerMergeFunctionWrapper`` does), with several
rows and no retraction (each column by one segment operation), and with retractions (``_RetractingKeys``). `FUNCTIONS`
is the registry of the functions (docs/internals/format.md §10, Java ``FieldAggregatorFactory``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError, OptionError
from paimon_spark.merge.aggregators import (
    PRIMARY_KEY,
    AggregateOptions,
    Aggregator,
    FirstNonNullValue,
    FirstValue,
    Largest,
    LastNonNullValue,
    LastValue,
    Merged,
    PrimaryKey,
    Smallest,
    aggregate_options,
    fold_retracting,
    unknown_function,
)
from paimon_spark.merge.collection_aggregators import (
    Collect,
    ListAgg,
    MergeMap,
    MergeMapWithKeyTime,
    NestedPartialUpdate,
    NestedUpdate,
)
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.number_aggregators import And, Or, Product, Sum
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sketch_aggregators import UniteBitmaps, UniteHllSketches, UniteThetaSketches
from paimon_spark.merge.stream import MergedColumn, MergeInput, output_table, rows_table
from paimon_spark.spec.data_types import ArrayType, CharType, DataType, MapType, RowType, VarCharType
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import RowKind, is_add, is_retract

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


_PASSING = (LastValue, LastNonNullValue, FirstValue, FirstNonNullValue)


@dataclass(frozen=True, slots=True)
class Aggregation(MergeEngine):
    """Every column but those of the key is aggregated.

    Attributes:
        layout: Keys and order of rows.
        aggregators: The function of each column, in schema order.
        not_null: The position in the schema of each NOT NULL column.
        removes_record: ``aggregation.remove-record-on-delete``.
    """

    layout: KeyLayout
    aggregators: Mapping[str, Aggregator]
    not_null: Mapping[str, int]
    removes_record: bool = False

    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection, the key and the sequence fields."""
        return self.layout.with_order_columns(projection)

    def null_error(self, name: str) -> DataError:
        """The error of a null in a NOT NULL column."""
        return DataError(
            f"Field {self.not_null[name]} can not be null: column '{name}' is NOT NULL, but a row to merge has no "
            "value for it, or its value was taken back by a -U or -D."
        )

    def moved_columns(self, names: Sequence[str]) -> frozenset[str]:
        """Those whose function takes the value of the first or the last row, or of the first or last with one."""
        order = set(self.layout.with_order_columns(()))
        return frozenset(n for n in names if n not in order and isinstance(self.aggregators.get(n), _PASSING))

    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        merging = MergeInput(rows, self.layout.sort(rows))
        kinds = merging.kinds[merging.newest]
        several = merging.key_order.counts > (0 if self.layout.merges_single_rows else 1)
        if not several.any():
            winners = merging.newest[is_add(kinds)] if drop_deletes and merging.has_retracts else merging.newest
            return rows_table(merging, winners, names, key_value_columns=key_value_columns)
        whole = Segments(merging.key_order.order, merging.key_order.starts)
        plain = np.flatnonzero(several & ~merging.keys_with_retracts)
        retracting = np.flatnonzero(several & merging.keys_with_retracts)
        plain_rows = whole.pick(plain)
        special = _RetractingKeys(self, merging, whole.pick(retracting), names) if len(retracting) else None
        columns: list[tuple[str, MergedColumn]] = []
        for name in names:
            column = MergedColumn(merging.column(name), merging.newest_numbers)
            aggregator = self.aggregators.get(name)
            if aggregator is not None and name not in self.layout.keys:
                if len(plain):
                    column.put(plain, aggregator.merge(merging.column(name), plain_rows))
                if special is not None:
                    special.put(column, retracting, aggregator)
            columns.append((name, column))
        kinds[plain] = RowKind.INSERT
        if special is not None:
            kinds[retracting] = special.kinds
        kept = np.flatnonzero(is_add(kinds)) if drop_deletes and merging.has_retracts else None
        sequences = merging.sequences[merging.newest]
        if kept is not None:
            sequences, kinds = sequences[kept], kinds[kept]
        results = [(name, column.result(kept)) for name, column in columns]
        for name, values in results if special is not None else ():
            if name in self.not_null and values.null_count:
                raise self.null_error(name)  # Java: the file's writer fails
        return output_table(
            results,
            rows.schema,
            pa.array(sequences) if key_value_columns else None,
            pa.array(kinds) if key_value_columns else None,
        )


class _RetractingKeys:
    """Keys of several rows of which some are -U or -D.

    With ``remove-record-on-delete`` a -D row replaces what is held by its own values, and later rows go on from there.

    Attributes:
        kinds: Row kind of each key's merged row.
    """

    def __init__(self, engine: Aggregation, merging: MergeInput, segments: Segments, names: Sequence[str]) -> None:
        self._segments = segments
        kinds = merging.kinds[segments.rows]
        deletes = RowKind.DELETE.mask(kinds) if engine.removes_record else np.zeros(len(kinds), np.bool_)
        self._retracts: Mask = is_retract(kinds) & ~deletes
        self._deletes = deletes
        ends = np.append(segments.starts[1:], len(kinds)) - 1
        self.kinds = np.where(deletes[ends], RowKind.DELETE, RowKind.INSERT).astype(np.int8)
        self._since_delete, self._retracts_since = self._cut() if deletes.any() else (segments, self._retracts)
        for name in names if deletes.any() else ():
            if name in engine.not_null and merging.column(name).take(pa.array(segments.rows[deletes])).null_count:
                raise engine.null_error(name)

    def _cut(self) -> tuple[Segments, Mask]:
        """The rows of each key from its last -D on, which counts as an insert of its values."""
        last = self._segments.last_position(self._deletes)
        kept = np.arange(len(self._deletes)) >= last[self._segments.owners]
        return self._segments.select(kept)[0], self._retracts[kept]

    def put(self, merged: MergedColumn, keys: Indices, aggregator: Aggregator) -> None:
        """Sets one column of these keys.

        Raises:
            DataError: The function cannot take a row back.
        """
        values = merged.values
        if not aggregator.options.ignore_retract:
            merged.put(keys, self._retracted(aggregator, values))
            return
        # ignore-retract and remove-record-on-delete exclude each other
        chosen, present = self._segments.select(~self._retracts)
        merged.put(keys, np.full(len(keys), -1, np.int64))
        if len(present):
            merged.put(keys[present], aggregator.merge(values, chosen))

    def _retracted(self, aggregator: Aggregator, values: pa.Array) -> Merged:
        if not self._deletes.any():
            return aggregator.merge_retracting(values, self._segments, self._retracts)
        if not aggregator.takes_first_as_is:
            # functions that know whether they have seen a row, or change the first one
            return fold_retracting(aggregator, values, self._segments, self._retracts, self._deletes)
        aggregator.check_retracts(self._retracts)
        return aggregator.merge_retracting(values, self._since_delete, self._retracts_since)


def aggregation_for(schema: TableSchema, layout: KeyLayout) -> Aggregation:
    """The engine of a table with ``merge-engine`` = aggregation whose options are valid.

    Raises:
        OptionError: Options of an aggregate function do not fit the column.
        UnsupportedError: An aggregate function is not supported.
    """
    options = schema.core_options
    aggregators = {
        field.name: create_aggregator(function_of(schema, field.name), field.name, field.type, options)
        for field in schema.fields
    }
    not_null = {field.name: position for position, field in enumerate(schema.fields) if not field.type.nullable}
    return Aggregation(layout, aggregators, not_null, bool(options.value("aggregation.remove-record-on-delete")))


def function_of(schema: TableSchema, name: str) -> str:
    """The aggregate function of a column (Java: ``AggregateMergeFunction.getAggFuncName``)."""
    options = schema.core_options
    if name in options.sequence_fields:
        return "last_value"
    if name in schema.primary_keys:
        return PRIMARY_KEY
    function = options.field_option(name, "aggregate-function") or options.value("fields.default-aggregate-function")
    return function or "last_non_null_value"
