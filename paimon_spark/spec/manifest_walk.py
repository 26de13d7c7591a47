"""The names of the files in many manifests, without decoding the rest of their entries.

Expiry reads the changes of a thousand commits only for names. Where an Avro record starts is known only when the one
before it has been walked, but blocks are independent of each other: the first entry of all of them is walked at once,
then the second, each step a few numpy operations. `walk_entries` returns None where anything is unexpected; then
`avro_codec` decodes the manifests, which finds the error. `manifest_column_walk` takes all fields this way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_spark.spec.manifest import RecordedFile

Positions = npt.NDArray[np.int64]

_WANTED = ("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_FILE_NAME", "_EXTRA_FILES")
_WANTED_OR_NULL = ("_CREATION_TIME", "_FILE_SOURCE", "_EXTERNAL_PATH")
_OF_LISTS = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
_UNNAMED = ("", "_FILE")
_EMPTY_ARRAY_BYTES = 1
_PADDING = 16
_MOST_DIGITS = 10


class FileChange(NamedTuple):
    """The file that one entry of a manifest is about."""

    kind: int
    name: str
    partition: bytes
    bucket: int
    created_millis: int | None
    source: int | None
    extra_files: Sequence[str]
    external_path: str | None


class _CannotWalkError(Exception):
    """The bytes are not as expected."""


class Walk:
    """Blocks side by side (lanes), all walked to the same record.

    Attributes:
        data: the blocks.
        found: for each wanted field and record, by lane, where it starts and its value (a number's) or its length in
            bytes; both -1 where it is null. Fields of a record below `_FILE` have its name in front: `_KEY_STATS.…`.
    """

    def __init__(self, blocks: Sequence[bytes], records: int, wanted: Sequence[str]) -> None:
        self.data = b"".join(blocks) + bytes(_PADDING)
        self._bytes = np.frombuffer(self.data, np.uint8)
        sizes = np.array([len(block) for block in blocks], dtype=np.int64)
        self.ends = np.cumsum(sizes)
        self.at: Positions = self.ends - sizes
        shape = (2, len(blocks), records)
        self.found = {name: np.full(shape, -1, dtype=np.int64) for name in wanted}

    def step(self, schema: Any, lanes: Positions, record: int, name: str = "") -> None:
        """Skip one value in each lane."""
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, list):
            self._union(kind, lanes, record, name)
        elif kind == "record":
            prefix = f"{name}." if name not in _UNNAMED else ""
            for field in schema["fields"]:
                self.step(field["type"], lanes, record, prefix + field["name"])
        elif kind in ("int", "long"):
            start = self.at[lanes]
            self._note(name, lanes, record, start, self._number(lanes))
        elif kind in ("bytes", "string"):
            size = self._number(lanes)
            if size.size and int(size.min()) < 0:
                raise _CannotWalkError
            self._note(name, lanes, record, self.at[lanes], size)
            self.at[lanes] += size
        elif kind == "array":
            self._array(schema["items"], lanes, record, name)
        elif isinstance(kind, dict):
            self.step(kind, lanes, record, name)
        else:
            raise _CannotWalkError

    def _union(self, choices: list[Any], lanes: Positions, record: int, name: str) -> None:
        if len(choices) != 2 or "null" not in choices:
            raise _CannotWalkError
        null = choices.index("null")
        chosen = self._number(lanes)
        if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) <= 1:
            raise _CannotWalkError
        filled = chosen != null
        rest = lanes if filled.all() else lanes[filled]
        if rest.size:
            self.step(choices[1 - null], rest, record, name)

    def _array(self, items: Any, lanes: Positions, record: int, name: str) -> None:
        start, going = self.at[lanes], lanes
        while going.size:
            count = self._number(going)
            if (count < 0).any() or int(count.max()) > len(self.data):
                raise _CannotWalkError  # blocks that carry their size: no writer makes them
            if not self._skip_small_numbers(items, going, count):
                for number in range(int(count.max())):
                    self.step(items, going[count > number], record)
            going = going[count > 0]
        self._note(name, lanes, record, start, self.at[lanes] - start)

    def _skip_small_numbers(self, items: Any, lanes: Positions, count: Positions) -> bool:
        """Skip nullable numbers if none is null and each has one digit, as null counts mostly do."""
        each = int(count[0])
        if items not in (["null", "long"], ["long", "null"]) or each < 2 or (count != each).any():
            return False
        start = self.at[lanes]
        if (start + 2 * each > self.ends[lanes]).any():
            return False
        pairs = self._bytes[start[:, None] + np.arange(2 * each)]
        if (pairs >= 0x80).any() or (pairs[:, ::2] != 2 * items.index("long")).any():
            return False
        self.at[lanes] = start + 2 * each
        return True

    def _note(self, name: str, lanes: Positions, record: int, start: Positions, value: Positions) -> None:
        if name in self.found:
            self.found[name][0, lanes, record] = start
            self.found[name][1, lanes, record] = value

    def _place(self, lanes: Positions) -> Positions:
        at = self.at[lanes]
        if (at >= self.ends[lanes]).any():
            raise _CannotWalkError
        return at

    def _number(self, lanes: Positions) -> Positions:
        """Read a number in each lane and move past it."""
        at = self._place(lanes)
        byte = self._bytes[at]
        value = byte.astype(np.int64)
        more = byte >= 0x80
        digits = 1
        while more.any():  # most numbers have one digit
            if digits == _MOST_DIGITS:
                raise _CannotWalkError
            value &= ~(more.astype(np.int64) << (7 * digits))  # the bit that announced this digit
            at = at + more
            byte = np.where(more, self._bytes[np.minimum(at, len(self._bytes) - 1)], 0)
            value |= byte.astype(np.int64) << (7 * digits)
            more = byte >= 0x80
            digits += 1
        self.at[lanes] = at + 1
        return (value >> 1 & (2**63 - 1)) ^ -(value & 1)


def walk_entries(
    schema: Any, blocks: Sequence[bytes], counts: Sequence[int], version: int
) -> list[list[FileChange]] | None:
    """Return what the blocks of manifests say about files, None when they must be decoded otherwise.

    Args:
        schema: the Avro schema of an entry, with named types written out.
        blocks: uncompressed blocks, all of that schema.
        counts: records of each block.
        version: what the entries must give as their version.

    Returns:
        For each block the files of its entries.
    """
    walk = walk_blocks(schema, blocks, counts, version, (*_WANTED, *_WANTED_OR_NULL))
    if walk is None:
        return None
    inside = np.arange(max(counts, default=0)) < np.array(counts, dtype=np.int64)[:, None]
    value = {name: found[1][inside] for name, found in walk.found.items()}
    plain = (value["_EXTRA_FILES"] == _EMPTY_ARRAY_BYTES).all() and (value["_EXTERNAL_PATH"] == -1).all()
    if not plain or not np.isin(value["_KIND"], (0, 1)).all():
        return None
    starts = {name: found[0][inside].tolist() for name, found in walk.found.items()}
    try:
        entries = _changes(walk.data, starts, {name: numbers.tolist() for name, numbers in value.items()})
    except UnicodeDecodeError:
        return None
    ends = np.cumsum(counts).tolist()
    return [entries[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def walk_lists(
    schema: Any, blocks: Sequence[bytes], counts: Sequence[int], version: int
) -> list[list[RecordedFile]] | None:
    """Return the manifests that the blocks of manifest lists name, None when they must be decoded otherwise.

    Args:
        schema: the Avro schema of a record.
        blocks: uncompressed blocks, all of that schema.
        counts: records of each block.
        version: what the records must give as their version.
    """
    walk = walk_blocks(schema, blocks, counts, version, ("_VERSION", *_OF_LISTS))
    if walk is None:
        return None
    names, *numbers = (walk.found[field] for field in _OF_LISTS)
    found = []
    try:
        for lane, count in enumerate(counts):
            starts, lengths = names[:, lane, :count].tolist()
            texts = [walk.data[at : at + size].decode() for at, size in zip(starts, lengths, strict=True)]
            found.append(list(map(RecordedFile, texts, *(column[1, lane, :count].tolist() for column in numbers))))
    except UnicodeDecodeError:
        return None
    return found


def walk_blocks(
    schema: Any, blocks: Sequence[bytes], counts: Sequence[int], version: int, wanted: Sequence[str]
) -> Walk | None:
    """Walk all records of the blocks; None where anything is not as expected.

    Args:
        schema: the Avro schema of a record, with named types written out.
        blocks: uncompressed blocks, all of that schema.
        counts: records of each block.
        version: what the records must give as their version.
        wanted: fields to note, `_VERSION` among them.
    """
    records = max(counts, default=0)
    if len(counts) * records > 4 * sum(counts) + 1000:
        return None  # too uneven
    walk = Walk(blocks, records, wanted)
    numbers = np.array(counts, dtype=np.int64)
    try:
        for record in range(records):
            walk.step(schema, np.flatnonzero(numbers > record), record)
    except _CannotWalkError:
        return None
    versions = walk.found["_VERSION"][1][np.arange(records) < numbers[:, None]]
    return walk if (walk.at == walk.ends).all() and (versions == version).all() else None


def _changes(data: bytes, starts: dict[str, list[int]], values: dict[str, list[int]]) -> list[FileChange]:
    names = [data[at : at + size].decode() for at, size in zip(starts["_FILE_NAME"], values["_FILE_NAME"], strict=True)]
    partitions = [data[at : at + size] for at, size in zip(starts["_PARTITION"], values["_PARTITION"], strict=True)]
    created = _or_none(starts["_CREATION_TIME"], values["_CREATION_TIME"])
    sources = _or_none(starts["_FILE_SOURCE"], values["_FILE_SOURCE"])
    nothing = itertools.repeat(())
    columns = zip(
        values["_KIND"], names, partitions, values["_BUCKET"], created, sources, nothing, itertools.repeat(None)
    )
    return list(map(FileChange._make, columns))


def _or_none(starts: list[int], values: list[int]) -> list[int | None]:
    return [None if at < 0 else value for at, value in zip(starts, values, strict=True)]
