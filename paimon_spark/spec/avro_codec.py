"""Bytes of manifest lists, manifests and index manifests to records and back.

Must equal Java's ``AvroFileFormat`` over the three serializers: the same schema in the header, the same records. Files
of all versions since 0.7 are read. `fastavro` decodes whole blocks; container and schema are checked before.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import metadata_schemas
from paimon_spark.spec.avro_container import AvroBlocks, encode_long, read_container, read_containers, write_container
from paimon_spark.spec.kept_values import DecodedOnce, LastUsed
from paimon_spark.spec.manifest import (
    INDEX_MANIFEST_VERSION,
    MANIFEST_VERSION,
    FileChange,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    Record,
    RecordedFile,
    entry_record,
    index_entry_from_record,
    index_record,
    manifest_from_record,
    manifest_record,
    recorded_from_record,
)
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.manifest_walk import Blocks, walk_columns, walk_entries, walk_lists
from paimon_spark.spec.metadata_schemas import Schema, SchemaCheck, plain_schema, schema_json

RECORDS_PER_BLOCK = 500
"""Records in one block of the files we write (Java cuts blocks at about 64 KB)."""

_MANIFEST_SCHEMA = "MANIFEST_WITH_COLUMN_SEQUENCES"
_FEWEST_TO_WALK = 16
_FEWEST_LANES = 48
"""Blocks side by side from which walking them is faster than decoding their records."""

_BYTES_AT_ONCE = 32 << 20
_LISTS = DecodedOnce[tuple[ManifestFileMeta, ...]]()
_MOST_MANIFEST_BYTES = 128 << 20
_MANIFESTS = LastUsed[ManifestColumns](_MOST_MANIFEST_BYTES, lambda columns: columns.estimated_bytes)
"""Manifests that were read last, by a digest of their bytes, with and without statistics."""
_ENTRY_BYTES = 220
_STATISTICS_BYTES = 170
"""About what an entry takes of a table of few columns."""

_BAD_RECORDS = (EOFError, LookupError, ValueError, TypeError, OverflowError, StopIteration, struct.error, MemoryError)


@functools.lru_cache(maxsize=64)
def _parsed_file_schema(text: bytes, kind: str) -> tuple[Schema, bool]:
    return _parsed_schema(text, getattr(metadata_schemas, kind))


def _parsed_schema(text: bytes, expected: Schema) -> tuple[Schema, bool]:
    """Parse and check a file's schema; return it as an array of records, and whether required values may be null."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptTableError(f"The Avro schema in the file's header is no JSON: {error}.") from error
    check = SchemaCheck()
    check.check(schema, expected)
    try:
        parsed = fastavro.parse_schema({"type": "array", "items": plain_schema(schema)})
    except (SchemaParseException, LookupError, ValueError, TypeError, AttributeError) as error:
        raise CorruptTableError(f"The Avro schema in the file's header cannot be parsed: {error}.") from error
    return parsed, check.nullable_where_required


def _read_records(data: bytes, kind: str, version: int, path: str | None) -> list[Record]:
    """Decode all records of a container file whose schema fits the one that is called `kind` in `metadata_schemas`."""
    return _records_of(read_container(data, path=path), kind, version, path)


def _records_of(content: AvroBlocks, kind: str, version: int, path: str | None) -> list[Record]:
    try:
        schema, check_nulls = _parsed_file_schema(content.schema_json, kind)
    except CorruptTableError as error:
        raise CorruptTableError(str(error), path=path) from error
    records = _decoded_records(content, schema, path)
    if check_nulls:
        for record in records:
            _check_required(record, getattr(metadata_schemas, kind), path)
    for record in records:
        if record["_VERSION"] != version:
            raise CorruptTableError(
                f"The record version {record['_VERSION']} is not compatible (expected {version}): "
                "the file is damaged or was written by another generation of Paimon; please recreate the table.",
                path=path,
            )
    return records


def _decoded_records(content: AvroBlocks, schema: Schema, path: str | None) -> list[Record]:
    body = b"".join(encode_long(count) + block for count, block in content.blocks if count) + b"\0"
    source = BytesIO(body)
    try:
        records: list[Any] = fastavro.schemaless_reader(source, schema, None)
    except _BAD_RECORDS as error:
        raise CorruptTableError(
            f"The Avro records cannot be decoded ({error}): the file is damaged.", path=path
        ) from error
    if source.tell() != len(body):
        raise CorruptTableError("The Avro records end before their blocks do: the file is damaged.", path=path)
    return records


def _check_required(value: Any, schema: Schema, path: str | None, where: str = "record") -> None:
    """Check that required values are not null: only for files whose schema would allow it."""
    if isinstance(schema, list):
        if value is None:
            return
        schema = schema[1]
    if value is None:
        raise CorruptTableError(f"The required value {where} is null: the file is damaged.", path=path)
    if isinstance(schema, dict) and schema["type"] == "record":
        for field in schema["fields"]:
            name = field["name"]
            if name in value:
                _check_required(value[name], field["type"], path, name)
    elif isinstance(schema, dict) and schema["type"] == "array":
        for item in value:
            _check_required(item, schema["items"], path, where)


@functools.lru_cache(maxsize=16)
def _parsed_own_schema(text: bytes) -> Schema:
    return fastavro.parse_schema({"type": "array", "items": plain_schema(json.loads(text))})


@functools.cache
def _own_schema(kind: str) -> bytes:
    """The text of the schema that is called `kind` in `metadata_schemas`, as it stands in the headers of our files."""
    return schema_json(getattr(metadata_schemas, kind))


@functools.cache
def _own_record(kind: str) -> Schema:
    """The same schema parsed, of a single record."""
    return fastavro.parse_schema(plain_schema(getattr(metadata_schemas, kind)))


def _write_records(records: Sequence[Record], kind: str, codec: str, level: int) -> bytes:
    text = _own_schema(kind)
    parsed = _parsed_own_schema(text)
    blocks = []
    for start in range(0, len(records), RECORDS_PER_BLOCK):
        part = records[start : start + RECORDS_PER_BLOCK]
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, part)
        blocks.append((len(part), out.getvalue()[len(encode_long(len(part))) : -1]))
    return write_container(AvroBlocks(text, tuple(blocks)), codec=codec, level=level)


def encode_block(records: Sequence[Record], schema_text: bytes) -> bytes:
    """Encode records of a schema, given as JSON, as the uncompressed bytes of one block."""
    out = BytesIO()
    fastavro.schemaless_writer(out, _parsed_own_schema(schema_text), records)
    return out.getvalue()[len(encode_long(len(records))) : -1]


@functools.lru_cache(maxsize=64)
def _parsed_fitting_schema(text: bytes, expected: bytes) -> tuple[Schema, bool]:
    return _parsed_schema(text, json.loads(expected))


def decode_records(data: bytes, expected: bytes, *, path: str | None = None) -> list[Record]:
    """Decode all records of a container file whose schema fits another one, given as JSON.

    Raises:
        CorruptTableError: the file is damaged, or its schema lacks a required field.
    """
    content = read_container(data, path=path)
    try:
        schema, check_nulls = _parsed_fitting_schema(content.schema_json, expected)
    except CorruptTableError as error:
        raise CorruptTableError(str(error), path=path) from error
    records = _decoded_records(content, schema, path)
    if check_nulls:
        for record in records:
            _check_required(record, json.loads(expected), path)
    return records


def _is_int32(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


def encode_manifest(entries: Sequence[ManifestEntry], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode the entries as a manifest file.

    The header's schema is that of Java 1.4; only if an entry has `write_cols_sequences` that of Java 2.1.

    Args:
        entries: in the order they are to stand in the file.
        codec: Avro codec; ``manifest.compression`` zstd is ``zstandard``.
        level: compression level of zstandard.
    """
    return _write_records([entry_record(entry) for entry in entries], _manifest_kind(entries), codec, level)


def _manifest_kind(entries: Sequence[ManifestEntry]) -> str:
    newer = any(entry.file.write_cols_sequences is not None for entry in entries)
    return _MANIFEST_SCHEMA if newer else "MANIFEST"


def encode_entries(entries: Sequence[ManifestEntry]) -> tuple[bytes, bytes, list[int]]:
    """Encode entries without a container: the schema for its header, the bytes, and where each entry ends."""
    kind = _manifest_kind(entries)
    parsed = _own_record(kind)
    out = BytesIO()
    ends = []
    for entry in entries:
        fastavro.schemaless_writer(out, parsed, entry_record(entry))
        ends.append(out.tell())
    return _own_schema(kind), out.getvalue(), ends


def decode_manifest_columns(
    data: bytes | AvroBlocks, *, path: str | None = None, statistics: bool = True
) -> ManifestColumns:
    """Decode a manifest file into columns, building an entry only when it is asked for.

    Args:
        data: the file, or what `read_container` made of it.
        path: the file's, for errors.
        statistics: whether the statistics of keys and values are wanted.

    Raises:
        CorruptTableError: the file is damaged.
    """
    content = read_container(data, path=path) if isinstance(data, bytes) else data
    records = _records_of(content, _MANIFEST_SCHEMA, MANIFEST_VERSION, path)
    for record in records:
        file = record["_FILE"]
        if not (
            0 <= record["_KIND"] <= 1
            and _is_int32(record["_BUCKET"])
            and _is_int32(record["_TOTAL_BUCKETS"])
            and _is_int32(file["_LEVEL"])
            and file["_FILE_SIZE"] >= 0
            and file["_ROW_COUNT"] >= 0
        ):
            raise CorruptTableError(
                f"An entry has kind {record['_KIND']}, bucket {record['_BUCKET']} of {record['_TOTAL_BUCKETS']}, level "
                f"{file['_LEVEL']}, {file['_FILE_SIZE']} bytes and {file['_ROW_COUNT']} rows: the file is damaged.",
                path=path,
            )
    return ManifestColumns.from_records(records, statistics=statistics)


def decode_manifests(
    files: Iterable[tuple[str, bytes]],
    *,
    statistics: bool = True,
    at_once_bytes: int = _BYTES_AT_ONCE,
    entries: int | None = None,
) -> Iterator[ManifestColumns]:
    """Decode many manifests into columns, in their order; some of them come together.

    Args:
        files: path and bytes of each.
        statistics: whether the statistics of keys and values are wanted.
        at_once_bytes: about how many bytes of entries are decoded at once.
        entries: of all files. Where they are few enough, the process keeps them, so that the same bytes are decoded
            once; where this is None, it keeps none.

    Raises:
        CorruptTableError: a file is damaged.
    """
    each = _ENTRY_BYTES + _STATISTICS_BYTES * statistics
    keeps = entries is not None and entries * each <= _MOST_MANIFEST_BYTES * 3 // 4
    pending: list[_ManifestFile] = []
    size = 0
    try:
        for path, data in files:
            key = (hashlib.blake2b(data, digest_size=16).digest(), statistics) if keeps else None
            known = None if key is None else _MANIFESTS.get(key)
            if known is not None:
                ready, pending, size = pending, [], 0
                yield from _decoded_columns(ready, statistics)
                yield known.shared()
                continue
            content = read_container(data, path=path)
            if pending and content.schema_json != pending[0].content.schema_json:
                ready, pending, size = pending, [], 0
                yield from _decoded_columns(ready, statistics)
            pending.append(_ManifestFile(path, key, content))
            size += sum(len(block) for _, block in content.blocks)
            if size >= at_once_bytes:
                ready, pending, size = pending, [], 0
                yield from _decoded_columns(ready, statistics)
    except CorruptTableError:  # the files before the damaged one come first
        yield from _decoded_columns(pending, statistics)
        raise
    yield from _decoded_columns(pending, statistics)


class _ManifestFile(NamedTuple):
    path: str
    key: tuple[bytes, bool] | None
    """By which its entries are kept; None where they are not."""
    content: AvroBlocks

    @property
    def entries(self) -> int:
        return sum(count for count, _ in self.content.blocks)

    def keep(self, columns: ManifestColumns) -> ManifestColumns:
        if self.key is not None:
            _MANIFESTS.put(self.key, columns.read_only().shared())
        return columns


def _decoded_columns(files: Sequence[_ManifestFile], statistics: bool) -> Iterator[ManifestColumns]:
    """Decode manifests of one schema: side by side where they have blocks enough, else one after the other."""
    blocks = [block for file in files for block in file.content.blocks]
    counts = [count for count, _ in blocks]
    if sum(counts) >= _FEWEST_LANES * max(counts, default=1):
        text = files[0].content.schema_json
        try:
            _, nullable = _parsed_file_schema(text, _MANIFEST_SCHEMA)
        except CorruptTableError as error:
            raise CorruptTableError(str(error), path=files[0].path) from error
        walked = None
        if not nullable:
            walked = walk_columns(
                plain_schema(json.loads(text)),
                blocks,
                MANIFEST_VERSION,
                _decode_arrays,
                statistics=statistics,
            )
        if walked is not None:
            ends = itertools.accumulate(file.entries for file in files)
            for file, end in zip(files, ends, strict=True):
                if file.key is not None:
                    file.keep(walked[end - file.entries : end])
            yield walked
            return
    for file in files:
        yield file.keep(decode_manifest_columns(file.content, path=file.path, statistics=statistics))


def _decode_arrays(schema: Schema, arrays: Sequence[bytes]) -> list[list[Any]]:
    """Decode Avro arrays whose bytes have been walked and are therefore whole."""
    parsed = fastavro.parse_schema({"type": "array", "items": schema})
    body = b"".join((encode_long(len(arrays)), *arrays, b"\0")) if arrays else b"\0"
    decoded: list[list[Any]] = fastavro.schemaless_reader(BytesIO(body), parsed, None)
    return decoded


def decode_manifest_files(files: Sequence[tuple[str, bytes]]) -> list[list[FileChange]]:
    """Decode many manifests, but only what tells which files their entries are about.

    Args:
        files: path and bytes of each.

    Raises:
        CorruptTableError: a file is damaged.
    """
    walked = _walked(files, _MANIFEST_SCHEMA, walk_entries)
    return [decode_manifest_columns(data, path=path).changes() for path, data in files] if walked is None else walked


def decode_manifest_lists(files: Sequence[tuple[str, bytes]]) -> list[list[RecordedFile]]:
    """Return the manifests that each of many manifest lists names, without their statistics.

    Args:
        files: path and bytes of each.

    Raises:
        CorruptTableError: a file is damaged.
    """
    walked = _walked(files, "MANIFEST_LIST", walk_lists)
    return [decode_recorded_manifests(data, path=path) for path, data in files] if walked is None else walked


_Walker = Callable[[Schema, Blocks, int], list[list[Any]] | None]


def _walked(files: Sequence[tuple[str, bytes]], kind: str, walk: _Walker) -> list[list[Any]] | None:
    """Walk the records of many files of one schema side by side; None where that is not possible."""
    if len(files) < _FEWEST_TO_WALK:
        return None
    contents = read_containers(files)
    text = contents[0].schema_json
    if any(content.schema_json != text for content in contents):
        return None
    _parsed_file_schema(text, kind)
    blocks = [block for content in contents for block in content.blocks]
    found = walk(plain_schema(json.loads(text)), blocks, MANIFEST_VERSION)
    if found is None:
        return None
    records = iter(found)
    return [[record for _ in content.blocks for record in next(records)] for content in contents]


def decode_manifest(data: bytes, *, path: str | None = None) -> list[ManifestEntry]:
    """Decode all entries of a manifest file, in its order.

    Raises:
        CorruptTableError: the file is damaged.
    """
    return list(decode_manifest_columns(data, path=path))


def encode_manifest_list(manifests: Sequence[ManifestFileMeta], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode a manifest list; an empty one is legal."""
    data = _write_records([manifest_record(meta) for meta in manifests], "MANIFEST_LIST", codec, level)
    _LISTS.keep(data, tuple(manifests))
    return data


def decode_manifest_list(data: bytes, *, path: str | None = None) -> list[ManifestFileMeta]:
    """Decode a manifest list.

    Raises:
        CorruptTableError: the file is damaged.
    """
    known = _LISTS.find(data)
    if known is None:
        records = _read_records(data, "MANIFEST_LIST", MANIFEST_VERSION, path)
        known = _LISTS.keep(data, tuple(manifest_from_record(record) for record in records))
    return list(known)


def decode_recorded_manifests(data: bytes, *, path: str | None = None) -> list[RecordedFile]:
    """Return the manifests that a manifest list names, without their statistics.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records = _read_records(data, "MANIFEST_LIST", MANIFEST_VERSION, path)
    return list(map(recorded_from_record, records))


def encode_index_manifest(entries: Sequence[IndexManifestEntry], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode an index manifest, with the schema of Java 1.4; only if an entry has a `source_meta` that of Java 2.1."""
    newer = any(e.global_index is not None and e.global_index.source_meta is not None for e in entries)
    kind = "INDEX_MANIFEST_WITH_SOURCE_META" if newer else "INDEX_MANIFEST"
    return _write_records([index_record(entry) for entry in entries], kind, codec, level)


def decode_index_manifest(data: bytes, *, path: str | None = None) -> list[IndexManifestEntry]:
    """Decode an index manifest.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records = _read_records(data, "INDEX_MANIFEST_WITH_SOURCE_META", INDEX_MANIFEST_VERSION, path)
    for record in records:
        if record["_KIND"] not in (0, 1):
            raise CorruptTableError(f"An entry has the kind {record['_KIND']}, neither ADD nor DELETE.", path=path)
        if any(vector is None for vector in record.get("_DELETIONS_VECTORS_RANGES") or ()):
            raise CorruptTableError(f"A deletion vector of index file {record['_FILE_NAME']} is null.", path=path)
    return [index_entry_from_record(record) for record in records]


def decode_index_names(data: bytes, *, path: str | None = None) -> list[str]:
    """Return the names of the index files in an index manifest.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records = _read_records(data, "INDEX_MANIFEST_WITH_SOURCE_META", INDEX_MANIFEST_VERSION, path)
    return [record["_FILE_NAME"] for record in records]
