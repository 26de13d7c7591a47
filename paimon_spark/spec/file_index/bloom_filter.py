"""The index ``bloom-filter``: which values a file cannot hold (Java: ``BloomFilterFileIndex``, ``BloomFilter64``).

Hashes are those of Java's ``FastHash``: xxHash64 of strings and binaries, Thomas Wang's mix of numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.spec.arrow_buffers import ByteStrings, null_mask, one_array
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.file_index.container import IndexDamageError, Section
from paimon_spark.spec.file_index.values import Key, KeyKind, Numbers, key_bits, key_kind, numbers_of

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
