"""Tables with small files, as automatic compactions find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.commit.file_store_commit import OverwriteSpec
from paimon_spark.maintain.compact.compaction import Executor
from paimon_spark.spark.source.table_write import SHUFFLED, planned
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.plan import OverwriteMode

KEEP = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}


def write(
    table: FileStoreTable,
    some: dict[int, str],
    *,
    partition: str | None = None,
    kinds: Sequence[int] | None = None,
    execute: Executor | None = None,
    overwrite: bool = False,
) -> int | None:
    """Write as every entry point does."""
    columns: dict[str, Any] = {"k": pa.array(list(some), pa.int32()), "v": pa.array(list(some.values()))}
    if table.schema.partition_keys:
        columns["dt"] = pa.array([partition] * len(some))
    if kinds is not None:
        columns["_VALUE_KIND"] = pa.array(kinds, pa.int8())
    batch = pa.RecordBatch.from_pydict(columns)
    replaced = OverwriteSpec(OverwriteMode.DYNAMIC) if overwrite else None
    one = planned(table, batch.schema, replaced, rows=SHUFFLED)
    return one.commit([one.write_task([batch], 0)], execute)
