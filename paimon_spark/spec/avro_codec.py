"""Bytes of manifest lists, manifests and index manifests to records and back.

Must equal Java's ``ManifestFileMetaSerializer``, ``ManifestEntrySerializer`` and ``IndexManifestEntrySerializer`` over
``AvroFileFormat``: the same schema in the header, the same records. Files of all versions since 0.7 are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import avro_schemas
from paimon_spark.spec.avro_records import Record, read_records, write_records
from paimon_spark.spec.manifest import (
    DataFileMeta,
    DeletionVectorMeta,
    FileKind,
    GlobalIndexMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.manifest_columns import ManifestColumns, entry_from_record, stats_from_record
from paimon_spark.spec.stats import SimpleStats

MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1


def _checked(records: list[Record], version: int, check_nulls: bool, required: Sequence[str], path: str | None) -> None:
    for record in records:
        if record["_VERSION"] != version:
            raise CorruptTableError(
                f"The record version {record['_VERSION']} is not compatible (expected {version}): "
                "the file is damaged or was written by another generation of Paimon; please recreate the table.",
                path=path,
            )
        if check_nulls:
            for name in required:
                if record[name] is None:
                    raise CorruptTableError(f"The required value {name} of a record is null.", path=path)


def _is_int32(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


_ENTRY_REQUIRED = ("_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE")
_FILE_REQUIRED = (
    *("_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS"),
    *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL", "_EXTRA_FILES"),
)


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


def encode_manifest(entries: Sequence[ManifestEntry], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode the entries as a manifest file.

    The header's schema is that of Java 1.4; only if an entry has `write_cols_sequences` that of Java 2.1.

    Args:
        entries: in the order they are to stand in the file.
        codec: Avro codec; ``manifest.compression`` zstd is ``zstandard``.
        level: compression level of zstandard.
    """
    records = [
        {
            "_VERSION": MANIFEST_VERSION,
            "_KIND": int(entry.kind),
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_TOTAL_BUCKETS": entry.total_buckets,
            "_FILE": _file_record(entry.file),
        }
        for entry in entries
    ]
    newer = any(entry.file.write_cols_sequences is not None for entry in entries)
    schema = avro_schemas.MANIFEST_WITH_COLUMN_SEQUENCES if newer else avro_schemas.MANIFEST
    return write_records(records, schema, codec=codec, level=level)


def decode_manifest_columns(data: bytes, *, path: str | None = None) -> ManifestColumns:
    """Decode a manifest file into columns, building an entry only when it is asked for.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records, check_nulls = read_records(data, avro_schemas.MANIFEST_WITH_COLUMN_SEQUENCES, path=path)
    _checked(records, MANIFEST_VERSION, check_nulls, _ENTRY_REQUIRED, path)
    for record in records:
        file = record["_FILE"]
        if check_nulls:
            for name in _FILE_REQUIRED:
                if file[name] is None:
                    raise CorruptTableError(f"The required value {name} of a data file is null.", path=path)
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
    return ManifestColumns(records)


def decode_manifest(data: bytes, *, path: str | None = None) -> list[ManifestEntry]:
    """Decode all entries of a manifest file, in its order.

    Raises:
        CorruptTableError: the file is damaged.
    """
    return [entry_from_record(record) for record in decode_manifest_columns(data, path=path).records]


def encode_manifest_list(manifests: Sequence[ManifestFileMeta], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode a manifest list; an empty one is legal."""
    records = [
        {
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
        for meta in manifests
    ]
    return write_records(records, avro_schemas.MANIFEST_LIST, codec=codec, level=level)


_LIST_REQUIRED = (
    *("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES", "_PARTITION_STATS", "_SCHEMA_ID"),
)


def decode_manifest_list(data: bytes, *, path: str | None = None) -> list[ManifestFileMeta]:
    """Decode a manifest list.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records, check_nulls = read_records(data, avro_schemas.MANIFEST_LIST, path=path)
    _checked(records, MANIFEST_VERSION, check_nulls, _LIST_REQUIRED, path)
    return [
        ManifestFileMeta(
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
        for record in records
    ]


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


def encode_index_manifest(entries: Sequence[IndexManifestEntry], *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Encode an index manifest, with the schema of Java 1.4; only if an entry has a `source_meta` that of Java 2.1."""
    records = [
        {
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
        for entry in entries
    ]
    newer = any(e.global_index is not None and e.global_index.source_meta is not None for e in entries)
    schema = avro_schemas.INDEX_MANIFEST_WITH_SOURCE_META if newer else avro_schemas.INDEX_MANIFEST
    return write_records(records, schema, codec=codec, level=level)


_INDEX_REQUIRED = (*("_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT"),)


def decode_index_manifest(data: bytes, *, path: str | None = None) -> list[IndexManifestEntry]:
    """Decode an index manifest.

    Raises:
        CorruptTableError: the file is damaged.
    """
    records, check_nulls = read_records(data, avro_schemas.INDEX_MANIFEST_WITH_SOURCE_META, path=path)
    _checked(records, INDEX_MANIFEST_VERSION, check_nulls, _INDEX_REQUIRED, path)
    return [_index_entry(record, path) for record in records]


def _index_entry(record: Record, path: str | None) -> IndexManifestEntry:
    if record["_KIND"] not in (0, 1):
        raise CorruptTableError(f"An entry has the kind {record['_KIND']}, neither ADD nor DELETE.", path=path)
    vectors = record.get("_DELETIONS_VECTORS_RANGES")
    if vectors is not None and any(vector is None for vector in vectors):
        raise CorruptTableError(f"A deletion vector of index file {record['_FILE_NAME']} is null.", path=path)
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
