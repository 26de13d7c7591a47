"""Hashes of rows, the buckets they give, and HASH index files, which keep the hashes of a dynamic bucket.

Murmur3 of BinaryRows and Hive's hash, for whole columns (Java: ``MurmurHashUtils``, ``HiveHasher``); the bucket of a
row's bucket key (Java: ``BucketFunction`` and its three kinds); index files of big-endian int32 (Java:
``HashIndexFile``).
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.spec.arrow_buffers import ByteStrings, boolean_values, fixed_values, null_mask, one_array
from paimon_spark.spec.binary_row import SlotKind, slot_kind
from paimon_spark.spec.binary_row_encoder import BinaryRows, encode_rows
from paimon_spark.spec.data_types import BigIntType, DataType, IntType

HashArray = npt.NDArray[np.int32]

_Words = npt.NDArray[np.uint32]
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_SEED = 42
_MASK = 0xFFFFFFFF
_CHUNK_ROWS = 16_384
_FEW_ROWS = 4
_EXACT = decimal.Context(prec=100)


def _mix(hashes: _Words, word: _Words) -> None:
    """Mix one 4-byte word of each row into its hash, in place; `word` is overwritten."""
    word *= np.uint32(_C1)
    turned = word >> np.uint32(17)
    word <<= np.uint32(15)
    word |= turned
    word *= np.uint32(_C2)
    hashes ^= word
    np.right_shift(hashes, np.uint32(19), out=turned)
    hashes <<= np.uint32(13)
    hashes |= turned
    hashes *= np.uint32(5)
    hashes += np.uint32(0xE6546B64)


def _mix_one(value: int, words: npt.NDArray[np.uint32]) -> int:
    """Mix all words of one row into its hash: for the few rows that are much longer than the others."""
    for word in words.tolist():
        word = word * _C1 & _MASK
        word = (word << 15 | word >> 17) * _C2 & _MASK
        value ^= word
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _MASK
    return value


def _finish(hashes: _Words, lengths: npt.NDArray[np.uint32] | np.uint32) -> HashArray:
    hashes ^= lengths
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def _hash_equal_rows(words: npt.NDArray[np.uint32]) -> HashArray:
    """Hash rows of equal size (shape: rows x words)."""
    hashes = np.full(len(words), _SEED, dtype=np.uint32)
    for i in range(words.shape[1]):
        _mix(hashes, words[:, i].copy())
    return _finish(hashes, np.uint32(words.shape[1] * 4))


def _hash_unequal_rows(
    data: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> HashArray:
    """Hash rows of any sizes: longest first, so that the rows that still have words are always in front."""
    order = np.argsort(-counts, kind="stable")
    starts, counts = starts[order], counts[order]
    hashes = np.full(len(order), _SEED, dtype=np.uint32)
    ends = np.searchsorted(-counts, -np.arange(int(counts[0]) if len(counts) else 0), side="left")
    for i, active in enumerate(ends.tolist()):
        if active <= _FEW_ROWS:
            for row in range(active):
                rest = data[starts[row] + i : starts[row] + counts[row]]
                hashes[row] = _mix_one(int(hashes[row]), rest)
            break
        _mix(hashes[:active], data[starts[:active] + i])
    result = np.empty(len(order), dtype=np.int32)
    result[order] = _finish(hashes, (counts * 4).astype(np.uint32))
    return result


def murmur_hash_rows(rows: BinaryRows) -> HashArray:
    """Return the hash code of each row: murmur3 over its 4-byte words, seed 42 (Java: ``BinaryRow.hashCode``)."""
    hashes = np.empty(len(rows), dtype=np.int32)
    data = rows.data.view("<u4")
    for start in range(0, len(rows), _CHUNK_ROWS):
        end = min(start + _CHUNK_ROWS, len(rows))
        starts = rows.offsets[start : end + 1] >> 2
        counts = np.diff(starts)
        if counts.min() == counts.max():
            part = _hash_equal_rows(data[starts[0] : starts[-1]].reshape(end - start, -1))
        else:
            part = _hash_unequal_rows(data, starts[:-1], counts)
        hashes[start:end] = part
    return hashes


def hash_bytes(strings: ByteStrings) -> HashArray:
    """Return the murmur3 hash of each string, whose last bytes count as words of their own (Java: ``hashBytes``)."""
    words, count = strings.lengths >> 2, len(strings.lengths)
    order = np.argsort(-words, kind="stable")
    starts, words, lengths = strings.starts[order], words[order], strings.lengths[order]
    hashes = np.full(count, _SEED, dtype=np.uint32)
    ends = np.searchsorted(-words, -np.arange(int(words[0]) if count else 0), side="left")
    for i, active in enumerate(ends.tolist()):
        at = starts[:active] + 4 * i
        parts = [strings.source[at + j].astype(np.uint32) << np.uint32(8 * j) for j in range(4)]
        _mix(hashes[:active], parts[0] | parts[1] | parts[2] | parts[3])
    for j in range(3):
        rows = np.flatnonzero(lengths & 3 > j)
        word = strings.source[starts[rows] + 4 * words[rows] + j].view(np.int8).astype(np.int32).view(np.uint32)
        mixed = hashes[rows]
        _mix(mixed, word)
        hashes[rows] = mixed
    result = np.empty(count, dtype=np.int32)
    result[order] = _finish(hashes, lengths.astype(np.uint32))
    return result


def key_hashes(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> HashArray:
    """Return the hash code of the BinaryRow of each row of the columns.

    Works on some thousand rows at a time, so that the rows never leave the cache.

    Args:
        columns: at least one, of equal length: the bucket key or the trimmed primary key.
        types: their data types.
    """
    rows = len(columns[0])
    hashes = np.empty(rows, dtype=np.int32)
    for start in range(0, rows, _CHUNK_ROWS):
        part = [column.slice(start, _CHUNK_ROWS) for column in columns]
        hashes[start : start + _CHUNK_ROWS] = murmur_hash_rows(encode_rows(part, types))
    return hashes


def _fold_long(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (values ^ (values.view(np.uint64) >> np.uint64(32)).view(np.int64)) & _MASK


def _hive_bytes(strings: ByteStrings) -> npt.NDArray[np.int64]:
    """The polynomial of base 31 over signed bytes, modulo 2^32."""
    lengths = strings.lengths
    hashes = np.zeros(len(lengths), dtype=np.uint32)
    order = np.argsort(-lengths, kind="stable")
    ends = np.searchsorted(-lengths[order], -np.arange(int(lengths.max()) if len(lengths) else 0), side="left")
    for i, active in enumerate(ends.tolist()):
        rows = order[:active]
        hashes[rows] = hashes[rows] * np.uint32(31) + strings.source[strings.starts[rows] + i].view(np.int8).astype(
            np.uint32
        )
    return hashes.astype(np.int64)


def _hive_decimal(value: decimal.Decimal | None) -> int:
    """Java's ``BigDecimal.hashCode`` of the value without trailing zeros (scale 0 where it would be negative)."""
    if value is None or value == 0:
        return 0
    sign, digits, exponent = value.normalize(_EXACT).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    scale = max(-exponent, 0)
    magnitude = 0
    for shift in reversed(range(0, unscaled.bit_length(), 32)):
        magnitude = (31 * magnitude + (unscaled >> shift & _MASK)) & _MASK
    return 31 * (-magnitude if sign else magnitude) + scale & _MASK


def _hive_column(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> npt.NDArray[np.int64]:
    kind = slot_kind(data_type)
    if kind in (SlotKind.NESTED, SlotKind.MILLIS, SlotKind.WIDE_TIMESTAMP):
        raise UnsupportedError(
            f"Unsupported type as bucket key type {data_type.sql()} of bucket function hive; use the default function."
        )
    array = one_array(column, data_type)
    nulls = null_mask(array)
    if kind in (SlotKind.STRING, SlotKind.BYTES):
        return _hive_bytes(ByteStrings.from_array(array, nulls))
    if kind in (SlotKind.DECIMAL, SlotKind.WIDE_DECIMAL):
        distinct = pc.dictionary_encode(array)
        codes = distinct.indices.fill_null(len(distinct.dictionary)).to_numpy(zero_copy_only=False)
        hashes = np.array([*map(_hive_decimal, distinct.dictionary.to_pylist()), 0], dtype=np.int64)
        return hashes[codes]  # type: ignore[no-any-return]
    if kind is SlotKind.BOOLEAN:
        return boolean_values(array).astype(np.int64)
    if kind in (SlotKind.FLOAT32, SlotKind.FLOAT64):
        values = fixed_values(array, "<f4" if kind is SlotKind.FLOAT32 else "<f8") + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan  # Java: one NaN
        bits: npt.NDArray[np.int64] = (
            values.view("<i4").astype(np.int64) if kind is SlotKind.FLOAT32 else _fold_long(values.view("<i8"))
        )
    elif kind is SlotKind.INT64:
        bits = _fold_long(fixed_values(array, "<i8"))
    else:
        width = {SlotKind.INT8: "i1", SlotKind.INT16: "<i2"}.get(kind, "<i4")
        bits = fixed_values(array, width).astype(np.int64)
    if nulls is not None:
        bits = np.where(nulls, 0, bits)
    return bits


def hive_hash(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> HashArray:
    """Return Hive's hash of each row (Java: ``HiveBucketFunction``).

    Raises:
        UnsupportedError: a timestamp or nested column.
    """
    hashes = np.zeros(len(columns[0]), dtype=np.int64)
    for column, data_type in zip(columns, types, strict=True):
        hashes = (hashes * 31 + _hive_column(column, data_type)) & _MASK
    return hashes.astype(np.uint32).view(np.int32)


__all__ = ["BucketFunction", "bucket_ids", "buckets_of_hashes", "key_hashes"]


class BucketFunction(StrEnum):
    """Value of the option ``bucket-function.type``."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


def buckets_of_hashes(hashes: HashArray, num_buckets: int) -> HashArray:
    """Return the bucket of each hash: the absolute value of Java's remainder (default function)."""
    buckets: HashArray = np.abs(np.fmod(hashes, np.int32(num_buckets)))
    return buckets


def _mod(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], num_buckets: int) -> HashArray:
    if len(columns) != 1 or not isinstance(types[0], IntType | BigIntType):
        given = ", ".join(data_type.sql() for data_type in types)
        raise OptionError(
            "bucket key must have exactly one field of type INT or BIGINT in mod bucket function, "
            f"but has {given}; set 'bucket-function.type' to 'default'."
        )
    # Java: a null key is read as the zero in its slot
    values = pc.fill_null(columns[0].cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    buckets: HashArray = np.mod(values, num_buckets).astype(np.int32)
    return buckets


def bucket_ids(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    num_buckets: int,
    function: BucketFunction | str = BucketFunction.DEFAULT,
) -> HashArray:
    """Return the bucket of each row.

    Args:
        columns: bucket-key columns in their declared order, at least one, of equal length.
        types: their data types.
        num_buckets: bucket count of the rows' partition, at least 1.
        function: the table's ``bucket-function.type``.

    Raises:
        OptionError: the function does not fit the bucket key, or is not known.
        UnsupportedError: a type that the function hive does not take.
    """
    if num_buckets < 1:
        raise OptionError(f"The number of buckets needs to be greater than 0, but is {num_buckets}.")
    try:
        function = BucketFunction(function)
    except ValueError as error:
        raise OptionError(f"Unknown bucket function {function!r}; choose default, mod or hive.") from error
    if function is BucketFunction.MOD:
        return _mod(columns, types, num_buckets)
    if function is BucketFunction.HIVE:
        positive: HashArray = hive_hash(columns, types) & np.int32(0x7FFFFFFF)
        return buckets_of_hashes(positive, num_buckets)
    return buckets_of_hashes(key_hashes(columns, types), num_buckets)


def encode_hash_index(hashes: npt.NDArray[np.int32]) -> bytes:
    """Return the file's bytes; `IndexManifestEntry.row_count` is the number of hashes."""
    return hashes.astype(">i4").tobytes()


def decode_hash_index(data: bytes, *, path: str | None = None) -> npt.NDArray[np.int32]:
    """Return the key hashes of a bucket, in the file's order.

    Raises:
        CorruptTableError: the file is not a whole number of hashes.
    """
    if len(data) % 4:
        raise CorruptTableError(f"A hash index must be a multiple of 4 bytes long, but has {len(data)}.", path=path)
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
