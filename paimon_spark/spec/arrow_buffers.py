"""Arrow columns as numpy arrays: fixed-width values, validity, the bytes of strings, with as few copies as can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DataType

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

WORD_MASKS: WordArray = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [(1 << 64) - 1], dtype="<u8")
"""`WORD_MASKS[n]` keeps the first n bytes of a little-endian word."""


def one_array(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Return the column as one array of the type's Arrow type (large binary and string stay as they are).

    Raises:
        pa.ArrowInvalid: a value does not fit the type.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # more than 2 GB of strings
            column = pa.concat_arrays(column.cast(_large(column.type)).chunks)
    wanted = to_arrow_type(data_type)
    if column.type == wanted or column.type == _large(wanted):
        return column
    return column.cast(wanted)


def _large(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string(arrow_type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(arrow_type) else arrow_type


def null_mask(array: pa.Array) -> BoolArray | None:
    """True where the value is null; None if none is."""
    if array.null_count == 0:
        return None
    mask: BoolArray = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View the values of a fixed-width array; what stands at nulls is undefined."""
    item = np.dtype(dtype)
    if len(array) == 0:
        return np.empty(0, dtype=item)
    return np.frombuffer(array.buffers()[1], dtype=item, count=array.offset + len(array))[array.offset :]


def boolean_values(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Values of a boolean array as bytes 0 and 1, nulls as 0."""
    values = array.fill_null(False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.uint8)


def decimal_words(array: pa.Array) -> tuple[WordArray, IntArray]:
    """Low and high words of a decimal128 array."""
    words: WordArray = np.empty((0, 2), dtype="<u8")
    if len(array):
        count = (array.offset + len(array)) * 2
        words = np.frombuffer(array.buffers()[1], dtype="<u8", count=count).reshape(-1, 2)[array.offset :]
    return words[:, 0], words[:, 1].view("<i8")


class ByteStrings:
    """Strings or binaries of a column: where each starts in one buffer, and its length (0 for nulls).

    Attributes:
        starts: position of each value's first byte in `source`.
        lengths: bytes of each value.
    """

    def __init__(self, starts: IntArray, lengths: IntArray, source: npt.NDArray[np.uint8]) -> None:
        self.starts = starts
        self.lengths = lengths
        self.source = source
        """All bytes, with 8 more behind them so that a whole word can be loaded anywhere."""

    @classmethod
    def from_array(cls, array: pa.Array, nulls: BoolArray | None) -> ByteStrings:
        """View a string or binary array; its bytes are copied once."""
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offset_buffer, data = array.buffers()
        if len(array) == 0 or offset_buffer is None:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(8, np.uint8))
        offsets = np.frombuffer(offset_buffer, "<i8" if wide else "<i4", count=array.offset + len(array) + 1)
        offsets = offsets[array.offset :].astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        source = np.empty(last - first + 8, dtype=np.uint8)
        if last > first:
            source[:-8] = np.frombuffer(data, np.uint8, count=last)[first:]
        source[-8:] = 0
        lengths = np.diff(offsets)
        if nulls is not None:
            lengths[nulls] = 0
        return cls(offsets[:-1] - first, lengths, source)

    @classmethod
    def from_list(cls, values: list[bytes]) -> ByteStrings:
        """Lay the values one after the other."""
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        source = np.frombuffer(b"".join(values) + bytes(8), dtype=np.uint8)
        return cls(np.cumsum(lengths) - lengths, lengths, source)

    def words_at(self, positions: IntArray) -> WordArray:
        """Load the little-endian word that begins at each byte position."""
        return unaligned_words(self.source)[positions]

    def copy_padded(self, rows: IntArray, target: WordArray, target_words: IntArray) -> None:
        """Copy the values of the given rows into `target` from the given words on, padded with zeros to whole words.

        Args:
            rows: rows with at least one byte.
            target: the words to write into.
            target_words: for each of `rows`, the index of its first word in `target`.
        """
        starts, lengths = self.starts[rows], self.lengths[rows]
        counts = (lengths + 7) >> 3
        source = unaligned_words(self.source)
        active = np.arange(len(rows))
        for k in range(_WORDS_BY_COLUMN):
            target[target_words[active] + k] = source[starts[active] + 8 * k]
            active = active[counts[active] > k + 1]
            if len(active) == 0:
                break
        if len(active):
            self._copy_long(starts[active], counts[active], target, target_words[active])
        target[target_words + counts - 1] &= WORD_MASKS[((lengths - 1) & 7) + 1]

    def _copy_long(self, starts: IntArray, counts: IntArray, target: WordArray, target_words: IntArray) -> None:
        """Copy what `copy_padded` leaves over: the words after the first `_WORDS_BY_COLUMN`."""
        huge = counts > _WORDS_BY_SLICE
        for start, count, word in zip(starts[huge], counts[huge], target_words[huge], strict=True):
            # one copy of at least 4 KB for each turn of the loop
            target[word : word + count] = unaligned_words(self.source)[start : start + 8 * count : 8]
        starts, counts, target_words = starts[~huge], counts[~huge] - _WORDS_BY_COLUMN, target_words[~huge]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + _WORDS_BY_COLUMN
        target[np.repeat(target_words, counts) + within] = unaligned_words(self.source)[
            np.repeat(starts, counts) + 8 * within
        ]


_WORDS_BY_COLUMN = 8
_WORDS_BY_SLICE = 512


def unaligned_words(data: npt.NDArray[np.uint8]) -> WordArray:
    """View the little-endian word that begins at every byte of `data` (shape: bytes - 7)."""
    return np.ndarray(shape=(len(data) - 7,), dtype="<u8", buffer=data.data, strides=(1,))
