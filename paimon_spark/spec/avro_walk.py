"""Records of many Avro blocks, found without a Python object per value: the blocks are walked side by side.

Where a record starts is known only when the one before it has been walked, but blocks are independent. So the first
record of every block is walked at once, then the second of every block, and so on; each step is a few numpy operations
over all blocks. That gives where each value starts, from which whole columns are decoded at once. (Avro 1.11, "Binary
Encoding".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Path = tuple[str, ...]
"""Names of the fields from the top-level record to a field; it itself has the empty path."""

FIXED_BYTES: Final = {"boolean": 1, "float": 4, "double": 8}
_NUMBERS: Final = ("int", "long")
_TEXTS: Final = ("bytes", "string")
_NO_VALUE: Final = -1
_MOST_DIGITS: Final = 10
_PADDING_PER_FIELD: Final = 10
"""Bytes behind the last block for each field: a damaged record cannot lead further in one step."""


@dataclass(slots=True)
class Node:
    """One field of the schema, and where its values are.

    Attributes:
        kind: `int`, `long`, `bytes`, `string`, `boolean`, `float`, `double`, `record` or `array`.
        path: as its type says.
        null_tag: the byte that says null (0 or 2); None where the field is no union.
        children: fields of a record; the items of an array.
        starts: where its values begin, by record and lane, -1 for null; None where nobody wants to know.
        lengths: bytes of its values, for texts and arrays.
    """

    kind: str
    path: Path
    null_tag: int | None
    children: list[Node] = field(default_factory=list)
    starts: npt.NDArray[np.signedinteger[Any]] | None = None
    lengths: npt.NDArray[np.signedinteger[Any]] | None = None

    def all(self) -> Iterator[Node]:
        """This field and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def schema_node(schema: Any, path: Path = (), null_tag: int | None = None) -> Node:
    """Return the fields of a schema whose named types are written out.

    Raises:
        ValueError: it has types that cannot be walked, such as maps.
    """
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        if null_tag is not None or len(kind) != 2 or "null" not in kind:
            raise ValueError("an Avro union other than of null and one type")
        null = kind.index("null")
        return schema_node(kind[1 - null], path, 2 * null)
    if isinstance(kind, dict):
        return schema_node(kind, path, null_tag)
    children: list[Node] = []
    if kind == "record":
        children = [schema_node(part["type"], (*path, part["name"])) for part in schema["fields"]]
    elif kind == "array":
        children = [schema_node(schema["items"], (*path, "[]"))]
    elif kind not in (*_NUMBERS, *_TEXTS, *FIXED_BYTES):
        raise ValueError(f"the Avro type {kind!r} cannot be walked")
    return Node(kind, path, null_tag, children)


class BlockWalk:
    """All records of some blocks, walked.

    Attributes:
        root: the fields of a record.
        data: the blocks, one after the other, and zeros.
        block_ends: where each block ends in `data`.
    """

    def __init__(self, schema: Any, blocks: Sequence[tuple[int, bytes]], wanted: Callable[[Path], bool]) -> None:
        """Walk the records.

        Args:
            schema: the record's, with named types written out, or its union with null.
            blocks: number of records and uncompressed bytes of each block.
            wanted: whether the values of a field are asked for, by its path.

        Raises:
            ValueError: the bytes are no such records.
        """
        self.root = schema_node(schema)
        nodes = list(self.root.all())
        padding = _PADDING_PER_FIELD * (1 + len(nodes))
        counts = np.array([count for count, _ in blocks], np.int64)
        sizes = np.array([len(data) for _, data in blocks], np.int64)
        self.data = b"".join([*(data for _, data in blocks), bytes(padding)])
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.block_ends = np.cumsum(sizes)
        self._end = len(self.data) - padding
        # Lanes that run out of the data are parked here, where they do not look like lanes that ended correctly.
        self._beyond = self._end + 1
        # Lanes with most records first: those still walking are always the first ones.
        order = np.argsort(-counts, kind="stable")
        records, lanes = int(counts.max(initial=0)), len(counts)
        form = np.int32 if len(self.data) < 2**31 else np.int64
        for node in nodes:
            if wanted(node.path):
                node.starts = np.full((records, lanes), _NO_VALUE, form)
                if node.kind in (*_TEXTS, "array"):
                    node.lengths = np.full((records, lanes), _NO_VALUE, form)
        self._nodes = {node.path: node for node in nodes}
        if (self._run(counts[order], (self.block_ends - sizes)[order]) != self.block_ends[order]).any():
            raise ValueError("a block is longer or shorter than its records")
        lane_of = np.empty_like(order)
        lane_of[order] = np.arange(lanes)
        self._rows = _flat_index(counts, lane_of)
        self.records = len(self._rows)

    def has(self, path: Path) -> bool:
        """Whether the schema has this field and its values were asked for."""
        return path in self._nodes and self._nodes[path].starts is not None

    def starts(self, path: Path) -> Positions:
        """Where the value of a field starts in each record, in the order of the blocks; -1 for null."""
        starts = self._nodes[path].starts
        if starts is None:
            raise KeyError(path)
        return starts.ravel()[self._rows].astype(np.int64)

    def lengths(self, path: Path) -> Positions:
        """The bytes of a text or an array in each record, without a text's own length; -1 for null."""
        lengths = self._nodes[path].lengths
        if lengths is None:
            raise KeyError(path)
        return lengths.ravel()[self._rows].astype(np.int64)

    def longs_at(self, starts: Positions) -> Positions:
        """The numbers that begin at some positions; 0 where the position is -1."""
        return decode_longs(self.bytes, np.where(starts < 0, self._end, starts))  # zeros stand behind the last block

    def _run(self, counts: Positions, starts: Positions) -> Positions:
        """Walk all records; return where each lane ends."""
        at = starts.copy()
        records = int(counts[0]) if len(counts) else 0
        active = np.searchsorted(-counts, -np.arange(records), side="left")
        for record, lanes in enumerate(active.tolist()):
            at[:lanes] = np.minimum(self._step(self.root, at[:lanes], None, record), self._beyond)
        return at

    def _step(self, node: Node, at: Positions, lanes: Positions | None, record: int) -> Positions:
        """Past one value in each lane; `lanes` None: the first ones."""
        if node.null_tag is None:
            return self._value(node, at, lanes, record)
        tag = self.bytes[at]
        here = tag == 2 - node.null_tag
        at = at + 1
        if bool(here.all()):
            return self._value(node, at, lanes, record)
        if not (here | (tag == node.null_tag)).all():
            raise ValueError("a union has a branch that its schema does not have")
        some = np.flatnonzero(here)
        if some.size:
            at[some] = self._value(node, at[some], some if lanes is None else lanes[some], record)
        return at

    def _value(self, node: Node, at: Positions, lanes: Positions | None, record: int) -> Positions:
        if node.kind in _TEXTS:
            return self._past_text(node, at, lanes, record)
        _note(node.starts, at, lanes, record)
        if node.kind == "record":
            for child in node.children:
                at = self._step(child, at, lanes, record)
            return at
        if node.kind == "array":
            after = self._past_array(node.children[0], at)
            _note(node.lengths, after - at, lanes, record)
            return after
        width = FIXED_BYTES.get(node.kind)
        return self._past_number(at) if width is None else at + width

    def _past_text(self, node: Node, at: Positions, lanes: Positions | None, record: int) -> Positions:
        length, at = self._number(at)
        if length.size and int(length.min()) < 0:
            raise ValueError("a length is negative")
        length = np.minimum(length, self._beyond)
        _note(node.starts, at, lanes, record)
        _note(node.lengths, length, lanes, record)
        past: Positions = np.minimum(at + length, self._beyond)
        return past

    def _past_array(self, items: Node, at: Positions) -> Positions:
        at = at.copy()
        going = np.arange(len(at))
        while going.size:
            count, after = self._number(self._inside(at[going]))
            if int(count.min()) < 0 or int(count.max()) > len(self.data):
                raise ValueError("an array's block with its size, or too large: no writer makes them")
            at[going] = self._past_items(items, after, count)
            going = going[count > 0]
        return at

    def _past_items(self, items: Node, at: Positions, count: Positions) -> Positions:
        past = self._past_small_numbers(items, at, count)
        if past is not None:
            return past
        for number in range(int(count.max())):
            some = np.flatnonzero(count > number)
            at[some] = self._step(items, self._inside(at[some]), None, 0)
        return at

    def _past_small_numbers(self, items: Node, at: Positions, count: Positions) -> Positions | None:
        """Past nullable numbers if none is null and each has one digit, as null counts mostly do; else None."""
        each = int(count[0])
        if items.null_tag is None or items.kind not in _NUMBERS or each < 2 or (count != each).any():
            return None
        after = at + 2 * each
        if int(after.max()) > self._end:
            return None
        pairs = self.bytes[at[:, None] + np.arange(2 * each)]
        return None if (pairs >= 0x80).any() or (pairs[:, ::2] != 2 - items.null_tag).any() else after

    def _inside(self, at: Positions) -> Positions:
        if int(at.max()) >= self._end:
            raise ValueError("an array does not end")
        return at

    def _past_number(self, at: Positions) -> Positions:
        more = self.bytes[at] >= 0x80
        after = at + 1
        digits = 1
        while more.any():
            if digits == _MOST_DIGITS:
                raise ValueError("a number does not end")
            following = self.bytes[after] >= 0x80
            after = after + more
            more &= following
            digits += 1
        return after

    def _number(self, at: Positions) -> tuple[Positions, Positions]:
        first = self.bytes[at]
        if first.max(initial=0) < 0x80:
            value = first.astype(np.int64)
            return (value >> 1) ^ -(value & 1), at + 1
        return decode_longs(self.bytes, at), self._past_number(at)


def _note(
    found: npt.NDArray[np.signedinteger[Any]] | None, values: Positions, lanes: Positions | None, record: int
) -> None:
    if found is None:
        return
    if lanes is None:
        found[record, : len(values)] = values
    else:
        found[record, lanes] = values


def decode_longs(data: Bytes, at: Positions) -> Positions:
    """Zig-zag varints that begin at some positions (there must be 10 bytes behind each).

    Raises:
        ValueError: one is longer than 10 bytes.
    """
    byte = data[at].astype(np.uint64)
    value = byte & np.uint64(127)
    more = np.flatnonzero(byte >= 128)
    for n in range(1, _MOST_DIGITS):
        if not len(more):
            break
        byte = data[at[more] + n].astype(np.uint64)
        value[more] |= (byte & np.uint64(127)) << np.uint64(7 * n)
        more = more[byte >= 128]
    if len(more):
        raise ValueError("a number does not end")
    signed = (value >> np.uint64(1)).view(np.int64)
    return signed ^ -(value & np.uint64(1)).view(np.int64)


def _flat_index(counts: Positions, lane_of: Positions) -> Positions:
    """Positions in a (record, lane) matrix of all records in the order of the blocks."""
    firsts = np.cumsum(counts) - counts
    steps = np.arange(counts.sum()) - np.repeat(firsts, counts)
    return steps * len(counts) + np.repeat(lane_of, counts)
