"""Compaction that puts rows in order: what is sorted with what, nothing is lost, and statistics leave out files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError, OptionError, UnsupportedError
from paimon_spark.maintain.compact import sorted_rewrite
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.row_order import Curve, RowOrder, asked_order
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_rewrite import (
    all_of_each_partition,
    check_sortable,
    clustering_units,
    sort_here,
    sort_units,
)
from paimon_spark.read.row_views import ROWS, find_view
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import And, Leaf, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.seeds import chance

COLUMNS = {"a": "INT", "b": "BIGINT", "name": "STRING", "at": "TIMESTAMP(9)", "p": "STRING"}
SMALL = {"target-file-size": "40 kb", "bucket": "-1", "write-only": "true"}


def make(path: Path, *, partitioned: bool = False, **options: str) -> FileStoreTable:
    fields = [DataField(at, name, parse_type(kind)) for at, (name, kind) in enumerate(COLUMNS.items())]
    named = {**SMALL, **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    return create_table(str(path), create_schema(fields, (), ("p",) if partitioned else (), named, None))


def write(table: FileStoreTable, seed: int, rows: int = 2000, partition: str = "x") -> None:
    rng = np.random.default_rng(seed)
    nothing = rng.random(rows) < 0.02
    columns = {
        "a": pa.array(rng.integers(0, 1000, rows), pa.int32(), mask=nothing),
        "b": pa.array(rng.integers(-1000, 1000, rows), pa.int64()),
        "name": pa.array([f"n{number:04}" for number in rng.integers(0, 500, rows)]),
        "at": pa.array(rng.integers(0, 2**60, rows), pa.timestamp("ns")),  # Spark would cut it
        "p": pa.array([partition] * rows),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def rows_of(table: FileStoreTable) -> list[tuple[Any, ...]]:
    plan = plan_of(table)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches, to_arrow_schema(plan.fields))
    columns = [
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in found.columns
    ]
    return sorted(zip(*columns, strict=True), key=repr)


def files_planned(table: FileStoreTable, predicate: Predicate) -> int:
    plan = TableScan.of(table, ROWS).select(predicate=predicate).plan()
    return sum(len(split.files) for split in plan.splits)


def latest(table: FileStoreTable) -> Any:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def sort(table: FileStoreTable, curve: Curve, *columns: str, **how: Any) -> int | None:
    units = all_of_each_partition(table, latest(table), CompactScope())
    return sort_units(table, latest(table), units, RowOrder.of(table, curve, columns), **how)


def cluster(table: FileStoreTable, *, full: bool = False, scope: CompactScope | None = None) -> int | None:
    units = clustering_units(table, latest(table), scope or CompactScope(), full=full)
    return sort_units(table, latest(table), units, RowOrder.of_clustering(table))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a few rows."""
    monkeypatch.setattr(sorted_rewrite, "RANGE_BYTES", 8 << 10)


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.usefixtures("narrow")
def test_files_are_left_out_by_each_column(tmp_path: Path, curve: Curve) -> None:
    """Before, every file holds every value; after, a value of either column is in few files, and no row has changed."""
    table = make(tmp_path / "t", target_file_size="10 kb")
    for seed in range(4):
        write(table, seed, 3000)
    before = rows_of(table)
    by = {"a": Leaf("between", "a", (100, 110)), "b": Leaf("between", "b", (100, 120))}
    many = files_planned(table, by["a"])
    assert many == files_planned(table, by["b"]) == len(live(table))
    assert sort(table, curve, "a", "b") is not None
    assert latest(table).commit_kind is CommitKind.COMPACT
    assert rows_of(table) == before
    total = len(live(table))
    few = {name: files_planned(table, leaf) for name, leaf in by.items()}
    assert total > 8
    assert few["a"] <= (2 if curve is Curve.ORDER else 0.75 * total), few
    assert few["b"] == total if curve is Curve.ORDER else few["b"] <= 0.75 * total, few
    assert files_planned(table, And((by["a"], by["b"]))) <= 0.4 * total


def live(table: FileStoreTable) -> list[Any]:
    return [entry.file for entry in table.manifests.live_entries(latest(table))]


@pytest.mark.usefixtures("narrow")
def test_rows_of_a_file_are_in_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", target_file_size="1 mb")
    write(table, 1)
    write(table, 2)
    sort(table, Curve.ORDER, "a", "name")
    plan = plan_of(table)
    (split,) = plan.splits
    rows = pa.Table.from_batches(plan.read(plan.table, split, plan.fields, plan.residual))
    keys = list(zip(rows["a"].to_pylist(), rows["name"].to_pylist(), strict=True))
    assert keys == sorted(keys, key=lambda key: (key[0] is None, key[0] or 0, key[1])), "nulls last"


def test_partitions_stay_apart(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partitioned=True)
    for seed, partition in enumerate("xyxy"):
        write(table, seed, 300, partition)
    before = rows_of(table)
    sort(table, Curve.ZORDER, "a", "b")
    assert rows_of(table) == before
    entries = table.manifests.live_entries(latest(table))
    assert len({entry.partition for entry in entries}) == len(entries) == 2


def test_rows_appended_meanwhile_stay_and_a_rival_is_a_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    write(table, 1, 100)
    write(table, 2, 100)

    def interrupted_by(act: Any) -> Any:
        def execute(given: FileStoreTable, rewrites: Any) -> Any:
            made = sort_here(given, rewrites)
            act()
            return made

        return execute

    sort(table, Curve.ORDER, "a", execute=interrupted_by(lambda: write(table, 3, 50)))
    assert len(rows_of(table)) == 250
    files = {path.name for path in Path(table.path, "bucket-0").iterdir()}
    with pytest.raises(CommitConflictError):
        sort(table, Curve.ORDER, "b", execute=interrupted_by(lambda: sort(table, Curve.ORDER, "name")))
    assert len(rows_of(table)) == 250
    left = {path.name for path in Path(table.path, "bucket-0").iterdir()}
    assert left - files == {file.file_name for file in live(table)}, "what was written in vain is gone"


def test_ids_of_rows_go_along(tmp_path: Path) -> None:
    table = make(tmp_path / "t", row_tracking__enabled="true")
    write(table, 1, 50)
    write(table, 2, 50)
    before = tracked(table)
    sort(table, Curve.HILBERT, "a", "b")
    assert tracked(table) == before
    assert len(before) == 100


def tracked(table: FileStoreTable) -> list[tuple[Any, ...]]:
    plan = plan_of(table, find_view("row_tracking"))
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches).drop_columns(["at"]).to_pylist()
    return sorted(tuple(row.values()) for row in found if row["a"] is not None)


def test_a_table_that_clusters_step_by_step(tmp_path: Path) -> None:
    """Levels as Java has them: a few new files wait, then they become a sorted run; a full one takes everything."""
    options = {"clustering.incremental": "true", "clustering.columns": "a,b", "num-sorted-run.compaction-trigger": "3"}
    table = make(tmp_path / "t", **options)
    write(table, 0, 3000)
    assert cluster(table) is None
    assert cluster(table, full=True) == 2
    assert {file.level for file in live(table)} == {3}
    assert cluster(table, full=True) is None, "all of it is clustered by these columns"
    for seed in range(3):
        write(table, seed, 100)
    before = rows_of(table)
    old = {file.file_name for file in live(table) if file.level == 3}
    assert cluster(table) is not None
    assert rows_of(table) == before
    assert {file.level for file in live(table)} == {2, 3}
    assert old <= {file.file_name for file in live(table)}, "the large run stays"
    with pytest.raises(UnsupportedError, match=r"clustering\.incremental"):
        compact(table)
    other = table.with_options({"clustering.columns": "name"})
    assert cluster(other, full=True) is not None


def test_the_order_that_options_ask_for(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for columns, curve in (("a", Curve.ORDER), ("a, b", Curve.ZORDER), ("a,b,name,at,p", Curve.HILBERT)):
        order = RowOrder.of_clustering(table.with_options({"clustering.columns": columns}))
        assert (order.curve, order.columns) == (curve, tuple(columns.replace(" ", "").split(",")))
    given = {"clustering.columns": "name,a", "clustering.strategy": "hilbert"}
    assert RowOrder.of_clustering(table.with_options(given)).curve is Curve.HILBERT


def test_columns_of_a_curve_count_alike() -> None:
    """Whatever their types and ranges: the first bit of each is its half."""
    count = 4096
    rng = np.random.default_rng(5)
    numbers, texts = rng.permutation(count), rng.permutation(count)
    rows = pa.table({"a": pa.array(numbers * 1000 - 5), "name": [f"always the same {text:05}" for text in texts]})
    keys = RowOrder(Curve.ZORDER, ("a", "name")).keys(rows)["0"].to_pylist()
    order = sorted(range(count), key=lambda at: keys[at])
    first = order[: count // 5]
    assert max(numbers[first]) < count // 2 + 2
    assert max(texts[first]) < count // 2 + 2
    nothing = pa.table({"a": pa.array([None, None], pa.int64()), "name": pa.array([None, "x"])})
    assert RowOrder(Curve.HILBERT, ("a", "name")).sorted(nothing).num_rows == 2


NINE = {
    Curve.ZORDER: [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2)],
    Curve.HILBERT: [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2), (1, 2), (0, 2)],
}
"""The order that the official connector gives the numbers 0 to 2 of two columns."""


@pytest.mark.parametrize("curve", NINE)
def test_small_numbers_lie_on_the_curve_as_in_java(curve: Curve) -> None:
    rows = pa.table({"a": [0, 0, 0, 1, 1, 1, 2, 2, 2], "b": [0, 1, 2] * 3})
    found = RowOrder(curve, ("a", "b")).sorted(rows)
    assert list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == NINE[curve]


def test_local_sort_and_old_partitions(tmp_path: Path) -> None:
    options = {"clustering.incremental": "true", "clustering.columns": "a", "clustering.incremental.mode": "local-sort"}
    table = make(tmp_path / "t", partitioned=True, **options, clustering__history_partition__limit="1")
    for partition in "xyz":
        write(table, 1, 200, partition)
    before = rows_of(table)
    idle = table.with_options({"clustering.history-partition.idle-to-full-sort": "1 ms"})
    scope = CompactScope(partitions=Leaf("eq", "p", ("z",)))
    assert cluster(idle, full=True, scope=scope) is not None
    levels = {
        table.paths.partition_path(e.partition): e.file.level for e in table.manifests.live_entries(latest(table))
    }
    assert levels == {"p=x": 5, "p=y": 0, "p=z": 5}
    assert rows_of(table) == before


REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "no columns": (("order", ""), "order column could not be empty"),
    "an unknown column": (("zorder", "a,nobody"), "Can't find column nobody in table columns"),
    "an unknown order": (("spiral", "a"), "cannot match type: spiral for ordering"),
    "columns without an order": ((None, "a"), 'order_strategy "none" cannot work with order_by'),
    "partition columns": (("order", "p"), "order_by should not contain partition cols"),
    "partition columns in an unknown order": (("spiral", "p"), "order_by should not contain partition cols"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_ordered_is_refused(tmp_path: Path, case: str) -> None:
    (strategy, columns), message = REFUSED[case]
    table = make(tmp_path / "t", partitioned=True)

    def order() -> None:
        asked = asked_order(table, strategy, columns)
        assert asked is not None
        RowOrder.of(table, *asked)

    with pytest.raises(OptionError, match=message):
        order()


def test_buckets_are_not_sorted(tmp_path: Path) -> None:
    table = make(tmp_path / "t", bucket="2", bucket_key="a")
    with pytest.raises(UnsupportedError, match="unaware-bucket"):
        check_sortable(table)


@pytest.mark.usefixtures("narrow")
def test_random_tables_keep_their_rows(tmp_path: Path) -> None:
    rng = chance("sorted compaction")
    table = make(tmp_path / "t", partitioned=True, **{"target-file-size": "20 kb"})
    for step in range(8):
        write(table, rng.randrange(1000), rng.choice([1, 40, 900]), rng.choice("xyz"))
        if step % 2:
            before = rows_of(table)
            columns = rng.sample(["a", "b", "name", "at"], rng.randrange(1, 5))
            sort(table, rng.choice(list(Curve)), *columns)
            assert rows_of(table) == before
