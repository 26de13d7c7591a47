"""Tables with file indexes of each kind: what is written, what the indexes hold, what a query then opens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.file_index import decode_head
from paimon_spark.spec.file_index.writer import FileIndexBuilder, index_settings
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING", "n": "INT", "m": "MAP<STRING, INT>"}

INDEXES = {
    "file-index.bloom-filter.columns": "v,k",
    "file-index.bloom-filter.v.items": "100",
    "file-index.bloom-filter.k.items": "100",
    "file-index.bitmap.columns": "v,m[a]",
    "file-index.bsi.columns": "n",
    "file-index.range-bitmap.columns": "n",
}


def make(path: Path, *, key: str = "", **options: str) -> FileStoreTable:
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(COLUMNS.items())]
    options = {"bucket": "1", **INDEXES, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    if not key:
        options["bucket"] = "-1"
    return create_table(str(path), create_schema(fields, (key,) if key else (), (), options, None))


def rows(numbers: list[int]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "v": pa.array([f"v{n % 7}" for n in numbers]),
            "n": pa.array([None if n % 5 == 0 else n for n in numbers], pa.int32()),
            "m": pa.array([[("a", n)] if n % 2 else None for n in numbers], pa.map_(pa.string(), pa.int32())),
        }
    )


def write(table: FileStoreTable, data: pa.Table) -> None:
    plan = plan_write(table, data_schema=data.schema)
    commit(table, [write_batches(plan, data.to_batches(), 0)])


def files_of(table: FileStoreTable) -> list[DataFileMeta]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return [entry.file for entry in table.manifests.live_entries(snapshot)]


def expected(table: FileStoreTable, data: pa.Table) -> dict[str, Any]:
    types = {field.name: field.type for field in table.schema.fields}
    builder = FileIndexBuilder(index_settings(table.schema.options), types)
    builder.add(data)
    return builder.finish()


def bodies(data: bytes) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for part in decode_head(data, path="x"):
        assert part.start is not None
        found.setdefault(part.column, {})[part.index_type] = data[part.start : part.start + part.length]
    return found


OFF = {"file-index.read.enabled": "false"}


def read(table: FileStoreTable, predicate: Predicate | None = None) -> list[dict[str, Any]]:
    plan = plan_of(table, predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return [row for batch in batches for row in batch.to_pylist()]


def multiset(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, found))
