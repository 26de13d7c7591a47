"""``table_indexes`` and ``file_indexes``: index files of the table, and the indexes of single data files.

Equals Java's ``TableIndexesTable`` and ``FileIndexesTable`` (the latter, and the last four columns of the former, came
after Java 1.4). Both travel in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.spec.data_types import ArrayType, BooleanType, IntType, RowType
from paimon_spark.table.file_indexes import IndexLocation, index_location, opened
from paimon_spark.table.system.definition import LONG, STRING, SystemTable, columns, required, table_of_rows
from paimon_spark.table.system.live_files import files_shown
from paimon_spark.table.system.texts import partition_texts
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.spec.manifest import IndexManifestEntry
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_VECTOR_FIELDS = columns(f0=required(STRING), f1=required(IntType()), f2=required(IntType()), _CARDINALITY=LONG)
_TABLE_INDEX_FIELDS = columns(
    partition=STRING,
    bucket=required(IntType()),
    index_type=required(STRING),
    file_name=required(STRING),
    file_size=required(LONG),
    row_count=required(LONG),
    dv_ranges=ArrayType(element=RowType(fields=_VECTOR_FIELDS)),
    row_range_start=LONG,
    row_range_end=LONG,
    index_field_id=IntType(),
    index_field_name=STRING,
)
_FILE_INDEX_FIELDS = columns(
    partition=STRING,
    bucket=required(IntType()),
    file_path=required(STRING),
    file_size_in_bytes=required(LONG),
    record_count=required(LONG),
    schema_id=required(LONG),
    column_name=required(STRING),
    index_type=required(STRING),
    storage_type=required(STRING),
    index_file_path=STRING,
    index_size_in_bytes=required(LONG),
    index_container_size_in_bytes=required(LONG),
    is_empty=required(BooleanType()),
)


def _table_indexes(table: FileStoreTable) -> pa.Table:
    """The index files of the snapshot: deletion vectors, hashes of dynamic buckets, global indexes."""
    then, snapshot = travel(table)
    entries = [] if snapshot is None else then.manifests.index_entries(snapshot)
    partitions = partition_texts(then, [entry.partition for entry in entries]).to_pylist()
    names = {field.id: field.name for field in then.schema.fields}
    return table_of_rows(
        _TABLE_INDEX_FIELDS,
        [
            (
                partition,
                entry.bucket,
                entry.index_type,
                entry.file_name,
                entry.file_size,
                entry.row_count,
                _vectors(entry),
                *_rows_and_field(entry, names),
            )
            for partition, entry in zip(partitions, entries, strict=True)
        ],
    )


def _vectors(entry: IndexManifestEntry) -> list[dict[str, Any]] | None:
    if entry.deletion_vectors is None:
        return None
    return [
        {"f0": vector.data_file_name, "f1": vector.offset, "f2": vector.length, "_CARDINALITY": vector.cardinality}
        for vector in entry.deletion_vectors
    ]


def _rows_and_field(entry: IndexManifestEntry, names: dict[int, str]) -> tuple[Any, ...]:
    index = entry.global_index
    if index is None:
        return None, None, None, None
    ids = (index.index_field_id, *(index.extra_field_ids or ()))
    shown = ",".join(names[field_id] for field_id in ids) if all(field_id in names for field_id in ids) else None
    return index.row_range_start, index.row_range_end, index.index_field_id, shown


def _file_indexes(table: FileStoreTable) -> pa.Table:
    """One row for each index of each column of each data file."""
    rows: list[tuple[Any, ...]] = []
    for live, files in files_shown(table):
        embedded, extra = files.file_values("_EMBEDDED_FILE_INDEX"), files.file_values("_EXTRA_FILES")
        indexed = [i for i in range(len(files)) if embedded[i] is not None or extra[i]]
        files = files.take(indexed)
        numbers = live.partition_numbers(files.partitions)
        facts = zip(
            [live.texts[number] for number in numbers],
            files.buckets.tolist(),
            live.paths(files),
            files.file_sizes.tolist(),
            files.row_counts.tolist(),
            files.schema_ids.tolist(),
            strict=True,
        )
        for i, file in zip(indexed, facts, strict=True):
            rows += _index_rows(live.table.file_io, file, index_location(embedded[i], extra[i], file[2]))
    return table_of_rows(_FILE_INDEX_FIELDS, rows)


def _index_rows(file_io: FileIO, file: tuple[Any, ...], location: IndexLocation | None) -> list[tuple[Any, ...]]:
    if location is None:
        return []
    shown = ("FILE", location.path) if location.embedded is None else ("EMBEDDED", None)
    with opened(file_io, location) as container:
        size = container.size
        return [
            (*file, part.column, part.index_type, *shown, part.length, size, part.start is None)
            for part in container.parts
        ]


INDEX_TABLES = (
    SystemTable("table_indexes", _TABLE_INDEX_FIELDS, _table_indexes, travels=True),
    SystemTable("file_indexes", _FILE_INDEX_FIELDS, _file_indexes, travels=True),
)
"""The system tables of this module."""
