"""Keys that move between partitions: one row of a key, by each engine's rule, through every entry point."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable, UnsupportedError
from paimon_spark.spark.jobs import cross_partition
from paimon_spark.spark.source.table_write import TableWrite, planned
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark

CATALOG = "cross_partition"
COLUMNS = "p int, k int not null, v int, w string"
KEYS = {"primary-key": "k", "partition": "p", "bucket": "-1"}
_numbers = itertools.count()
EntryPoint = Callable[[DataFrame, str], object]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = str(tmp_path_factory.mktemp("cross_partition"))
    paimon_spark.register_catalog(spark, CATALOG, warehouse=root)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.d")
    yield root
    paimon_spark.sql(spark, "SELECT 1", warehouse=root, catalog=CATALOG)


def insert(df: DataFrame, path: str, words: str = "INTO") -> None:
    df.createOrReplaceTempView("moved")
    df.sparkSession.sql(f"INSERT {words} {CATALOG}.d.{Path(path).name} SELECT p, k, v, w FROM moved")


def insert_by_text(df: DataFrame, path: str) -> None:
    df.createOrReplaceTempView("moved")
    root = str(Path(path).parent.parent)
    name = f"{CATALOG}.d.{Path(path).name}"
    paimon_spark.sql(
        df.sparkSession, f"INSERT INTO {name} SELECT p, k, v, w FROM moved", warehouse=root, catalog=CATALOG
    )


ENTRY_POINTS: dict[str, EntryPoint] = {
    "append": lambda df, path: PaimonTable.for_path(df.sparkSession, path).append(df),
    "format": lambda df, path: df.write.format("paimon").mode("append").save(path),
    "insert": insert,
    "text": insert_by_text,
}


@pytest.fixture
def create(spark: SparkSession, warehouse: str) -> Callable[..., PaimonTable]:
    def create(columns: str = COLUMNS, **options: str) -> PaimonTable:
        given = {**KEYS, **{key.replace("_", "-"): value for key, value in options.items()}}
        return PaimonTable.create(spark, f"{warehouse}/d.db/t{next(_numbers)}", columns, options=given)

    return create


def rows_of(spark: SparkSession, *rows: tuple[object, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "p int, k int, v int, w string").coalesce(1)


def all_rows(table: PaimonTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in table.to_df().select("k", "p", "v", "w").collect()), key=str)


EXPECTED = {
    "deduplicate": [(1, 2, 100, None), (2, None, 20, "x"), (3, 1, 3, "c"), (4, 3, 41, None)],
    "partial-update": [(1, 1, 100, "a"), (2, 1, 20, "x"), (3, 1, 3, "c"), (4, 2, 41, "d")],
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("engine", EXPECTED)
def test_a_key_has_one_row(
    spark: SparkSession,
    create: Callable[..., PaimonTable],
    entry_point: str,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = create(merge_engine=engine)
    monkeypatch.setattr(
        cross_partition, "estimated_bytes", lambda _: 0 if entry_point in ("append", "insert") else 1 << 60
    )
    ENTRY_POINTS[entry_point](rows_of(spark, (1, 1, 1, "a"), (1, 2, 2, "b"), (1, 3, 3, "c")), table.path)
    new = rows_of(spark, (2, 1, 100, None), (None, 2, 20, "x"), (2, 4, 4, "d"), (3, 4, 41, None))
    ENTRY_POINTS[entry_point](new, table.path)
    assert all_rows(table) == EXPECTED[engine]


def test_a_little_write_has_one_task(
    spark: SparkSession, create: Callable[..., PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the rows that are written: those of two tasks keep their order."""
    table, seen = create(), []
    run = cross_partition.run_write

    def watched(rows: DataFrame, write: TableWrite, task: Any = None) -> int | None:
        seen.append(rows.rdd.getNumPartitions())
        return run(rows, write, task)

    monkeypatch.setattr(cross_partition, "run_write", watched)
    rows = spark.range(0, 2000, 1, 2)
    table.append(rows.selectExpr("int(id % 3) p", "int(id % 700) k", "int(id) v", "string(id) w"))
    table.append(rows.selectExpr("int(id % 2) p", "int(id % 900) k", "int(-id) v", "string(null) w"))
    assert seen == [1, 1]
    last = {k: v for v in range(2000) for k in [v % 900]}
    assert all_rows(table) == sorted(((k, v % 2, -v, None) for k, v in last.items()), key=str)
    monkeypatch.setattr(cross_partition, "_ONE_TASK_KEYS", 899)
    table.append(rows.selectExpr("int(id % 3) p", "int(id % 10) k", "int(id) v", "string(id) w"))
    assert seen[2] > 1
    last |= {k: -(1990 + k) for k in range(10)}
    expected = [(k, -v % 3, -v, str(-v)) if k < 10 else (k, v % 2, -v, None) for k, v in last.items()]
    assert all_rows(table) == sorted(expected, key=str)


def test_an_overwrite_replaces_its_partitions_only(
    spark: SparkSession, create: Callable[..., PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = rows_of(spark, (1, 1, 1, "a"), (1, 2, 2, "b"), (2, 3, 3, "c"), (3, 4, 4, "d"))
    new = rows_of(spark, (1, 3, 30, "C"), (1, 5, 50, "E"))
    dynamic: dict[str, EntryPoint] = {
        "method": lambda df, path: PaimonTable.for_path(spark, path).overwrite(df, partition_overwrite_mode="dynamic"),
        "insert": lambda df, path: insert(df, path, "OVERWRITE"),
        "format": lambda df, path: df.write.format("paimon").mode("overwrite").save(path),
    }
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for number, write in enumerate(dynamic.values()):
            monkeypatch.setattr(cross_partition, "estimated_bytes", lambda _, size=number << 60: size)
            table = create()
            table.append(old)
            write(new, table.path)
            assert all_rows(table) == [(3, 1, 30, "C"), (4, 3, 4, "d"), (5, 1, 50, "E")]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    table = create(merge_engine="partial-update")
    table.append(old)
    table.overwrite(new, partition_overwrite_mode="dynamic")
    assert all_rows(table) == [(3, 2, 30, "C"), (4, 3, 4, "d"), (5, 1, 50, "E")]
    table.overwrite(new)
    assert all_rows(table) == [(3, 1, 30, "C"), (5, 1, 50, "E")]
    spark.sql(
        f"INSERT OVERWRITE {CATALOG}.d.{Path(table.path).name} PARTITION (p = 3) VALUES (3, 33, 'x'), (9, 9, 'y')"
    )
    assert all_rows(table) == [(3, 1, 33, "x"), (5, 1, 50, "E"), (9, 3, 9, "y")]


def test_statements_that_move_rows(spark: SparkSession, create: Callable[..., PaimonTable]) -> None:
    table = create()
    name = f"{CATALOG}.d.{Path(table.path).name}"
    table.append(rows_of(spark, *((i % 3, i, i, "a") for i in range(6))))
    spark.sql(f"UPDATE {name} SET p = 7 WHERE k = 1")
    table.update({"p": "8", "v": "v + 10"}, "k = 2")
    spark.sql(f"DELETE FROM {name} WHERE k = 3")
    assert all_rows(table) == [
        (0, 0, 0, "a"), (1, 7, 1, "a"), (2, 8, 12, "a"), (4, 1, 4, "a"), (5, 2, 5, "a"),
    ]  # fmt: skip
    table.compact()
    assert table.to_df().count() == 5


def test_buckets_are_filled(spark: SparkSession, create: Callable[..., PaimonTable]) -> None:
    table = create(**{"dynamic_bucket.target_row_num": "1000"})
    for start in (0, 2500):
        keys = spark.range(start, start + 2500, 1, 3).selectExpr(
            "cast(id % 2 as int) p", "cast(id as int) k", "1 v", "'a' w"
        )
        table.append(keys)
    sums = table.files().groupBy("partition", "bucket").agg({"record_count": "sum"}).collect()
    assert sorted(row[2] for row in sums) == [500, 500, 1000, 1000, 1000, 1000]
    store = load_table(table.path)
    assert not store.manifests.index_entries(store.snapshots.latest())


def test_two_writers_never_give_a_key_two_partitions(
    spark: SparkSession, create: Callable[..., PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create()
    table.append(rows_of(spark, (0, 0, 0, "a")))
    write, meanwhile = cross_partition.run_write, [(2, 5, 2, "second"), (2, 0, 2, "second")]

    def slow_write(*arguments: object) -> object:
        if meanwhile:
            rival = rows_of(spark, *meanwhile)
            meanwhile.clear()
            PaimonTable.for_path(spark, table.path).append(rival)
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cross_partition, "run_write", slow_write)
    table.append(rows_of(spark, (1, 5, 1, "first"), (1, 0, 1, "first")))
    assert all_rows(table) == [(0, 1, 1, "first"), (5, 1, 1, "first")]
    assert load_table(table.path).snapshots.latest().id == 3  # type: ignore[union-attr]


def test_what_is_refused(spark: SparkSession, create: Callable[..., PaimonTable]) -> None:
    table = create(ignore_delete="true")
    table.append(rows_of(spark, (1, 1, 1, "a")))
    table.append(rows_of(spark, (1, 1, 2, "b")))
    with pytest.raises(paimon_spark.DataError, match=r".*ignore-delete"):
        table.append(rows_of(spark, (2, 1, 3, "c")))
    assert all_rows(table) == [(1, 1, 2, "b")]
    with pytest.raises(UnsupportedError, match=r"rows of one key must come together .*PaimonTable"):
        planned(load_table(table.path), pa.schema([("p", pa.int32()), ("k", pa.int32())]))
