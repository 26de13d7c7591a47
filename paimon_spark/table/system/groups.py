"""System tables about groups of files and about indexes: ``manifests``, ``partitions``, ``buckets``, ``…_indexes``.

Equals Java's ``ManifestsTable``, ``PartitionsTable``, ``BucketsTable``, ``TableIndexesTable`` and ``FileIndexesTable``
(the last one, and the last four columns of the one before, came after Java 1.4). All travel in time (``buckets`` does
not in Java 1.4). Where a read takes partitions from two branches, ``partitions`` lists both; the others show the
table's own branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.spec.data_types import ArrayType, BooleanType, IntType, RowType
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX
from paimon_spark.table.file_indexes import IndexLocation, index_location, opened
from paimon_spark.table.system.definition import (
    LONG,
    STRING,
    TIME,
    Found,
    columns,
    partition_texts,
    required,
    system_table,
)
from paimon_spark.table.system.files import LiveFiles, files_shown, own_files, partition_sources, wall_clock
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.spec.manifest import IndexManifestEntry
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_ARITY_BYTES = 4


@system_table(
    "manifests",
    file_name=required(STRING),
    file_size=required(LONG),
    num_added_files=required(LONG),
    num_deleted_files=required(LONG),
    schema_id=required(LONG),
    min_partition_stats=STRING,
    max_partition_stats=STRING,
    min_row_id=LONG,
    max_row_id=LONG,
)
def _manifests(table: FileStoreTable) -> Found:
    """The manifests of the snapshot: base, then delta, then those of its changelog."""
    then, snapshot = travel(table)
    store = then.manifests
    found = [] if snapshot is None else store.data_manifests(snapshot) + store.changelog_manifests(snapshot)
    empty = (0).to_bytes(_ARITY_BYTES, "big")
    usable = [not then.schema.partition_keys or m.partition_stats.min_values[:_ARITY_BYTES] != empty for m in found]
    known = [manifest.partition_stats for manifest, ok in zip(found, usable, strict=True) if ok]

    def stats(rows: Sequence[bytes]) -> list[str | None]:
        texts = iter(partition_texts(then, rows).to_pylist())
        return [next(texts) if ok else None for ok in usable]

    return {
        "file_name": [manifest.file_name for manifest in found],
        "file_size": [manifest.file_size for manifest in found],
        "num_added_files": [manifest.num_added_files for manifest in found],
        "num_deleted_files": [manifest.num_deleted_files for manifest in found],
        "schema_id": [manifest.schema_id for manifest in found],
        "min_partition_stats": stats([each.min_values for each in known]),
        "max_partition_stats": stats([each.max_values for each in known]),
        "min_row_id": [manifest.min_row_id for manifest in found],
        "max_row_id": [manifest.max_row_id for manifest in found],
    }


_SUMS = {
    "record_count": ("rows", "sum"),
    "file_size_in_bytes": ("bytes", "sum"),
    "file_count": ("rows", "count"),
    "last_update_time": ("millis", "max"),
    "total_buckets": ("total_buckets", "first"),
}


def grouped(live: LiveFiles, chunks: Iterable[ManifestColumns], keys: Sequence[str]) -> pa.Table:
    """Sums over the files of equal keys.

    Args:
        live: where the files come from.
        chunks: the files.
        keys: of ``partition`` (its number in `live`), ``bucket`` and ``level``.

    Returns:
        The keys and ``record_count``, ``file_size_in_bytes``, ``file_count``, ``last_update_time`` (null when unknown)
        and ``total_buckets``, in the order of each group's first file.
    """
    parts = [
        pa.table(
            {
                "partition": pa.array(live.partition_numbers(files.partitions), pa.int64()),
                "bucket": files.buckets,
                "level": files.levels,
                "total_buckets": files.total_buckets,
                "rows": files.row_counts,
                "bytes": files.file_sizes,
                "millis": pa.array(files.file_values("_CREATION_TIME"), pa.int64()),
            }
        )
        for files in chunks
    ]
    names = ("partition", "bucket", "level", "total_buckets", "rows", "bytes", "millis")
    types = (pa.int64(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
    nothing = pa.schema(list(zip(names, types, strict=True))).empty_table()
    sums = pa.concat_tables([nothing, *parts]).group_by(list(keys), use_threads=False).aggregate(list(_SUMS.values()))
    found = {key: sums[key] for key in keys}
    found |= {name: sums["_".join(source)] for name, source in _SUMS.items()}
    return pa.table({**found, "last_update_time": wall_clock(found["last_update_time"].combine_chunks())})


def partition_sums(table: FileStoreTable) -> Iterator[tuple[LiveFiles, pa.Table]]:
    """Yield the sums of `grouped` by partition, for each branch that a read takes partitions from.

    Raises:
        SnapshotNotFoundError: there is no such version.
        PaimonError: the branches that are read have not the same columns.
    """
    before: set[bytes] = set()
    for live in partition_sources(table):
        sums = grouped(live, live.chunks_in_buckets(), ["partition"])
        has = live.partitions
        yield (
            live,
            sums.filter(pa.array([has[number] not in before for number in sums["partition"].to_pylist()], pa.bool_())),
        )
        before |= set(has)


_SHARED = ("record_count", "file_size_in_bytes", "file_count", "last_update_time")


@system_table(
    "partitions",
    ("partition",),
    partition=STRING,
    record_count=required(LONG),
    file_size_in_bytes=required(LONG),
    file_count=required(LONG),
    last_update_time=TIME,
    created_at=TIME,
    created_by=STRING,
    updated_by=STRING,
    options=STRING,
    total_buckets=required(IntType()),
    done=required(BooleanType()),
    deleted_record_count=LONG,
)
def _partitions(table: FileStoreTable) -> Found:
    """The partitions that have files, sorted by name."""
    parts = list(partition_sums(table))
    sums = pa.concat_tables([part for _, part in parts])
    nothing: list[None] = [None] * len(sums)
    return {
        **{name: sums[name].combine_chunks() for name in (*_SHARED, "total_buckets")},
        "partition": [live.names[number] for live, part in parts for number in part["partition"].to_pylist()],
        "created_at": nothing,
        "created_by": nothing,
        "updated_by": nothing,
        "options": nothing,
        "done": [False] * len(sums),  # only catalogs with a server of their own know more
        "deleted_record_count": [
            count for live, part in parts for count in _deleted_records(live, part["partition"].to_pylist())
        ],
    }


def _deleted_records(live: LiveFiles, numbers: Sequence[int]) -> list[int | None]:
    """How many rows deletion vectors hide in partitions; None where a vector does not show (older versions).

    Java: shows 0 for partitions of the other branch (scan.fallback-branch), and is of 2.x.
    """
    counts: dict[bytes, int | None] = {}
    if live.snapshot is not None and live.table.options.deletion_vectors_enabled:
        for entry in live.table.manifests.index_entries(live.snapshot):
            if entry.index_type == DELETION_VECTORS_INDEX:
                hidden = [counts.get(entry.partition, 0), *(each.cardinality for each in entry.deletion_vectors or ())]
                known = [count for count in hidden if count is not None]
                counts[entry.partition] = sum(known) if len(known) == len(hidden) else None
    partitions = live.partitions
    return [counts.get(partitions[number], 0) for number in numbers]


@system_table(
    "buckets",
    ("partition", "bucket"),
    partition=STRING,
    bucket=required(IntType()),
    record_count=required(LONG),
    file_size_in_bytes=required(LONG),
    file_count=required(LONG),
    last_update_time=TIME,
)
def _buckets(table: FileStoreTable) -> Found:
    """The buckets that have files, sorted by partition and number."""
    live = own_files(table)
    sums = grouped(live, live.chunks(), ["partition", "bucket"])
    return {
        **{name: sums[name].combine_chunks() for name in _SHARED},
        "partition": [live.texts[number] for number in sums["partition"].to_pylist()],
        "bucket": sums["bucket"].combine_chunks(),
    }


_VECTOR_FIELDS = columns(f0=required(STRING), f1=required(IntType()), f2=required(IntType()), _CARDINALITY=LONG)


@system_table(
    "table_indexes",
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
def _table_indexes(table: FileStoreTable) -> Found:
    """The index files of the snapshot: deletion vectors, hashes of dynamic buckets, global indexes."""
    then, snapshot = travel(table)
    entries = [] if snapshot is None else then.manifests.index_entries(snapshot)
    partitions = partition_texts(then, [entry.partition for entry in entries]).to_pylist()
    names = {field.id: field.name for field in then.schema.fields}
    return [
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
    ]


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


@system_table(
    "file_indexes",
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
def _file_indexes(table: FileStoreTable) -> Found:
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
    return rows


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
