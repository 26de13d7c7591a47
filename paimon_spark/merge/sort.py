"""Order of rows: primary key, then sequence fields, then sequence number, exactly as Java's comparators give it.

Source: docs/internals/format.md §7 and §13; Java ``RecordComparator`` (generated), ``UserDefinedSeqComparator``,
``SortMergeReader``. A column becomes one or more normalized keys: integer arrays in the column's order
(``normalized_keys.py``). Rows are sorted by the first key with a stable sort that finds existing runs; only rows that
are still equal are compared by the next key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.merge.normalized_keys import NormalizedKey, normalized_keys, packed_normalized_keys
from paimon_spark.spec.special_fields import is_add

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Rows in merge order, cut into keys.

    Attributes:
        order: Row numbers, sorted by key and then by what decides inside a key; the newest row of a key is last.
        starts: For each distinct key, where its rows start in ``order``.
    """

    order: Indices
    starts: Indices

    @property
    def counts(self) -> Indices:
        """Number of rows of each key."""
        return np.diff(self.starts, append=len(self.order))


def whole_column(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column of the rows as one contiguous array."""
    column = rows.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def sort_order(
    rows: pa.Table | pa.RecordBatch,
    keys: Sequence[str],
    sequence_fields: Sequence[str] = (),
    *,
    descending: bool = False,
) -> KeyOrder:
    """Sorts KeyValue rows as Java's merge reader visits them.

    Inside a key: the sequence fields (nulls first in both directions), ``_SEQUENCE_NUMBER``, retract before add,
    and last the order in which the rows stand in ``rows``. Without sequence numbers, later rows are newer.

    Args:
        rows: KeyValue rows in arrival order: sorted runs one after the other, oldest first, or rows in any order.
        keys: Columns of the trimmed primary key.
        sequence_fields: Columns of ``sequence.field``.
        descending: ``sequence.field.sort-order`` is descending (for all its columns).

    Returns:
        The order and the start of each key in it.
    """
    names = set(rows.schema.names)
    order, tied = _sort_by(packed_normalized_keys([whole_column(rows, key) for key in keys]), rows.num_rows)
    starts = np.flatnonzero(np.concatenate(([True], ~tied))) if rows.num_rows else np.empty(0, np.int64)
    if tied.any():
        for name in sequence_fields:
            order, tied = _refine(order, tied, normalized_keys(whole_column(rows, name), descending=descending))
        if SEQUENCE_NUMBER in names:
            order, tied = _refine(order, tied, normalized_keys(whole_column(rows, SEQUENCE_NUMBER)))
            if VALUE_KIND in names and tied.any():
                adds = is_add(whole_column(rows, VALUE_KIND).to_numpy())
                order, tied = _refine(order, tied, [lambda chosen: adds if chosen is None else adds[chosen]])
    return KeyOrder(order, starts)


def dense_ranks(columns: Sequence[pa.Array]) -> Indices:
    """The rank of each row among the distinct tuples of the columns, nulls first, from 0 without gaps."""
    rows = len(columns[0])
    order, tied = _sort_by(packed_normalized_keys(columns), rows)
    ranks = np.empty(rows, np.int64)
    if rows:
        ranks[order] = np.concatenate(([0], np.cumsum(~tied)))
    return ranks


def _sort_by(words: Iterable[NormalizedKey], rows: int) -> tuple[Indices, Mask]:
    """Stable order by the normalized keys, and for each neighbouring pair whether both are equal in all keys."""
    iterator = iter(words)
    first = next(iterator)(None)
    if rows < 2 or bool((first[1:] > first[:-1]).all()):
        return np.arange(rows, dtype=np.int64), np.zeros(max(rows - 1, 0), np.bool_)
    if bool((first[1:] >= first[:-1]).all()):
        order = np.arange(rows, dtype=np.int64)
        tied = first[1:] == first[:-1]
    else:
        order, tied = _stable_order(first)
    return _refine(order, tied, iterator)


_FEW_RUNS = 64  # average rows of a run from which on a merge of runs beats a sort of the values


def _stable_order(word: npt.NDArray[Any]) -> tuple[Indices, Mask]:
    """Stable order by one normalized key, and which neighbours are equal.

    Rows in no order at all are sorted as values with their row number in the low bits where both fit 63 bits, which is
    twice as fast as sorting row numbers; rows in long runs are merged.
    """
    rows = len(word)
    row_bits = (rows - 1).bit_length()
    low, high = int(word.min()), int(word.max())
    runs = int(np.count_nonzero(word[1:] < word[:-1])) + 1
    if runs * _FEW_RUNS < rows or (high - low).bit_length() + row_bits > 63:
        order: Indices = np.argsort(word, kind="stable")
        ordered = word[order]
        return order, ordered[1:] == ordered[:-1]
    packed = (word - np.uint64(low)).view(np.int64) if word.dtype == np.uint64 else word.astype(np.int64) - low
    packed <<= row_bits
    packed |= np.arange(rows, dtype=np.int64)
    packed.sort()
    order = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    return order, packed[1:] == packed[:-1]


def _refine(order: Indices, tied: Mask, words: Iterable[NormalizedKey]) -> tuple[Indices, Mask]:
    """Sorts rows that are still tied by further keys; ``order`` and ``tied`` are changed in place."""
    for word in words:
        if not tied.any():
            break
        members = np.zeros(len(order), np.bool_)
        members[1:] |= tied
        members[:-1] |= tied
        positions = np.flatnonzero(members)
        inner = tied[positions[1:] - 1]  # neighbours of one tie; between two ties it is False
        chosen = order[positions]
        values = word(chosen)
        if bool((inner & (values[1:] < values[:-1])).any()):
            ties = np.concatenate(([0], np.cumsum(~inner)))
            resorted = np.lexsort((values, ties))
            order[positions] = chosen[resorted]
            values = values[resorted]
        tied[positions[1:] - 1] = inner & (values[1:] == values[:-1])
    return order, tied
