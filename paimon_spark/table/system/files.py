"""``files``, ``manifests``, ``partitions`` and ``buckets``: the files of one snapshot, as its manifests tell them.

Equals Java's ``FilesTable``, ``ManifestsTable``, ``PartitionsTable`` and ``BucketsTable``. All four travel in time.
Java: ``buckets`` does not travel in 1.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.binary_row import decode_rows
from paimon_spark.spec.data_types import ArrayType, BooleanType, IntType
from paimon_spark.spec.file_names import data_file_format
from paimon_spark.spec.manifest import FileSource
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.table.system.definition import (
    LONG,
    STRING,
    TIME,
    SystemTable,
    columns,
    required,
    table_of,
)
from paimon_spark.table.system.file_stats import value_stats_texts
from paimon_spark.table.system.texts import key_texts, partition_names, partition_texts
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_ARITY_BYTES = 4

_FILE_FIELDS = columns(
    partition=STRING,
    bucket=required(IntType()),
    file_path=required(STRING),
    file_format=required(STRING),
    schema_id=required(LONG),
    level=required(IntType()),
    record_count=required(LONG),
    file_size_in_bytes=required(LONG),
    min_key=STRING,
    max_key=STRING,
    null_value_counts=required(STRING),
    min_value_stats=required(STRING),
    max_value_stats=required(STRING),
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    creation_time=TIME,
    deleteRowCount=LONG,
    file_source=STRING,
    first_row_id=LONG,
    write_cols=ArrayType(element=STRING),
)
_MANIFEST_FIELDS = columns(
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
_PARTITION_FIELDS = columns(
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
_BUCKET_FIELDS = columns(
    partition=STRING,
    bucket=required(IntType()),
    record_count=required(LONG),
    file_size_in_bytes=required(LONG),
    file_count=required(LONG),
    last_update_time=TIME,
)


def _live(table: FileStoreTable) -> tuple[FileStoreTable, ManifestColumns]:
    """The table as its scan options ask for it, and the files that live then, of every level.

    Raises:
        UnsupportedError: the table has a fallback branch, whose files would belong here too.
    """
    if "scan.fallback-branch" in table.options:
        raise UnsupportedError(
            "Option 'scan.fallback-branch' is not supported yet: the files of the fallback branch would be missing. "
            "Read each branch by its own name, such as `t$branch_b$files`, from a table without that option."
        )
    then, snapshot = travel(table)
    return then, ManifestColumns([]) if snapshot is None else then.manifests.live_columns(snapshot)


def _in_real_buckets(live: ManifestColumns) -> ManifestColumns:
    """Without the files that wait for a compaction to get a bucket (``bucket`` = -2), as in Java."""
    return live.filter(live.buckets >= 0) if len(live) else live


def _files(table: FileStoreTable) -> pa.Table:
    """The data files, by partition and bucket."""
    then, live = _live(table)
    live = _in_real_buckets(live)
    names = partition_names(then, live.partitions)
    live = live.take(sorted(range(len(live)), key=lambda i: (names[i], int(live.buckets[i]))))
    nulls, minima, maxima = value_stats_texts(then, live)
    return table_of(
        _FILE_FIELDS,
        {
            "partition": partition_texts(then, live.partitions),
            "bucket": pa.array(live.buckets),
            "file_path": [then.paths.data_file_path(entry.partition, entry.bucket, entry.file) for entry in live],
            "file_format": [data_file_format(name) for name in live.file_names],
            "schema_id": pa.array(live.schema_ids),
            "level": pa.array(live.levels),
            "record_count": pa.array(live.row_counts),
            "file_size_in_bytes": pa.array(live.file_sizes),
            "min_key": _key_texts(then, live, "_MIN_KEY"),
            "max_key": _key_texts(then, live, "_MAX_KEY"),
            "null_value_counts": nulls,
            "min_value_stats": minima,
            "max_value_stats": maxima,
            "min_sequence_number": live.file_values("_MIN_SEQUENCE_NUMBER"),
            "max_sequence_number": live.file_values("_MAX_SEQUENCE_NUMBER"),
            "creation_time": _wall_clock([entry.file.creation_time_millis for entry in live]),
            "deleteRowCount": live.file_values("_DELETE_ROW_COUNT"),
            "file_source": [None if s is None else FileSource(s).name for s in live.file_values("_FILE_SOURCE")],
            "first_row_id": live.file_values("_FIRST_ROW_ID"),
            "write_cols": live.file_values("_WRITE_COLS"),
        },
    )


def _key_texts(table: FileStoreTable, live: ManifestColumns, key: str) -> list[str | None]:
    """Least or greatest keys; None of files without keys."""
    rows = live.file_values(key)
    found: list[str | None] = [None] * len(live)
    for schema_id in np.unique(live.schema_ids).tolist():
        schema = table.schemas.get(schema_id)
        types = [schema.field(name).type for name in schema.trimmed_primary_keys]
        arity = len(types).to_bytes(_ARITY_BYTES, "big")
        at = [i for i in np.flatnonzero(live.schema_ids == schema_id) if rows[i][:_ARITY_BYTES] == arity]
        if types and at:
            keys = decode_rows([rows[i] for i in at], types, serialized=True)
            for i, text in zip(at, key_texts(keys, types, len(at)).to_pylist(), strict=True):
                found[i] = text
    return found


def _manifests(table: FileStoreTable) -> pa.Table:
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

    return table_of(
        _MANIFEST_FIELDS,
        {
            "file_name": [manifest.file_name for manifest in found],
            "file_size": [manifest.file_size for manifest in found],
            "num_added_files": [manifest.num_added_files for manifest in found],
            "num_deleted_files": [manifest.num_deleted_files for manifest in found],
            "schema_id": [manifest.schema_id for manifest in found],
            "min_partition_stats": stats([each.min_values for each in known]),
            "max_partition_stats": stats([each.max_values for each in known]),
            "min_row_id": [manifest.min_row_id for manifest in found],
            "max_row_id": [manifest.max_row_id for manifest in found],
        },
    )


def _grouped(live: ManifestColumns, keys: Sequence[Any]) -> tuple[list[int], dict[str, list[Any]]]:
    """Sums over the files of equal key: the first file of each group, and the columns that both tables share."""
    numbers: dict[Any, int] = {}
    group = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    first = np.unique(group, return_index=True)[1].tolist()
    times = [entry.file.creation_time_millis for entry in live]
    latest: list[int | None] = [None] * len(numbers)
    for number, millis in zip(group.tolist(), times, strict=True):
        known = latest[number]
        latest[number] = millis if known is None else known if millis is None else max(known, millis)

    def total(values: Any) -> list[int]:
        sums = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(sums, group, values)
        return [int(value) for value in sums]

    return first, {
        "record_count": total(live.row_counts),
        "file_size_in_bytes": total(live.file_sizes),
        "file_count": total(np.ones(len(live), dtype=np.int64)),
        "last_update_time": _wall_clock(latest),
    }


def _wall_clock(millis: Sequence[int | None]) -> pa.Array:
    """Creation times of files, which are wall clock times already."""
    return pa.array(millis, pa.int64()).view(pa.timestamp("ms"))


def _partitions(table: FileStoreTable) -> pa.Table:
    """The partitions that have files, sorted by name."""
    then, live = _live(table)
    live = _in_real_buckets(live)
    first, sums = _grouped(live, live.partitions)
    count = len(first)
    nothing: list[None] = [None] * count
    found = table_of(
        _PARTITION_FIELDS,
        {
            **sums,
            "partition": partition_names(then, [live.partitions[i] for i in first]),
            "created_at": nothing,
            "created_by": nothing,
            "updated_by": nothing,
            "options": nothing,
            "total_buckets": [int(live.total_buckets[i]) for i in first],
            "done": [False] * count,
            "deleted_record_count": nothing,
        },
    )
    return found.sort_by("partition")


def _buckets(table: FileStoreTable) -> pa.Table:
    """The buckets that have files, sorted by partition and number."""
    then, live = _live(table)
    first, sums = _grouped(live, list(zip(live.partitions, live.buckets.tolist(), strict=True)))
    found = table_of(
        _BUCKET_FIELDS,
        {
            **sums,
            "partition": partition_texts(then, [live.partitions[i] for i in first]),
            "bucket": [int(live.buckets[i]) for i in first],
        },
    )
    return found.sort_by([("partition", "ascending"), ("bucket", "ascending")])


FILE_TABLES = (
    SystemTable("files", _FILE_FIELDS, _files, travels=True),
    SystemTable("manifests", _MANIFEST_FIELDS, _manifests, travels=True),
    SystemTable("partitions", _PARTITION_FIELDS, _partitions, travels=True),
    SystemTable("buckets", _BUCKET_FIELDS, _buckets, travels=True),
)
"""The system tables of this module."""
