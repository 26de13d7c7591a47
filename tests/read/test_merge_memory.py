"""The memory of a merge is bounded by its budget, however well the rows are compressed in their files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, parse_type
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.table.table import create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches

ROWS, VALUE_BYTES, RUNS, BUDGET_MB = 400, 256 << 10, 3, 16
DECODED_MB = ROWS * VALUE_BYTES * RUNS >> 20  # 300

READ = """
import sys
from tests.support.plans import plan_of
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import load_table

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10

table = load_table(sys.argv[1])
plan = plan_of(table)
rows = 0
for split in plan.splits:
    for batch in read_split(table, split, plan.fields, plan.residual):
        rows += batch.num_rows
        assert all(len(v) >= 1000 for v in batch.column(1).slice(0, 1).to_pylist())
print(rows, peak())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("file_format", "values", "engine"),
    [
        *((kind, values, {}) for kind in ("parquet", "orc", "avro") for values in ("repeated", "distinct")),
        ("parquet", "distinct", {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"}),
        ("parquet", "distinct", {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("fields.v.aggregate-function", "deduplicate"),
)
def test_a_merge_of_large_rows_keeps_to_its_budget(
    tmp_path: Path, file_format: str, values: str, engine: dict[str, str]
) -> None:
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate([("k", "INT NOT NULL"), ("v", "STRING")])]
    options = {"bucket": "1", "file.format": file_format, "read.merge.memory-budget": f"{BUDGET_MB} mb", **engine}
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("k",), (), options, None))
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    for run in range(RUNS):
        plan = plan_write(table, data_schema=schema)
        batches = (
            pa.record_batch(
                [pa.array(range(at, at + 10), pa.int32()), [_value(run, k, values) for k in range(at, at + 10)]],
                schema=schema,
            )
            for at in range(0, ROWS, 10)
        )
        commit(table, [write_batches(plan, batches, 0)])
    sizes = sum(p.stat().st_size for p in Path(table.path, "bucket-0").iterdir())
    assert sizes < (DECODED_MB << 20) / 20
    done = subprocess.run(
        [sys.executable, "-c", READ, table.path], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    rows, peak = map(int, done.stdout.split())
    assert rows == ROWS
    assert peak < 340  # 130 of them are libraries; all rows at once took 690 to 920


def _value(run: int, key: int, values: str) -> str:
    return "x" * VALUE_BYTES if values == "repeated" else f"{run}.{key}." + "x" * VALUE_BYTES


FIELDS = [DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "v", parse_type("STRING"))]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_batches_shrink_where_rows_grow(tmp_path: Path, file_format: str) -> None:
    path = str(tmp_path / f"f.{file_format}")
    file_io = FileIO.for_path(path)
    texts = ["s"] * 3000 + ["y" * 50_000 + str(i) for i in range(300)] + ["s"] * 100
    rows = pa.table({"k": pa.array(range(len(texts)), pa.int32()), "v": texts})
    rows = rows.cast(pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())]))
    writer = create_data_file(file_io, path, file_format, FIELDS)
    writer.write(rows)
    writer.close()
    with open_data_file(file_io, path, file_format) as reader:
        batches = list(reader.read_batches(FIELDS, batch_bytes=1 << 20, batch_rows=1000))
        assert pa.Table.from_batches(batches).equals(rows)
        assert all(batch.num_rows <= 1000 for batch in batches)
        large = [batch.nbytes for batch in batches if batch.nbytes > 4 << 20]
        assert len(large) <= 1  # the one that shows that rows grow
        again = list(reader.read_batches(FIELDS, batch_bytes=100 << 20))
        assert pa.Table.from_batches(again).equals(rows)
        keys = list(reader.read_batches(FIELDS[:1], batch_bytes=1 << 20))
        assert pa.Table.from_batches(keys).equals(rows.select(["k"]))
        assert file_format == "avro" or len(keys) == 1


@pytest.mark.parametrize("nested", [False, True])
def test_sizes_of_older_writers_are_counted(tmp_path: Path, nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without size statistics (parquet-format before 2.10): strings are counted by their dictionaries."""
    monkeypatch.setattr("paimon_spark.storage.parquet_sizes._unencoded_bytes", lambda *_: None)
    kind = "ARRAY<ROW<s STRING>>" if nested else "STRING"
    fields = [DataField(0, "v", parse_type(kind))]
    values = [[{"s": "z" * 10_000}] * 5 if nested else "z" * 50_000] * 400
    path = str(tmp_path / "f.parquet")
    file_io = FileIO.for_path(path)
    writer = create_data_file(file_io, path, "parquet", fields)
    writer.write(pa.table([pa.array(values, to_arrow_schema(fields).field(0).type)], schema=to_arrow_schema(fields)))
    writer.close()
    assert pq.read_metadata(path).row_group(0).total_byte_size < 100_000
    with open_data_file(file_io, path, "parquet") as reader:
        batches = list(reader.read_batches(fields, batch_bytes=1 << 20))
    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert pa.Table.from_batches(batches).column(0).to_pylist() == values
