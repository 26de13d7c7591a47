"""What merges hold: loaded rows, their copies and what decodes them stay within twice the budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.merge.stream import key_pieces
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.memory import arrow_peak
from tests.support.plans import plan_of

BUDGET = 32 << 20
RUNS, ROWS = 10, 5_000
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def overlapping_runs(path: Path) -> FileStoreTable:
    """A bucket of runs that overlap, each of the memory that the budget has."""
    fields = [DataField(0, "k", parse_type("BIGINT NOT NULL")), DataField(1, "v", parse_type("STRING"))]
    options = {"bucket": "1", "write-only": "true", "read.merge.memory-budget": f"{BUDGET}"}
    table = create_table(str(path / "t"), create_schema(fields, ("k",), (), options, None))
    random = np.random.default_rng(0)
    for _ in range(RUNS):
        keys = np.sort(random.choice(2 * ROWS, ROWS, replace=False))
        commit(table, [write_batches(plan_write(table, data_schema=SCHEMA), [wide_rows(keys)], 0)])
    return table


def wide_rows(keys: np.ndarray) -> pa.RecordBatch:
    data = np.random.default_rng(1).integers(97, 122, len(keys) * 2000, dtype=np.uint8)
    ends = np.arange(0, len(data) + 1, 2000, dtype=np.int32)
    texts = pa.StringArray.from_buffers(len(keys), pa.py_buffer(ends), pa.py_buffer(data))
    return pa.RecordBatch.from_arrays([pa.array(keys), texts], schema=SCHEMA)


def test_runs_of_wide_rows_that_overlap(tmp_path: Path) -> None:
    """Each run decodes a file, of which it keeps pages, not the stored bytes of a row group."""
    plan = plan_of(overlapping_runs(tmp_path))
    with arrow_peak() as peak:
        rows = sum(b.num_rows for split in plan.splits for b in read_split(plan.table, split, plan.fields, None))
    assert ROWS < rows <= 2 * ROWS
    assert peak.bytes < 2 * BUDGET


def test_a_buffer_is_merged_piece_by_piece(tmp_path: Path) -> None:
    """A full write buffer of 64 MB is not copied as a whole: that would take three times as much."""
    fields = [DataField(0, "k", parse_type("BIGINT NOT NULL")), DataField(1, "v", parse_type("STRING"))]
    options = {"bucket": "1", "write-only": "true", "write-buffer-size": "64 mb"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("k",), (), options, None))
    plan = plan_write(table, data_schema=SCHEMA)

    def batches() -> Iterator[pa.RecordBatch]:
        keys = np.random.default_rng(0).permutation(90_000)
        for start in range(0, len(keys), 1000):
            yield wide_rows(keys[start : start + 1000])

    with arrow_peak() as peak:
        message = write_batches(plan, batches(), 0)
    assert message.rows == 90_000
    print(peak.bytes >> 20)
    assert peak.bytes < 2 * (64 << 20)


@pytest.mark.parametrize("chunks", [1, 7])
def test_pieces_have_whole_keys_in_order_and_rows_as_they_came(chunks: int) -> None:
    random = np.random.default_rng(chunks)
    rows = pa.table({"k": random.integers(0, 50, 1000), "at": np.arange(1000)})
    parts = pa.concat_tables([rows.slice(start, 1000 // chunks + 1) for start in range(0, 1000, 1000 // chunks + 1)])
    pieces = list(key_pieces(parts, ["k"], piece_bytes=1000))
    assert len(pieces) > 5
    assert all(bool(pc.all(pc.greater(np.diff(piece["at"]), 0)).as_py()) for piece in pieces)
    ends = [pc.min_max(piece["k"]).as_py() for piece in pieces]
    assert all(before["max"] < after["min"] for before, after in pairwise(ends))
    assert pa.concat_tables(pieces).sort_by("at").equals(rows)
