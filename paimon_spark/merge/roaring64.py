"""Roaring bitmaps of 64-bit numbers in the format of Java's ``Roaring64Bitmap``: a radix tree over the high 48 bits.

Source: Java ``RoaringBitmap64``, ``org.roaringbitmap.longlong.HighLowContainer``, ``org.roaringbitmap.art``. Nodes with
17 to 48 children number them in key order; Java may number them in the order they came, which reads the same.
"""

from __future__ import annotations

import struct

import numpy as np

from paimon_spark.errors import DataError
from paimon_spark.spec.roaring import Bytes, Container

_LEAF = 4
_BODY_BYTES = {0: 4, 1: 16, 2: 256, 3: 32}
_NOT_TRIMMED = 0xFE
_KEY_BYTES = 6


class Bitmap64:
    """A set of 64-bit numbers by their high 48 bits.

    Attributes:
        positions: For each key (6 bytes, big endian) the place of its container.
        containers: The containers by place; None where there is room.
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
