"""Whether the rows of a write had each key once is reported by what its tasks wrote."""

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.spec import data_types as t
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.table import create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from paimon_spark.write.unique_keys import has_each_key_once


@pytest.mark.parametrize(
    ("parts", "once"),
    [
        ([[1, 2, 3], [4, 5]], True),
        ([[1, 2, 2]], False),  # one buffer merges them
        ([[1, 5], [3, 9]], False),  # cannot be reported: ranges of a bucket meet
        ([], True),
    ],
)
def test_keys(tmp_path: Path, parts: list[list[int]], once: bool) -> None:
    path = str(tmp_path / "t")
    fields = [t.DataField(0, "k", t.IntType(nullable=False)), t.DataField(1, "v", t.IntType())]
    table = create_table(path, create_schema(fields, ("k",), (), {"bucket": "1"}, None))
    batches = [pa.RecordBatch.from_pydict({"k": pa.array(p, pa.int32()), "v": pa.array(p, pa.int32())}) for p in parts]
    messages = [write_batches(plan_write(table, data_schema=b.schema), [b], at) for at, b in enumerate(batches)]
    assert has_each_key_once(table.schema, messages) is once
    written = [(p.partition, p.bucket, file) for m in messages for p in m.messages for file in p.new_files]
    delete_written(table, written)
    assert not list(tmp_path.rglob("*.parquet"))
