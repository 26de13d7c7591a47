"""Tables with deletion vectors that Java writes on the spot: states, changes and system tables are those of Java."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from tests.support import seeds
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle

FORMATS = ["parquet", "orc", "avro"]


def ours(path: str, view: str | None = None, where: str | None = None, **options: str) -> pa.Table:
    table = load_table(path, options=options)
    found = find_view(view)
    assert found is not None
    predicate = None if where is None else parse_filter(where, found.fields(table))
    plan = plan_of(table, found, predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def same(oracle: Any, name: str, view: str | None = None, **options: str) -> int:
    database, table = name.split(".")
    rows = ours(f"{oracle.warehouse}/{database}.db/{table}", view, **options)
    theirs = oracle.read(f"{name}${view}" if view else name, options=options or None)
    assert row_multiset(rows) == row_multiset(theirs), (view, options)
    return rows.num_rows


@pytest.mark.parametrize("file_format", FORMATS)
def test_append_tables(oracle: Any, file_format: str) -> None:
    name = oracle.fresh_name("vectors")
    options = {"deletion-vectors.enabled": "true", "file.format": file_format, "bucket": "-1"}
    oracle.create(name, [("k", "INT"), ("v", "STRING")], options=options)
    oracle.write(name, [(i, f"a{i}") for i in range(20)])
    oracle.delete_where(name, lambda row: row["k"] % 3 == 0)
    oracle.write(name, [(i, f"b{i}") for i in range(20, 30)])
    oracle.delete_where(name, lambda row: row["k"] > 25)
    for snapshot in range(1, 5):
        same(oracle, name, **{"scan.snapshot-id": str(snapshot)})
        same(oracle, name, "audit_log", **{"scan.snapshot-id": str(snapshot)})
    for first, last in ((1, 3), (2, 4), (1, 2)):
        for mode in ("delta", "diff"):
            same(oracle, name, **{"incremental-between": f"{first},{last}", "incremental-between-scan-mode": mode})


@pytest.mark.parametrize("file_format", FORMATS)
def test_key_tables(oracle: Any, file_format: str) -> None:
    """Random upserts and deletes, compacted or not: the same rows as Java's, with every way to look at them."""
    chance = seeds.chance("vectors of key tables", file_format)
    name = oracle.fresh_name("vectors")
    wide = chance.choice(["true", "false"])
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": wide, "file.format": file_format}
    oracle.create(name, [("k", "INT NOT NULL"), ("v", "STRING")], pk=["k"], options={**options, "bucket": "2"})
    database, table = name.split(".")
    path = f"{oracle.warehouse}/{database}.db/{table}"
    model: dict[int, str] = {}
    for step in range(6):
        rows = [(k, f"{step}-{k}") for k in chance.sample(range(40), 20)]
        hidden = {"write-only": "true"} if step > 3 else None
        kinds = chance.choices(["+I", "-D"], [3, 1], k=20)
        oracle.write(name, rows, kinds=kinds, options=hidden)
        for (k, v), kind in zip(rows, kinds, strict=True):
            model = {key: value for key, value in model.items() if key != k} | ({k: v} if kind == "+I" else {})
        same(oracle, name)
        merged = ours(path, **{"deletion-vectors.merge-on-read": "true"})  # an option of 2.1
        assert {row["k"]: row["v"] for row in merged.to_pylist()} == model
        assert merged.num_rows == len(model)
        same(oracle, name, "audit_log")
        same(oracle, name, "ro")
    expected = [row for row in oracle.rows(name) if row[1] > "3"]
    found = ours(path, None, "v > '3'")
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == sorted(expected)
