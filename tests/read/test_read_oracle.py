"""Tables that Java writes on the spot: the same splits, the same rows, the same refusals."""

from __future__ import annotations

import re
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.read.aggregate import AggregateCall, Aggregation, aggregate_snapshot
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.table.table import load_table
from paimon_spark.table.time_travel import time_text
from tests.support.golden import GoldenRead, golden_tables, not_yet, row_multiset
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle

LATEST = {"id": "latest", "options": {}}
READABLE = [table for table in golden_tables() if not_yet(GoldenRead(table, LATEST)) is None]


def our_rows(path: str, predicate: Predicate | None = None, **options: str) -> pa.Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    plan = plan_of(load_table(path, options=named), predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def java_rows(oracle: Any, name: str, **options: str) -> pa.Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return oracle.read(name, options=named or None)


def table_path(oracle: Any, name: str) -> str:
    database, table = name.split(".")
    (found,) = Path(oracle.warehouse).glob(f"{database}.db/{table}")
    return str(found)


def splits(path: str, options: dict[str, str]) -> Counter[Any]:
    plan = plan_of(load_table(path, options=options))
    return Counter((s.bucket, tuple(sorted(f.name for f in s.files)), s.raw_convertible) for s in plan.splits)


def java_splits(oracle: Any, path: str, options: dict[str, str]) -> Counter[Any]:
    planned = oracle.plan(path, options or None)
    return Counter((s["bucket"], tuple(sorted(f[0] for f in s["files"])), s["raw"]) for s in planned)


@pytest.mark.parametrize("golden", READABLE, ids=lambda t: t.name)
def test_splits_are_those_of_java(oracle: Any, golden: Any) -> None:
    path = str(golden.path)
    assert splits(path, {}) == java_splits(oracle, path, {})
    if golden.expect["primary_keys"]:
        for target in ("1 b", "3 kb"):
            tiny = {"source.split.target-size": target, "source.split.open-file-cost": "1 b"}
            assert splits(path, tiny) == java_splits(oracle, path, tiny)


def test_partitions_with_different_bucket_counts(oracle: Any) -> None:
    """After an overwrite with another bucket number, a key filter finds its row in old and new partitions."""
    name = "d.rescaled"
    oracle.create(
        name,
        [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")],
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "2"},
    )
    rows = [(p, k, f"{p}-{k}") for p in (1, 2) for k in range(40)]
    oracle.write(name, rows)
    oracle.alter(name, ("set", "bucket", "5"))
    oracle.write(name, [row for row in rows if row[0] == 2], overwrite={"p": "2"})
    path = table_path(oracle, name)
    assert {split.total_buckets for split in plan_of(load_table(path)).splits} == {2, 5}
    for key in range(0, 40, 3):
        found = our_rows(path, Leaf("eq", "k", (key,)))
        assert sorted(found.column("v").to_pylist()) == [f"1-{key}", f"2-{key}"]
    planned = plan_of(load_table(path), predicate=Leaf("eq", "k", (7,)))
    assert len(planned.splits) == 2


def test_default_values_are_given_at_write_only(oracle: Any) -> None:
    name = "d.defaults"
    oracle.create(name, [("a", "INT"), ("b", "STRING")], options={"bucket": "-1"})
    oracle.write(name, [(1, None), (2, "x")])
    oracle.alter(name, ("add", "c", "INT"))
    oracle.alter(name, ("default", "b", "dflt"))
    oracle.alter(name, ("default", "c", "7"))
    oracle.write(name, [(3, None, None), (4, "y", 1)])
    path = table_path(oracle, name)
    assert row_multiset(our_rows(path)) == row_multiset(java_rows(oracle, name))
    nulls = our_rows(path, Leaf("is_null", "c"))
    assert sorted(nulls.column("a").to_pylist()) == [
        row["a"] for row in java_rows(oracle, name).to_pylist() if row["c"] is None
    ]


@pytest.mark.parametrize("mode", ["latest-full", "latest", "compacted-full"])
def test_scan_modes(oracle: Any, mode: str) -> None:
    name = f"d.modes_{mode.replace('-', '_')}"
    oracle.create(name, [("k", "INT NOT NULL"), ("v", "INT")], pk=["k"], options={"bucket": "1"})
    oracle.write(name, [(1, 1), (2, 2)], options={"write-only": "true"})
    oracle.compact(name)
    oracle.write(name, [(2, 3), (3, 3)], options={"write-only": "true"})
    ours = our_rows(table_path(oracle, name), scan__mode=mode)
    assert row_multiset(ours) == row_multiset(java_rows(oracle, name, scan__mode=mode))
    assert ours.num_rows == (2 if mode == "compacted-full" else 3)


def test_time_travel_by_time_is_that_of_java(oracle: Any) -> None:
    name = "d.times"
    oracle.create(name, [("a", "INT")], options={"bucket": "-1"})
    for i in range(5):
        oracle.write(name, [(i,)])
    path = table_path(oracle, name)
    times = [load_table(path).snapshots.get(i).time_millis for i in range(1, 6)]
    for millis in sorted({t + d for t in times for d in (-1, 0, 1)}):
        if millis < times[0]:
            words = re.escape(f"earlier than or equal to timestamp [{time_text(millis)}]")
            with pytest.raises(SnapshotNotFoundError, match=words):
                our_rows(path, scan__timestamp_millis=str(millis))
        else:
            ours = our_rows(path, scan__timestamp_millis=str(millis))
            assert row_multiset(ours) == row_multiset(java_rows(oracle, name, scan__timestamp_millis=str(millis)))


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_sequence_ties_and_many_small_runs(oracle: Any, engine: str) -> None:
    name = f"d.runs_{engine.replace('-', '_')}"
    oracle.create(
        name,
        [("k", "STRING NOT NULL"), ("n", "DECIMAL(20, 2) NOT NULL"), ("a", "INT"), ("s", "BIGINT")],
        pk=["k", "n"],
        options={"bucket": "2", "merge-engine": engine, "sequence.field": "s", "write-only": "true"},
    )
    for i in range(12):
        rows = [
            (
                f"k{(i * 7 + j * 3) % 11:02}",
                f"{j % 5}.50",
                None if (i + j) % 3 == 0 else i * 100 + j,
                (i * j) % 4 or None,
            )
            for j in range(9)
        ]
        last = {row[:2]: row for row in rows}
        oracle.write(name, [(k, Decimal(n), a, s) for k, n, a, s in last.values()])
    path = table_path(oracle, name)
    assert row_multiset(our_rows(path)) == row_multiset(java_rows(oracle, name))
    some = our_rows(path, Leaf("ge", "k", ("k05",)))
    assert row_multiset(some) == row_multiset(
        pa.Table.from_pylist([r for r in java_rows(oracle, name).to_pylist() if r["k"] >= "k05"], some.schema)
    )


def test_files_outside_the_table_written_by_java(oracle: Any, tmp_path: Path) -> None:
    name = "d.external"
    options = {
        "bucket": "-1",
        "data-file.external-paths": f"file://{tmp_path}/out",
        "data-file.external-paths.strategy": "round-robin",
    }
    oracle.create(name, [("p", "INT"), ("a", "INT")], partition=["p"], options=options)
    oracle.write(name, [(1, 1), (2, 2)])
    path = table_path(oracle, name)
    planned = [file.path for split in plan_of(load_table(path)).splits for file in split.files]
    assert planned
    assert all(found.startswith(f"file:{tmp_path}/out/") for found in planned)
    assert row_multiset(our_rows(path)) == row_multiset(java_rows(oracle, name))


def test_older_states_after_changes_of_options_are_those_of_java(oracle: Any) -> None:
    """Java takes the latest options: `sequence.field` that is gone, an aggregate that is another now."""
    columns = [("id", "INT NOT NULL"), ("u", "INT"), ("w", "INT"), ("v", "INT")]
    write_only = {"write-only": True}
    for name, options, changes in (
        ("d.unset", {"sequence.field": "u"}, [("unset", "sequence.field")]),
        ("d.other", {"sequence.field": "u"}, [("set", "sequence.field", "w"), ("rename", "v", "vv")]),
        (
            "d.max",
            {
                "merge-engine": "partial-update",
                "fields.u.sequence-group": "v",
                "fields.v.aggregate-function": "sum",
            },
            [("set", "fields.v.aggregate-function", "max")],
        ),
    ):
        oracle.create(name, columns, pk=["id"], options={"bucket": "1", **options})
        oracle.write(name, [(1, 5, 1, 10), (2, 5, 1, 10)], options=write_only)
        oracle.write(name, [(1, 3, 2, 7), (2, 6, 0, 7)], options=write_only)
        oracle.alter(name, *changes)
        oracle.write(name, [(3, 1, 1, 1)], options=write_only)
        then = {"scan__snapshot_id": "2"}
        assert row_multiset(our_rows(table_path(oracle, name), **then)) == row_multiset(java_rows(oracle, name, **then))


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_files_and_commits_after_a_time(oracle: Any, keys: list[str]) -> None:
    name = oracle.fresh_name("created")
    options = {"bucket": "2", "write-only": "true", **({} if keys else {"bucket-key": "k"})}
    oracle.create(name, [("k", "INT NOT NULL"), ("v", "INT")], pk=keys, options=options)
    for number in range(4):
        oracle.write(name, [(key, number) for key in range(number, number + 3)])
        time.sleep(0.002)
    table = load_table(table_path(oracle, name))
    commits = [table.snapshots.get(number).time_millis for number in table.snapshots.ids()]
    live = table.manifests.live_entries(table.snapshots.latest())
    times = {1, *commits, *(int(entry.file.creation_time_millis or 0) for entry in live), commits[-1] + 9_999}
    for key in ("scan.file-creation-time-millis", "scan.creation-time-millis"):
        for at in sorted(times):
            given = {key: str(at)}
            rows = row_multiset(our_rows(table.path, **given))
            assert rows == row_multiset(java_rows(oracle, name, **given)), given
            scan = TableScan.of(load_table(table.path, options=given), ROWS)
            counted = aggregate_snapshot(scan.table, scan.source, None, Aggregation((AggregateCall("count"),)))
            assert keys or counted is None or sum(row[0] for row in counted.rows) == rows.total(), given


def test_counts_of_one_bucket(oracle: Any) -> None:
    name = oracle.fresh_name("bucket")
    oracle.create(name, [("k", "INT NOT NULL")], options={"bucket": "2", "bucket-key": "k"})
    oracle.write(name, [(key,) for key in range(20)])
    path = table_path(oracle, name)
    scan = TableScan.of(load_table(path, options={"scan.bucket": "1"}), ROWS)
    counted = aggregate_snapshot(scan.table, scan.source, None, Aggregation((AggregateCall("count"),)))
    assert counted is not None
    assert counted.rows == ((our_rows(path, scan__bucket="1").num_rows,),)
    assert counted.rows[0][0] < 20
