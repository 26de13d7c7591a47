"""The metadata of a big append table, made without data files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from paimon_spark.spec.binary_row import EMPTY_ROW, encode_row, serialize_row
from paimon_spark.spec.data_types import BigIntType, DataField, DoubleType, IntType, VarCharType
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.stats import EMPTY_STATS, SimpleStats
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.message import CommitMessage

STRING = VarCharType(length=2147483647)


def planning_schema() -> TableSchema:
    """Partition column `dt` and seven value columns; manifests are never merged."""
    types = [STRING, BigIntType(), BigIntType(), IntType(), DoubleType(), STRING, STRING, IntType()]
    fields = [
        DataField(i, name, t)
        for i, (name, t) in enumerate(zip(["dt", "id", "x", "k", "p", "s", "c", "f"], types, strict=True))
    ]
    options = {
        "bucket": "-1",
        "manifest.merge-min-count": "1000000",
        "manifest.full-compaction-threshold-size": "100 gb",
    }
    return create_schema(fields, (), ("dt",), options, None)


def planning_messages(table: FileStoreTable, manifests: int, files: int) -> Iterator[list[CommitMessage]]:
    """One commit per partition; each has `files` data files with statistics of all columns."""
    types = [f.type for f in table.schema.fields]
    for m in range(manifests):
        day = f"d{m:04d}"
        partition = serialize_row([day], [STRING])
        metas = []
        for i in range(files):
            low, high = (m * files + i) * 1000, (m * files + i) * 1000 + 999
            stats = SimpleStats(
                serialize_row([day, low, low, 0, 0.0, "name-000000000", "city-1", 0], types),
                serialize_row([day, high, high, 9, 9.0, "name-999999999", "city-9", 1], types),
                (0,) * len(types),
            )
            metas.append(_meta(f"data-{m:08d}-0000-4000-8000-000000000000-{i}.parquet", stats))
        yield [CommitMessage(partition=partition, bucket=0, total_buckets=-1, new_files=tuple(metas))]


def _meta(name: str, stats: SimpleStats) -> DataFileMeta:
    empty = EMPTY_STATS
    return DataFileMeta(
        file_name=name,
        file_size=8_000_000,
        row_count=1000,
        min_key=empty.min_values,
        max_key=empty.min_values,
        key_stats=empty,
        value_stats=stats,
        min_sequence_number=0,
        max_sequence_number=999,
        schema_id=0,
        level=0,
        extra_files=(),
        creation_time_millis=int(datetime(2026, 1, 1).timestamp() * 1000),
        delete_row_count=0,
        embedded_file_index=None,
        file_source=0,
        value_stats_cols=None,
        external_path=None,
        first_row_id=None,
        write_cols=None,
        write_cols_sequences=None,
    )


__all__ = ["EMPTY_ROW", "encode_row", "pa", "planning_messages", "planning_schema"]
