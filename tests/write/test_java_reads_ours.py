"""Java reads what we write, of every kind of table and format; writes on, compacts, and still has the same rows."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import OverwriteMode, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.data_files import whole_seconds_before_1970
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle
FORMATS = ("parquet", "orc", "avro")
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "append_partitioned": {"partition": ["p"]},
    "append_bucketed": {"options": {"bucket": "3", "bucket-key": "id"}},
    "fixed": {"pk": ["id"], "options": {"bucket": "2"}},
    "fixed_partitioned": {"pk": ["id", "p"], "partition": ["p"], "options": {"bucket": "2"}},
    "thin": {"pk": ["id"], "options": {"bucket": "1", "data-file.thin-mode": "true"}},
    "dynamic": {"pk": ["id"], "options": {"dynamic-bucket.target-row-num": "9"}},
    "dynamic_partitioned": {"pk": ["p", "id"], "partition": ["p"], "options": {"dynamic-bucket.target-row-num": "5"}},
    "partial_update": {"pk": ["id"], "options": {"bucket": "2", "merge-engine": "partial-update"}},
    "sequence": {"pk": ["id"], "options": {"bucket": "1", "sequence.field": "bi"}},
}


def fits(sql: str, file_format: str) -> bool:
    if file_format == "orc":
        return not sql.startswith(("BINARY", "VARBINARY"))
    return file_format == "parquet" or "(9)" not in sql


@pytest.fixture(scope="module")
def source(golden: Path) -> tuple[list[tuple[str, str]], pa.Table]:
    """Columns of every type, and 64 rows with nulls and edge values."""
    folder = golden / "append_types_parquet"
    columns = [tuple(c) for c in json.loads((folder / "expect.json").read_text())["columns"]]
    with pa.OSFile(str(folder / "reads" / "latest.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all()
    rows = rows.set_column(0, "id", pa.array(np.arange(rows.num_rows), pa.int32()))
    return columns, rows  # type: ignore[return-value]


def rows_for(
    source: tuple[list[tuple[str, str]], pa.Table], file_format: str
) -> tuple[list[tuple[str, str]], pa.Table]:
    columns, rows = source
    kept = [(n, t) for n, t in columns if fits(t, file_format)]
    rows = rows.select([n for n, _ in kept])
    if file_format == "orc":
        rows = pa.Table.from_pylist([whole_seconds_before_1970(row) for row in rows.to_pylist()], schema=rows.schema)
    part = pa.array([None if i % 7 == 3 else f"a/{i % 3}" for i in range(rows.num_rows)])
    return [*kept, ("p", "STRING")], rows.append_column("p", part)


def write(table: FileStoreTable, rows: pa.Table, tasks: int = 2, **options: Any) -> int | None:
    plan = plan_write(table, data_schema=rows.schema, **options)
    size = -(-rows.num_rows // tasks) or 1
    parts = [rows.slice(task * size, size) for task in range(tasks)]
    return commit(table, [write_batches(plan, p.to_batches(max_chunksize=7), i) for i, p in enumerate(parts)])


def ours(table: FileStoreTable) -> pa.Table:
    plan = plan_of(table)
    batches = [b for s in plan.splits for b in read_split(table, s, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches)


def make(
    oracle: Any, columns: list[tuple[str, str]], file_format: str, kind: dict[str, Any]
) -> tuple[str, FileStoreTable]:
    name = oracle.fresh_name("w")
    options = {"file.format": file_format, "write-only": "true", **kind.get("options", {})}
    keys = kind.get("pk", ())
    columns = [(n, t + " NOT NULL" if n in keys and "NOT NULL" not in t else t) for n, t in columns]
    oracle.create(name, columns, pk=keys, partition=kind.get("partition", ()), options=options)
    return name, load_table(oracle.location(name))


def same(left: pa.Table, right: pa.Table) -> bool:
    return row_multiset(left) == row_multiset(right.select(left.column_names))


@pytest.mark.parametrize(
    ("kind", "file_format"), [*((kind, "parquet") for kind in KINDS), *zip(KINDS, cycle(("orc", "avro")), strict=False)]
)
def test_java_reads_writes_on_and_compacts(kind: str, file_format: str, source: Any, oracle: Any) -> None:
    columns, rows = rows_for(source, file_format)
    if "p" in KINDS[kind].get("pk", ()):
        rows = rows.set_column(rows.num_columns - 1, "p", rows.column("p").fill_null("z"))
    name, table = make(oracle, columns, file_format, KINDS[kind])
    first, second = rows.slice(0, 40), rows.slice(20)
    assert write(table, first) == 1
    assert same(oracle.read(name), first)
    assert write(table, second) == 2
    keyed = "pk" in KINDS[kind]
    by_key = "partial_update" if kind in ("partial_update", "sequence") else kind
    want = pa.concat_tables([rows.slice(0, 20), second] if keyed else [first, second])
    if by_key != "partial_update":
        assert same(oracle.read(name), want)
    before = oracle.read(name)
    assert same(before, ours(table))
    oracle.write(name, oracle.read(name).slice(0, 5), options={"write-only": "true"})
    oracle.write(name, oracle.read(name).slice(0, 5), options={"write-only": "false"})
    after = oracle.read(name)
    if keyed:
        assert same(after, before)
        if kind != "partial_update":
            oracle.compact(name)
            assert same(oracle.read(name), before)
    assert same(oracle.read(name), ours(table))
    write(table, rows.slice(0, 10))
    assert same(oracle.read(name), ours(table))


@pytest.mark.parametrize("kind", ["fixed", "dynamic", "dynamic_partitioned", "append_partitioned", "append_bucketed"])
def test_overwrite_starts_afresh(kind: str, source: Any, oracle: Any) -> None:
    columns, rows = rows_for(source, "parquet")
    rows = rows.set_column(rows.num_columns - 1, "p", rows.column("p").fill_null("z"))
    name, table = make(oracle, columns, "parquet", KINDS[kind])
    write(table, rows)
    fewer = rows.slice(10, 20)
    plan = plan_write(table, data_schema=fewer.schema, overwrite=OverwriteMode.STATIC)
    task = write_batches(plan, fewer.to_batches(), 0)
    assert {f.min_sequence_number for m in task.messages for f in m.new_files} == {0}
    commit(table, [task], overwrite=OverwriteSpec.static())
    assert same(oracle.read(name), fewer)
    write(table, rows.slice(25, 10))
    keyed = "pk" in KINDS[kind]
    want = rows.slice(10, 25) if keyed else pa.concat_tables([fewer, rows.slice(25, 10)])
    assert same(oracle.read(name), want)
    oracle.write(name, rows, options={"write-only": "true"})
    assert same(oracle.read(name), rows if keyed else pa.concat_tables([want, rows]))


@pytest.mark.parametrize("partitioned", [False, True])
def test_dynamic_buckets_in_turn_with_java(partitioned: bool, oracle: Any) -> None:
    """Whoever writes next, a key stays in its bucket: there is one row of each."""
    columns = [("k", "BIGINT NOT NULL"), ("p", "INT NOT NULL"), ("v", "STRING")]
    kind = {"pk": ["k", "p"], "options": {"dynamic-bucket.target-row-num": "13"}, "partition": ["p"] * partitioned}
    name, table = make(oracle, columns, "parquet", kind)
    rng = np.random.default_rng(5)
    model: dict[tuple[int, int], str] = {}
    for turn in range(8):
        keys = rng.integers(0, 30 + 30 * turn, 40)
        parts = rng.integers(0, 2, 40)
        data = {(int(k), int(p)): f"{turn}.{i}" for i, (k, p) in enumerate(zip(keys, parts, strict=True))}
        model |= data
        rows = pa.table(
            {
                "k": pa.array([k for k, _ in data], pa.int64()),
                "p": pa.array([p for _, p in data], pa.int32()),
                "v": list(data.values()),
            },
            schema=oracle.arrow_schema(name),
        )
        if turn % 2:
            oracle.write(name, rows)
        else:
            write(table, rows, tasks=3, shuffled=False)
        got = oracle.read(name).to_pylist()
        assert len(got) == len(model)
        assert {(r["k"], r["p"]): r["v"] for r in got} == model
    assert len({f["bucket"] for f in oracle.files(name)}) > 2


def test_rescale_by_overwrite(oracle: Any) -> None:
    columns = [("k", "INT NOT NULL"), ("p", "INT NOT NULL")]
    name, table = make(oracle, columns, "parquet", {"pk": ["k", "p"], "partition": ["p"], "options": {"bucket": "2"}})
    rows = pa.table({"k": range(20), "p": [i % 2 for i in range(20)]}, schema=oracle.arrow_schema(name))
    write(table, rows)
    oracle.alter(name, ("set", "bucket", "3"))
    table = load_table(table.path)
    with pytest.raises(Exception, match="new bucket num"):  # Java writes the partitions only that are rescaled
        oracle.write(name, rows.slice(1, 1))
    for shuffled in (False, True):
        write(table, rows, tasks=3, shuffled=shuffled)
        assert same(oracle.read(name), rows), "each key stays in its bucket"
    odd = rows.filter(pa.compute.equal(rows.column("p"), 1))
    plan = plan_write(table, data_schema=rows.schema, overwrite=OverwriteMode.DYNAMIC)
    commit(table, [write_batches(plan, odd.to_batches(), 0)], overwrite=OverwriteSpec.dynamic())
    assert same(oracle.read(name), rows)
    write(table, rows)
    oracle.write(name, odd)
    assert same(oracle.read(name), rows)
    live = table.manifests.live_entries(table.snapshots.latest())
    assert {(table.paths.partition_path(e.partition), e.total_buckets) for e in live} == {("p=0", 2), ("p=1", 3)}
    assert 2 in {f["bucket"] for f in oracle.files(name)}
