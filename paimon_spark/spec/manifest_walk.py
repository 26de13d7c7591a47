"""Entries of many manifests without an object per record: the blocks of all of them are walked side by side.

Expiry reads the changes of a thousand commits only for names (`walk_entries`, `walk_lists`); a plan over some 100
blocks takes whole columns (`walk_columns`), four times as fast as decoding records; `avro_codec` decides. All return
None where anything is unexpected: then the records are decoded, which finds the error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from paimon_spark.spec.avro_walk import BlockWalk, Path, Positions
from paimon_spark.spec.manifest import FileChange, RecordedFile
from paimon_spark.spec.manifest_columns import (
    ENTRY_FIELDS,
    FILE_FIELDS,
    NUMBERS,
    STATISTICS,
    STATISTICS_PARTS,
    Constant,
    ManifestColumns,
    Values,
)

DecodeArrays = Callable[[Any, Sequence[bytes]], list[list[Any]]]
"""Decodes the bytes of Avro arrays, given their schema."""

Blocks = Sequence[tuple[int, bytes]]
"""Number of records and uncompressed bytes of each block."""

_INT32 = np.iinfo(np.int32)
_WANTED = ("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_FILE_NAME", "_EXTRA_FILES")
_WANTED_OR_NULL = ("_CREATION_TIME", "_FILE_SOURCE", "_EXTERNAL_PATH")
_OF_LISTS = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
_EMPTY_ARRAY_BYTES = 1
_SAMPLE = 1000
"""Values by which to see whether many are equal."""


class ManifestWalk:
    """The values of all records of some blocks, by Avro key; statistics' as `_KEY_STATS._MIN_VALUES`."""

    def __init__(self, walk: BlockWalk) -> None:
        self._walk = walk
        self.data = walk.data
        self.block_ends = walk.block_ends
        self.records = walk.records

    def _path(self, name: str) -> Path | None:
        path = tuple(name.split("."))
        return next((found for found in (path, ("_FILE", *path)) if self._walk.has(found)), None)

    def starts(self, name: str) -> Positions:
        """Where each value starts; -1 where it is null or the files lack it."""
        path = self._path(name)
        return np.full(self.records, -1, np.int64) if path is None else self._walk.starts(path)

    def lengths(self, name: str) -> Positions:
        """The bytes of each text or array; -1 where it is null or the files lack it."""
        path = self._path(name)
        return np.full(self.records, -1, np.int64) if path is None else self._walk.lengths(path)

    def numbers(self, name: str) -> Positions:
        """Each number; -1 where it is null or the files lack it."""
        starts = self.starts(name)
        return np.where(starts < 0, -1, self._walk.longs_at(starts))

    def pieces(self, name: str) -> list[bytes]:
        """The bytes of each text or array; empty for null."""
        starts = self.starts(name)
        ends = starts + np.maximum(self.lengths(name), 0)
        data = self.data
        return [data[at:end] for at, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def walk_blocks(schema: Any, blocks: Blocks, version: int, wanted: Collection[str]) -> ManifestWalk | None:
    """Walk all records of the blocks; None where anything is not as expected.

    Args:
        schema: the Avro schema of a record, with named types written out.
        blocks: all of that schema.
        version: what the records must give as their version.
        wanted: fields to note, `_VERSION` among them.
    """
    counts = [count for count, _ in blocks]
    if len(counts) * max(counts, default=0) > 4 * sum(counts) + 1000:
        return None  # too uneven
    try:
        walk = ManifestWalk(BlockWalk(schema, blocks, lambda path: ".".join(path).removeprefix("_FILE.") in wanted))
        return walk if (walk.numbers("_VERSION") == version).all() else None
    except ValueError:
        return None


def walk_entries(schema: Any, blocks: Blocks, version: int) -> list[list[FileChange]] | None:
    """Return, for each block of manifests, what its entries say about files; None if they must be decoded otherwise."""
    walk = walk_blocks(schema, blocks, version, (*_WANTED, *_WANTED_OR_NULL))
    if walk is None:
        return None
    try:
        kinds = walk.numbers("_KIND")
        plain = (walk.lengths("_EXTRA_FILES") == _EMPTY_ARRAY_BYTES).all()
        if not plain or (walk.starts("_EXTERNAL_PATH") >= 0).any() or not np.isin(kinds, (0, 1)).all():
            return None
        columns = zip(
            kinds.tolist(),
            [name.decode() for name in walk.pieces("_FILE_NAME")],
            walk.pieces("_PARTITION"),
            walk.numbers("_BUCKET").tolist(),
            _or_none(walk.starts("_CREATION_TIME"), walk.numbers("_CREATION_TIME").tolist()),
            _or_none(walk.starts("_FILE_SOURCE"), walk.numbers("_FILE_SOURCE").tolist()),
            itertools.repeat(()),
            itertools.repeat(None),
        )
    except ValueError:
        return None
    return _by_block(blocks, list(map(FileChange._make, columns)))


def walk_lists(schema: Any, blocks: Blocks, version: int) -> list[list[RecordedFile]] | None:
    """Return the manifests that each block of manifest lists names; None when they must be decoded otherwise."""
    walk = walk_blocks(schema, blocks, version, ("_VERSION", *_OF_LISTS))
    if walk is None:
        return None
    try:
        names = [name.decode() for name in walk.pieces(_OF_LISTS[0])]
        numbers = [walk.numbers(name).tolist() for name in _OF_LISTS[1:]]
    except ValueError:
        return None
    return _by_block(blocks, list(map(RecordedFile, names, *numbers)))


def _by_block(blocks: Blocks, records: list[Any]) -> list[list[Any]]:
    ends = list(itertools.accumulate(count for count, _ in blocks))
    return [records[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _or_none(starts: Positions, found: list[Any]) -> list[Any]:
    if int(starts.min(initial=0)) >= 0:
        return found
    return [None if at < 0 else value for at, value in zip(starts.tolist(), found, strict=True)]


def walk_columns(
    schema: Any, blocks: Blocks, version: int, decode_arrays: DecodeArrays, *, statistics: bool
) -> ManifestColumns | None:
    """Return the entries of the blocks, None when they must be decoded otherwise.

    Args:
        schema: the Avro schema of an entry, with named types written out.
        blocks: all of that schema.
        version: what the entries must give as their version.
        decode_arrays: as its type says.
        statistics: whether the statistics of keys and values are wanted.
    """
    types = _types_of(schema)
    parts = [f"{name}.{part}" for name in STATISTICS for part in STATISTICS_PARTS] if statistics else []
    wanted = {name for name in (*ENTRY_FIELDS, *FILE_FIELDS, *parts) if name in types}
    walk = walk_blocks(schema, blocks, version, {"_VERSION", *wanted})
    if walk is None:
        return None
    columns = _Columns(walk, decode_arrays)
    try:
        values = {name: columns.column(name, types.get(name)) for name in (*ENTRY_FIELDS, *FILE_FIELDS, *parts)}
    except ValueError:
        return None
    return ManifestColumns(values, walk.records) if _is_sound(values) else None


def _types_of(schema: Any) -> dict[str, Any]:
    """The type of each field by the name that the walk gives it; one that may be null as its other type."""
    types: dict[str, Any] = {}
    for field in _fields(schema):
        if field["name"] != "_FILE":
            types[field["name"]] = field["type"]
            continue
        for inner in _fields(field["type"]):
            types[inner["name"]] = inner["type"]
            if inner["name"] in STATISTICS:
                types.update({f"{inner['name']}.{part['name']}": part["type"] for part in _fields(inner["type"])})
    return {name: _not_null(kind) for name, kind in types.items()}


def _not_null(kind: Any) -> Any:
    if isinstance(kind, list):
        kind = next((choice for choice in kind if choice != "null"), kind)
    return kind["type"] if isinstance(kind, dict) and isinstance(kind["type"], dict | list) else kind


def _fields(kind: Any) -> list[Any]:
    kind = _not_null(kind)
    return kind.get("fields", []) if isinstance(kind, dict) else []


class _Columns:
    """What a walk has found, column by column."""

    def __init__(self, walk: ManifestWalk, decode_arrays: DecodeArrays) -> None:
        self._walk = walk
        self._decode_arrays = decode_arrays

    def column(self, name: str, kind: Any) -> Values:
        """The values of one field; of one that the file lacks all None.

        Raises:
            ValueError: a value is not as expected.
        """
        if kind is None:
            return Constant(None)
        starts = self._walk.starts(name)
        if name in NUMBERS:
            if len(starts) and int(starts.min()) < 0:
                raise ValueError("a required number is null")
            return self._walk.numbers(name)
        plain = kind["type"] if isinstance(kind, dict) else kind
        nothing = () if name.endswith("_NULL_COUNTS") else None
        if not len(starts) or int(starts.max()) < 0:
            return Constant(nothing)
        if plain in ("int", "long"):
            numbers = self._walk.numbers(name)
            if int(starts.min()) >= 0 and int(numbers.min()) == int(numbers.max()):
                return Constant(int(numbers[0]))
            return _or_none(starts, numbers.tolist())
        pieces = self._walk.pieces(name)
        if plain == "array":
            return self._arrays(kind, pieces, nothing)
        if plain == "string":
            return _or_none(starts, [piece.decode() for piece in pieces])
        if len(set(pieces[:_SAMPLE])) > _SAMPLE // 2:
            return _or_none(starts, pieces)  # keys mostly differ
        shared, distinct = self._shared(pieces)
        return Constant(shared[0]) if distinct == 1 and int(starts.min()) >= 0 else _or_none(starts, shared)

    @staticmethod
    def _shared(pieces: list[bytes]) -> tuple[list[bytes], int]:
        """Share equal values as one object: most files have the same partition, many the same statistics.

        Returns:
            the values, and how many differ.
        """
        known: dict[bytes, bytes] = {}
        return [known.setdefault(piece, piece) for piece in pieces], len(known)

    def _arrays(self, kind: Any, pieces: list[bytes], nothing: tuple[()] | None) -> Values:
        distinct = [piece for piece in dict.fromkeys(pieces) if piece]
        known: dict[bytes, Any] = dict(zip(distinct, map(tuple, self._decode_arrays(kind, distinct)), strict=True))
        known[b""] = nothing
        if len(distinct) == 1 and b"" not in pieces:
            return Constant(known[distinct[0]])
        return [known[piece] for piece in pieces]


def _is_sound(values: dict[str, Values]) -> bool:
    """Check the ranges of the numbers; turn them into arrays of their types."""
    for name, kind in NUMBERS.items():
        numbers = np.asarray(values[name])
        if not len(numbers):
            continue
        least, most = int(numbers.min()), int(numbers.max())
        if kind is np.int8 and not 0 <= least <= most <= 1:
            return False
        if kind is np.int32 and not _INT32.min <= least <= most <= _INT32.max:
            return False
        if name in ("_FILE_SIZE", "_ROW_COUNT") and least < 0:
            return False
        values[name] = Constant(least) if least == most else numbers.astype(kind)
    required = ("_PARTITION", "_FILE_NAME", "_MIN_KEY", "_MAX_KEY", "_EXTRA_FILES")
    return not any(_has_null(values[name]) for name in required)


def _has_null(values: Values) -> bool:
    return values.value is None if isinstance(values, Constant) else None in values
