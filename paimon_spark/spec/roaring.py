"""Roaring bitmaps of 32-bit numbers: the portable format, union, and Java's choice of containers.

Source: the RoaringBitmap format specification; Java ``RoaringBitmap32`` (which calls ``runOptimize`` before it writes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import DataError

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
