"""The indexes of single values: ``bitmap``, the rows of each, and ``bloom-filter``, which a file cannot hold.

Java: ``BitmapFileIndex``, versions 1 and 2, ``BloomFilterFileIndex``, ``BloomFilter64``.

Hashes are those of Java's ``FastHash``: xxHash64 of strings and binaries, Thomas Wang's mix of numbers.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError, OptionError
from paimon_spark.spec.arrow_buffers import ByteStrings, null_mask, one_array
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.file_index.container import IndexDamageError, Section
from paimon_spark.spec.file_index.values import (
    Distinct,
    Key,
    KeyKind,
    Numbers,
    hash_map_order,
    key_bits,
    key_hashes,
    key_kind,
    loaded_keys,
    numbers_of,
    stored_keys,
)
from paimon_spark.spec.hashing import hash_bytes
from paimon_spark.spec.roaring import (
    Bits,
    all_bits,
    bits_of_rows,
    decode_bitmap,
    encode_bitmaps,
    no_bits,
)

_ENTRY_BYTES = 8


def encode_bitmap_index(rows: Distinct, *, version: int, block_bytes: int) -> bytes:
    """The bytes of the index over all rows of a file.

    Args:
        rows: of the file.
        version: 1 or 2.
        block_bytes: size of a block of the dictionary, of version 2.

    Raises:
        DataError: a value is larger than a block; or version 2 has none that fit.
    """
    nulls = np.flatnonzero(rows.codes < 0)
    null_bytes = encode_bitmaps(nulls, np.array([len(nulls)]))[0]
    counts = np.bincount(rows.codes[rows.codes >= 0], minlength=rows.count)
    order = hash_map_order(_hashes(rows), rows.first_rows, size_at_last_call=_size_at_last_row(rows))
    body, lengths = _bodies(rows, counts, order)
    first = len(null_bytes) if len(nulls) > 1 else 0
    laid = np.where(counts[order] > 1, lengths, 0)
    offsets = np.empty(rows.count, np.int64)
    offsets[order] = np.where(counts[order] > 1, first + np.cumsum(laid) - laid, -1 - rows.first_rows[order])
    sizes = np.full(rows.count, -1, np.int64)
    sizes[order] = np.where(counts[order] > 1, lengths, -1)
    null_offset = -1 - int(nulls[0]) if len(nulls) == 1 else 0
    head = struct.pack(">bii?", version, len(rows.codes), rows.count, len(nulls) > 0)
    if len(nulls):
        head += struct.pack(">i", null_offset) + (struct.pack(">i", len(null_bytes)) if version == 2 else b"")
    dictionary = _entries(rows, order, [offsets])[0] if version == 1 else _blocks(rows, offsets, sizes, block_bytes)
    return b"".join((head, dictionary, null_bytes if len(nulls) > 1 else b"", body))


def _hashes(rows: Distinct) -> npt.NDArray[np.int32]:
    return key_hashes(rows.numbers, rows.kind) if rows.texts is None else hash_bytes(_strings(rows.texts))


def _size_at_last_row(rows: Distinct) -> int:
    """How many keys there are before the last row that has one."""
    if not rows.count:
        return 0
    last = len(rows.codes) - 1 - int(np.argmax(rows.codes[::-1] >= 0))
    return rows.count - int(rows.first_rows[rows.codes[last]] == last)


def _strings(texts: pa.Array) -> ByteStrings:
    return ByteStrings.from_array(texts, None)


def _bodies(rows: Distinct, counts: Numbers, order: Numbers) -> tuple[bytes, Numbers]:
    """The bitmaps of the keys that have more than one row, in an order of the keys; and the length of each key's."""
    position = np.empty(rows.count + 1, np.int64)
    position[order] = np.arange(rows.count)
    many = np.append(counts > 1, False)  # -1 of a null is the last
    at = np.flatnonzero(many[rows.codes])
    assigned = position[rows.codes[at]]
    sort = np.argsort(assigned, kind="stable")
    wanted = counts[order] > 1
    body, found = encode_bitmaps(at[sort], np.cumsum(counts[order][wanted]))
    lengths = np.zeros(rows.count, np.int64)
    lengths[wanted] = found
    return body, lengths


def _entries(rows: Distinct, order: Numbers, columns: Sequence[Numbers]) -> tuple[bytes, Numbers]:
    """Keys in an order, each with some 32-bit numbers behind it; and where each entry ends."""
    numbers = np.stack([column[order] for column in columns], axis=1).astype(">i4")
    tail = numbers.view(np.uint8).reshape(len(order), 4 * len(columns))
    if rows.texts is None:
        keys = stored_keys(rows.numbers[order], rows.kind)
        width = keys.dtype.itemsize
        flat = np.concatenate([keys.view(np.uint8).reshape(len(order), width), tail], axis=1)
        return flat.tobytes(), np.arange(1, len(order) + 1) * flat.shape[1]
    strings = _strings(rows.texts.take(pa.array(order)))
    sizes = 4 + strings.lengths + tail.shape[1]
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - sizes
    _position(out, starts, strings.lengths.astype(">i4").view(np.uint8).reshape(-1, 4))
    lengths = strings.lengths
    inner = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    out[np.repeat(starts + 4, lengths) + inner] = strings.source[np.repeat(strings.starts, lengths) + inner]
    _position(out, ends - tail.shape[1], tail)
    return out.tobytes(), ends


def _position(out: npt.NDArray[np.uint8], at: Numbers, values: npt.NDArray[np.uint8]) -> None:
    for i in range(values.shape[1]):
        out[at + i] = values[:, i]


def _blocks(rows: Distinct, offsets: Numbers, sizes: Numbers, block_bytes: int) -> bytes:
    """The dictionary of version 2: blocks of entries in the order of the keys, and the first key of each block."""
    order = np.arange(rows.count)
    data, ends = _entries(rows, order, [offsets, sizes])
    starts = np.append(0, ends)
    firsts = []
    first = 0
    while first < rows.count:
        after = int(np.searchsorted(ends, starts[first] + block_bytes - 4, side="right"))
        if after == first:
            raise DataError(
                f"A value takes {ends[first] - starts[first]} bytes of a bitmap index with blocks of {block_bytes}: "
                "set 'file-index.bitmap.<column>.index-block-size' higher, or do not index the column."
            )
        firsts.append((first, after))
        first = after
    heads, bodies, at = [], [], 0
    for first, after in firsts:
        begin, end = int(starts[first]), int(starts[after])
        key_end = int(ends[first]) - _ENTRY_BYTES
        heads.append(data[begin:key_end] + struct.pack(">i", at))
        bodies.append(struct.pack(">i", after - first) + data[begin:end])
        at += len(bodies[-1])
    return b"".join((struct.pack(">i", len(heads)), *heads, struct.pack(">i", at), *bodies))


class BitmapReader:
    """Gives the rows of values."""

    def __init__(self, section: Section, kind: KeyKind, row_count: int) -> None:
        """Read the head; the dictionary is read as far as values are asked for."""
        self._section, self._kind, self._count = section, kind, row_count
        version, rows, self._keys, has_null = section.unpack(">biib", 0)
        if version not in (1, 2):
            raise IndexDamageError(f"its bitmap index has version {version}, known are 1 and 2")
        if rows != row_count:
            raise IndexDamageError(f"its bitmap index is over {rows} rows, the file has {row_count}")
        if self._keys < 0:
            raise IndexDamageError(f"its bitmap index has {self._keys} values")
        self._version = int(version)
        self._null: tuple[int, int] | None = None
        at = 10
        if has_null:
            offset, length = section.unpack(">ii", at) if version == 2 else (*section.unpack(">i", at), -1)
            self._null = (offset, length)
            at += 8 if version == 2 else 4
        self._at = at
        self._first: dict[Key, tuple[int, int]] | None = None
        self._heads: tuple[list[Key], list[int]] | None = None
        self._blocks_at = self._body = 0

    def equal(self, keys: Sequence[Key]) -> Bits:
        """The rows that have one of the values."""
        bits = no_bits(self._count)
        for key in keys:
            entry = self._entry(key)
            if entry is not None:
                bits |= self._rows(*entry)
        return bits

    def null(self) -> Bits:
        """The rows without a value."""
        if self._null is None:
            return no_bits(self._count)
        self._load()
        return self._rows(*self._null)

    def not_null(self) -> Bits:
        """The rows with a value."""
        return all_bits(self._count) & ~self.null()

    def _rows(self, offset: int, length: int) -> Bits:
        if offset < 0:
            if -1 - offset >= self._count:
                raise IndexDamageError(f"its bitmap index holds row {-1 - offset} of {self._count}")
            return bits_of_rows(np.array([-1 - offset], np.int64), self._count)
        return decode_bitmap(self._section.take(self._body + offset, length), self._count)[0]

    def _entry(self, key: Key) -> tuple[int, int] | None:
        self._load()
        if self._first is not None:
            return self._first.get(key)
        assert self._heads is not None
        firsts, offsets = self._heads
        block = bisect_right(firsts, key) - 1
        if block < 0:
            return None
        begin = self._blocks_at + offsets[block]
        end = self._blocks_at + offsets[block + 1] if block + 1 < len(offsets) else self._body
        data = self._section.take(begin, end - begin)
        (count,) = struct.unpack_from(">i", data)
        for found, (offset, length), _ in _walk(data, 4, count, self._kind, 2):
            if found == key:
                return offset, length
        return None

    def _load(self) -> None:
        """Read the whole dictionary of version 1, the first key of each block of version 2."""
        if self._first is not None or self._heads is not None:
            return
        data = self._section.upto(self._at, self._section.length)
        try:
            if self._version == 1:
                entries = list(_walk(data, 0, self._keys, self._kind, 1))
                self._body = self._at + (entries[-1][2] if entries else 0)
                self._first = self._with_lengths({key: numbers[0] for key, numbers, _ in entries})
                return
            (blocks,) = struct.unpack_from(">i", data)
            heads = list(_walk(data, 4, blocks, self._kind, 1))
            at = heads[-1][2] if heads else 4
            (dictionary,) = struct.unpack_from(">i", data, at)
        except struct.error as error:
            raise IndexDamageError("its bitmap index is cut off") from error
        self._blocks_at = self._at + at + 4
        self._body = self._blocks_at + dictionary
        self._heads = [key for key, _, _ in heads], [numbers[0] for _, numbers, _ in heads]

    def _with_lengths(self, offsets: dict[Key, int]) -> dict[Key, tuple[int, int]]:
        """Entries of version 1, which tells no lengths: a bitmap ends where the next one begins."""
        null = -1 if self._null is None else self._null[0]
        starts = sorted({at for at in (*offsets.values(), null) if at >= 0})
        ends = dict(zip(starts, [*starts[1:], self._section.length - self._body], strict=True))
        if null >= 0:
            self._null = null, ends[null] - null
        return {key: (at, ends[at] - at if at >= 0 else -1) for key, at in offsets.items()}


def _walk(data: bytes, at: int, count: int, kind: KeyKind, numbers: int) -> Iterator[tuple[Key, tuple[int, ...], int]]:
    """Entries one after the other: (key, the numbers behind it, where the entry ends)."""
    tail = struct.Struct(f">{numbers}i")
    if count < 0 or count * (tail.size + max(1, kind.width)) > len(data) + 4 * tail.size:
        raise IndexDamageError(f"its bitmap index announces {count} values")
    if not kind.is_bytes:
        step = kind.width + tail.size
        if at + count * step > len(data):
            raise IndexDamageError("its bitmap index is cut off")
        flat = np.frombuffer(data, np.uint8, count * step, at).reshape(count, step)
        keys = loaded_keys(flat[:, : kind.width].tobytes(), kind).tolist()
        rest = np.frombuffer(flat[:, kind.width :].tobytes(), ">i4").reshape(count, numbers).tolist()
        for i, (key, found) in enumerate(zip(keys, rest, strict=True)):
            yield key, tuple(found), at + (i + 1) * step
        return
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, at)
        end = at + 4 + length
        if length < 0 or end + tail.size > len(data):
            raise IndexDamageError("its bitmap index is cut off")
        yield data[at + 4 : end], tail.unpack_from(data, end), end + tail.size
        at = end + tail.size


Hashes = npt.NDArray[np.uint64]

_MOST_BITS = 2**31 - 1 - 8
_MOST_FUNCTIONS = 1 << 10
_PRIMES = tuple(
    np.uint64(prime)
    for prime in (
        11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261,
    )
)  # fmt: skip
_SLICE_ROWS = 1 << 16
_MOST_AT_ONCE, _FEW_KEYS = 1 << 20, 16
"""Of a larger filter only the bytes of a few values are read."""


class BloomFilterWriter:
    """Collects the values of one column of one file."""

    def __init__(self, data_type: DataType, *, items: int, fpp: float) -> None:
        """Size the filter.

        Raises:
            OptionError: no filter has such a size.
        """
        if not (0 < items < 2**31 and 0 < fpp < 1):
            raise OptionError(f"A bloom filter has items of at least 1 and an fpp between 0 and 1, not {items}, {fpp}.")
        bits = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
        if bits > _MOST_BITS:
            raise OptionError(f"A bloom filter of {items} items with an fpp of {fpp} takes more than 2^31 bits.")
        self._bits = bits + (8 - bits % 8)
        self._functions = max(1, math.floor(self._bits / items * math.log(2) + 0.5))
        self._type = data_type
        self._set = np.zeros(self._bits, bool)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Look at the values of some rows; nulls are passed over."""
        for start in range(0, len(column), _SLICE_ROWS):
            hashes = hashes_of(column.slice(start, _SLICE_ROWS), self._type)
            for positions in _positions(hashes, self._functions, self._bits):
                self._set[positions] = True

    def finish(self) -> bytes:
        """The bytes of the index."""
        return struct.pack(">i", self._functions) + np.packbits(self._set, bitorder="little").tobytes()


class BloomFilterReader:
    """Tests values."""

    def __init__(self, section: Section, kind: KeyKind) -> None:
        """Read the number of hash functions; bits are read when they are asked for."""
        self._section = section
        self._kind = kind
        (self._functions,) = section.unpack(">i", 0)
        self._bits = (section.length - 4) * 8
        if self._bits <= 0 or not 0 < self._functions <= _MOST_FUNCTIONS:
            raise IndexDamageError(f"its bloom filter of {self._bits} bits has {self._functions} hash functions")
        self._data: npt.NDArray[np.uint8] | None = None

    def may_hold(self, keys: Sequence[Key]) -> bool:
        """Whether the file may hold one of the keys."""
        if not keys:
            return False
        positions = _positions(_hashes_of_keys(tuple(keys), self._kind), self._functions, self._bits)
        if self._section.length > _MOST_AT_ONCE and len(keys) <= _FEW_KEYS:
            columns = zip(*(each.tolist() for each in positions), strict=True)
            return any(all(self._is_set(at) for at in key) for key in columns)
        if self._data is None:
            self._data = np.frombuffer(self._section.take(4, self._section.length - 4), np.uint8)
        there = np.ones(len(keys), bool)
        for each in positions:
            there &= (self._data[each >> 3] >> (each & 7) & 1).astype(bool)
        return bool(there.any())

    def _is_set(self, position: int) -> bool:
        return bool(self._section.take(4 + (position >> 3), 1)[0] >> (position & 7) & 1)


@lru_cache(maxsize=64)
def _hashes_of_keys(keys: tuple[Key, ...], kind: KeyKind) -> Hashes:
    """The hashes of the values of a predicate, which are asked for once for each file."""
    if kind.is_bytes:
        return xx_hashes(ByteStrings.from_list([key for key in keys if isinstance(key, bytes)]))
    return wang_hashes(key_bits(np.array(keys, np.int64), kind))


def hashes_of(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> Hashes:
    """Return the hash of each value of a column that is not null."""
    kind = key_kind(data_type)
    assert kind is not None
    if kind.is_bytes:
        array = one_array(column, data_type).drop_null()
        return xx_hashes(ByteStrings.from_array(array, null_mask(array)))
    numbers, nulls = numbers_of(column, data_type)
    return wang_hashes(key_bits(numbers if nulls is None else numbers[~nulls], kind))


def _positions(hashes: Hashes, functions: int, bits: int) -> list[Numbers]:
    """For each hash function the bit of each hash."""
    low = hashes.astype(np.uint32)
    high = (hashes >> np.uint64(32)).astype(np.uint32)
    result, combined = [], low
    for _ in range(functions):
        combined = combined + high
        signed = combined.view(np.int32)
        result.append(np.where(signed < 0, ~signed, signed).astype(np.int64) % bits)
    return result


def wang_hashes(numbers: Numbers) -> Hashes:
    """Return Thomas Wang's hash of numbers, with the arithmetic shifts of Java's version."""
    key: Numbers = numbers.astype(np.int64)
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key = key ^ (key >> 24)
        key = (key + (key << 3)) + (key << 8)
        key = key ^ (key >> 14)
        key = (key + (key << 2)) + (key << 4)
        key = key ^ (key >> 28)
        key = key + (key << 31)
    return key.view(np.uint64)


def _turn(values: Hashes, bits: int) -> Hashes:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)


def _round(state: Hashes, word: Hashes) -> Hashes:
    return _turn(state + word * _PRIMES[1], 31) * _PRIMES[0]


def xx_hashes(strings: ByteStrings) -> Hashes:
    """Return xxHash64, seed 0, of each string: longest first, so that those with bytes left are always in front."""
    order = np.argsort(-strings.lengths, kind="stable")
    starts, lengths = strings.starts[order], strings.lengths[order]
    one, two, three, four, five = _PRIMES
    with np.errstate(over="ignore"):
        state = np.full(len(order), five, np.uint64)
        long = int(np.searchsorted(-lengths, -32, side="right"))
        if long:
            state[:long] = _stripes(strings, starts[:long], lengths[:long])
        state += lengths.astype(np.uint64)
        done = np.where(lengths >= 32, lengths & ~31, 0)
        for _ in range(3):
            rows = np.flatnonzero(lengths - done >= 8)
            word = _words(strings.source, starts[rows] + done[rows], 8)
            state[rows] = _turn(state[rows] ^ _round(np.zeros_like(word), word), 27) * one + four
            done[rows] += 8
        rows = np.flatnonzero(lengths - done >= 4)
        word = _words(strings.source, starts[rows] + done[rows], 4)
        state[rows] = _turn(state[rows] ^ word * one, 23) * two + three
        done[rows] += 4
        for _ in range(3):
            rows = np.flatnonzero(lengths > done)
            byte = strings.source[starts[rows] + done[rows]].astype(np.uint64)
            state[rows] = _turn(state[rows] ^ byte * five, 11) * one
            done[rows] += 1
        state = (state ^ state >> np.uint64(33)) * two
        state = (state ^ state >> np.uint64(29)) * three
        state ^= state >> np.uint64(32)
    result = np.empty_like(state)
    result[order] = state
    return result


def _stripes(strings: ByteStrings, starts: Numbers, lengths: Numbers) -> Hashes:
    """The state after all whole stripes of 32 bytes; strings are the longest first, each has one at least."""
    one, two, *_ = _PRIMES
    count = len(starts)
    lanes = [np.full(count, lane, np.uint64) for lane in (one + two, two, np.uint64(0), np.uint64(0) - one)]
    stripes = lengths // 32
    ends = np.searchsorted(-stripes, -np.arange(int(stripes[0])), side="left")
    for i, active in enumerate(ends.tolist()):
        for lane in range(4):
            word = _words(strings.source, starts[:active] + (32 * i + 8 * lane), 8)
            lanes[lane][:active] = _round(lanes[lane][:active], word)
    state = _turn(lanes[0], 1) + _turn(lanes[1], 7) + _turn(lanes[2], 12) + _turn(lanes[3], 18)
    for total in lanes:
        state = (state ^ _round(np.zeros_like(total), total)) * one + _PRIMES[3]
    return state


def _words(source: npt.NDArray[np.uint8], at: Numbers, width: int) -> Hashes:
    """Little-endian words of `width` bytes at any positions."""
    word = np.zeros(len(at), np.uint64)
    for i in range(width):
        word |= source[at + i].astype(np.uint64) << np.uint64(8 * i)
    return word
