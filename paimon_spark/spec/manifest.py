"""Records of manifest lists, manifests and index manifests.

Must equal Java's ``ManifestFileMeta``, ``ManifestEntry``, ``DataFileMeta`` and ``IndexManifestEntry``; `avro_codec`
turns them into bytes and back. Each field's comment names its Avro key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from paimon_spark.spec.simple_stats import EMPTY_SERIALIZED_ROW, EMPTY_STATS, SimpleStats


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
