"""Whether the rows of a write had each key once is reported by what its tasks wrote."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.read.superseded_rows import has_key_twice
from paimon_spark.spark.jobs.keyed_merges import merged_rows, overlapping_files
from paimon_spark.spec import data_types as t
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches


@pytest.mark.parametrize(
    ("parts", "merged", "overlap", "twice"),
    [
        ([[1, 2, 3], [4, 5]], False, False, False),
        ([[1, 2, 2]], True, False, False),
        ([[1, 5], [3, 9]], False, True, False),
        ([[1, 5], [3, 5]], False, True, True),
        ([[1, 5], [2, 6], [9, 12], [10, 9]], False, True, True),
        ([], False, False, False),
    ],
)
def test_keys(tmp_path: Path, parts: list[list[int]], merged: bool, overlap: bool, twice: bool) -> None:
    path = str(tmp_path / "t")
    fields = [t.DataField(0, "k", t.IntType(nullable=False)), t.DataField(1, "v", t.IntType())]
    table = create_table(path, create_schema(fields, ("k",), (), {"bucket": "1"}, None))
    batches = [pa.RecordBatch.from_pydict({"k": pa.array(p, pa.int32()), "v": pa.array(p, pa.int32())}) for p in parts]
    messages = [write_batches(plan_write(table, data_schema=b.schema), [b], at) for at, b in enumerate(batches)]
    assert merged_rows(messages) is merged
    found = overlapping_files(table.schema, messages)
    assert bool(found) is overlap
    assert has_key_twice(table, found) is twice
    written = [(p.partition, p.bucket, file) for m in messages for p in m.messages for file in p.new_files]
    delete_written(table, written)
    assert not list(tmp_path.rglob("*.parquet"))
