"""Sequence groups of partial-update: which columns follow which sequence, and which rows win without a loop.

Source: docs/internals/spec/partial-update.txt, docs/internals/format.md §10; Java ``PartialUpdateMergeFunction``. A row
takes part in a group when one of the group's sequence fields is not null. It is in order when its sequence is at least
that of every earlier taking part (nulls first), else late. Sequence fields and plain members come from the last row in
order; aggregates take all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from paimon_spark.merge.normalized_keys import fixed_values, has_fixed_width_order
from paimon_spark.merge.segments import Indices, Mask, Segments
from paimon_spark.merge.sort import dense_ranks
from paimon_spark.merge.value_aggregators import valid_mask

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
