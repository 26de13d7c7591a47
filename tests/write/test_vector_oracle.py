"""VECTOR columns, written and read by us and by Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import DataError
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle


def ours(path: str) -> pa.Table:
    table, view = load_table(path), find_view(None)
    assert view is not None
    plan = plan_of(table, view)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_vectors_of_both_engines(oracle: Any, file_format: str, key: tuple[str, ...], tmp_path: Path) -> None:
    name = oracle.fresh_name("vector")
    columns = [("k", "INT NOT NULL"), ("e", "VECTOR<FLOAT, 3>"), ("n", "VECTOR<INT, 2>"), ("b", "VECTOR<BOOLEAN, 1>")]
    options = {"bucket": "1" if key else "-1", "file.format": file_format}
    java_can = file_format != "parquet"  # Java 1.4.2 cannot, later versions write a VECTOR as an ARRAY
    if java_can:
        oracle.create(name, columns, pk=key, options=options)
        path = oracle.location(name).removeprefix("file:")
    else:
        path = str(tmp_path / "t")
        fields = [DataField(0, column, parse_type(kind)) for column, kind in columns]
        create_table(path, create_schema(fields, key, options=options))
    rows = [(i, None if i % 4 == 0 else [i / 2, -1.5, 0.0], [i, -i], [i % 2 == 0]) for i in range(20)]
    if java_can:
        oracle.write(name, rows)
    table = load_table(path)
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    more = [dict(zip(schema.names, (row[0] + 10, *row[1:]), strict=True)) for row in rows]
    commit(table, [write_batches(plan, [pa.RecordBatch.from_pylist(more, schema)], 0)])
    found = ours(path)
    assert found.num_rows == (20 if not java_can else 30 if key else 40)
    written = pa.Table.from_pylist(more, schema)
    assert row_multiset(found) == row_multiset(oracle.read(name) if java_can else written)
    wrong = pa.RecordBatch.from_pylist([{"k": 1, "e": [1.0, 2.0], "n": None, "b": None}], schema)
    with pytest.raises(DataError, match="3"):
        write_batches(plan, [wrong], 1)
