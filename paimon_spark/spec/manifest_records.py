"""Manifest records as the dicts of Avro records and back, key by key.

Must equal Java's ``ManifestFileMetaSerializer``, ``ManifestEntrySerializer`` and ``IndexManifestEntrySerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paimon_spark.spec.manifest import (
    DataFileMeta,
    DeletionVectorMeta,
    FileKind,
    GlobalIndexMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    RecordedFile,
)
from paimon_spark.spec.simple_stats import SimpleStats

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
