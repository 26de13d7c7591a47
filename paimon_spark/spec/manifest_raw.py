"""Entries of manifests as raw bytes, for merging manifests: an entry that stays is copied, not decoded.

Only the file's identity and the fields that a manifest list sums up are read of each entry (`manifest_walk`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import metadata_schemas
from paimon_spark.spec.avro_codec import decode_manifest, encode_entries
from paimon_spark.spec.avro_container import AvroBlocks, read_container, read_containers
from paimon_spark.spec.manifest import MANIFEST_VERSION, ManifestEntry
from paimon_spark.spec.manifest_walk import ManifestWalk, walk_blocks
from paimon_spark.spec.metadata_schemas import SchemaCheck, plain_schema

Positions = npt.NDArray[np.int64]
Identity = tuple[Any, ...]
"""Identity of a data file: partition, bucket, level, name; and extra files, index and path, if any."""

_NUMBERS = ("_KIND", "_BUCKET", "_LEVEL", "_SCHEMA_ID", "_ROW_COUNT", "_FIRST_ROW_ID")
_RARE = ("_EXTRA_FILES", "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")
_EMPTY_ARRAY_BYTES = 1
_WANTED = ("_VERSION", "_PARTITION", "_FILE_NAME", *_NUMBERS, *_RARE)
_AT_ONCE_BYTES = 16 << 20
_FEWEST_LANES = 48
"""Blocks side by side from which walking them is faster than decoding their records."""


@dataclass(frozen=True, slots=True)
class RawEntries:
    """Some entries in their order, all of one Avro schema."""

    schema: bytes
    """The schema as it stands in the files' header."""
    data: bytes
    starts: Positions
    """Where each entry starts in `data`, shape (entries,)."""
    ends: Positions
    numbers: dict[str, Positions]
    """Kind, bucket, level, schema id, row count and first row id (-1 for none) by Avro name."""
    identities: list[Identity]

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def kinds(self) -> Positions:
        """`FileKind` of each entry."""
        return self.numbers["_KIND"]

    def take(self, positions: Sequence[int]) -> RawEntries:
        """Select entries."""
        at = np.array(positions, dtype=np.int64)
        numbers = {name: values[at] for name, values in self.numbers.items()}
        identities = [self.identities[i] for i in positions]
        return RawEntries(self.schema, self.data, self.starts[at], self.ends[at], numbers, identities)

    def encoded(self, start: int, end: int) -> bytes:
        """The bytes of the entries from `start` to `end`."""
        starts, ends = self.starts[start:end], self.ends[start:end]
        if (starts[1:] == ends[:-1]).all():
            return self.data[starts[0] : ends[-1]] if len(starts) else b""
        return b"".join(self.data[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True))


def decode_raw(files: Iterable[tuple[str, bytes]]) -> Iterator[RawEntries]:
    """Read the entries of many manifests in their order; some of them come together.

    Args:
        files: path and bytes of each.

    Raises:
        CorruptTableError: a file is damaged.
    """
    pending: list[tuple[str, bytes]] = []
    size = 0
    for path, data in files:
        pending.append((path, data))
        size += len(data)
        if size * 8 >= _AT_ONCE_BYTES:  # compressed to about an eighth
            yield from _some(pending)
            pending, size = [], 0
    yield from _some(pending)


def _some(files: Sequence[tuple[str, bytes]]) -> Iterator[RawEntries]:
    """The entries of some files, those with one schema and about as many entries in a block walked together."""
    contents = [(path, data, content) for (path, data), content in zip(files, _containers(files), strict=True)]
    at = 0
    while at < len(contents):
        end = at + 1
        kind = _alike(contents[at][2])
        while end < len(contents) and _alike(contents[end][2]) == kind:
            end += 1
        part = contents[at:end]
        found = _walked([content for *_, content in part])
        if found is not None:
            yield found
        else:
            yield from (raw_entries_of(decode_manifest(data, path=path)) for path, data, _ in part)
        at = end


def _containers(files: Sequence[tuple[str, bytes]]) -> list[AvroBlocks]:
    return read_containers(files) if len(files) > 1 else [read_container(data, path=path) for path, data in files]


def _alike(content: AvroBlocks) -> tuple[bytes, int]:
    return content.schema_json, max((count for count, _ in content.blocks), default=0).bit_length()


def _walked(contents: Sequence[AvroBlocks]) -> RawEntries | None:
    """Entries whose bytes are found by walking; None where that is not possible, or not worth it."""
    blocks = [block for content in contents for block in content.blocks if block[0]]
    if len(blocks) < _FEWEST_LANES:
        return None
    text = contents[0].schema_json
    try:
        schema = json.loads(text)
        SchemaCheck().check(schema, metadata_schemas.MANIFEST_WITH_COLUMN_SEQUENCES)
    except (ValueError, RecursionError, CorruptTableError):
        return None  # decoding says what is wrong
    walk = walk_blocks(plain_schema(schema), blocks, MANIFEST_VERSION, _WANTED)
    if walk is None:
        return None
    plain = (walk.lengths("_EXTRA_FILES") == _EMPTY_ARRAY_BYTES).all()
    if not plain or any((walk.starts(name) >= 0).any() for name in ("_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")):
        return None
    try:
        numbers = {name: walk.numbers(name) for name in _NUMBERS}
        identities = _identities(walk, numbers)
    except ValueError:
        return None
    if not np.isin(numbers["_KIND"], (0, 1)).all():
        return None
    starts = walk.starts("_VERSION")
    after = np.append(starts[1:], 0)
    after[np.cumsum([count for count, _ in blocks]) - 1] = walk.block_ends
    return RawEntries(text, walk.data, starts, after, numbers, identities)


def _identities(walk: ManifestWalk, numbers: dict[str, Positions]) -> list[Identity]:
    names = [name.decode() for name in walk.pieces("_FILE_NAME")]
    same: dict[bytes, bytes] = {}
    partitions = [same.setdefault(found, found) for found in walk.pieces("_PARTITION")]
    return list(zip(partitions, numbers["_BUCKET"].tolist(), numbers["_LEVEL"].tolist(), names, strict=True))


def raw_entries_of(entries: Sequence[ManifestEntry]) -> RawEntries:
    """Encode entries one by one."""
    schema, data, ends = encode_entries(entries)
    row_ids = [-1 if e.file.first_row_id is None else e.file.first_row_id for e in entries]
    columns = zip(
        *(
            (int(e.kind), e.bucket, e.file.level, e.file.schema_id, e.file.row_count, row_id)
            for e, row_id in zip(entries, row_ids, strict=True)
        ),
        strict=True,
    )
    numbers = {name: np.array(values, dtype=np.int64) for name, values in zip(_NUMBERS, columns, strict=True)}
    if not entries:
        numbers = {name: np.empty(0, dtype=np.int64) for name in _NUMBERS}
    borders = np.array([0, *ends], dtype=np.int64)
    identities = [_identity(entry) for entry in entries]
    return RawEntries(schema, data, borders[:-1], borders[1:], numbers, identities)


def _identity(entry: ManifestEntry) -> Identity:
    file = entry.file
    plain = entry.partition, entry.bucket, file.level, file.file_name
    rare = tuple(file.extra_files), file.embedded_file_index, file.external_path
    return plain if rare == ((), None, None) else (*plain, *rare)
