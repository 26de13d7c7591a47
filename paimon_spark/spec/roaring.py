"""Roaring bitmaps of 32-bit and 64-bit numbers: Java's bytes and its choice of containers.

Source: the RoaringBitmap format specification; Java ``RoaringBitmap32`` (which calls ``runOptimize`` before it writes),
``RoaringBitmap64``, ``org.roaringbitmap.longlong.HighLowContainer``, ``org.roaringbitmap.art``. Many 32-bit bitmaps are
written at once, and one is read as an array of bits. Those of 64 bits are a radix tree over the high 48 bits. Its nodes
with 17 to 48 children number them in key order; Java may number them in the order they came, which reads the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import DataError
from paimon_spark.spec.file_index.container import IndexDamageError

Values = npt.NDArray[np.uint16]
_NO_RUNS, _WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_MOST_IN_ARRAY, _BITMAP_BYTES, _FULL = 4096, 8192, 65536
RUN, BITMAP, ARRAY = 0, 1, 2
"""Kinds of containers, as Java's 64-bit bitmaps number them."""


class Bytes:
    """Bytes that are read from front to back and never beyond their end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self.at = 0

    def take(self, count: int) -> memoryview:
        """The next bytes.

        Raises:
            DataError: There are not so many.
        """
        if count < 0 or self.at + count > len(self._data):
            raise DataError("Unable to se/deserialize roaring bitmap: its bytes end too early.")
        taken = self._data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, form: str) -> int:
        """The next number of a ``struct`` form."""
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def shorts(self, count: int) -> Values:
        """The next unsigned 16-bit numbers, little endian."""
        return np.frombuffer(self.take(2 * count), "<u2").astype(np.uint16)


@dataclass(frozen=True, slots=True)
class Container:
    """The low 16 bits of the numbers that share their high bits.

    Attributes:
        kind: RUN, BITMAP or ARRAY: which form Java holds it in; that decides how it is written.
        values: The numbers, ascending.
    """

    kind: int
    values: Values

    @property
    def runs(self) -> tuple[Values, Values]:
        """First number and length minus one of each run of consecutive numbers."""
        wide = self.values.astype(np.int64)
        breaks = np.flatnonzero(np.diff(wide) != 1)
        first, last = np.append(0, breaks + 1), np.append(breaks, len(wide) - 1)
        return self.values[first], (wide[last] - wide[first]).astype(np.uint16)

    def union(self, other: Container) -> Container:
        """All numbers of both, in the form that Java's ``ior`` leaves."""
        values = np.union1d(self.values, other.values).astype(np.uint16)
        kinds = {self.kind, other.kind}
        if len(values) == _FULL:
            return Container(RUN, values)
        if BITMAP in kinds:
            return Container(BITMAP, values)
        if RUN in kinds:
            return Container(RUN, values).efficient()
        return Container(ARRAY if len(values) <= _MOST_IN_ARRAY else BITMAP, values)

    def efficient(self) -> Container:
        """Java ``toEfficientContainer`` of a RUN container."""
        count = len(self.values)
        if 2 + 4 * len(self.runs[0]) <= min(_BITMAP_BYTES, 2 * count + 2):
            return self
        return Container(ARRAY if count <= _MOST_IN_ARRAY else BITMAP, self.values)

    def run_optimized(self) -> Container:
        """Java ``runOptimize``."""
        if self.kind == RUN:
            return self.efficient()
        plain = 2 * len(self.values) if self.kind == ARRAY else _BITMAP_BYTES
        return Container(RUN, self.values) if plain > 2 + 4 * len(self.runs[0]) else self

    def encode(self) -> bytes:
        """The bytes of the container, without kind and size."""
        if self.kind == ARRAY:
            return self.values.astype("<u2").tobytes()
        if self.kind == BITMAP:
            bits = np.zeros(_FULL, np.uint8)
            bits[self.values] = 1
            return np.packbits(bits, bitorder="little").tobytes()
        first, lengths = self.runs
        pairs = np.stack([first, lengths], axis=1).astype("<u2")
        return struct.pack("<H", len(first)) + pairs.tobytes()

    def mark(self, bits: npt.NDArray[np.uint8], key: int, rows: int) -> None:
        """Set the bits of the rows whose high bits are `key`; the lowest bit of a byte comes first.

        Raises:
            DataError: one of them is not among so many `rows`.
        """
        start, values = key * _FULL, self.values.astype(np.int64)
        if len(values) and start + int(values.max()) >= rows:
            raise DataError(f"It marks row {start + int(values.max())} of a data file with {rows} rows.")
        if self.kind == ARRAY:
            np.bitwise_or.at(bits, (start + values) >> 3, (1 << (values & 7)).astype(np.uint8))
            return
        here = np.zeros(_FULL, np.uint8)
        here[values] = 1
        target = bits[start // 8 : start // 8 + _BITMAP_BYTES]
        target |= np.packbits(here, bitorder="little")[: len(target)]

    @staticmethod
    def decode(kind: int, count: int, data: Bytes) -> Container:
        """Reads the bytes that ``encode`` wrote."""
        if kind == ARRAY:
            return Container(kind, data.shorts(count))
        if kind == BITMAP:
            bits = np.unpackbits(np.frombuffer(data.take(_BITMAP_BYTES), np.uint8), bitorder="little")
            return Container(kind, np.flatnonzero(bits).astype(np.uint16))
        if kind != RUN:
            raise DataError(f"Unable to se/deserialize roaring bitmap: there is no container of kind {kind}.")
        pairs = data.shorts(2 * data.number("<H")).reshape(-1, 2).astype(np.int64)
        if not len(pairs) or bool((pairs.sum(axis=1) >= _FULL).any() or (pairs[1:, 0] <= pairs[:-1].sum(axis=1)).any()):
            raise DataError("Unable to se/deserialize roaring bitmap: its runs overlap.")
        lengths = pairs[:, 1] + 1
        starts = np.repeat(pairs[:, 0] - (np.cumsum(lengths) - lengths), lengths)
        return Container(kind, (starts + np.arange(int(lengths.sum()))).astype(np.uint16))


class Bitmap32:
    """A set of 32-bit numbers by their high 16 bits."""

    def __init__(self, containers: dict[int, Container]) -> None:
        self.containers = containers

    @staticmethod
    def decode(data: bytes) -> Bitmap32:
        """Reads the portable format.

        Raises:
            DataError: The bytes are no bitmap.
        """
        return Bitmap32(dict(read_containers(Bytes(data))))

    @staticmethod
    def of(numbers: npt.NDArray[np.int64]) -> Bitmap32:
        """The set of ascending numbers from 0 to 2^32 - 1, each once, in the containers that Java writes."""
        highs = numbers >> 16
        starts = np.flatnonzero(np.diff(highs, prepend=-1))
        containers = {}
        for start, values in zip(starts.tolist(), np.split(numbers, starts[1:]), strict=False):
            kind = ARRAY if len(values) <= _MOST_IN_ARRAY else BITMAP
            containers[int(highs[start])] = Container(kind, (values & 0xFFFF).astype(np.uint16)).run_optimized()
        return Bitmap32(containers)

    def add_all(self, other: Bitmap32) -> None:
        """Adds the numbers of another bitmap and makes the containers small, as one step of Java's aggregation."""
        merged = dict(self.containers)
        for key, container in other.containers.items():
            merged[key] = merged[key].union(container) if key in merged else container
        self.containers = {key: merged[key].run_optimized() for key in sorted(merged)}

    def encode(self) -> bytes:
        """The portable format."""
        size = len(self.containers)
        runs = np.array([container.kind == RUN for container in self.containers.values()], np.uint8)
        if runs.any():
            head = struct.pack("<I", _WITH_RUNS | (size - 1) << 16) + np.packbits(runs, bitorder="little").tobytes()
        else:
            head = struct.pack("<II", _NO_RUNS, size)
        bodies = [container.encode() for container in self.containers.values()]
        head += b"".join(struct.pack("<HH", key, len(c.values) - 1) for key, c in self.containers.items())
        if not runs.any() or size >= _NO_OFFSETS_BELOW:
            sizes = np.array([len(body) for body in bodies], np.int64)
            head += (len(head) + 4 * size + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
        return head + b"".join(bodies)


def read_containers(source: Bytes) -> Iterator[tuple[int, Container]]:
    """The containers of a bitmap in the portable format by the high 16 bits, ascending; one in memory at a time.

    Raises:
        DataError: The bytes are no bitmap.
    """
    cookie = source.number("<I")
    flags = np.zeros(_FULL, np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(source.take((size + 7) // 8), np.uint8), bitorder="little")
    elif cookie == _NO_RUNS:
        size = source.number("<I")
    else:
        raise DataError("Unable to se/deserialize roaring bitmap: I failed to find one of the right cookies.")
    header = source.shorts(2 * min(size, _FULL + 1)).reshape(-1, 2)
    if cookie == _NO_RUNS or size >= _NO_OFFSETS_BELOW:
        source.take(4 * size)
    for (key, count_minus_one), is_run in zip(header.tolist(), flags.tolist(), strict=False):
        kind = RUN if is_run else ARRAY if count_minus_one < _MOST_IN_ARRAY else BITMAP
        yield key, Container.decode(kind, count_minus_one + 1, source)


Bits = npt.NDArray[np.uint8]
"""One bit for each row of a file, the lowest bit of a byte first; the bits behind the last row are 0."""
Numbers = npt.NDArray[np.int64]


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
        flags = np.zeros(_FULL, np.uint8)
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
    """Write little-endian numbers at any positions."""
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


_LEAF = 4
_BODY_BYTES = {0: 4, 1: 16, 2: 256, 3: 32}
_NOT_TRIMMED = 0xFE
_KEY_BYTES = 6


class Bitmap64:
    """A set of 64-bit numbers by their high 48 bits.

    Attributes:
        positions: For each key (6 bytes, big endian) the position of its container.
        containers: The containers by position; None behind the last one.
    """

    def __init__(self, positions: dict[bytes, int], containers: list[Container | None]) -> None:
        self.positions = positions
        self.containers = containers

    @staticmethod
    def decode(data: bytes) -> Bitmap64:
        """Reads the bytes.

        Raises:
            DataError: They are no bitmap.
        """
        source = Bytes(data)
        if source.number("<B") == 0:
            return Bitmap64({}, [])
        source.number("<q")
        found = _read_leaves(source)
        firsts: list[int] = []
        containers: list[Container | None] = []
        for _ in range(source.number("<i")):
            firsts.append(len(containers))
            source.take(1)
            containers.extend(_read_container(source) for _ in range(_checked(source.number("<i"), data)))
        positions = {}
        for key, (array, index) in found.items():
            position = firsts[array] + index if array < len(firsts) else -1
            if not 0 <= position < len(containers) or containers[position] is None:
                raise DataError("Unable to se/deserialize roaring bitmap: a key has no container.")
            positions[key] = position
        return Bitmap64(positions, containers)

    def add_all(self, other: Bitmap64) -> None:
        """Adds the numbers of another bitmap and makes the containers small, as one step of Java's aggregation."""
        for key in sorted(other.positions):
            added = other.containers[other.positions[key]]
            position = self.positions.get(key)
            if position is not None:
                held = self.containers[position]
                self.containers[position] = added if held is None else held.union(added) if added is not None else held
                continue
            used = 1 + max((i for i, c in enumerate(self.containers) if c is not None), default=-1)
            if used == len(self.containers):
                room = max(used + 1, used + (used >> 1))
                self.containers += [None] * (room - used)
            self.containers[used] = added
            self.positions[key] = used
        self.containers = [None if c is None else c.run_optimized() for c in self.containers]

    def encode(self) -> bytes:
        """The bytes."""
        if not self.positions:
            return b"\0"
        used = [i for i, c in enumerate(self.containers) if c is not None]
        parts = [struct.pack("<Bq", 1, len(self.positions)), self._node(sorted(self.positions), 0)]
        parts.append(struct.pack("<iBi", 1, _NOT_TRIMMED, len(self.containers)))
        for container in self.containers:
            if container is None:
                parts.append(b"\0")
            else:
                parts.append(struct.pack("<BBi", 1, container.kind, len(container.values)) + container.encode())
        parts.append(struct.pack("<qii", len(used), 0, used[-1]))
        return b"".join(parts)

    def _node(self, keys: list[bytes], depth: int) -> bytes:
        """The node over these sorted keys, which agree in their first ``depth`` bytes, and all below it."""
        if len(keys) == 1:
            return struct.pack("<BHB", _LEAF, 0, 0) + keys[0] + struct.pack("<q", self.positions[keys[0]])
        prefix = keys[0][depth : _first_difference(keys[0], keys[-1])]
        at = depth + len(prefix)
        children: dict[int, list[bytes]] = {}
        for key in keys:
            children.setdefault(key[at], []).append(key)
        kind = int(np.searchsorted([4, 16, 48], len(children)))
        head = struct.pack("<BHB", kind, len(children), len(prefix)) + prefix
        return head + _body(kind, list(children)) + b"".join(self._node(below, at + 1) for below in children.values())


def _first_difference(low: bytes, high: bytes) -> int:
    return next(at for at in range(_KEY_BYTES) if low[at] != high[at])


def _body(kind: int, bytes_below: list[int]) -> bytes:
    """How a node finds its children; Java holds it in big-endian words that are written little endian."""
    if kind == 3:
        bits = np.zeros(256, np.uint8)
        bits[bytes_below] = 1
        return np.packbits(bits, bitorder="little").tobytes()
    if kind == 2:
        index = np.full(256, 0xFF, np.uint8)
        index[bytes_below] = np.arange(len(bytes_below))
        return index.reshape(-1, 8)[:, ::-1].tobytes()
    width = 4 if kind == 0 else 8
    table = np.zeros(_BODY_BYTES[kind], np.uint8)
    table[: len(bytes_below)] = bytes_below
    return table.reshape(-1, width)[:, ::-1].tobytes()


def _read_leaves(source: Bytes) -> dict[bytes, tuple[int, int]]:
    """Keys of all leaves of a tree with the array and index of their containers; nodes stand before what is below."""
    leaves: dict[bytes, tuple[int, int]] = {}
    open_nodes = 1
    while open_nodes:
        open_nodes -= 1
        kind, count, prefix_length = struct.unpack("<BHB", source.take(4))
        source.take(prefix_length)
        if kind == _LEAF:
            key = bytes(source.take(_KEY_BYTES))
            position = source.number("<q")
            leaves[key] = (position >> 32, position & 0xFFFFFFFF)
        elif kind in _BODY_BYTES:
            source.take(_BODY_BYTES[kind])
            open_nodes += count
        else:
            raise DataError(f"Unable to se/deserialize roaring bitmap: there is no node of kind {kind}.")
    return leaves


def _checked(count: int, data: bytes) -> int:
    if not 0 <= count <= len(data):
        raise DataError("Unable to se/deserialize roaring bitmap: it has more containers than bytes.")
    return count


def _read_container(source: Bytes) -> Container | None:
    if source.number("<B") == 0:
        return None
    kind = source.number("<B")
    return Container.decode(kind, source.number("<i"), source)
