"""BinaryRow of whole columns at once (Java: ``InternalRowSerializer.toBinaryRow``), all in numpy.

Every row is a whole number of 8-byte words, so the rows are built as one array of words. Columns of
nested types are Python values with temporals as integers, as `binary_row_values` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_buffers import (
    WORD_MASKS,
    BoolArray,
    ByteStrings,
    IntArray,
    WordArray,
    boolean_values,
    decimal_words,
    fixed_values,
    null_mask,
    one_array,
)
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import (
    HEADER_BITS,
    MAX_INLINE_BYTES,
    SlotKind,
    encode_nested,
    null_bits_bytes,
    slot_kind,
)
from paimon_spark.spec.data_types import DataType, DecimalType, LocalZonedTimestampType, TimestampType


def _integers(arrow_type: pa.DataType) -> pa.DataType:
    """The Arrow type with every temporal replaced by the integer that holds it."""
    types = pa.types
    if types.is_date32(arrow_type) or types.is_time32(arrow_type):
        return pa.int32()
    if types.is_timestamp(arrow_type):
        return pa.int64()
    if types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(_integers(arrow_type.value_type)))
    if types.is_map(arrow_type):
        return pa.map_(
            arrow_type.key_field.with_type(_integers(arrow_type.key_type)),
            arrow_type.item_field.with_type(_integers(arrow_type.item_type)),
        )
    if types.is_struct(arrow_type):
        return pa.struct([f.with_type(_integers(f.type)) for f in arrow_type])
    return arrow_type


def nested_values(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the column's values: dicts for rows, lists of pairs for maps, integers for temporals inside them."""
    wanted = to_arrow_type(data_type)
    if column.type != wanted:
        column = column.cast(wanted)
    plain = _integers(wanted)
    return (column if plain == wanted else column.cast(plain)).to_pylist()  # type: ignore[no-any-return]


_MAX_ROW_WORDS = ((1 << 31) - 1) // 8


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Rows of equal arity as BinaryRows, one behind the other.

    Attributes:
        data: all rows' bytes (uint8, contiguous).
        offsets: where each row starts, and the end (int64, rows + 1); multiples of 8.
        arity: fields of each row.
    """

    data: npt.NDArray[np.uint8]
    offsets: IntArray
    arity: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> bytes:
        """Return the raw bytes of one row, without arity."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def to_bytes_list(self, *, serialized: bool = False) -> list[bytes]:
        """Return every row's bytes, `serialized` with the 4-byte arity in front as manifests hold them."""
        data = self.data.tobytes()
        prefix = self.arity.to_bytes(4, "big") if serialized else b""
        bounds = self.offsets.tolist()
        return [prefix + data[start:end] for start, end in pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class _Slots:
    """One column, ready to be laid out.

    Attributes:
        words: each row's slot; of values in the variable part its low 32 bits.
        nulls: where the value is null; None if nowhere.
        variable_words: words in the variable part, per row or the same for all.
        is_variable: rows whose slot also holds an offset; None for all of them.
        write: writes the variable part, given the target words and each row's first word in it.
    """

    words: WordArray
    nulls: BoolArray | None = None
    variable_words: IntArray | int = 0
    is_variable: BoolArray | None = None
    write: Callable[[WordArray, IntArray], None] | None = None


def _zeroed(words: WordArray, nulls: BoolArray | None) -> WordArray:
    return words if nulls is None else np.where(nulls, np.uint64(0), words)


_PLAIN_DTYPES = {
    SlotKind.INT8: ("i1", "u1"),
    SlotKind.INT16: ("<i2", "<u2"),
    SlotKind.INT32: ("<i4", "<u4"),
    SlotKind.INT64: ("<i8", "<u8"),
    SlotKind.FLOAT32: ("<f4", "<u4"),
    SlotKind.FLOAT64: ("<f8", "<u8"),
    SlotKind.DATE: ("<i4", "<u4"),
    SlotKind.TIME: ("<i4", "<u4"),
}


def millis_and_nanos(array: pa.Array, data_type: DataType) -> tuple[IntArray, IntArray]:
    """Milliseconds since 1970 and nanoseconds of the millisecond of a timestamp array (nulls undefined)."""
    assert isinstance(data_type, TimestampType | LocalZonedTimestampType)
    values = fixed_values(array, "<i8")
    if data_type.precision == 0:
        return values * 1000, np.zeros(len(values), np.int64)
    if data_type.precision <= 3:
        return values, np.zeros(len(values), np.int64)
    per_milli = 1000 if data_type.precision <= 6 else 1_000_000
    millis = values // per_milli
    return millis, (values - millis * per_milli) * (1_000_000 // per_milli)


def _wide_timestamp(array: pa.Array, data_type: DataType, nulls: BoolArray | None) -> _Slots:
    millis, nanos = millis_and_nanos(array, data_type)
    data = _zeroed(millis.view("<u8"), nulls)

    def write(target: WordArray, at: IntArray) -> None:
        target[at] = data

    return _Slots(_zeroed(nanos.view("<u8"), nulls), nulls, 1, None, write)


def big_endian_decimals(low: WordArray, high: IntArray) -> tuple[WordArray, WordArray, IntArray]:
    """Minimal big-endian two's complement of 128-bit integers, left-aligned in two words, and its length in bytes."""
    sign = (high >> 63).view("<u8")
    top, bottom = high.view("<u8") ^ sign, low ^ sign  # the magnitude bits of either sign
    sizes = np.ones(len(low), dtype=np.int64)
    for n in range(1, 16):  # a further byte is needed when bit 8n-1 or a higher one is set
        bit = 8 * n - 1
        wide = (top != 0) | (bottom >> np.uint64(bit) != 0) if bit < 64 else top >> np.uint64(bit - 64) != 0
        sizes += wide
    shift = ((16 - sizes) * 8).astype(np.uint64)
    high_word = high.view("<u8")
    small = shift < 64
    left = np.where(small, shift, shift - np.uint64(64))
    carry = np.where(left == 0, np.uint64(0), low >> ((np.uint64(64) - left) & np.uint64(63)))
    first = np.where(small, (high_word << left) | carry, low << left)
    second = np.where(small, low << left, np.uint64(0))
    return first.byteswap(), second.byteswap(), sizes


def _wide_decimal(array: pa.Array, nulls: BoolArray | None) -> _Slots:
    low, high = decimal_words(array)
    first, second, sizes = big_endian_decimals(_zeroed(low, nulls), _zeroed(high.view("<u8"), nulls).view("<i8"))

    def write(target: WordArray, at: IntArray) -> None:
        target[at] = first
        target[at + 1] = second

    return _Slots(_zeroed(sizes.view("<u8"), nulls), nulls, 2, None, write)


def _byte_strings(strings: ByteStrings, nulls: BoolArray | None, *, may_be_inline: bool) -> _Slots:
    lengths = strings.lengths
    if may_be_inline:
        inline = lengths <= MAX_INLINE_BYTES
        head = strings.words_at(strings.starts) & WORD_MASKS[np.minimum(lengths, 8)]
        marked = head | ((lengths.view("<u8") | np.uint64(0x80)) << np.uint64(56))
        words = np.where(inline, marked, lengths.view("<u8"))
        in_variable = ~inline
        counts = np.where(inline, 0, (lengths + 7) >> 3)
    else:
        words, counts = lengths.view("<u8"), (lengths + 7) >> 3
        in_variable = np.ones(len(lengths), dtype=bool) if nulls is None else ~nulls
    rows = np.flatnonzero(counts)

    def write(target: WordArray, at: IntArray) -> None:
        strings.copy_padded(rows, target, at[rows])

    variable_words: IntArray | int = counts if len(rows) else 0
    return _Slots(_zeroed(words, nulls), nulls, variable_words, in_variable, write if len(rows) else None)


def _slots(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> _Slots:
    kind = slot_kind(data_type)
    if kind is SlotKind.NESTED:
        values: list[Any] = nested_values(column, data_type)
        encoded = [b"" if value is None else encode_nested(value, data_type) for value in values]
        mask = np.array([value is None for value in values], dtype=bool)
        return _byte_strings(ByteStrings.from_list(encoded), mask if mask.any() else None, may_be_inline=False)
    array = one_array(column, data_type)
    nulls = null_mask(array)
    if kind in (SlotKind.STRING, SlotKind.BYTES):
        return _byte_strings(ByteStrings.from_array(array, nulls), nulls, may_be_inline=True)
    if kind is SlotKind.WIDE_TIMESTAMP:
        return _wide_timestamp(array, data_type, nulls)
    if kind is SlotKind.WIDE_DECIMAL:
        return _wide_decimal(array, nulls)
    if kind is SlotKind.BOOLEAN:
        words = boolean_values(array).astype("<u8")
    elif kind is SlotKind.DECIMAL:
        assert isinstance(data_type, DecimalType)
        words = decimal_words(array)[0]
    elif kind is SlotKind.MILLIS:
        words = millis_and_nanos(array, data_type)[0].view("<u8")
    else:
        signed, unsigned = _PLAIN_DTYPES[kind]
        words = fixed_values(array, signed).view(unsigned).astype("<u8", copy=False)
    return _Slots(_zeroed(words, nulls), nulls)


def encode_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> BinaryRows:
    """Encode columns as BinaryRows of row kind INSERT.

    Args:
        columns: at least one, of equal length, of the Arrow types that belong to `types`.
        types: one per column; nullability does not matter.

    Raises:
        DataError: a row would exceed 2 GB.
        pa.ArrowInvalid: a column cannot be cast to the Arrow type of its data type.
    """
    arity = len(types)
    rows = len(columns[0]) if columns else 0
    slots = [_slots(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    first_slot = null_bits_bytes(arity) // 8
    sizes: IntArray | int = first_slot + arity
    for slot in slots:
        sizes = sizes + slot.variable_words
    frame = _Frame.allocate(rows, sizes)
    cursor: IntArray | int = first_slot + arity
    for i, slot in enumerate(slots):
        values = slot.words
        if slot.write is not None:
            slot.write(frame.words, frame.starts + cursor)
            offsets = np.asarray(cursor, dtype=np.int64).view("<u8") << np.uint64(
                35
            )  # words to bytes, to the high half
            values = values | (
                offsets if slot.is_variable is None else np.where(slot.is_variable, offsets, np.uint64(0))
            )
            cursor = cursor + slot.variable_words
        frame.put(first_slot + i, values)
        if slot.nulls is not None:
            word, bit = divmod(i + HEADER_BITS, 64)
            frame.set_bit(word, bit, slot.nulls)
    return BinaryRows(frame.words.view(np.uint8), frame.offsets, arity)


class _Frame:
    """The words of all rows while they are filled; rows of equal size are a matrix, which is faster."""

    def __init__(self, words: WordArray, offsets: IntArray, row_words: int | None) -> None:
        self.words = words
        self.offsets = offsets
        self.starts = offsets[:-1] >> 3
        self._matrix = None if row_words is None else words.reshape(-1, row_words)

    @classmethod
    def allocate(cls, rows: int, sizes: IntArray | int) -> _Frame:
        """Make zeroed rows of the given sizes in words."""
        if isinstance(sizes, int):
            return cls(np.zeros(rows * sizes, dtype="<u8"), np.arange(rows + 1, dtype=np.int64) * (8 * sizes), sizes)
        if rows and int(sizes.max()) > _MAX_ROW_WORDS:
            raise DataError(f"A row of {int(sizes.max()) * 8} bytes is larger than a BinaryRow can be (2 GB).")
        offsets = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(sizes << 3, out=offsets[1:])
        return cls(np.zeros(int(offsets[-1]) >> 3, dtype="<u8"), offsets, None)

    def put(self, word: int, values: WordArray) -> None:
        """Set one word of every row."""
        if self._matrix is not None:
            self._matrix[:, word] = values
        else:
            self.words[self.starts + word] = values

    def set_bit(self, word: int, bit: int, rows: BoolArray) -> None:
        """Set one bit in a word of the given rows."""
        if self._matrix is not None:
            self._matrix[rows, word] |= np.uint64(1 << bit)
        else:
            self.words[self.starts[rows] + word] |= np.uint64(1 << bit)
