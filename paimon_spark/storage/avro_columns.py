"""Avro blocks into columns without a Python object per value: many blocks are walked in step.

Where a record starts is known only when the one before it has been walked, but blocks are independent. So the first
record of every block is walked at once, then the second of every block, and so on; each step is a few numpy operations
over all blocks. That gives where each value starts, and then whole columns are decoded at once. Schemas with arrays or
maps, and files of few blocks, are fastavro's (`supported`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FEWEST_LANES: Final = 16
"""Below this many records per step, fastavro is faster."""
_PADDING_PER_FIELD: Final = 10
"""Bytes behind the last block for each field: a damaged record cannot lead further in one step."""
_FIXED: Final = {"boolean": 1, "float": 4, "double": 8}
_NO_VALUE: Final = -1


@dataclass(slots=True)
class _Node:
    """One field of the schema while blocks are walked.

    Attributes:
        kind: `int`, `long`, `bytes`, `boolean`, `float`, `double` or `record`.
        null_tag: The byte that says null (0 or 2); None where the field is no union.
        children: Fields of a record.
        wanted: Whether its values are asked for.
        starts: Where its values begin, by step and lane; -1 for null (records: 0 or -1).
        lengths: Bytes of its values, for `bytes`.
    """

    kind: str
    null_tag: int | None
    children: list[_Node]
    wanted: bool
    starts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]


def supported(plain: Any) -> bool:
    """Whether a schema (as `avro_file_schema.Decoded.plain`) has only records and atoms."""
    if isinstance(plain, list):
        return all(supported(part) for part in plain)
    if isinstance(plain, dict):
        return plain["type"] == "record" and all(supported(field["type"]) for field in plain["fields"])
    return True


def pays(counts: Sequence[int]) -> bool:
    """Whether blocks with these numbers of records are many and even enough to be walked in step."""
    longest, rows = max(counts, default=0), sum(counts)
    return longest * FEWEST_LANES <= rows and longest * len(counts) <= 4 * rows


def decode_blocks(
    plain: Any, storage: pa.StructType, names: Sequence[str], blocks: Sequence[tuple[int, bytes]]
) -> list[pa.Array]:
    """Columns of all records of some blocks, in order.

    Args:
        plain: The top-level record's schema (see `supported`), or its union with null.
        storage: Its Arrow type.
        names: The wanted columns.
        blocks: Number of records and bytes of each block.

    Raises:
        ValueError: the bytes are no such records.
    """
    counts = np.array([count for count, _ in blocks], np.int64)
    ends = np.cumsum([len(data) for _, data in blocks])
    starts = ends - [len(data) for _, data in blocks]
    padding = _PADDING_PER_FIELD * (2 + _fields_of(plain))
    buffer = b"".join([*(data for _, data in blocks), bytes(padding)])
    # Lanes with most records first: those still walking are always the first ones.
    order = np.argsort(-counts, kind="stable")
    walk = _Walk(np.frombuffer(buffer, np.uint8), counts[order], len(buffer) - padding)
    root = _node(plain, set(names), walk.shape)
    if walk.run(root, starts[order]).tolist() != ends[order].tolist():
        raise ValueError("a block is longer or shorter than its records")
    lane_of = np.empty_like(order)
    lane_of[order] = np.arange(len(order))
    rows = _flat_index(counts, lane_of, walk.shape[1])
    if root.null_tag is not None and (root.starts.ravel()[rows] < 0).any():
        raise ValueError("a record is null")
    children = {field["name"]: node for field, node in zip(_record(plain)["fields"], root.children, strict=True)}
    return [_column(children[name], storage.field(name).type, rows, walk, buffer) for name in names]


def _fields_of(plain: Any) -> int:
    record = _record(plain)
    return 1 + sum(_fields_of(field["type"]) for field in record["fields"]) if isinstance(record, dict) else 1


def _record(plain: Any) -> Any:
    return next(part for part in plain if part != "null") if isinstance(plain, list) else plain


def _node(plain: Any, names: set[str] | None, shape: tuple[int, int]) -> _Node:
    """The field's node; `names` are the wanted fields of a record, None for all, the empty set for none."""
    null_tag = None if not isinstance(plain, list) else 2 * plain.index("null")
    inner = _record(plain) if isinstance(plain, list) else plain
    wanted = names is None or bool(names)
    nothing = np.empty((0, 0), np.int32)
    if isinstance(inner, dict):
        children = [
            _node(field["type"], None if names is None or field["name"] in names else set(), shape)
            for field in inner["fields"]
        ]
        stored = np.empty(shape, np.int32) if null_tag is not None and wanted else nothing
        return _Node("record", null_tag, children, wanted, stored, nothing)
    return _Node(
        inner,
        null_tag,
        [],
        wanted,
        np.empty(shape, np.int32) if wanted else nothing,
        np.empty(shape, np.int32) if wanted and inner == "bytes" else nothing,
    )


class _Walk:
    """Walks the records of all lanes, one step at a time."""

    def __init__(self, data: Bytes, counts: Positions, end: int) -> None:
        self.data = data
        self.end = end
        # Lanes that run out of the data are parked here, where they do not look like lanes that ended correctly.
        self.beyond = end + 1
        self.counts = counts
        self.shape = (int(counts[0]) if len(counts) else 0, len(counts))

    def run(self, root: _Node, starts: Positions) -> Positions:
        """Walk all records; gives where each lane ends."""
        at = starts.copy()
        active = np.searchsorted(-self.counts, -np.arange(self.shape[0]), side="left")
        for step, lanes in enumerate(active.tolist()):
            at[:lanes] = np.minimum(self._value(root, at[:lanes], None, step), self.beyond)
        return at

    def _value(self, node: _Node, at: Positions, present: Mask | None, step: int) -> Positions:
        """Past the value at each position; only lanes where `present` move."""
        if node.null_tag is not None:
            tag = self.data[at]
            here = tag == 2 - node.null_tag
            if present is not None:
                here &= present
            elif here.all():
                here = None
            if here is not None and not (here | (tag == node.null_tag) | _absent(present)).all():
                raise ValueError("a union has a branch that its schema does not have")
            at = at + 1 if present is None else at + present
            present = here
        if node.kind == "record":
            if node.starts.size:
                node.starts[step, : len(at)] = 0 if present is None else np.where(present, 0, _NO_VALUE)
            for child in node.children:
                at = self._value(child, at, present, step)
            return at
        after = self._past(node, at, present, step)
        if node.wanted and node.kind != "bytes":
            node.starts[step, : len(at)] = at if present is None else np.where(present, at, _NO_VALUE)
        return after if present is None else np.where(present, after, at)

    def _past(self, node: _Node, at: Positions, present: Mask | None, step: int) -> Positions:
        width = _FIXED.get(node.kind)
        if width is not None:
            return at + width
        if node.kind != "bytes":
            return self._past_number(at)
        length, at = self._number(at)
        if ((length < 0) if present is None else (length < 0) & present).any():
            raise ValueError("a length is negative")
        after = np.minimum(at + np.minimum(length, self.beyond), self.beyond)
        if node.wanted:
            node.starts[step, : len(at)] = at if present is None else np.where(present, at, _NO_VALUE)
            node.lengths[step, : len(at)] = np.minimum(length, self.beyond)
        return after

    def _past_number(self, at: Positions) -> Positions:
        more = self.data[at] >= 128
        after = at + 1
        for _ in range(10):
            if not more.any():
                return after
            following = self.data[after] >= 128
            after = after + more
            more &= following
        return after

    def _number(self, at: Positions) -> tuple[Positions, Positions]:
        first = self.data[at]
        if first.max(initial=0) < 128:
            value = first.astype(np.int64)
            return (value >> 1) ^ -(value & 1), at + 1
        return decode_longs(self.data, at), self._past_number(at)


def _absent(present: Mask | None) -> Mask | np.bool_:
    return np.False_ if present is None else ~present


def decode_longs(data: Bytes, at: Positions) -> Positions:
    """Zig-zag varints that begin at some positions (there must be 10 bytes behind each)."""
    byte = data[at].astype(np.uint64)
    value = byte & np.uint64(127)
    more = np.flatnonzero(byte >= 128)
    for n in range(1, 10):
        if not len(more):
            break
        byte = data[at[more] + n].astype(np.uint64)
        value[more] |= (byte & np.uint64(127)) << np.uint64(7 * n)
        more = more[byte >= 128]
    if len(more):
        raise ValueError("a number does not end")
    signed = (value >> np.uint64(1)).view(np.int64)
    return signed ^ -(value & np.uint64(1)).view(np.int64)


def _flat_index(counts: Positions, lane_of: Positions, lanes: int) -> Positions:
    """Positions in a (step, lane) matrix of all records in the order of the blocks."""
    firsts = np.cumsum(counts) - counts
    steps = np.arange(counts.sum()) - np.repeat(firsts, counts)
    return steps * lanes + np.repeat(lane_of, counts)


def _column(node: _Node, storage: pa.DataType, rows: Positions, walk: _Walk, buffer: bytes) -> pa.Array:
    if node.kind == "record":
        hidden = node.starts.ravel()[rows] < 0 if node.starts.size else None
        children = [
            _column(child, storage.field(at).type, rows, walk, buffer) for at, child in enumerate(node.children)
        ]
        mask = pa.array(hidden) if hidden is not None and hidden.any() else None
        return pa.StructArray.from_arrays(children, fields=list(storage), mask=mask)
    starts = node.starts.ravel()[rows].astype(np.int64)
    null = starts < 0
    nulls = null if null.any() else None
    at = starts if nulls is None else np.where(null, walk.end, starts)
    if node.kind == "bytes":
        return _texts(starts, node.lengths.ravel()[rows], nulls, buffer, storage)
    if node.kind == "boolean":
        return pa.array(walk.data[at] == 1, mask=nulls)
    if node.kind in ("float", "double"):
        width = _FIXED[node.kind]
        raw = walk.data[at[:, None] + np.arange(width)]
        return pa.array(raw.view("<f4" if width == 4 else "<f8")[:, 0], mask=nulls, from_pandas=False)
    # Nulls read the zeros behind the last block.
    return pa.array(decode_longs(walk.data, at), pa.int64(), mask=nulls).cast(storage)


def _texts(
    starts: Positions, lengths: npt.NDArray[np.int32], nulls: Mask | None, buffer: bytes, storage: pa.DataType
) -> pa.Array:
    """Slices of a buffer as an array: values and gaps between them are one array, and every second is taken."""
    rows = len(starts)
    ends = starts + lengths
    if nulls is not None:
        ends = np.maximum.accumulate(np.where(nulls, 0, ends))
        starts = np.where(nulls, ends, starts)
    offsets = np.empty(2 * rows, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    pieces = pa.Array.from_buffers(
        pa.binary(), max(2 * rows - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    taken = pieces.take(pa.array(np.arange(0, 2 * rows, 2), mask=nulls))
    return taken if storage == pa.binary() else taken.cast(storage)


def groups_of_blocks(blocks: Iterator[tuple[int, bytes]], most_bytes: int) -> Iterator[list[tuple[int, bytes]]]:
    """Consecutive blocks together, up to some bytes (at least one block)."""
    group: list[tuple[int, bytes]] = []
    held = 0
    for block in blocks:
        if group and held + len(block[1]) > most_bytes:
            yield group
            group, held = [], 0
        group.append(block)
        held += len(block[1])
    if group:
        yield group
