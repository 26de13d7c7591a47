"""Indexes hold each value once, however often it comes: while a file is written, and when they are rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.index_rewrite import rewrite_file_index
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.memory import arrow_peak

BUDGET = 2 << 20
BATCH, BATCHES, VALUES = 200, 200, 100
SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.string())])
INDEXES = {
    **{"file-index.bitmap.columns": "t,n", "file-index.range-bitmap.columns": "t,n"},
    **{"file-index.bloom-filter.columns": "t", "file-index.bsi.columns": "n"},
}


def rows() -> Iterator[pa.RecordBatch]:
    """40 MB, made as they are asked for: a hundred texts of a kilobyte over and over."""
    texts = pa.array([f"{value} ".ljust(1000, "x") for value in range(VALUES)])
    for number in range(BATCHES):
        values = np.arange(number, number + BATCH) % VALUES
        yield pa.RecordBatch.from_arrays([pa.array(values), texts.take(pa.array(values))], schema=SCHEMA)


def test_twenty_times_the_budget(tmp_path: Path) -> None:
    options = {"write-buffer-size": "2 mb", "read.merge.memory-budget": "2 mb", "parquet.block.size": str(1 << 20)}
    fields = [DataField(0, "n", parse_type("BIGINT")), DataField(1, "t", parse_type("STRING"))]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=options))
    indexed = load_table(table.path, options=INDEXES)
    with arrow_peak() as writing:
        message = write_batches(plan_write(indexed, data_schema=SCHEMA), rows(), 0)
    (file,) = message.messages[0].new_files
    assert (file.row_count, bool(file.extra_files)) == (BATCH * BATCHES, True)
    commit(table, [message])
    with arrow_peak() as rebuilding:
        assert rewrite_file_index(indexed).files == 1
    assert max(writing.bytes, rebuilding.bytes) < 6 * BUDGET, f"{writing.bytes >> 20}, {rebuilding.bytes >> 20} MB"
