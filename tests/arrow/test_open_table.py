"""Tables as Arrow, without Spark: every kind of table is written, changed and read; Java reads what is left."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import (
    CommitConflictError,
    OptionError,
    PaimonError,
    SchemaError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.arrow import ArrowTable
from paimon_spark.arrow.scan import Scan
from paimon_spark.read.table_scan import TableScan
from paimon_spark.storage.parquet_format import ParquetReader

SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string()), pa.field("p", pa.string(), False)])
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "append, partitions": {"partition_keys": "p"},
    "append, vectors": {"deletion_vectors_enabled": True},
    "append, buckets": {"bucket": 2, "bucket_key": "k"},
    "data evolution": {
        "row_tracking_enabled": True,
        "data_evolution_enabled": True,
        "deletion_vectors_enabled": True,
    },
    "keys": {"primary_keys": "k", "bucket": 2},
    "keys, vectors": {"primary_keys": "k", "bucket": 2, "deletion_vectors_enabled": True},
    "keys, dynamic buckets": {"primary_keys": ["k", "p"], "partition_keys": ["p"]},
    "keys across partitions": {"primary_keys": "k", "partition_keys": "p"},
    "keys, postponed buckets": {"primary_keys": "k", "bucket": -2},
    "partial-update": {
        "primary_keys": "k",
        "bucket": 1,
        "merge_engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
    },
    "first-row": {"primary_keys": "k", "bucket": 1, "merge_engine": "first-row"},
}


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "wh")


def new_table(warehouse: str, name: str = "t", **options: Any) -> ArrowTable:
    return paimon_spark.create_table(f"d.{name}", SCHEMA, catalog=warehouse, **options)


def row(k: int, v: str | None, p: str = "x") -> dict[str, Any]:
    return {"k": k, "v": v, "p": p}


def rows(scan: Scan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return sorted(found, key=lambda found: (found["k"], found["v"] or ""))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_changed_and_read(warehouse: str, kind: str) -> None:
    table = new_table(warehouse, **KINDS[kind])
    first = [row(k, f"a{k}", "xy"[k % 2]) for k in range(10)]
    table.append(first)
    table.append(pa.table({"k": pa.array([3, 20], pa.int32()), "v": ["b3", "b20"], "p": ["y", "x"]}))
    keyed, first_row = bool(table.primary_keys), "first-row" in kind
    three = (
        [row(3, "a3", "y")] if first_row else [row(3, "b3", "y")] if keyed else [row(3, "a3", "y"), row(3, "b3", "y")]
    )
    others = [found for found in first if found["k"] != 3]
    expected = sorted([*others, *three, row(20, "b20", "x")], key=lambda found: (found["k"], found["v"]))
    assert rows(table.scan()) == expected
    assert table.scan().count() == len(expected)
    assert rows(table.scan(where="k = 3")) == three
    table.tag("before")

    table.delete("k BETWEEN 5 AND 7 AND v IS NOT NULL")
    left = [found for found in expected if not 5 <= found["k"] <= 7]
    assert rows(table.scan()) == left
    nothing = table.delete("k = 999")
    assert (nothing.num_affected_rows, nothing.snapshot_id) == (0, None)

    table.compact()
    again = paimon_spark.open_table("d.t", catalog=warehouse)
    assert rows(again.scan()) == left
    assert rows(again.scan(version="before")) == expected
    assert again.delete().snapshot_id is not None
    assert again.scan().count() == 0


def test_a_key_is_one_key_across_partitions(warehouse: str) -> None:
    table = new_table(warehouse, primary_keys="k", partition_keys="p")
    first = table.append([row(1, "a", "x"), row(2, "a", "x")])
    assert (first.num_affected_rows, first.num_inserted_rows, first.snapshot_id) == (2, 2, 1)
    table.append([row(1, "b", "y")])
    assert rows(table.scan()) == [row(1, "b", "y"), row(2, "a", "x")]
    table.overwrite([row(2, "c", "y")], where="p = 'y'")
    assert rows(table.scan()) == [row(2, "c", "y")]


@pytest.mark.parametrize("primary_keys", ["k", ["k", "p"]])
def test_a_partition_starts_with_as_many_buckets_as_assigners(warehouse: str, primary_keys: Any) -> None:
    given = {"dynamic-bucket.target-row-num": "3", "dynamic-bucket.assigner-parallelism": "3"}
    table = new_table(warehouse, primary_keys=primary_keys, partition_keys="p", **given)
    table.append([row(number, "a", "x") for number in range(1, 6)])
    assert set(table.files().column("bucket").to_pylist()) == {0, 1, 2}


def test_an_overwrite_of_partitions_leaves_the_others(warehouse: str) -> None:
    table = new_table(warehouse, partition_keys="p")
    table.append([row(1, "a", "x"), row(2, "a", "y")])
    table.overwrite([row(3, "b", "x")], where="p = 'x'")
    assert rows(table.scan()) == [row(2, "a", "y"), row(3, "b", "x")]
    with pytest.raises(OptionError, match="partition columns only"):
        table.overwrite([row(3, "b", "x")], where="k = 1")
    table.overwrite([row(9, None, "z")])
    assert rows(table.scan()) == [row(9, None, "z")]


def test_whole_partitions_are_dropped_by_their_columns(warehouse: str) -> None:
    table = new_table(warehouse, primary_keys="k,p", partition_keys="p", bucket=1)
    table.append([row(1, "a", "x"), row(2, "a", "y")])
    table.delete("p = 'x'")
    assert rows(table.scan()) == [row(2, "a", "y")]
    assert table.snapshots().column("operation").to_pylist()[-1] == "TRUNCATE"


_DELETES = [kind for kind in KINDS if kind != "first-row"]


@pytest.mark.parametrize("kind", _DELETES)
def test_a_row_that_changes_between_the_read_and_the_commit_of_a_delete_stays(
    warehouse: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(warehouse, **KINDS[kind])
    table.append([row(k, f"a{k}") for k in range(4)])
    rival = paimon_spark.open_table("d.t", catalog=warehouse)
    plan, done = TableScan.plan, []

    def late(scan: TableScan, *given: Any, **named: Any) -> Any:
        planned = plan(scan, *given, **named)
        if not done:
            done.append(1)
            if not table.primary_keys:
                rival.delete("k = 1")
            rival.append([row(1, "b1")])
        return planned

    monkeypatch.setattr(TableScan, "plan", late)
    table.delete("v = 'a0' OR v = 'a1'")  # the row of the rival has a smaller sequence number than that of this delete
    assert done
    found = rows(paimon_spark.open_table("d.t", catalog=warehouse).scan())
    assert [each["v"] for each in found] == ["b1", "a2", "a3"]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["keys", "keys across partitions", "append, vectors", "keys, postponed buckets"])
def test_java_reads_what_was_written(oracle: Any, kind: str, request: pytest.FixtureRequest) -> None:
    name = f"arrow_{kind.replace(', ', '_').replace(' ', '_')}"
    table = paimon_spark.create_table(f"default.{name}", SCHEMA, catalog=oracle.warehouse, **KINDS[kind])
    table.append([row(k, f"a{k}", "xy"[k % 2]) for k in range(10)])
    table.append([row(3, "b3", "x")])
    table.delete("k >= 8")
    table.compact()
    found = oracle.read(f"default.{name}").to_pylist()
    assert sorted(found, key=lambda found: (found["k"], found["v"])) == rows(table.scan())
    assert {found["k"] for found in found} == set(range(8))


@pytest.mark.parametrize("library", ["polars", "pandas", "reader", "batch", "stream"])
def test_rows_of_other_libraries(warehouse: str, library: str) -> None:
    table = new_table(warehouse, primary_keys="k", bucket=1)
    given = pa.table([pa.array([1, 2], pa.int32()), ["a", None], ["x", "y"]], schema=SCHEMA)
    data = {
        "polars": lambda: polars.from_arrow(given),
        "pandas": given.to_pandas,
        "reader": given.to_reader,
        "batch": lambda: given.to_batches()[0],
    }
    if library == "stream":
        source = new_table(warehouse, "source")
        source.append(given)
        table.append(source.scan())
    else:
        table.append(data[library]())
    assert rows(table.scan()) == [row(1, "a", "x"), row(2, None, "y")]


def test_rows_go_to_other_libraries(warehouse: str) -> None:
    table = new_table(warehouse)
    table.append([row(1, "a"), row(2, "b")])
    scan = table.scan(columns="k,v")
    assert scan.to_polars().rows() == [(1, "a"), (2, "b")]
    assert polars.DataFrame(scan).rows() == [(1, "a"), (2, "b")]
    assert scan.to_pandas().equals(pd.DataFrame({"k": pd.Series([1, 2], dtype="int32"), "v": ["a", "b"]}))
    connection = scan.to_duckdb("rows")
    assert connection.execute("SELECT sum(k), max(v) FROM rows").fetchall() == [(3, "b")]
    assert pa.RecordBatchReader.from_stream(scan).read_all().num_rows == 2


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_not_installed_is_named(warehouse: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    scan = new_table(warehouse).scan()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match=f"{name}, which is not installed: pip install {name}"):
        getattr(scan, f"to_{name}")(*["rows"] * (name == "duckdb"))


def test_splits_are_read_in_another_process(warehouse: str) -> None:
    table = new_table(warehouse, primary_keys="k", bucket=4)
    table.append([row(k, "a") for k in range(100)])
    table.append([row(k, "b") for k in range(50)])
    code = (
        "import pickle, sys; splits = pickle.load(sys.stdin.buffer)\n"
        "print(sum(split.to_arrow().num_rows for split in splits), 'pyspark' in sys.modules)"
    )
    splits = pickle.dumps(table.scan(where="k >= 10").splits())
    assert subprocess.check_output([sys.executable, "-c", code], input=splits).split() == [b"90", b"False"]


def test_nothing_needs_pyspark(warehouse: str) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None\n"
        "import paimon_spark, pyarrow as pa\n"
        f"t = paimon_spark.create_table('d.t', pa.schema([pa.field('k', pa.int32(), False)]), catalog={warehouse!r}, "
        "primary_key='k')\n"
        "t.append([{'k': 1}, {'k': 2}]); t.delete('k = 1'); t.compact()\n"
        "print(t.scan(where='k > 0').to_arrow().to_pylist())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[{'k': 2}]"


def test_a_condition_over_texts_that_the_file_has_as_a_dictionary(warehouse: str) -> None:
    """Texts are decoded by their dictionary once rows are left out; nulls and types stay as they were."""
    table = new_table(warehouse)
    given = [row(k, None if k % 7 == 0 else f"text {k % 5}", f"p{k % 3}") for k in range(40_000)]
    table.append(given)
    for where, kept in (
        ("v = 'text 3'", lambda r: r["v"] == "text 3"),
        ("v IS NULL AND k > 39000", lambda r: r["v"] is None and r["k"] > 39_000),
        ("v <> 'text 3' OR p = 'p1'", lambda r: r["v"] not in (None, "text 3") or r["p"] == "p1"),
        ("k = 12345", lambda r: r["k"] == 12_345),
    ):
        for columns in (None, ["k"], ["v", "k"]):
            found = table.scan(columns, where).to_arrow()
            wanted = [{name: r[name] for name in columns or r} for r in given if kept(r)]
            assert found.to_pylist() == wanted, (where, columns)
            assert found.schema == pa.schema([SCHEMA.field(name) for name in columns or SCHEMA.names])
    assert table.scan().to_reader().read_all().to_pylist() == given


@pytest.mark.parametrize(("threads", "side_by_side"), [(1, False), (2, True), (4, True)])
def test_columns_of_few_splits_are_decoded_side_by_side(
    warehouse: str, monkeypatch: pytest.MonkeyPatch, threads: int, side_by_side: bool
) -> None:
    table = new_table(warehouse)
    table.append([row(1, "a")])
    asked = []
    read = ParquetReader.read_batches

    def noted(self: ParquetReader, *fields: Any, **how: Any) -> Any:
        asked.append(how["use_threads"])
        return read(self, *fields, **how)

    monkeypatch.setattr(ParquetReader, "read_batches", noted)
    assert rows(table.scan(threads=threads)) == [row(1, "a")]
    assert asked == [side_by_side]


def test_versions(warehouse: str) -> None:
    table = new_table(warehouse, primary_keys="k", bucket=1)
    table.append([row(1, "a")])
    table.append([row(1, "b")])
    assert rows(table.scan(version=1)) == [row(1, "a")]
    older = paimon_spark.open_table(table.path, version=1)
    assert rows(older.scan()) == [row(1, "a")]
    with pytest.raises(PaimonError, match="older version"):
        older.append([row(2, "a")])
    soon = datetime.now() + timedelta(hours=1)
    assert rows(table.scan(version=soon)) == [row(1, "b")]
    scan = table.scan()
    assert scan.snapshot_id == 2
    table.append([row(1, "c")])
    assert rows(scan) == [row(1, "b")]
    assert rows(table.scan(incremental_between="2,3")) == [row(1, "c")]


def test_a_limit_and_an_early_end_stop_the_threads(warehouse: str) -> None:
    table = new_table(warehouse, partition_keys="p")
    table.append([row(k, "a", f"p{k % 8}") for k in range(800)])
    assert table.scan(limit=5, threads=3).to_arrow().num_rows == 5
    assert table.scan(limit=0).to_arrow().num_rows == 0
    reader = table.scan(threads=3).to_reader()
    assert reader.read_next_batch().num_rows
    reader.close()
    with pytest.raises(OptionError, match="limit is -1"):
        table.scan(limit=-1)


@pytest.mark.parametrize("way", ["to_reader", "__arrow_c_stream__"])
def test_a_stream_keeps_little_of_what_nobody_takes(warehouse: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two splits of ten times what a split may have ready: who takes the first batch waits, and so do the threads."""
    budget, rows_of_split = 4 << 20, 1_000_000
    monkeypatch.setattr("paimon_spark.arrow.scan._BUFFERED_BYTES", budget)
    written = pa.table({f"c{at}": np.arange(at, at + rows_of_split) % 1000 * 1.0 for at in range(6)})
    assert written.nbytes > 10 * budget
    table = paimon_spark.create_table("d.wide", written.schema, catalog=warehouse, source_split_target_size="1 mb")
    table.append(written)
    table.append(written)
    before = pa.total_allocated_bytes()
    scan = table.scan(threads=2)
    assert len(scan.splits()) == 2
    reader = scan.to_reader() if way == "to_reader" else pa.RecordBatchReader.from_stream(scan)
    found = most = 0
    for batch in reader:
        if not found:
            _wait_until_still()
        found += batch.num_rows
        del batch
        most = max(most, pa.total_allocated_bytes() - before)
    assert found == 2 * rows_of_split
    assert most < written.nbytes  # half of the rows; without a bound the first batch leaves nearly all of them ready


def _wait_until_still() -> None:
    """Wait until the threads that read have allocated nothing more for a while."""
    seen, still = -1, 0
    while still < 20:
        time.sleep(0.02)
        now = pa.total_allocated_bytes()
        still = still + 1 if now == seen else 0
        seen = now


def test_an_error_of_a_split_is_raised(warehouse: str) -> None:
    table = new_table(warehouse, partition_keys="p")
    table.append([row(k, "a", f"p{k % 4}") for k in range(8)])
    next(Path(table.path).glob("p=p2/*/*.parquet")).unlink()
    with pytest.raises(paimon_spark.CorruptTableError):
        table.scan(threads=2).to_arrow()


def test_counters_of_concurrent_deletes_lose_nothing(warehouse: str) -> None:
    table = new_table(warehouse, primary_keys="k", bucket=1)
    table.append([row(1, "a"), row(2, "a")])
    stale = paimon_spark.open_table(table.path)
    table.append([row(1, "b")])
    stale.delete("v = 'a'")
    assert rows(table.scan()) == [row(1, "b")]


def test_bad_input(warehouse: str) -> None:
    table = new_table(warehouse)
    assert repr(table.scan("k", "k = 1")) == f"Scan('{table.path}', columns=['k'], where='k = 1', limit=None)"
    with pytest.raises(SchemaMismatchError, match="has no 'w'"):
        table.append([{"k": 1, "w": 2, "p": "x"}])
    with pytest.raises(SchemaMismatchError, match=r"builtins\.int"):
        table.append(1)
    with pytest.raises(SchemaMismatchError, match="do not fit"):
        table.append([row("one", "a")])  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no primary key"):
        table.upsert([row(1, "a")])
    with pytest.raises(OptionError, match=r"scan\.tag-name"):
        table.scan(scan_tag_nme="x")
    with pytest.raises(OptionError, match=r"database\.table"):
        paimon_spark.open_table("t", catalog=warehouse)
    with pytest.raises(UnsupportedError, match=r"system_table\('snapshots'\)"):
        paimon_spark.open_table(f"{table.path}$snapshots")
    with pytest.raises(OptionError):
        table.scan(columns="nope").to_arrow()
    with pytest.raises(OptionError, match="limit is '3'"):
        table.scan(limit="3")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="takes the path of a table"):
        paimon_spark.open_table(5)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"a pyarrow\.Schema"):
        paimon_spark.create_table(f"{warehouse}/d.db/u", {"id": "int"})  # type: ignore[arg-type]
    with pytest.raises(TableNotFoundError, match="needs its catalog"):
        paimon_spark.open_table("d.t")
    with pytest.raises(TableNotFoundError, match=f"directory of a database.*{warehouse}/d.db/t"):
        paimon_spark.open_table(f"{warehouse}/d.db")
    with pytest.raises(SchemaError, match=r"a warehouse.*/d\.db/orders"):
        paimon_spark.create_table(warehouse, SCHEMA)
    assert table.snapshots().num_rows == 0
    assert not issubclass(CommitConflictError, OptionError)


def test_options_of_the_store_are_no_surprise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They reach the table and are kept nowhere, of which nothing need be said."""
    store = {"s3.endpoint": "http://x"}
    table = paimon_spark.create_table("d.t", SCHEMA, catalog=tmp_path, bucket=1, bucket_key="k", **store)
    assert not caplog.records
    assert table.options == {"bucket": "1", "bucket-key": "k"}
