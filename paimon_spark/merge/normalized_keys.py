"""Normalized keys: columns as integers in Java's order of the column (Java: ``NormalizedKeyComputer``).

Source: Java's generated ``RecordComparator`` (docs/internals/format.md §13): nulls first, strings and bytes by unsigned
bytes, FLOAT and DOUBLE as ``Double.compare`` (NaN largest and equal to itself, -0.0 below 0.0), decimals by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError

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
