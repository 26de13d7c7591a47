"""Sequence groups of partial-update: which columns follow which sequence, and which rows win without a loop.

Source: docs/internals/spec/partial-update.txt, docs/internals/format.md §10; Java ``PartialUpdateMergeFunction``. A row
takes part in a group when one of the group's sequence fields is not null. It is in order when its sequence is at least
that of every earlier taking part (nulls first), else late. Sequence fields and plain members come from the last row in
order; aggregates take all rows.

Keys with retractions are merged row after row, all keys at once (``updateWithSequenceGroup``,
``retractWithSequenceGroup``). The loop goes over the position of a row inside its key (and over columns), never over
rows or keys. Columns are processed in the order of the schema, as Java does: a column before its sequence field sees
the old sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregators import FieldState, RowState, valid_mask
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks, fixed_values, has_fixed_width_order
from paimon_spark.spec.special_fields import RowKind, is_retract

_PREFIX, _SUFFIX = "fields.", ".sequence-group"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """One ``fields.<sequence fields>.sequence-group`` option.

    Attributes:
        sequence_fields: Columns that are compared, in order.
        members: Columns that the group protects.
    """

    sequence_fields: tuple[str, ...]
    members: tuple[str, ...]


def parse_sequence_groups(options: Mapping[str, str]) -> tuple[SequenceGroup, ...]:
    """The sequence groups of a table's options, which ``spec.merge_validation`` has checked."""
    return tuple(
        SequenceGroup(
            tuple(key.removeprefix(_PREFIX).removesuffix(_SUFFIX).split(",")),
            tuple(name.strip() for name in text.split(",") if name.strip()),
        )
        for key, text in options.items()
        if key.startswith(_PREFIX) and key.endswith(_SUFFIX)
    )


def comparators(groups: Sequence[SequenceGroup]) -> dict[str, tuple[str, ...]]:
    """For each column in a group, the sequence fields it is compared by; a later group's own fields win."""
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        found.update(dict.fromkeys(group.members, group.sequence_fields))
        found.update(dict.fromkeys(group.sequence_fields, group.sequence_fields))
    return found


def are_disjoint(groups: Sequence[SequenceGroup]) -> bool:
    """Whether no column belongs to two groups, so that each group can be merged for itself."""
    names = [name for group in groups for name in {*group.sequence_fields, *group.members}]
    return len(names) == len(set(names))


class GroupRows:
    """The rows of simple keys (no retraction) as one sequence group sees them.

    Attributes:
        segments: The rows that take part; segment rows are positions in the columns given.
        present: The numbers of the input segments that have such rows.
    """

    def __init__(self, columns: Sequence[pa.Array], segments: Segments) -> None:
        self._columns = columns
        part = valid_mask(columns[0])
        for column in columns[1:]:
            part = part | valid_mask(column)
        self.segments, self.present = segments.select(part[segments.rows])

    @cached_property
    def winner_rows(self) -> Indices:
        """For each segment the row that the group's plain columns come from: the newest of the greatest sequence."""
        candidates = np.ones(len(self.segments.rows), np.bool_)
        for column in self._columns:
            candidates = self._greatest(column, candidates)
        return self.segments.last_where(candidates)

    def _greatest(self, column: pa.Array, candidates: Mask) -> Mask:
        rows, starts = self.segments.rows, self.segments.starts
        if not len(starts):
            return candidates
        ordered = _ordered(column)[rows]
        if column.null_count:
            valid = valid_mask(column)[rows] & candidates
            any_valid = np.repeat(np.logical_or.reduceat(valid, starts), self.segments.counts)
            candidates = np.where(any_valid, valid, candidates)
        lowest = np.iinfo(ordered.dtype).min
        greatest = np.maximum.reduceat(np.where(candidates, ordered, lowest), starts)
        candidates = candidates & (ordered == np.repeat(greatest, self.segments.counts))
        return candidates

    @cached_property
    def local_segments(self) -> Segments:
        """The segments over positions 0, 1, … of ``segments.rows``, with the rows marked that are late."""
        rows = self.segments.rows
        positions = np.arange(len(rows))
        if not len(rows):
            return Segments(positions, self.segments.starts)
        ranks = dense_ranks([column.take(pa.array(rows)) for column in self._columns])
        shifted = ranks + self.segments.owners * (int(ranks.max()) + 1)
        late = shifted < np.maximum.accumulate(shifted)
        return Segments(positions, self.segments.starts, late if late.any() else None)


def _ordered(column: pa.Array) -> Indices:
    return fixed_values(column) if has_fixed_width_order(column.type) else dense_ranks([column])


class RowSequences:
    """Comparison of single rows by sequence fields, for the state that goes row by row inside a key."""

    def __init__(self, column: Callable[[str], pa.Array], names: Sequence[str]) -> None:
        self._ranks: dict[str, Indices] = {}
        for name in names:
            values = column(name)
            self._ranks[name] = dense_ranks([values]) + (0 if values.null_count else 1)

    def is_null(self, name: str, rows: Indices) -> Mask:
        """Whether the field is null in these rows."""
        nulls: Mask = self._ranks[name][rows] == 0
        return nulls

    def compare(self, names: Sequence[str], rows: Indices, held: Mapping[str, Indices]) -> Indices:
        """Sign of (rows compared with the held rows); a held row of -1 is null, and null comes first."""
        result = np.zeros(len(rows), np.int64)
        for name in names:
            ranks = self._ranks[name]
            other = np.where(held[name] < 0, 0, ranks[held[name]])
            result = np.where(result == 0, np.sign(ranks[rows] - other), result)
        return result


NO_DELETES = (
    "By default, Partial update can not accept delete records, you can choose one of the following solutions:\n"
    "1. Configure 'ignore-delete' to ignore delete records.\n"
    "2. Configure 'partial-update.remove-record-on-delete' to remove the whole row when receiving delete records.\n"
    "3. Configure 'sequence-group's to retract partial columns. Also configure "
    "'partial-update.remove-record-on-sequence-group' to remove the whole row when receiving deleted records of "
    "`specified sequence group`."
)


@dataclass(frozen=True, slots=True)
class FieldRule:
    """What happens to one column.

    Attributes:
        name: The column.
        index: Its position in the schema.
        nullable: Whether it may be null.
        compared_by: Sequence fields of its group; empty outside groups.
        is_sequence: Whether it is one of them itself.
        aggregates: Whether it has an aggregate function.
        ignore_retract: Whether that function ignores retractions.
    """

    name: str
    index: int
    nullable: bool
    compared_by: tuple[str, ...] = ()
    is_sequence: bool = False
    aggregates: bool = False
    ignore_retract: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRules:
    """What a retraction does.

    Attributes:
        ignore: ``ignore-delete``.
        remove_record: ``partial-update.remove-record-on-delete``.
        removing_fields: ``partial-update.remove-record-on-sequence-group``.
        has_groups: Whether the table has sequence groups.
    """

    ignore: bool = False
    remove_record: bool = False
    removing_fields: frozenset[str] = frozenset()
    has_groups: bool = False


def null_error(rule: FieldRule) -> DataError:
    """The error of a null in a NOT NULL column."""
    return DataError(
        f"Field {rule.index} can not be null: column '{rule.name}' is NOT NULL, but a row to merge has no value for it."
    )


class RowByRowMerge:
    """The state of all special keys while their rows are applied.

    Attributes:
        states: Accumulators per column.
        kinds: Result kind per key, +I or -D.
        sequences: Sequence number per key.
    """

    def __init__(
        self,
        rules: list[FieldRule],
        states: dict[str, FieldState],
        column: Callable[[str], pa.Array],
        deletes: DeleteRules,
        keys: int,
    ) -> None:
        self._rules = rules
        self.states = states
        self._deletes = deletes
        names = {name for rule in rules for name in rule.compared_by}
        self._sequences = RowSequences(column, sorted(names))
        self._held = {name: self._row_state(name) for name in names}
        self._valid = {rule.name: valid_mask(column(rule.name)) for rule in rules}
        self._deleted = np.zeros(keys, np.bool_)
        self._inserted = np.zeros(keys, np.bool_)
        self._filled = np.zeros(keys, np.bool_)
        self.sequences = np.zeros(keys, np.int64)

    def _row_state(self, name: str) -> RowState:
        state = self.states[name]
        if not isinstance(state, RowState):
            raise TypeError(f"sequence field {name} has no row state")
        return state

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Result kind per key."""
        return np.where(self._deleted | ~self._inserted, RowKind.DELETE, RowKind.INSERT).astype(np.int8)

    def run(self, segments: Segments, kinds: npt.NDArray[np.int8], sequences: Indices) -> None:
        """Applies all rows.

        Args:
            segments: The rows of each key; row numbers are positions in the columns.
            kinds: Row kinds by row number.
            sequences: Sequence numbers by row number.
        """
        for keys, positions in segments.by_position():
            rows = segments.rows[positions]
            self._deleted[keys] = False
            retracts = is_retract(kinds[rows])
            if retracts.any():
                self._retract(keys[retracts], rows[retracts], kinds, sequences)
            if not retracts.all():
                self._add(keys[~retracts], rows[~retracts], sequences)

    def _initialize(self, keys: Indices, rows: Indices) -> None:
        for rule in self._rules:
            if not rule.nullable and not self._valid[rule.name][rows].all():
                raise null_error(rule)
            self.states[rule.name].assign(keys, rows)

    def _add(self, keys: Indices, rows: Indices, sequences: Indices) -> None:
        self.sequences[keys] = sequences[rows]
        if self._deletes.has_groups:
            self._update_groups(keys, rows)
        else:
            self._update_non_null(keys, rows)
        self._inserted[keys] = True
        self._filled[keys] = True

    def _update_non_null(self, keys: Indices, rows: Indices) -> None:
        for rule in self._rules:
            valid = self._valid[rule.name][rows]
            if not rule.nullable and not valid.all():
                raise null_error(rule)
            self.states[rule.name].assign(keys[valid], rows[valid])

    def _retract(self, keys: Indices, rows: Indices, kinds: npt.NDArray[np.int8], sequences: Indices) -> None:
        fresh = ~self._filled[keys]
        if fresh.any():
            self._initialize(keys[fresh], rows[fresh])
            self._filled[keys] = True
        if self._deletes.ignore:
            return
        self.sequences[keys] = sequences[rows]
        deletes = RowKind.DELETE.mask(kinds[rows])
        if self._deletes.has_groups:
            self._retract_groups(keys, rows, deletes)
        elif self._deletes.remove_record:
            self._deleted[keys[deletes]] = True
            self._initialize(keys[deletes], rows[deletes])
        else:
            raise DataError(NO_DELETES)

    def _gate(self, rule: FieldRule, keys: Indices, rows: Indices, done: dict[str, Mask]) -> tuple[Mask, Mask]:
        """Where the column's group takes the row at all, and where the row is in order."""
        empty = np.ones(len(rows), np.bool_)
        for name in rule.compared_by:
            empty &= self._sequences.is_null(name, rows)
        skipped = done.get(rule.name)
        taken = ~empty if skipped is None else ~empty & ~skipped
        held = {name: self._held[name].rows[keys] for name in rule.compared_by}
        return taken, self._sequences.compare(rule.compared_by, rows, held) >= 0

    def _set_sequence(self, rule: FieldRule, keys: Indices, rows: Indices, at: Mask, done: dict[str, Mask]) -> None:
        for name in rule.compared_by:
            self._held[name].assign(keys[at], rows[at])
            done[name] = done.get(name, np.zeros(len(rows), np.bool_)) | at

    def _update_groups(self, keys: Indices, rows: Indices) -> None:
        done: dict[str, Mask] = {}
        for rule in self._rules:
            state = self.states[rule.name]
            if not rule.compared_by:
                if rule.aggregates:
                    state.add(keys, rows)
                else:
                    valid = self._valid[rule.name][rows]
                    state.assign(keys[valid], rows[valid])
                continue
            taken, in_order = self._gate(rule, keys, rows, done)
            now = taken & in_order
            if rule.is_sequence:
                self._set_sequence(rule, keys, rows, now, done)
            elif not rule.aggregates:
                state.assign(keys[now], rows[now])
            else:
                late = taken & ~in_order
                state.add(keys[now], rows[now])
                state.add_late(keys[late], rows[late])

    def _retract_groups(self, keys: Indices, rows: Indices, deletes: Mask) -> None:
        done: dict[str, Mask] = {}
        gone = np.zeros(len(rows), np.bool_)  # removed by an earlier column of this row: Java returns there
        for rule in self._rules:
            if not rule.compared_by:
                continue
            taken, in_order = self._gate(rule, keys, rows, done)
            taken &= ~gone
            now = taken & in_order
            state = self.states[rule.name]
            if rule.is_sequence:
                if self._deletes.removing_fields.intersection(rule.compared_by):
                    removed = now & deletes
                    self._deleted[keys[removed]] = True
                    self._initialize(keys[removed], rows[removed])
                    gone |= removed
                    now &= ~removed
                self._set_sequence(rule, keys, rows, now, done)
            elif not rule.aggregates:
                self._null(state, keys[now])
            elif not rule.ignore_retract and taken.any():
                state.retract(keys[taken], rows[taken])

    @staticmethod
    def _null(state: FieldState, keys: Indices) -> None:
        if not isinstance(state, RowState):
            raise TypeError("a column without aggregate function has a row state")
        state.rows[keys] = -1
