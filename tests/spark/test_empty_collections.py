"""Collections that are empty in every row, as Spark 4.0 to 4.2 sends them: without offsets. No JVM is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.split_read import read_split
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = {
    "k": ("BIGINT NOT NULL", pa.int64(), 1),
    "a": ("ARRAY<ARRAY<TIMESTAMP(6)>>", pa.list_(pa.list_(pa.timestamp("us"))), []),
    "b": ("ARRAY<MAP<STRING, ARRAY<INT>>>", pa.list_(pa.map_(pa.string(), pa.list_(pa.int32()))), []),
    "m": ("MAP<STRING, ARRAY<STRING>>", pa.map_(pa.string(), pa.list_(pa.string())), []),
    "r": ("ROW<x ARRAY<ROW<y ARRAY<STRING>>>>", pa.struct({"x": pa.list_(pa.struct({"y": pa.list_(pa.string())}))}), 0),
    "n": ("ARRAY<ARRAY<ARRAY<STRING>>>", pa.list_(pa.list_(pa.list_(pa.string()))), [[]]),
}


def as_spark_sends(array: pa.Array) -> pa.Array:
    """The same array; offsets of arrays without values are left out."""
    kind = array.type
    buffers = array.buffers()[:2]
    if pa.types.is_struct(kind):
        children = [as_spark_sends(array.field(at)) for at in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), buffers[:1], array.null_count, 0, children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        if pa.types.is_map(kind):
            keys, items = as_spark_sends(array.keys), as_spark_sends(array.items)
            child = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        else:
            child = as_spark_sends(array.values)
        buffers = buffers if len(array) else [None, None]
        return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, 0, [child])
    if pa.types.is_string(kind) and not len(array):
        return pa.Array.from_buffers(kind, 0, [None, None, pa.py_buffer(b"")])
    return array


def offsets(array: pa.Array) -> Iterator[pa.Buffer | None]:
    """The offsets of an array and of all below it."""
    kind = array.type
    if pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from offsets(array.field(at))
    elif pa.types.is_map(kind):
        yield array.buffers()[1]
        yield from offsets(array.keys)
        yield from offsets(array.items)
    elif pa.types.is_list(kind):
        yield array.buffers()[1]
        yield from offsets(array.values)
    elif pa.types.is_string(kind):
        yield array.buffers()[1]


def batch() -> pa.RecordBatch:
    rows = [
        {name: {"x": []} if name == "r" else value for name, (_, _, value) in COLUMNS.items()} | {"k": k}
        for k in range(3)
    ]
    rows[1] = rows[1] | {"a": None, "m": None, "r": None}
    plain = pa.RecordBatch.from_pylist(rows, schema=pa.schema({name: kind for name, (_, kind, _) in COLUMNS.items()}))
    return pa.RecordBatch.from_arrays([as_spark_sends(column) for column in plain.columns], schema=plain.schema)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("key", [(), ("k",)], ids=["append", "primary key"])
def test_empty_collections_of_spark_are_written(tmp_path: Path, file_format: str, key: tuple[str, ...]) -> None:
    sent = batch()
    assert any(b is None for column in sent.columns for b in offsets(column))
    (sound,) = batches_from_spark([sent], sent.schema)
    # What follows would end the process if this did not hold.
    assert all(b is not None and b.size >= 4 for column in sound.columns for b in offsets(column))
    assert sound.equals(sent)
    fields = [DataField(at, name, parse_type(kind)) for at, (name, (kind, _, _)) in enumerate(COLUMNS.items())]
    options = {"file.format": file_format, "bucket": "1" if key else "-1", "write-only": "true"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, key, (), options, None))
    for _ in range(2):
        plan = plan_write(table, data_schema=sent.schema)
        commit(table, [write_batches(plan, batches_from_spark([batch()], sent.schema), 0)])
    plan = plan_of(table)
    found = [row for s in plan.splits for b in read_split(table, s, plan.fields) for row in b.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, sent.to_pylist() * (1 if key else 2)))
