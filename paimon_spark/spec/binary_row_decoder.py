"""Many BinaryRows to Arrow columns at once, with every offset and length checked; and the order of keys as integers.

The order equals Java's generated ``RecordComparator`` (docs/internals/format.md §13): column by column ascending, nulls
first, strings and bytes by unsigned bytes, floating point by ``Double.compare`` (-0.0 before 0.0, NaN last).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.arrow_buffers import WORD_MASKS, BoolArray, IntArray, WordArray, unaligned_words
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import (
    HEADER_BITS,
    MAX_INLINE_BYTES,
    WIDE_DECIMAL_BYTES,
    SlotKind,
    decode_nested,
    fixed_bytes,
    null_bits_bytes,
    slot_kind,
)
from paimon_spark.spec.data_types import DataType, LocalZonedTimestampType, TimestampType

_ARITY_BYTES = 4
_LONG_BYTES = 256
_MILLIS_OF_A_DAY = 86_400_000
_DTYPES = {
    SlotKind.INT8: "u1",
    SlotKind.INT16: "<u2",
    SlotKind.INT32: "<u4",
    SlotKind.FLOAT32: "<u4",
    SlotKind.DATE: "<u4",
    SlotKind.TIME: "<u4",
}


class _Rows:
    """The joined bytes of the rows, and what is read from them."""

    def __init__(self, rows: Sequence[bytes], arity: int, skip: int, path: str | None) -> None:
        self.data = np.frombuffer(b"".join(rows) + bytes(8), dtype=np.uint8)
        self.path = path
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        self.starts: IntArray = np.cumsum(lengths) - lengths + skip
        self.sizes: IntArray = lengths - skip
        if (self.sizes < fixed_bytes(arity)).any():
            raise self.fail(f"is shorter than the {fixed_bytes(arity)} bytes of {arity} fields")

    def fail(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"A BinaryRow {what}: the file is damaged.", path=self.path)

    def words(self, offsets: IntArray | int) -> WordArray:
        """Load a word of each row at a byte offset that is known to lie in it."""
        loaded: WordArray = unaligned_words(self.data)[self.starts + offsets]
        return loaded

    def nulls(self, field: int) -> BoolArray:
        byte, bit = divmod(field + HEADER_BITS, 8)
        return (self.data[self.starts + byte] >> bit & 1).astype(bool)

    def check(self, offsets: IntArray, lengths: IntArray) -> None:
        if ((offsets < 0) | (lengths < 0) | (offsets + lengths > self.sizes)).any():
            raise self.fail("points outside itself")


def _byte_ranges(rows: _Rows, slots: WordArray, nulls: BoolArray, at: int) -> tuple[IntArray, IntArray]:
    """Offsets and lengths of strings or binaries within their rows; nulls have length 0."""
    inline = slots >> np.uint64(63) != 0
    inline_lengths = (slots >> np.uint64(56) & np.uint64(0x7F)).astype(np.int64)
    offsets = np.where(inline, at, (slots >> np.uint64(32)).astype(np.int64))
    lengths = np.where(
        inline, inline_lengths, (slots & np.uint64(0xFFFFFFFF)).astype("<u4").view("<i4").astype(np.int64)
    )
    offsets, lengths = np.where(nulls, 0, offsets), np.where(nulls, 0, lengths)
    if (inline & ~nulls & (lengths > MAX_INLINE_BYTES)).any():
        raise rows.fail(f"has a value of more than {MAX_INLINE_BYTES} bytes in its slot")
    rows.check(offsets, lengths)
    return offsets, lengths


def _gather(rows: _Rows, offsets: IntArray, lengths: IntArray) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Copy byte ranges of the rows one behind the other; return their bounds and bytes."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if bounds[-1] >= 1 << 31:
        raise rows.fail("holds values of more than 2 GB")
    starts = rows.starts + offsets
    if bounds[-1] > _LONG_BYTES * len(lengths):  # long values: a slice of each, not an index of every byte
        ends = (starts + lengths).tolist()
        parts = [rows.data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
        return bounds, np.concatenate(parts)
    source = np.repeat(starts - bounds[:-1], lengths) + np.arange(int(bounds[-1]))
    return bounds, rows.data[source]


def _strings(rows: _Rows, slots: WordArray, nulls: BoolArray, at: int, kind: SlotKind) -> pa.Array:
    bounds, data = _gather(rows, *_byte_ranges(rows, slots, nulls, at))
    array = pa.Array.from_buffers(
        pa.binary() if kind is SlotKind.BYTES else pa.string(),
        len(nulls),
        [_validity(nulls), pa.py_buffer(bounds.astype("<i4")), pa.py_buffer(data)],
    )
    if kind is SlotKind.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise rows.fail("holds a string that is not UTF-8") from error
    return array


def _validity(nulls: BoolArray) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def _fixed(values: npt.NDArray[np.generic], nulls: BoolArray, arrow_type: pa.DataType) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type, len(nulls), [_validity(nulls), data])


def _wide_timestamps(rows: _Rows, slots: WordArray, nulls: BoolArray, data_type: DataType) -> pa.Array:
    assert isinstance(data_type, TimestampType | LocalZonedTimestampType)
    offsets = np.where(nulls, 0, (slots >> np.uint64(32)).astype(np.int64))
    nanos = (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    rows.check(offsets, np.full(len(nulls), 8))
    if (nanos[~nulls] >= 1_000_000).any():
        raise rows.fail("has a timestamp of more than a million nanoseconds in a millisecond")
    per_milli = 1000 if data_type.precision <= 6 else 1_000_000
    millis = np.where(nulls, 0, rows.words(offsets).view("<i8"))
    if (np.abs(millis // 2) > (1 << 62) // per_milli - 1).any():
        raise rows.fail("has a timestamp that is out of range")
    return _fixed(millis * per_milli + nanos * per_milli // 1_000_000, nulls, to_arrow_type(data_type))


def _wide_decimals(rows: _Rows, slots: WordArray, nulls: BoolArray, data_type: DataType) -> pa.Array:
    offsets = np.where(nulls, 0, (slots >> np.uint64(32)).astype(np.int64))
    sizes = np.where(nulls, 1, (slots & np.uint64(0xFFFFFFFF)).astype(np.int64))
    if ((sizes < 1) | (sizes > WIDE_DECIMAL_BYTES)).any():
        raise rows.fail(f"has a decimal that does not take 1 to {WIDE_DECIMAL_BYTES} bytes")
    rows.check(offsets, np.full(len(nulls), WIDE_DECIMAL_BYTES))
    digits = rows.data[(rows.starts + offsets)[:, None] + np.arange(WIDE_DECIMAL_BYTES)]
    position = np.arange(WIDE_DECIMAL_BYTES)[None, :] + sizes[:, None] - WIDE_DECIMAL_BYTES  # right-aligned
    sign = np.where(digits[:, :1] >> 7, np.uint8(255), np.uint8(0))
    aligned = np.where(position < 0, sign, np.take_along_axis(digits, np.maximum(position, 0), axis=1))
    return _fixed(aligned[:, ::-1], nulls, to_arrow_type(data_type))


def _small_decimals(slots: WordArray, nulls: BoolArray, data_type: DataType) -> pa.Array:
    words = np.empty((len(slots), 2), dtype="<i8")
    words[:, 0] = slots.view("<i8")
    words[:, 1] = words[:, 0] >> 63
    return _fixed(words, nulls, to_arrow_type(data_type))


def _millis(rows: _Rows, slots: WordArray, nulls: BoolArray, data_type: DataType) -> pa.Array:
    assert isinstance(data_type, TimestampType | LocalZonedTimestampType)
    values = slots.view("<i8")
    return _fixed(values // 1000 if data_type.precision == 0 else values, nulls, to_arrow_type(data_type))


def _column(rows: _Rows, field: int, arity: int, data_type: DataType) -> pa.Array:
    kind = slot_kind(data_type)
    at = null_bits_bytes(arity) + 8 * field
    nulls = rows.nulls(field)
    slots = rows.words(at)
    if kind in (SlotKind.STRING, SlotKind.BYTES):
        return _strings(rows, slots, nulls, at, kind)
    if kind is SlotKind.NESTED:
        ranges = _byte_ranges(rows, np.where(nulls, np.uint64(0), slots & ~np.uint64(1 << 63)), nulls, at)
        bounds, data = _gather(rows, *ranges)
        joined, cuts = data.tobytes(), bounds.tolist()
        values = [
            None if null else decode_nested(joined[start:end], data_type, path=rows.path)
            for null, start, end in zip(nulls.tolist(), cuts[:-1], cuts[1:], strict=True)
        ]
        try:
            return pa.array(values, to_arrow_type(data_type))
        except (pa.ArrowException, OverflowError) as error:
            raise rows.fail(f"holds a {data_type.sql()} that cannot be read ({error})") from error
    if kind is SlotKind.WIDE_TIMESTAMP:
        return _wide_timestamps(rows, slots, nulls, data_type)
    if kind is SlotKind.WIDE_DECIMAL:
        return _wide_decimals(rows, slots, nulls, data_type)
    if kind is SlotKind.DECIMAL:
        return _small_decimals(slots, nulls, data_type)
    if kind is SlotKind.MILLIS:
        return _millis(rows, slots, nulls, data_type)
    if kind is SlotKind.BOOLEAN:
        return pa.array(slots & WORD_MASKS[1] != 0, pa.bool_(), mask=nulls)
    if kind in (SlotKind.INT64, SlotKind.FLOAT64):
        return _fixed(slots, nulls, to_arrow_type(data_type))
    values = (slots & WORD_MASKS[np.dtype(_DTYPES[kind]).itemsize]).astype(_DTYPES[kind])
    if kind is SlotKind.TIME and (values[~nulls] >= _MILLIS_OF_A_DAY).any():
        raise rows.fail(f"has a {data_type.sql()} that is out of range")
    return _fixed(values, nulls, to_arrow_type(data_type))


def decode_rows(
    rows: Sequence[bytes],
    types: Sequence[DataType],
    *,
    serialized: bool = False,
    fields: Sequence[int] | None = None,
    path: str | None = None,
) -> list[pa.Array]:
    """Decode many BinaryRows of the same types into Arrow columns.

    Args:
        rows: the raw rows; with `serialized` they have their 4-byte arity in front, as in manifests.
        types: all fields' types.
        serialized: whether the arity stands in front.
        fields: positions of the fields to decode; None for all.
        path: where the rows come from, for errors.

    Returns:
        One array per wanted field, of the types' Arrow types.

    Raises:
        CorruptTableError: a row is damaged, or has another arity.
    """
    arity = len(types)
    if serialized:
        prefix = arity.to_bytes(_ARITY_BYTES, "big")
        if any(row[:_ARITY_BYTES] != prefix for row in rows):
            raise CorruptTableError(f"A BinaryRow does not have the {arity} fields it must have.", path=path)
    joined = _Rows(rows, arity, _ARITY_BYTES if serialized else 0, path)
    return [_column(joined, i, arity, types[i]) for i in (range(arity) if fields is None else fields)]


def key_ranks(keys: Sequence[bytes], types: Sequence[DataType]) -> npt.NDArray[np.int64]:
    """Return the rank of each key: equal keys have equal ranks, a smaller key has a smaller rank.

    Args:
        keys: serialized BinaryRows (``_MIN_KEY``, ``_MAX_KEY``).
        types: types of the trimmed primary key.

    Returns:
        int64 ranks, shape (len(keys),).
    """
    return composite_ranks(decode_rows(keys, types, serialized=True))


def composite_ranks(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return dense ranks of rows of several columns: equal rows have equal ranks, a smaller row has a smaller rank."""
    each = [column_ranks(column) for column in columns]
    if len(each) == 1:
        return each[0]
    order = np.lexsort(tuple(reversed(each)))
    changed = np.zeros(len(order), dtype=np.int64)
    for ranks in each:
        ordered = ranks[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.cumsum(changed)
    return result


def column_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return dense ranks of one column: 0 for null, from 1 for values, equal for equal values only."""
    if pa.types.is_floating(column.type):
        column = _float_order(column)
    ranks = np.array(pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False), dtype=np.int64)
    if column.null_count:
        ranks[np.asarray(column.is_null().to_numpy(zero_copy_only=False))] = 0
    return ranks


def _float_order(column: pa.Array) -> pa.Array:
    """Map floats to int64 that sort as ``Double.compare`` does; nulls stay null."""
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    values = np.where(np.isnan(values), np.nan, values)
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.array(ordered, mask=np.asarray(column.is_null()))
