"""Filters on the values of keys of maps: exact on rows, and by indexes of these keys on files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, IntType, MapType, VarCharType
from paimon_spark.spec.predicate import evaluate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.spec.sql_text import filter_text
from paimon_spark.table.schema_change import RenameColumn
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

TEXT = VarCharType(VarCharType.MAX)
FIELDS = (
    DataField(0, "k", IntType(nullable=False)),
    DataField(1, "m", MapType(TEXT, TEXT)),
    DataField(2, "n", MapType(TEXT, IntType())),
    DataField(3, "o", MapType(IntType(), TEXT)),
)
ROWS: list[tuple[Any, ...]] = [
    (0, [("a", "x"), ("b", "y")], [("a", 1)], None),
    (1, [("b", "x")], [("a", None)], []),
    (2, None, [("a", 7), ("c d", 2)], []),
    (3, [], None, []),
    (4, [("a", None), ("it's", "x")], [("a", -3)], []),
]
CONDITIONS: dict[str, list[int]] = {
    "m['a'] = 'x'": [0],
    "'x' = m['b']": [1],
    "m['a'] IS NULL": [1, 2, 3, 4],
    "m['a'] IS NOT NULL": [0],
    "NOT (m['b'] = 'x')": [0],
    "m['b'] IN ('x', 'z')": [1],
    "m['b'] LIKE 'y%'": [0],
    "M['it''s'] = 'x'": [4],
    "n['a'] > 0": [0, 2],
    "n['a'] BETWEEN -3 AND 1": [0, 4],
    "n['c d'] = 2 OR m['a'] = 'x'": [0, 2],
    "m['a'] = 'x' AND k = 1": [],
    "m['a'] <=> NULL AND k < 3": [1, 2],
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows(condition: str) -> None:
    predicate = parse_filter(condition, FIELDS)
    schema = to_arrow_schema(FIELDS)
    rows = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in ROWS], schema)
    batch = rows.to_batches()[0]
    assert batch.filter(evaluate(predicate, batch)).column("k").to_pylist() == CONDITIONS[condition]
    assert parse_filter(filter_text(predicate), FIELDS) == predicate


@pytest.mark.parametrize("condition", ["o[1] = 'x'", "k['a'] = 1", "m[k] = 'x'", "m['a']['b'] = 'x'", "n['a'] = 'x'"])
def test_what_is_refused(condition: str) -> None:
    with pytest.raises(OptionError, match="Cannot use the filter"):
        parse_filter(condition, FIELDS)


def write(table: FileStoreTable, rows: list[tuple[Any, ...]]) -> None:
    schema = to_arrow_schema(table.schema.fields)
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    plan = plan_write(table, data_schema=data.schema)
    commit(plan.table, [write_batches(plan, data.to_batches(), 0)])


@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "append"])
@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_indexes_leave_out_files(tmp_path: Path, threshold: str, *, keyed: bool) -> None:
    options = {
        "bucket": "1" if keyed else "-1",
        "write-only": "true",
        "file-index.bloom-filter.columns": "m[a],m[b]",
        "file-index.bloom-filter.m.items": "100",
        "file-index.bitmap.columns": "n[a]",
        "file-index.in-manifest-threshold": threshold,
    }
    schema = create_schema(FIELDS, ["k"] if keyed else [], [], options)
    table = create_table(str(tmp_path / "t"), schema)
    for at in range(10):
        write(table, [(at * 5 + i, [("a", f"v{at}"), ("b", "same")], [("a", at)], None) for i in range(5)])

    def files(condition: str, column: str = "m") -> int:
        loaded = load_table(table.path)
        plan = plan_of(loaded, predicate=parse_filter(condition, loaded.schema))
        batches = [b for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual)]
        every = [b for s in plan_of(loaded).splits for b in plan.read(plan.table, s, plan.fields, None)]
        mask = [evaluate(parse_filter(condition, loaded.schema), batch) for batch in every]
        assert sum(b.num_rows for b in batches) == sum(pc.sum(found).as_py() or 0 for found in mask)
        return sum(len(split.files) for split in plan.splits)

    whole = 10
    if keyed:  # runs of level 0 may hold other rows of a key: a bucket goes as a whole
        assert files("m['a'] = 'v3'") == whole
        assert files("m['a'] = 'nothing'") == 0
        return
    assert files("m['a'] = 'v3'") == 1
    assert files("m['a'] IN ('v3', 'v7')") == 2
    assert files("m['a'] = 'v3' OR n['a'] = 5") == 2
    assert files("m['b'] = 'same'") == whole
    assert files("m['b'] = 'other'") == 0
    assert files("n['a'] = 4") == 1
    assert files("n['a'] IS NULL") == 0
    assert files("m['c'] IS NULL") == whole
    alter_table(load_table(table.path), [RenameColumn(("m",), "p")])
    assert files("p['a'] = 'v3'") == 1
