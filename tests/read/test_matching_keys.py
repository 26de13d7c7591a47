"""Keys that a condition on values may match: with them the same rows come as from a merge of all."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import DataError
from paimon_spark.read import split_read
from paimon_spark.read.split_read import conditions_on_rows, read_split
from paimon_spark.spec.arrow_types import from_arrow_schema, to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import Leaf, Not, Predicate, all_of, any_of, evaluate, matching
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import golden_tables
from tests.support.merge_cases import (
    MergeCase,
    aggregation_cases,
    deduplicate_cases,
    engine_of,
    first_row_cases,
    partial_update_cases,
)
from tests.support.plans import plan_of
from tests.support.seeds import chance

CASES = st.one_of(deduplicate_cases(), partial_update_cases(), aggregation_cases(), first_row_cases())


def a_condition(chosen: random.Random, rows: pa.Table, names: list[str]) -> Predicate:
    """A random condition over columns whose values can be compared, with values that are there."""
    leaves: list[Predicate] = []
    for _ in range(chosen.randint(1, 4)):
        name = chosen.choice(names)
        value = chosen.choice([*rows.column(name).drop_null().to_pylist(), None])
        leaf = Leaf(chosen.choice(["eq", "ne", "lt", "ge"]), name, (value,))
        null = Leaf(chosen.choice(["is_null", "is_not_null"]), name)
        leaves.append(chosen.choice([leaf, leaf, Not(leaf), null, any_of((leaf, null))]))
    if len(leaves) > 2:
        leaves = [any_of(leaves[:2]), *leaves[2:]]
    return chosen.choice([all_of, all_of, any_of])(leaves)


def comparable(schema: pa.Schema) -> list[str]:
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_decimal, pa.types.is_floating, pa.types.is_boolean)
    return [f.name for f in schema if any(t(f.type) for t in tests) and not f.name.startswith("_")]


@given(CASES, st.integers(0, 2**32))
def test_a_merged_row_that_matches_has_a_row_that_does(case: MergeCase, seed: int) -> None:
    engine, rows = case.engine(), case.table()
    try:
        merged = engine.merge(rows, drop_deletes=True)
    except DataError:
        return
    predicate = a_condition(random.Random(seed), rows, comparable(rows.schema) or list(case.keys)[:1])
    columns = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(case.columns.items())]
    wins = case.options.get("merge-engine", "deduplicate") in ("deduplicate", "first-row")
    keys = keys_of(merged.filter(evaluate(predicate, merged)), case.keys)
    for condition in conditions_on_rows(predicate, columns, engine, one_row_wins=wins):
        assert keys <= keys_of(rows.filter(evaluate(condition, rows)), case.keys), condition


@pytest.mark.parametrize(
    ("predicate", "used"),
    [
        (Leaf("eq", "total", (7,)), False),
        (Leaf("eq", "last", (7,)), True),
        (Leaf("is_null", "last"), False),
        (Not(Leaf("eq", "last", (7,))), True),
        (any_of((Leaf("eq", "last", (7,)), Leaf("gt", "first", (7,)))), True),
        (any_of((Leaf("eq", "last", (7,)), Leaf("is_null", "first"))), False),
        (any_of((Leaf("eq", "last", (7,)), Leaf("eq", "total", (7,)))), False),
        (Leaf("eq", "k", (7,)), False),
    ],
)
def test_conditions_of_an_aggregation(predicate: Predicate, used: bool) -> None:
    """A sum is the value of none of its rows; a value that is null in the end is not null in any row, perhaps."""
    columns = {"k": "INT NOT NULL", "total": "INT", "last": "INT", "first": "INT"}
    functions = {"total": "sum", "last": "last_non_null_value", "first": "first_value"}
    options = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    engine = engine_of(columns, ["k"], {"merge-engine": "aggregation", **options})
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]
    found = conditions_on_rows(predicate, fields, engine, one_row_wins=False)
    assert found == ([predicate] if used else [])


def keys_of(rows: pa.Table, keys: Any) -> set[str]:
    return {repr(row) for row in rows.select(list(keys)).to_pylist()}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Sections of any size are looked at, however many rows match; what was found of each."""
    found: list[Any] = []
    look = split_read.matching_keys
    for name in ("LEAST_BYTES", "_LEAST_COLUMNS"):
        monkeypatch.setattr(split_read, name, 0)
    monkeypatch.setattr("paimon_spark.read.split_read.matching_keys", lambda *a: found.append(look(*a)) or found[-1])
    return found


def read(plan: Any, predicate: Predicate | None = None) -> pa.Table:
    batches = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, predicate)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def test_golden_tables_give_the_rows_of_a_whole_merge(golden: Path, always: list[Any]) -> None:
    for case in golden_tables():
        path = golden / case.name / "table"
        table = load_table(str(path)) if (path / "schema").exists() else None
        if table is None or not table.schema.primary_keys or table.snapshots.latest() is None:
            continue
        plan = plan_of(table)
        names = comparable(to_arrow_schema(plan.fields))
        if plan.read is not read_split or not names:
            continue
        try:
            whole = read(plan)
        except DataError:  # a table that holds what its functions cannot take
            continue
        for number in range(2):
            predicate = a_condition(chance("matching", case.name, number), whole, names)
            expected = whole.filter(evaluate(predicate, whole))
            assert sorted(map(repr, read(plan, predicate).to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert len([keys for keys in always if keys is not None]) > 30


def test_few_rows_of_large_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of which one run has the value and another what is newest is merged of both; all others are left out."""
    monkeypatch.setattr(split_read, "LEAST_BYTES", 0)
    rows = 70_000
    data = pa.table({n: pa.array(range(rows), pa.int64()) for n in ("a", "b", "v", "x", "y")})
    options = {"bucket": "1", "merge-engine": "partial-update", "write-only": "true"}
    fields = from_arrow_schema(data.schema)
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("a", "b"), (), options, None))
    for part in (data, data.set_column(2, "v", pa.nulls(rows, pa.int64()))):
        plan = plan_write(table, data_schema=part.schema)
        commit(table, [write_batches(plan, part.to_batches(), 0)])
    merged: list[int] = []
    merge = split_read.MatchingKeys.rows

    def counted(self: Any, batches: Any) -> Any:
        for batch in merge(self, batches):
            merged.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(split_read.MatchingKeys, "rows", counted)
    plan = plan_of(load_table(str(tmp_path / "t")))
    for values in (["in", 7, 9], ["between", 100, 4_000]):
        merged.clear()
        predicate = Leaf(str(values[0]), "v", tuple(values[1:]))
        assert read(plan, predicate).to_pylist() == matching(predicate, data.to_batches()[0]).to_pylist()
        assert sum(merged) == 2 * evaluate(predicate, data).true_count
