"""Sets of row numbers: many roaring bitmaps written at once, and one read as an array of bits (see `spec.roaring`).

The bytes are those of Java's ``RoaringBitmap32``, which makes runs where they are smaller before it writes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import DataError
from paimon_spark.spec.file_index.container import IndexDamageError
from paimon_spark.spec.roaring import Bytes, read_containers

Bits = npt.NDArray[np.uint8]
"""One bit for each row of a file, the lowest bit of a byte first; the bits behind the last row are 0."""
Numbers = npt.NDArray[np.int64]

_NO_RUNS, _WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_MOST_IN_ARRAY, _BITMAP_BYTES, _SPAN = 4096, 8192, 65536


class _Layout:
    """Which containers the bitmaps have, of which kind and size."""

    def __init__(self, rows: Numbers, ends: Numbers) -> None:
        group = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        high = rows >> 16
        fresh = np.ones(len(rows), bool)
        fresh[1:] = (group[1:] != group[:-1]) | (high[1:] != high[:-1])
        self.starts = np.flatnonzero(fresh)
        self.counts = np.diff(self.starts, append=len(rows))
        self.groups, self.keys = group[self.starts], high[self.starts]
        new_run = fresh.copy()
        new_run[1:] |= rows[1:] != rows[:-1] + 1
        self.run_starts = np.flatnonzero(new_run)
        self.runs = np.add.reduceat(new_run, self.starts) if len(rows) else np.empty(0, np.int64)
        plain = np.where(self.counts <= _MOST_IN_ARRAY, 2 * self.counts, _BITMAP_BYTES)
        self.is_run = plain > 2 + 4 * self.runs
        self.is_bitmap = ~self.is_run & (self.counts > _MOST_IN_ARRAY)
        self.sizes = np.where(self.is_run, 2 + 4 * self.runs, plain)
        # of each bitmap
        self.size = np.bincount(self.groups, minlength=len(ends))
        self.has_run = np.bincount(self.groups, self.is_run, len(ends)) > 0
        self.within = np.arange(len(self.starts)) - (np.cumsum(self.size) - self.size)[self.groups]
        self.flag_bytes = np.where(self.has_run, (self.size + 7) // 8, 0)
        self.has_offsets = ~self.has_run | (self.size >= _NO_OFFSETS_BELOW)
        self.head = np.where(self.has_run, 4 + self.flag_bytes, 8)
        self.body = self.head + self.size * np.where(self.has_offsets, 8, 4)
        lengths = self.body + np.bincount(self.groups, self.sizes, len(ends)).astype(np.int64)
        self.lengths = lengths
        self.at = np.cumsum(lengths) - lengths


def encode_bitmaps(rows: Numbers, ends: Numbers) -> tuple[bytes, Numbers]:
    """Write bitmaps one after the other.

    Args:
        rows: the numbers of all bitmaps, ascending within each; below 2^32.
        ends: where each bitmap ends among them.

    Returns:
        (their bytes, the length of each).
    """
    rows = rows.astype(np.int64, copy=False)
    lay = _Layout(rows, ends)
    out = np.zeros(int(lay.lengths.sum()), np.uint8)
    runs, plain = np.flatnonzero(lay.has_run), np.flatnonzero(~lay.has_run)
    _put(out, lay.at[runs], _WITH_RUNS | (lay.size[runs] - 1) << 16, 4)
    _put(out, lay.at[plain], np.full(len(plain), _NO_RUNS), 4)
    _put(out, lay.at[plain] + 4, lay.size[plain], 4)
    base = lay.at[lay.groups]
    flagged = np.flatnonzero(lay.is_run)
    bits = (1 << (lay.within[flagged] & 7)).astype(np.uint8)
    np.bitwise_or.at(out, base[flagged] + 4 + lay.within[flagged] // 8, bits)
    entry = base + lay.head[lay.groups] + 4 * lay.within
    _put(out, entry, lay.keys, 2)
    _put(out, entry + 2, lay.counts - 1, 2)
    before = np.cumsum(lay.sizes) - lay.sizes
    first = np.repeat(before[np.cumsum(lay.size)[lay.size > 0] - lay.size[lay.size > 0]], lay.size[lay.size > 0])
    offsets = lay.body[lay.groups] + before - first
    listed = np.flatnonzero(lay.has_offsets[lay.groups])
    _put(out, (entry + 4 * lay.size[lay.groups])[listed], offsets[listed], 4)
    _put_bodies(out, rows, lay, base + offsets)
    return out.tobytes(), lay.lengths


def _put_bodies(out: Bits, rows: Numbers, lay: _Layout, at: Numbers) -> None:
    container = np.repeat(np.arange(len(lay.starts)), lay.counts)
    in_array = ~(lay.is_run | lay.is_bitmap)
    chosen = np.flatnonzero(in_array[container])
    inner = chosen - lay.starts[container[chosen]]
    _put(out, at[container[chosen]] + 2 * inner, rows[chosen] & 0xFFFF, 2)
    for i in np.flatnonzero(lay.is_bitmap).tolist():  # each holds more than 4096 rows
        flags = np.zeros(_SPAN, np.uint8)
        flags[rows[lay.starts[i] : lay.starts[i] + lay.counts[i]] & 0xFFFF] = 1
        out[at[i] : at[i] + _BITMAP_BYTES] = np.packbits(flags, bitorder="little")
    _put(out, at[lay.is_run], lay.runs[lay.is_run], 2)
    of_run = container[lay.run_starts] if len(rows) else np.empty(0, np.int64)
    number = np.arange(len(of_run)) - (np.cumsum(lay.runs) - lay.runs)[of_run]
    length = np.diff(lay.run_starts, append=len(rows))
    kept = np.flatnonzero(lay.is_run[of_run])
    position = at[of_run[kept]] + 2 + 4 * number[kept]
    _put(out, position, rows[lay.run_starts[kept]] & 0xFFFF, 2)
    _put(out, position + 2, length[kept] - 1, 2)


def _put(out: Bits, at: Numbers, values: Numbers, width: int) -> None:
    """Write little-endian numbers at any places."""
    for i in range(width):
        out[at + i] = (values >> (8 * i)) & 0xFF


def encode_bitmap(rows: Numbers) -> bytes:
    """Write one bitmap."""
    return encode_bitmaps(rows, np.array([len(rows)], np.int64))[0]


def no_bits(count: int) -> Bits:
    """No row of so many."""
    return np.zeros((count + 7) // 8, np.uint8)


def all_bits(count: int) -> Bits:
    """Every row of so many."""
    bits = np.full((count + 7) // 8, 0xFF, np.uint8)
    if count & 7:
        bits[-1] = (1 << (count & 7)) - 1
    return bits


def bits_of_rows(rows: Numbers, count: int) -> Bits:
    """The rows that are listed."""
    bits = no_bits(count)
    np.bitwise_or.at(bits, rows >> 3, (1 << (rows & 7)).astype(np.uint8))
    return bits


def decode_bitmap(data: bytes | memoryview, count: int) -> tuple[Bits, int]:
    """Read one bitmap.

    Args:
        data: begins with it.
        count: rows of the file; the bitmap holds none beyond them.

    Returns:
        (its rows, its length in bytes).

    Raises:
        IndexDamageError: these are no such bytes.
    """
    bits, source = no_bits(count), Bytes(data)
    try:
        for key, container in read_containers(source):
            container.mark(bits, key, count)
    except DataError as error:
        raise IndexDamageError(f"a bitmap is damaged: {error}") from error
    return bits, source.at


def bitmap_length(data: memoryview) -> int:
    """The length of the bitmap that the bytes begin with.

    Raises:
        IndexDamageError: these are no such bytes.
    """
    source = Bytes(data)
    try:
        for _ in read_containers(source):
            continue
    except DataError as error:
        raise IndexDamageError(f"a bitmap is damaged: {error}") from error
    return source.at
