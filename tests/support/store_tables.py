"""Tables of two columns that lie on stores."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches

FIELDS = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", IntType())]
_COLUMNS = pa.schema([("k", pa.int32()), ("v", pa.int32())])


def insert(table: FileStoreTable, rows: Mapping[int, int]) -> int | None:
    plan = plan_write(table, data_schema=_COLUMNS)
    batch = pa.RecordBatch.from_pydict({"k": list(rows), "v": list(rows.values())}, schema=_COLUMNS)
    return commit(table, [write_batches(plan, iter([batch]), 0)], planned_on=plan.snapshot)


def rows_of(table: FileStoreTable) -> dict[int, int]:
    plan = TableScan.of(table, ROWS).select().plan()
    batches = [batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields)]
    return {row["k"]: row["v"] for batch in batches for row in batch.to_pylist()}
