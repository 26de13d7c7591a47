"""Records of manifest lists, manifests and index manifests, and as the dicts of Avro records and back, key by key.

Must equal Java's ``ManifestFileMeta``, ``ManifestEntry``, ``DataFileMeta``, ``IndexManifestEntry`` and their
serializers; `avro_codec` turns them into bytes and back. Each field's comment names its Avro key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum, maximum and null count per column, as manifests hold them.

    Attributes:
        min_values: serialized BinaryRow of the minima (4-byte arity in front).
        max_values: serialized BinaryRow of the maxima.
        null_counts: null count per column; None where it is unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_SERIALIZED_ROW = bytes(12)
"""The row without fields as manifests hold it: arity 0, then its 8 zero bytes."""

EMPTY_STATS = SimpleStats(EMPTY_SERIALIZED_ROW, EMPTY_SERIALIZED_ROW, ())
"""Statistics over no columns (Java: ``SimpleStats.EMPTY_STATS``)."""


class FileKind(IntEnum):
    """Whether an entry adds a file to the table or deletes it."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """What wrote a data file."""

    APPEND = 0
    COMPACT = 1


HASH_INDEX = "HASH"
"""`IndexManifestEntry.index_type` of a hash index (dynamic buckets)."""

DELETION_VECTORS_INDEX = "DELETION_VECTORS"
"""`IndexManifestEntry.index_type` of a file of deletion vectors."""


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """One data file (Java: ``DataFileMeta``).

    `min_key` and `max_key` are serialized BinaryRows of the trimmed primary key; of tables without one the empty row.
    """

    file_name: str  # _FILE_NAME
    file_size: int  # _FILE_SIZE, bytes
    row_count: int  # _ROW_COUNT: adds and deletes
    min_key: bytes = EMPTY_SERIALIZED_ROW  # _MIN_KEY
    max_key: bytes = EMPTY_SERIALIZED_ROW  # _MAX_KEY
    key_stats: SimpleStats = EMPTY_STATS  # _KEY_STATS
    value_stats: SimpleStats = EMPTY_STATS  # _VALUE_STATS
    min_sequence_number: int = 0  # _MIN_SEQUENCE_NUMBER
    max_sequence_number: int = 0  # _MAX_SEQUENCE_NUMBER
    schema_id: int = 0  # _SCHEMA_ID
    level: int = 0  # _LEVEL
    extra_files: tuple[str, ...] = ()  # _EXTRA_FILES
    creation_time_millis: int | None = None  # _CREATION_TIME: local wall clock, without zone
    delete_row_count: int | None = None  # _DELETE_ROW_COUNT: None is unknown (old files)
    embedded_file_index: bytes | None = None  # _EMBEDDED_FILE_INDEX
    file_source: int | None = None  # _FILE_SOURCE: a `FileSource`
    value_stats_cols: tuple[str, ...] | None = None  # _VALUE_STATS_COLS: None means that all columns have statistics
    external_path: str | None = None  # _EXTERNAL_PATH
    first_row_id: int | None = None  # _FIRST_ROW_ID
    write_cols: tuple[str, ...] | None = None  # _WRITE_COLS
    write_cols_sequences: tuple[int, ...] | None = None  # _WRITE_COLS_SEQUENCES

    def upgraded(self, level: int) -> DataFileMeta:
        """Return the same file at another level (a compaction that only upgrades the file)."""
        return replace(self, level=level)


@dataclass(frozen=True, slots=True)
class FileIdentifier:
    """Identifies the file of an entry (Java: ``FileEntry.Identifier``)."""

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    embedded_file_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One added or deleted data file in a manifest (Java: ``ManifestEntry``)."""

    kind: FileKind  # _KIND
    partition: bytes  # _PARTITION: serialized BinaryRow
    bucket: int  # _BUCKET
    total_buckets: int  # _TOTAL_BUCKETS
    file: DataFileMeta  # _FILE

    @property
    def row_change(self) -> int:
        """Rows that come, or go, with the file."""
        return self.file.row_count if self.kind == FileKind.ADD else -self.file.row_count

    def identifier(self) -> FileIdentifier:
        """Return the identity under which an ADD and a DELETE cancel."""
        file = self.file
        return FileIdentifier(
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """One manifest file, as a manifest list holds it (Java: ``ManifestFileMeta``)."""

    file_name: str  # _FILE_NAME
    file_size: int  # _FILE_SIZE, bytes
    num_added_files: int  # _NUM_ADDED_FILES
    num_deleted_files: int  # _NUM_DELETED_FILES
    partition_stats: SimpleStats  # _PARTITION_STATS
    schema_id: int  # _SCHEMA_ID
    min_bucket: int | None = None  # _MIN_BUCKET
    max_bucket: int | None = None  # _MAX_BUCKET
    min_level: int | None = None  # _MIN_LEVEL
    max_level: int | None = None  # _MAX_LEVEL
    min_row_id: int | None = None  # _MIN_ROW_ID
    max_row_id: int | None = None  # _MAX_ROW_ID

    @property
    def recorded(self) -> RecordedFile:
        """What is to be checked when the manifest is read."""
        return RecordedFile(self.file_name, self.file_size, self.num_added_files, self.num_deleted_files)


class RecordedFile(NamedTuple):
    """A manifest list or a manifest, with what the file that names it records of it; None where it does not say."""

    name: str
    size: int | None
    """Its bytes."""
    added: int | None = None
    """Its ADD entries."""
    deleted: int | None = None
    """Its DELETE entries."""


@dataclass(frozen=True, slots=True)
class DeletionVectorMeta:
    """Where the deletion vector of one data file lies in its index file (Java: ``DeletionVectorMeta``)."""

    data_file_name: str  # f0
    offset: int  # f1, bytes
    length: int  # f2, bytes; see docs/internals/format.md §4.2 for what it covers
    cardinality: int | None = None  # _CARDINALITY


@dataclass(frozen=True, slots=True)
class GlobalIndexMeta:
    """The rows and fields that a global index file covers (Java: ``GlobalIndexMeta``)."""

    row_range_start: int  # _ROW_RANGE_START
    row_range_end: int  # _ROW_RANGE_END, inclusive
    index_field_id: int  # _INDEX_FIELD_ID
    extra_field_ids: tuple[int, ...] | None = None  # _EXTRA_FIELD_IDS
    index_meta: bytes | None = None  # _INDEX_META
    source_meta: bytes | None = None  # _SOURCE_META


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """One index file in an index manifest (Java: ``IndexManifestEntry`` with its ``IndexFileMeta``)."""

    kind: FileKind  # _KIND
    partition: bytes  # _PARTITION: serialized BinaryRow
    bucket: int  # _BUCKET
    index_type: str  # _INDEX_TYPE
    file_name: str  # _FILE_NAME
    file_size: int  # _FILE_SIZE, bytes
    row_count: int  # _ROW_COUNT: vectors of a deletion-vector file, hashes of a hash index
    deletion_vectors: tuple[DeletionVectorMeta, ...] | None = None  # _DELETIONS_VECTORS_RANGES
    external_path: str | None = None  # _EXTERNAL_PATH
    global_index: GlobalIndexMeta | None = None  # _GLOBAL_INDEX


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


Record = dict[str, Any]

MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1


def _stats_record(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _list_or_none(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _file_record(file: DataFileMeta) -> Record:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_millis,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": _list_or_none(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _list_or_none(file.write_cols),
        "_WRITE_COLS_SEQUENCES": _list_or_none(file.write_cols_sequences),
    }


def entry_record(entry: ManifestEntry) -> Record:
    """Return the Avro record of a manifest entry."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def manifest_record(meta: ManifestFileMeta) -> Record:
    """Return the Avro record of a manifest in a manifest list."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


def _global_index_record(meta: GlobalIndexMeta) -> Record:
    return {
        "_ROW_RANGE_START": meta.row_range_start,
        "_ROW_RANGE_END": meta.row_range_end,
        "_INDEX_FIELD_ID": meta.index_field_id,
        "_EXTRA_FIELD_IDS": _list_or_none(meta.extra_field_ids),
        "_INDEX_META": meta.index_meta,
        "_SOURCE_META": meta.source_meta,
    }


def _vector_record(meta: DeletionVectorMeta) -> Record:
    return {"f0": meta.data_file_name, "f1": meta.offset, "f2": meta.length, "_CARDINALITY": meta.cardinality}


def index_record(entry: IndexManifestEntry) -> Record:
    """Return the Avro record of an entry of an index manifest."""
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if entry.deletion_vectors is None
        else [_vector_record(meta) for meta in entry.deletion_vectors],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None if entry.global_index is None else _global_index_record(entry.global_index),
    }


def stats_from_record(record: Record) -> SimpleStats:
    """Return the statistics of a decoded Avro record."""
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record.get("_NULL_COUNTS") or ()))


def manifest_from_record(record: Record) -> ManifestFileMeta:
    """Return the manifest of a decoded record of a manifest list."""
    return ManifestFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=stats_from_record(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
    )


def recorded_from_record(record: Record) -> RecordedFile:
    """Return what a decoded record of a manifest list says of its manifest's name, size and entries."""
    fields = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
    return RecordedFile(*(record[field] for field in fields))


def index_entry_from_record(record: Record) -> IndexManifestEntry:
    """Return the entry of a decoded record of an index manifest."""
    vectors = record.get("_DELETIONS_VECTORS_RANGES")
    index = record.get("_GLOBAL_INDEX")
    return IndexManifestEntry(
        kind=FileKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        index_type=record["_INDEX_TYPE"],
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        deletion_vectors=None
        if vectors is None
        else tuple(DeletionVectorMeta(v["f0"], v["f1"], v["f2"], v.get("_CARDINALITY")) for v in vectors),
        external_path=record.get("_EXTERNAL_PATH"),
        global_index=None
        if index is None
        else GlobalIndexMeta(
            index["_ROW_RANGE_START"],
            index["_ROW_RANGE_END"],
            index["_INDEX_FIELD_ID"],
            None if index.get("_EXTRA_FIELD_IDS") is None else tuple(index["_EXTRA_FIELD_IDS"]),
            index.get("_INDEX_META"),
            index.get("_SOURCE_META"),
        ),
    )
