"""``files`` and ``file_key_ranges``: the data files of one version, one row each.

Equal Java's ``FilesTable`` and ``FileKeyRangesTable``. Rows are made for some files at a time, so that memory holds
little more than the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_spark.spec.data_types import ArrayType, IntType
from paimon_spark.spec.file_names import data_file_format
from paimon_spark.spec.manifest import FileSource
from paimon_spark.table.system.definition import LONG, STRING, TIME, SystemTable, columns, required, table_of
from paimon_spark.table.system.file_stats import value_stats_texts
from paimon_spark.table.system.live_files import files_shown, wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.table.system.live_files import LiveFiles
    from paimon_spark.table.table import FileStoreTable

    Rows = Callable[[LiveFiles, ManifestColumns, Sequence[int]], Mapping[str, Any]]

_COMMON_TYPES: dict[str, DataType] = {
    "partition": STRING,
    "bucket": required(IntType()),
    "file_path": required(STRING),
    "file_format": required(STRING),
    "schema_id": required(LONG),
    "level": required(IntType()),
    "record_count": required(LONG),
    "file_size_in_bytes": required(LONG),
    "min_key": STRING,
    "max_key": STRING,
}
"""The first columns of both tables."""
_FILE_FIELDS = columns(
    **_COMMON_TYPES,
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
_KEY_RANGE_FIELDS = columns(
    **_COMMON_TYPES,
    first_row_id=LONG,
)
_SOURCES: dict[int | None, str | None] = {None: None, **{source.value: source.name for source in FileSource}}


def _key_ranges(live: LiveFiles, files: ManifestColumns, numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "partition": [live.texts[number] for number in numbers],
        "bucket": pa.array(files.buckets),
        "file_path": live.paths(files),
        "file_format": [data_file_format(name) for name in files.file_names],
        "schema_id": pa.array(files.schema_ids),
        "level": pa.array(files.levels),
        "record_count": pa.array(files.row_counts),
        "file_size_in_bytes": pa.array(files.file_sizes),
        "min_key": live.key_texts(files, "_MIN_KEY"),
        "max_key": live.key_texts(files, "_MAX_KEY"),
        "first_row_id": files.file_values("_FIRST_ROW_ID"),
    }


def _all_columns(live: LiveFiles, files: ManifestColumns, numbers: Sequence[int]) -> dict[str, Any]:
    nulls, minima, maxima = value_stats_texts(live.table, files)
    return {
        **_key_ranges(live, files, numbers),
        "null_value_counts": nulls,
        "min_value_stats": minima,
        "max_value_stats": maxima,
        "min_sequence_number": files.file_values("_MIN_SEQUENCE_NUMBER"),
        "max_sequence_number": files.file_values("_MAX_SEQUENCE_NUMBER"),
        "creation_time": wall_clock(files.file_values("_CREATION_TIME")),
        "deleteRowCount": files.file_values("_DELETE_ROW_COUNT"),
        "file_source": [_SOURCES[source] for source in files.file_values("_FILE_SOURCE")],
        "write_cols": files.file_values("_WRITE_COLS"),
    }


def _by_bucket(table: FileStoreTable, fields: Sequence[DataField], rows: Rows) -> pa.Table:
    """Rows of the living files, by partition and bucket."""
    parts = [table_of(fields, {field.name: [] for field in fields})]
    names: list[str] = []
    buckets: list[int] = []
    for live, files in files_shown(table):
        of_these = live.partition_numbers(files.partitions)
        parts.append(table_of(fields, rows(live, files, of_these)))
        names += [live.names[number] for number in of_these]
        buckets += files.buckets.tolist()
    found = pa.concat_tables(parts)
    ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
    locations = np.array([ranks[name] for name in names], dtype=np.int64)
    order = np.lexsort((np.array(buckets, dtype=np.int64), locations))
    return found if (np.diff(order) == 1).all() else found.take(order)


FILE_TABLES = (
    SystemTable("files", _FILE_FIELDS, lambda table: _by_bucket(table, _FILE_FIELDS, _all_columns), travels=True),
    SystemTable(
        "file_key_ranges",
        _KEY_RANGE_FIELDS,
        lambda table: _by_bucket(table, _KEY_RANGE_FIELDS, _key_ranges),
        travels=True,
    ),
)
"""The system tables of this module."""
