"""Reads of postponed buckets with their postponed rows merged in: the rows of an equal table that got them last."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.row_level import check_row_delete, check_update
from paimon_spark.read.aggregate import count_split
from paimon_spark.read.postponed_read import PostponedSplit
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import row_multiset
from tests.support.plans import plan_of
from tests.support.seeds import chance

MERGED = {"postpone.merge-on-read": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


def write(table: FileStoreTable, rows: list[tuple[Any, ...]], buckets: int | None) -> None:
    """Write rows to so many real buckets, or leave them postponed."""
    how = {"postpone.batch-write-fixed-bucket": "false"} if buckets is None else {"bucket": str(buckets)}
    own = load_table(table.path).as_if(how)
    names = ("k", "p", "s", "v")
    schema = to_arrow_schema(own.schema.fields)
    data = pa.Table.from_pylist([dict(zip(names, row[:4], strict=True)) for row in rows], schema=schema)
    data = data.append_column("_VALUE_KIND", pa.array([row[4] for row in rows], pa.int8()))
    plan = plan_write(own, data_schema=data.schema, shuffled=True)
    commit(plan.table, [write_batches(plan, data.to_batches(), 0)])


def read(
    path: str, where: str | None = None, columns: list[str] | None = None, parallelism: int = 1, **options: str
) -> pa.Table:
    table = load_table(path, options=options)
    view = find_view(None)
    assert view is not None
    predicate = None if where is None else parse_filter(where, table.schema)
    plan = plan_of(table, view, predicate=predicate, columns=columns, parallelism=parallelism)
    splits = pickle.loads(pickle.dumps(plan.splits))
    if where is None:
        counts = [count_split(plan.table, split) for split in splits]
    batches = [list(plan.read(plan.table, split, plan.fields, plan.residual)) for split in splits]
    if where is None:
        assert counts == [sum(batch.num_rows for batch in part) for part in batches]
    return pa.Table.from_batches([batch for part in batches for batch in part], to_arrow_schema(plan.fields))


def make(tmp_path: Path, name: str, **options: str) -> FileStoreTable:
    types = [IntType(nullable=False), IntType(nullable=False), IntType(), IntType()]
    fields = [DataField(i, column, kind) for i, (column, kind) in enumerate(zip("kpsv", types, strict=True))]
    return create_table(str(tmp_path / name), create_schema(fields, ["k", "p"], ["p"], options))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_an_equal_table(tmp_path: Path, engine: str) -> None:
    rng = chance("postponed read", engine)
    options = {"write-only": "true", "source.split.open-file-cost": "1 b", **ENGINES[engine]}
    table = make(tmp_path, "postponed", **options, **{"bucket": "-2"})
    twin = make(tmp_path, "twin", **options, **{"bucket": "1"})
    takes = engine in ("deduplicate", "sequence", "vectors")
    parts: dict[bool, list[list[tuple[Any, ...]]]] = {True: [], False: []}
    for turn in range(6):
        rows = [
            (rng.randrange(12), rng.randrange(3), rng.choice([None, turn]), rng.choice([None, rng.randrange(9)]))
            for _ in range(rng.randrange(1, 12))
        ]
        given = [(*row, rng.choice([0, 0, 3]) if takes else 0) for row in rows if row[1] < 2 or turn > 3]
        waits = turn == 5 or (turn > 0 and rng.random() < 0.5)
        if given:
            write(table, given, None if waits else 3)
            parts[waits].append(given)
    for rows in (*parts[False], *parts[True]):
        write(twin, rows, 1)
    shown = {"deletion-vectors.merge-on-read": "true"} if engine == "vectors" else {}
    first = engine == "first-row"
    want = _first_rows(parts) if first else row_multiset(read(twin.path, **shown))
    for tasks in (1, 4):
        assert row_multiset(read(table.path, parallelism=tasks, **MERGED)) == want, (rng, parts)
    rows = read(table.path, parallelism=4, **MERGED)
    for where in ("k < 5", "v = 3", "p = 1 AND k = 2", "v IS NULL", "p = 2"):
        kept = [row for row in rows.to_pylist() if _holds(where, row)]
        found = read(table.path, where, columns=["v", "k"], parallelism=4, **MERGED)
        assert row_multiset(found) == row_multiset(_table(kept, found.schema)), where
    if engine not in ("vectors", "first-row"):
        assert row_multiset(read(table.path)) != want


def _first_rows(parts: dict[bool, list[list[tuple[Any, ...]]]]) -> Any:
    found: dict[Any, tuple[Any, ...]] = {}
    for row in (row for waits in (False, True) for rows in parts[waits] for row in rows):
        found.setdefault(row[:2], row[:4])
    return row_multiset(pa.Table.from_pylist([dict(zip("kpsv", row, strict=True)) for row in found.values()]))


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def _holds(where: str, row: dict[str, Any]) -> bool:
    k, p, v = row["k"], row["p"], row["v"]
    return {
        "k < 5": k < 5,
        "v = 3": v == 3,
        "p = 1 AND k = 2": p == 1 and k == 2,
        "v IS NULL": v is None,
        "p = 2": p == 2,
    }[where]


def test_ten_times_the_budget_and_shares(tmp_path: Path) -> None:
    """Waiting rows are sorted on disk where they are many; each task takes those of its buckets."""
    table = make(tmp_path, "t", **{"bucket": "-2", "source.split.target-size": "64 kb"})
    write(table, [(k, 0, 0, k, 0) for k in range(0, 9000, 3)], 4)
    write(table, [(k % 9000, 0, 1, -k, 0) for k in range(30_000)], None)
    options = {**MERGED, "read.merge.memory-budget": "256 kb"}
    plan = plan_of(load_table(table.path, options=options), find_view(None), parallelism=4)  # type: ignore[arg-type]
    assert [split.share for split in plan.splits if isinstance(split, PostponedSplit)] == [(i, 4) for i in range(4)]
    rows = read(table.path, parallelism=4, **options)
    assert dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True)) == {
        k: -max(n for n in range(k, 30_000, 9000)) for k in range(9000)
    }
    assert rows.num_rows == 9000


def test_a_full_scan_that_is_not_allowed(tmp_path: Path) -> None:
    table = make(tmp_path, "t", **{"bucket": "-2"})
    write(table, [(1, 0, 0, 1, 0), (1, 1, 0, 1, 0)], 1)
    write(table, [(2, 0, 0, 2, 0), (2, 1, 0, 2, 0)], None)
    careful = {**MERGED, "read.allow.fullScan": "false"}
    for where in (None, "v IS NOT NULL"):
        with pytest.raises(OptionError, match="Full scan is not supported"):
            read(table.path, where=where, **careful)
    assert read(table.path, where="p = 1", **careful).num_rows == 2
    assert read(table.path, where="p = 1", **careful, **{"source.split.target-size": "0 b"}).num_rows == 2


def test_what_is_refused_and_what_shows_no_postponed_rows(tmp_path: Path) -> None:
    table = make(tmp_path, "t", **{"bucket": "-2"})
    write(table, [(1, 0, 0, 1, 0)], 1)
    shown = load_table(table.path, options=MERGED)
    check_row_delete(shown)
    write(table, [(1, 0, 0, 2, 0), (2, 0, 0, 2, 0)], None)
    for refused in (lambda: check_row_delete(shown), lambda: check_update(shown, ["v"])):
        with pytest.raises(UnsupportedError, match="rows are postponed"):
            refused()
    with pytest.raises(UnsupportedError, match="Postpone merge-on-read requires a full snapshot scan"):
        read(table.path, **{"incremental-between": "1,2", **MERGED})
    assert read(table.path, **MERGED)["v"].to_pylist() == [2, 2]
    assert read(table.path, **{"scan.snapshot-id": "1", **MERGED})["v"].to_pylist() == [1]
    view = find_view("audit_log")
    assert view is not None
    plan = plan_of(shown, view)
    assert sum(b.num_rows for s in plan.splits for b in plan.read(plan.table, s, plan.fields, None)) == 1
