"""Tables with data evolution that Java writes on the spot: rows put together from files of some columns, as Java's."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError
from paimon_spark.maintain.column_update import commit_columns, plan_column_update, update_columns
from paimon_spark.maintain.compact.compaction import compact, rewrite_here
from paimon_spark.read.row_views import find_view
from paimon_spark.read.stream_offset import ReadLimits
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import row_multiset
from tests.support.plans import plan_of
from tests.support.streams import batches_of

pytestmark = pytest.mark.oracle

COLUMNS = [("k", "INT"), ("a", "STRING"), ("b", "INT"), ("c", "DOUBLE"), ("p", "INT")]


def history(oracle: Any, seed: int, **options: str) -> tuple[str, str]:
    """A table of a few appends, of which random columns are written again; its name and path."""
    rng = random.Random(seed)
    name = oracle.fresh_name("evo")
    every = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true", **options}
    oracle.create(name, COLUMNS, options=every)
    starts: list[tuple[int, int]] = []
    at = 0
    for _ in range(rng.randint(1, 3)):
        rows = rng.randint(1, 400)
        oracle.write(name, [(at + i, f"a{i}", i, i / 2, seed) for i in range(rows)])
        starts.append((at, rows))
        at += rows
    for turn in range(rng.randint(1, 5)):
        first, rows = rng.choice(starts)
        columns = rng.sample(["a", "b", "c"], rng.randint(1, 2))
        values = {"a": f"new{turn}", "b": 1000 * (turn + 1), "c": -1.5 * turn}
        written = [tuple(None if rng.random() < 0.1 else values[c] for c in columns) for _ in range(rows)]
        oracle.write_columns(name, columns, written, first)
        if rng.random() < 0.3:
            oracle.alter(name, ("add", f"d{turn}", "BIGINT"))
    database, table = name.split(".")
    return name, f"{oracle.warehouse}/{database}.db/{table}"


def ours(
    path: str,
    system: str | None = None,
    columns: list[str] | None = None,
    where: str | None = None,
    options: dict[str, str] | None = None,
) -> pa.Table:
    table = load_table(path, options=options or {})
    view = find_view(system)
    assert view is not None
    predicate = None if where is None else parse_filter(where, view.fields(table))
    plan = plan_of(table, view, columns=columns, predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("seed", range(2))
def test_rows_equal_javas(oracle: Any, seed: int, file_format: str) -> None:
    name, path = history(oracle, seed, **{"file.format": file_format})
    whole = oracle.read(name)
    assert row_multiset(ours(path)) == row_multiset(whole)
    assert row_multiset(ours(path, "row_tracking")) == row_multiset(oracle.read(f"{name}$row_tracking"))
    for columns in (["b"], ["c", "k"], ["a", "p"]):
        assert row_multiset(ours(path, columns=columns)) == row_multiset(oracle.read(name, columns=columns))
    for where, mask in (
        ("b >= 1000", pc.greater_equal(whole["b"], 1000)),
        ("b < 50", pc.less(whole["b"], 50)),
        ("a = 'new0'", pc.equal(whole["a"], "new0")),
        ("b IS NULL", pc.is_null(whole["b"])),
        ("k < 10 AND c < 0", pc.and_(pc.less(whole["k"], 10), pc.less(whole["c"], 0))),
    ):
        assert row_multiset(ours(path, where=where)) == row_multiset(whole.filter(mask)), where


def test_statistics_of_the_newest_file_decide(oracle: Any) -> None:
    name = "evo.pruned"
    every = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    oracle.create(name, COLUMNS, options=every)
    oracle.write(name, [(i, "x", i, 0.5, 1) for i in range(10)])
    oracle.write(name, [(i, "x", i, 0.5, 1) for i in range(10, 20)])
    oracle.write_columns(name, ["b"], [(500,)] * 10, 0)
    path = f"{oracle.warehouse}/evo.db/pruned"
    table = load_table(path)
    view = find_view(None)
    assert view is not None
    fields = view.fields(table)
    files = {
        where: sum(len(split.files) for split in plan_of(table, view, predicate=parse_filter(where, fields)).splits)
        for where in ("b = 500", "b = 3", "b = 12", "k = 3", "b = 500 AND k = 15")
    }
    assert files == {"b = 500": 2, "b = 3": 0, "b = 12": 1, "k = 3": 2, "b = 500 AND k = 15": 0}
    assert ours(path, where="k = 3")["b"].to_pylist() == [500]


def test_what_we_append_is_read_by_java_and_goes_on_there(oracle: Any) -> None:
    name = "evo.ours"
    every = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    oracle.create(name, COLUMNS, options={**every, "target-file-row-num": "30"})
    path = f"{oracle.warehouse}/evo.db/ours"
    schema = to_arrow_schema(load_table(path).schema.fields)
    rows = pa.RecordBatch.from_pylist([{"k": i, "a": "x", "b": i, "c": 0.5, "p": 1} for i in range(70)], schema)
    for start in (0, 40):
        plan = plan_write(load_table(path), data_schema=schema)
        commit(plan.table, [write_batches(plan, [rows.slice(start, 40)], 0)])
    assert row_multiset(ours(path, "row_tracking")) == row_multiset(oracle.read(f"{name}$row_tracking"))
    assert {(file["firstRowId"], file["min_seq"], file["max_seq"]) for file in oracle.files(name)} == {
        (0, 1, 1), (30, 1, 1), (40, 2, 2)
    }  # fmt: skip
    oracle.write_columns(name, ["b"], [(1000 + i,) for i in range(30)], 0)
    oracle.write_columns(name, ["b"], [(2000 + i,) for i in range(30)], 40)
    found = ours(path)
    assert row_multiset(found) == row_multiset(oracle.read(name))
    assert sorted(found["b"].to_pylist()) == sorted(
        [*range(1000, 1030), *range(30, 40), *(2000 + i for i in range(30))]
    )


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("seed", range(2))
def test_compaction_puts_columns_together(oracle: Any, seed: int, file_format: str) -> None:
    name, path = history(oracle, seed + 100, **{"file.format": file_format})
    before, tracked = ours(path), ours(path, "row_tracking")
    compact(load_table(path))
    files = oracle.files(name)
    assert len(files) == 1
    assert files[0]["firstRowId"] == 0
    assert row_multiset(ours(path)) == row_multiset(oracle.read(name)) == row_multiset(before)
    ids = ["k", "_ROW_ID"]
    assert row_multiset(ours(path, "row_tracking").select(ids)) == row_multiset(tracked.select(ids))
    oracle.write_columns(name, ["b"], [(7,)] * before.num_rows, 0)
    assert set(ours(path)["b"].to_pylist()) == {7}
    assert row_multiset(ours(path)) == row_multiset(oracle.read(name))
    compact(load_table(path))
    assert row_multiset(ours(path)) == row_multiset(oracle.read(name))
    assert compact(load_table(path)) is None


def test_columns_that_are_written_meanwhile_make_a_conflict(oracle: Any) -> None:
    name = "evo.raced"
    every = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    oracle.create(name, COLUMNS, options=every)
    for start in (0, 10):
        oracle.write(name, [(i, "x", i, 0.5, 1) for i in range(start, start + 10)])
    path = f"{oracle.warehouse}/evo.db/raced"

    def late(table: Any, rewrites: Any) -> Any:
        results = list(rewrite_here(table, rewrites))
        oracle.write_columns(name, ["b"], [(500,)] * 10, 10)
        return results

    with pytest.raises(CommitConflictError, match="Row id conflicts detected"):
        compact(load_table(path), execute=late)
    assert row_multiset(ours(path)) == row_multiset(oracle.read(name))
    assert sorted(ours(path)["b"].to_pylist()) == [*range(10), *[500] * 10]
    assert compact(load_table(path)) is not None
    assert row_multiset(ours(path)) == row_multiset(oracle.read(name))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_what_we_update_is_read_by_java_and_goes_on_there(oracle: Any, file_format: str) -> None:
    name, path = history(oracle, 7, **{"file.format": file_format})
    before = {row["_ROW_ID"]: row for row in ours(path, "row_tracking").to_pylist()}
    rng = random.Random(7)
    for turn in range(2):
        table = load_table(path)
        latest = table.snapshots.latest()
        assert latest is not None
        fields = to_arrow_schema(table.schema.fields)
        schema = pa.schema([fields.field("a"), fields.field("c")])
        ids = sorted(rng.sample(sorted(before), len(before) // 3))
        new = [{"a": f"set{turn}", "c": i / 4, "_ROW_ID": i} for i in ids]
        rows = pa.Table.from_pylist(new, schema.append(pa.field("_ROW_ID", pa.int64())))
        message = update_columns(plan_column_update(table, ["a", "c"], schema, latest.id), rows.to_batches())
        assert message is not None
        commit_columns(table, [message], latest, Operation.UPDATE)
        for row in new:
            before[row["_ROW_ID"]] |= row
        assert row_multiset(ours(path)) == row_multiset(oracle.read(name))
        assert row_multiset(ours(path, "row_tracking")) == row_multiset(oracle.read(f"{name}$row_tracking"))
        files = [f for f in oracle.files(name) if f["firstRowId"] == 0]
        oracle.write_columns(name, ["b"], [(turn,)] * files[0]["rows"], 0)
        for row_id in range(files[0]["rows"]):
            before[row_id]["b"] = turn
    columns = ["k", "a", "b", "c", "p"]
    found = ours(path).select(columns).to_pylist()
    assert sorted(map(str, found)) == sorted(str({name: row[name] for name in columns}) for row in before.values())


@pytest.mark.parametrize("seed", range(2))
def test_views_with_kinds_put_columns_together(oracle: Any, seed: int) -> None:
    """Of states whole rows; of changes the columns that their files have, as Java."""
    _, path = history(oracle, seed + 2)
    latest = load_table(path).snapshots.latest_id()
    for between in ("", f"0,{latest}", f"1,{latest}", "1,2"):
        given = {"incremental-between": between} if between else {}
        for view in ("audit_log", "binlog"):
            want = oracle.read(f"{path}${view}", options=given)
            assert row_multiset(ours(path, view, options=given)) == row_multiset(want), (view, between)
            assert want.num_rows
    where = "b >= 1000"
    rows = ours(path, "audit_log", where=where)
    assert row_multiset(rows.drop_columns(["rowkind"])) == row_multiset(ours(path, where=where))


@pytest.mark.parametrize("start", ["latest-full", "from-snapshot", "from-snapshot-full"])
def test_streams_are_javas(oracle: Any, start: str) -> None:
    table, path = history(oracle, 3)
    given = {"scan.mode": start} | ({} if start == "latest-full" else {"scan.snapshot-id": "2"})
    names = [column for column, _ in COLUMNS]  # Java leaves out those that came after the snapshot
    streamed = oracle.stream(table, given)
    wanted = Counter((snapshot, kind, *(row[name] for name in names)) for snapshot, kind, row in streamed)
    for limits in (None, ReadLimits(max_files=1)):
        rows = [row for batch in batches_of(path, given, limits=limits, kinds=True) for row in batch.rows]
        found = Counter((row["_snapshot"], row["rowkind"], *(row[name] for name in names)) for row in rows)
        assert found == wanted


def test_the_difference_of_two_tags_has_whole_rows(oracle: Any) -> None:
    """Java 1.4.2 fails here with a ClassCastException."""
    name, path = history(oracle, 3)
    oracle.create_tag(name, "first", 1)
    oracle.create_tag(name, "last", load_table(path).snapshots.latest_id())
    found = ours(path, options={"incremental-between": "first,last"})
    every = row_multiset(ours(path))
    assert found.num_rows
    assert row_multiset(found) <= every
