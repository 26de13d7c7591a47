"""Order of rows: primary key, then sequence fields, then sequence number, exactly as the comparators of Java give it.

Source: docs/internals/format.md §7 and §13; Java ``RecordComparator`` (generated), ``NormalizedKeyComputer``,
``UserDefinedSeqComparator``, ``SortMergeReader``. A column becomes one or more normalized keys, integer arrays in the
order of the column: nulls first, strings and bytes by unsigned bytes, FLOAT and DOUBLE as ``Double.compare`` (NaN
largest and equal to itself, -0.0 below 0.0), decimals by value. Rows are sorted by the first key with a stable sort
that finds existing runs; only rows that are still equal are compared by the next key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.special_fields import is_add

Integers = npt.NDArray[Any]
NormalizedKey = Callable[[npt.NDArray[np.int64] | None], Integers]
"""Gives the normalized key of all rows (None) or of the chosen rows."""

_LENGTH_MASKS = np.array([0] + [(2**64 - 1) ^ (2 ** (64 - 8 * n) - 1) for n in range(1, 9)], dtype=np.uint64)
_COMPACT_DECIMAL_DIGITS = 18
_MOST_WORDS = 64
"""Keys of eight bytes each that a column of strings or bytes becomes; what longer values have behind is ranked."""


def normalized_keys(column: pa.Array, *, descending: bool = False) -> Iterator[NormalizedKey]:
    """The normalized keys of one column, most significant first; a column with nulls starts with its validity."""
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        yield lambda chosen: valid if chosen is None else valid[chosen]
    for word in _value_keys(column):
        if descending:
            yield lambda chosen, word=word: ~word(chosen)  # type: ignore[misc]
        else:
            yield word


def packed_normalized_keys(columns: Sequence[pa.Array]) -> Iterator[NormalizedKey]:
    """The normalized keys of several columns; columns whose joint value range fits into 63 bits become one key."""
    fixed = [_single_key(column) for column in columns]
    rows = len(columns[0])
    if len(columns) > 1 and rows and all(word is not None for word in fixed):
        packed = _pack([word for word in fixed if word is not None])
        if packed is not None:
            yield lambda chosen: packed if chosen is None else packed[chosen]
            return
    for column in columns:
        yield from normalized_keys(column)


def _pack(words: Sequence[Integers]) -> Integers | None:
    span = 1
    ranges = []
    for word in words:
        low, high = int(word.min()), int(word.max())
        span *= high - low + 1
        ranges.append((low, high - low + 1))
    if span >= 2**63:
        return None
    packed = np.zeros(len(words[0]), np.int64)
    for word, (low, size) in zip(words, ranges, strict=True):
        packed *= size
        packed += word.astype(np.int64, copy=False) - low
    return packed


def _single_key(column: pa.Array) -> Integers | None:
    """The only normalized key of a fixed-width column without nulls, or None."""
    if column.null_count or _is_bytes(column.type):
        return None
    if pa.types.is_decimal(column.type) and column.type.precision > _COMPACT_DECIMAL_DIGITS:
        return None
    return fixed_values(column)


def _value_keys(column: pa.Array) -> Iterator[NormalizedKey]:
    if _is_bytes(column.type):
        yield from _bytes_keys(column)
    elif pa.types.is_decimal(column.type) and column.type.precision > _COMPACT_DECIMAL_DIGITS:
        pairs = decimal_words(column)
        high, low = pairs[:, 1], pairs[:, 0].view(np.uint64)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            high, low = np.where(valid, high, 0), np.where(valid, low, np.uint64(0))
        yield lambda chosen: high if chosen is None else high[chosen]
        yield lambda chosen: low if chosen is None else low[chosen]
    else:
        values = fixed_values(column)
        yield lambda chosen: values if chosen is None else values[chosen]


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(arrow_type)
        or pa.types.is_binary(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_large_binary(arrow_type)
    )


def fixed_values(column: pa.Array) -> Integers:
    """A fixed-width column as integers in the column's order; the value of a null is 0.

    Raises:
        UnsupportedError: The column's type has no order.
    """
    arrow_type = column.type
    values: Integers
    if pa.types.is_boolean(arrow_type):
        values = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.int8)
    elif pa.types.is_decimal128(arrow_type):
        values = decimal_words(column)[:, 0]
        if column.null_count:
            values = np.where(column.is_valid().to_numpy(zero_copy_only=False), values, 0)
    elif pa.types.is_floating(arrow_type):
        floats: Integers = (pc.fill_null(column, 0.0) if column.null_count else column).to_numpy()
        floats = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats)  # one NaN, as doubleToLongBits
        values = floats.view(np.int64 if arrow_type.bit_width == 64 else np.int32)
        values = values ^ ((values >> (arrow_type.bit_width - 1)) & np.iinfo(values.dtype).max)
    elif pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        storage = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[arrow_type.bit_width]
        integers = column if pa.types.is_integer(arrow_type) else column.view(storage)
        values = (pc.fill_null(integers, 0) if integers.null_count else integers).to_numpy()
    else:
        raise UnsupportedError(f"Rows cannot be ordered by a column of type {arrow_type}: it has no order in Paimon.")
    return values


def decimal_words(column: pa.Array) -> npt.NDArray[np.int64]:
    """Unscaled values as rows of (low 64 bits, high 64 bits)."""
    words = np.frombuffer(column.buffers()[1], np.int64)
    return words[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)


def _bytes_keys(column: pa.Array) -> Iterator[NormalizedKey]:
    """Eight bytes at a time, big endian, without the prefix that all share; the last key is the length, or a rank.

    Each key is looked at for all rows that are still tied. So equal values of megabytes would cost a pass for each
    eight bytes; after some of them Arrow compares whole values.
    """
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offset_buffer, data_buffer = column.buffers()
    rows = len(column)
    offset_type = np.dtype(np.int64 if wide else np.int32)
    offsets = np.frombuffer(offset_buffer, offset_type)[column.offset : column.offset + rows + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if column.null_count:
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    longest = int(lengths.max()) if rows else 0
    data = np.zeros(int(offsets[-1] if rows else 0) + 8, np.uint8)
    if data_buffer is not None and rows:
        data[: offsets[-1]] = np.frombuffer(data_buffer, np.uint8, int(offsets[-1]))
    windows = np.ndarray((len(data) - 7,), ">u8", data, strides=(1,))

    def eight_bytes(skip: int, chosen: npt.NDArray[np.int64] | None) -> Integers:
        begin = starts if chosen is None else starts[chosen]
        left = np.clip((lengths if chosen is None else lengths[chosen]) - skip, 0, 8)
        values: Integers = windows[np.minimum(begin + skip, len(windows) - 1)].astype(np.uint64)
        values &= _LENGTH_MASKS[left]
        return values

    valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)) if column.null_count else None
    present = lengths if valid is None else lengths[valid]
    shortest = int(present.min()) if len(present) else 0
    skip = _shared_prefix(lambda at: eight_bytes(at, valid), min(shortest, 8 * _MOST_WORDS))

    def rest(chosen: npt.NDArray[np.int64] | None) -> Integers:
        left: Integers = np.maximum((lengths if chosen is None else lengths[chosen]) - skip, 0)
        return left

    if longest - skip <= 7:
        yield lambda chosen: eight_bytes(skip, chosen) | rest(chosen).astype(np.uint64)
        return
    words = range(skip, longest, 8)
    for at in words[:_MOST_WORDS]:
        yield lambda chosen, at=at: eight_bytes(at, chosen)  # type: ignore[misc]
    yield rest if len(words) <= _MOST_WORDS else lambda chosen: _ranks(column, chosen)


def _shared_prefix(eight_bytes: Callable[[int], Integers], shortest: int) -> int:
    """How many of the first ``shortest`` bytes are the same in all values, none of which is shorter."""
    skip = 0
    while skip < shortest:
        values = eight_bytes(skip)
        differing = int(values.min()) ^ int(values.max())
        if differing:
            return min(skip + (64 - differing.bit_length()) // 8, shortest)
        skip += 8
    return shortest


def _ranks(column: pa.Array, chosen: npt.NDArray[np.int64] | None) -> Integers:
    """Ranks by the whole values, as unsigned bytes."""
    values = column if chosen is None else column.take(pa.array(chosen))
    ranks: Integers = pc.rank(values, tiebreaker="dense").to_numpy()
    return ranks


def has_fixed_width_order(arrow_type: pa.DataType) -> bool:
    """Whether ``fixed_values`` alone gives the order of the type."""
    if pa.types.is_decimal(arrow_type):
        return bool(arrow_type.precision <= _COMPACT_DECIMAL_DIGITS)
    return not _is_bytes(arrow_type)


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
