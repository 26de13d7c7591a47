"""Merge engine partial-update: columns are filled by several writers (Java ``PartialUpdateMergeFunction``).

Keys are of three sorts: with one row (passed through, as Java's ``ReducerMergeFunctionWrapper`` does), with several
rows and no retraction (merged by segment operations), and special ones (`merge.sequence_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregation import create_aggregator
from paimon_spark.merge.aggregators import AggregateOptions, Aggregator, FieldState, LastValue, valid_mask
from paimon_spark.merge.merge_engine import KeyLayout, MergeEngine
from paimon_spark.merge.segments import Segments
from paimon_spark.merge.sequence_groups import (
    NO_DELETES,
    DeleteRules,
    FieldRule,
    GroupRows,
    RowByRowMerge,
    SequenceGroup,
    are_disjoint,
    comparators,
    null_error,
    parse_sequence_groups,
)
from paimon_spark.merge.stream import MergedColumn, MergeInput, output_table
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import is_add


@dataclass(frozen=True, slots=True)
class PartialUpdate(MergeEngine):
    """Columns that are not null overwrite; sequence groups and aggregate functions decide for their columns.

    Attributes:
        layout: Keys and order of rows.
        rules: What happens to each column, in schema order.
        groups: The sequence groups.
        aggregators: The function of each column; a column without one has ``last_value``.
        deletes: What retractions do.
    """

    layout: KeyLayout
    rules: tuple[FieldRule, ...]
    groups: tuple[SequenceGroup, ...]
    aggregators: Mapping[str, Aggregator]
    deletes: DeleteRules

    def required_columns(self, projection: Sequence[str]) -> list[str]:
        """The projection, keys, sequence fields, and the sequences of the groups that the projection touches.

        Java: it loses ``remove-record-on-sequence-group`` when that group is not projected; we always read it.
        """
        wanted = set(projection)
        extra: list[str] = []
        for group in self.groups:
            names = {*group.sequence_fields, *group.members}
            if wanted & names or self.deletes.removing_fields.intersection(group.sequence_fields):
                extra.extend(group.sequence_fields)
        return self.layout.with_order_columns([*projection, *dict.fromkeys(extra)])

    def moved_columns(self, names: Sequence[str]) -> frozenset[str]:
        """Those that neither decide the order nor are aggregated, nor compared by a sequence group."""
        order = {*self.layout.with_order_columns(()), *(name for g in self.groups for name in g.sequence_fields)}
        plain = {rule.name for rule in self.rules if not rule.aggregates}
        return frozenset(names) & (plain - order)

    @property
    def overwritten_columns(self) -> frozenset[str]:
        """Those whose newest value that is not null is the row's, whatever other columns hold."""
        return frozenset(
            rule.name for rule in self.rules if not (rule.aggregates or rule.is_sequence or rule.compared_by)
        )

    def _merge_rows(self, rows: pa.Table, names: list[str], drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        merging = MergeInput(rows, self.layout.sort(rows))
        return _PartialUpdateMerge(self, merging, names).result(
            drop_deletes=drop_deletes, key_value_columns=key_value_columns
        )


class _PartialUpdateMerge:
    """One merge of one batch of rows."""

    def __init__(self, engine: PartialUpdate, merging: MergeInput, names: list[str]) -> None:
        self._engine = engine
        self._merging = merging
        self._names = names
        counts = merging.key_order.counts
        several = counts > (0 if engine.layout.merges_single_rows else 1)
        special = several & merging.keys_with_retracts if are_disjoint(engine.groups) else several
        self._special = np.flatnonzero(special)
        self._simple = np.flatnonzero(several & ~special)
        segments = Segments(merging.key_order.order, merging.key_order.starts)
        self._special_rows = segments.pick(self._special)
        self._simple_rows = segments.pick(self._simple)
        self._kinds = merging.kinds[merging.newest]
        self._kinds[self._simple] = 0
        self._sequences = merging.sequences[merging.newest]
        self._columns: dict[str, MergedColumn] = {}
        self._group_rows: dict[tuple[str, ...], GroupRows] = {}

    def result(self, *, drop_deletes: bool, key_value_columns: bool) -> pa.Table:
        engine, merging = self._engine, self._merging
        if len(self._special) and not (engine.deletes.ignore or engine.deletes.remove_record or engine.groups):
            raise DataError(NO_DELETES)
        if not len(self._special) and not len(self._simple):
            self._columns = {name: MergedColumn(merging.column(name), merging.newest_numbers) for name in self._names}
        else:
            self._merge_simple()
            self._merge_special()
        kept = np.flatnonzero(is_add(self._kinds)) if drop_deletes and merging.has_retracts else None
        sequences, kinds = (
            (self._sequences, self._kinds) if kept is None else (self._sequences[kept], self._kinds[kept])
        )
        return output_table(
            [(name, self._columns[name].result(kept)) for name in self._names],
            merging.rows.schema,
            pa.array(sequences) if key_value_columns else None,
            pa.array(kinds) if key_value_columns else None,
        )

    def _merge_simple(self) -> None:
        rules = {rule.name: rule for rule in self._engine.rules}
        for name in self._names:
            merged = MergedColumn(self._merging.column(name), self._merging.newest_numbers)
            self._columns[name] = merged
            if len(self._simple):
                self._merge_simple_column(rules.get(name), name, merged)

    def _merge_simple_column(self, rule: FieldRule | None, name: str, merged: MergedColumn) -> None:
        if rule is None or name in self._engine.layout.keys:
            return
        if not rule.compared_by:
            column = self._merging.column(name)
            if column.null_count:
                rows = self._simple_rows
                valid = valid_mask(column)[rows.rows]
                if not rule.nullable and not self._engine.groups and not valid.all():
                    raise null_error(rule)
                merged.put(self._simple, rows.last_where(valid))
            return
        group = self._group(rule.compared_by)
        if not rule.aggregates:
            winners = np.full(len(self._simple), -1, np.int64)
            winners[group.present] = group.winner_rows
            merged.put(self._simple, winners)
            return
        merged.put(self._simple, np.full(len(self._simple), -1, np.int64))
        if not len(group.present):
            return
        values = self._merging.take(name, group.segments.rows)
        result = self._engine.aggregators[name].merge(values, group.local_segments)
        merged.put(self._simple[group.present], result, group.segments.rows)

    def _group(self, sequence_fields: tuple[str, ...]) -> GroupRows:
        if sequence_fields not in self._group_rows:
            columns = [self._merging.column(name) for name in sequence_fields]
            self._group_rows[sequence_fields] = GroupRows(columns, self._simple_rows)
        return self._group_rows[sequence_fields]

    def _merge_special(self) -> None:
        if not len(self._special):
            return
        engine, merging, rows = self._engine, self._merging, self._special_rows.rows
        available = set(merging.rows.schema.names)
        sequence_names = {name for group in engine.groups for name in group.sequence_fields} & available
        wanted = {*self._names, *sequence_names}
        columns = {rule.name: merging.take(rule.name, rows) for rule in engine.rules if rule.name in wanted}
        rules = [rule for rule in engine.rules if rule.name in columns and set(rule.compared_by) <= available]
        keys = len(self._special)
        states: dict[str, FieldState] = {rule.name: self._state(rule, columns[rule.name], keys) for rule in rules}
        machine = RowByRowMerge(rules, states, columns.__getitem__, engine.deletes, keys)
        local = Segments(np.arange(len(rows)), self._special_rows.starts)
        machine.run(local, merging.kinds[rows], merging.sequences[rows])
        self._kinds[self._special] = machine.kinds
        self._sequences[self._special] = machine.sequences
        for name in self._names:
            if name in states and name not in engine.layout.keys:
                self._columns[name].put(self._special, states[name].result(), rows)

    def _state(self, rule: FieldRule, values: pa.Array, keys: int) -> FieldState:
        return self._engine.aggregators[rule.name].state(values, keys)


def partial_update_for(schema: TableSchema, layout: KeyLayout) -> PartialUpdate:
    """The engine of a table with ``merge-engine`` = partial-update whose options are valid.

    Raises:
        OptionError: Options of an aggregate function do not fit the column.
        UnsupportedError: An aggregate function is not supported.
    """
    options = schema.core_options
    groups = parse_sequence_groups(options)
    compared_by = comparators(groups)
    removing = options.value("partial-update.remove-record-on-sequence-group")
    deletes = DeleteRules(
        ignore=options.ignore_delete,
        remove_record=bool(options.value("partial-update.remove-record-on-delete")),
        removing_fields=frozenset(name.strip() for name in (removing or "").split(",") if name.strip()),
        has_groups=bool(groups),
    )
    sequence_fields = {name for group in groups for name in group.sequence_fields}
    rules: list[FieldRule] = []
    aggregators: dict[str, Aggregator] = {}
    for index, column in enumerate(schema.fields):
        function = _function(schema, column.name, sequence_fields)
        if function is None:
            aggregators[column.name] = LastValue(AggregateOptions("last_value", column.name, column.type))
        else:
            aggregators[column.name] = create_aggregator(function, column.name, column.type, options)
        rules.append(
            FieldRule(
                name=column.name,
                index=index,
                nullable=column.type.nullable,
                compared_by=compared_by.get(column.name, ()),
                is_sequence=column.name in compared_by.get(column.name, ()),
                aggregates=function is not None,
                ignore_retract=aggregators[column.name].options.ignore_retract,
            )
        )
    return PartialUpdate(layout, tuple(rules), groups, aggregators, deletes)


def _function(schema: TableSchema, name: str, sequence_fields: set[str]) -> str | None:
    """The aggregate function of a column, None where values simply replace each other."""
    if name in sequence_fields or name in schema.primary_keys:
        return None
    options = schema.core_options
    function = options.field_option(name, "aggregate-function")
    return function if function is not None else options.value("fields.default-aggregate-function")
