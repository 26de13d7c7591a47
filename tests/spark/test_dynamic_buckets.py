"""Dynamic buckets are filled to the target through every entry point, though nobody knows the number of rows before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import desc

from paimon_spark import PaimonTable
from paimon_spark.table.table import load_table

CATALOG = "filled"
pytestmark = [pytest.mark.spark, pytest.mark.catalog(CATALOG, database="d")]


def insert(df: DataFrame, path: str) -> None:
    df.createOrReplaceTempView("filling")
    df.sparkSession.sql(f"INSERT INTO {CATALOG}.d.{Path(path).name} SELECT * FROM filling")


ENTRY_POINTS: dict[str, Callable[[DataFrame, str], object]] = {
    "format": lambda df, path: df.write.format("paimon").mode("append").save(path),
    "insert": insert,
    "append": lambda df, path: PaimonTable.for_path(df.sparkSession, path).append(df),
    "overwrite": lambda df, path: df.write.format("paimon").mode("overwrite").save(path),
}


def number_of_files(path: str) -> int:
    store = load_table(path)
    return len(store.manifests.live_entries(store.snapshots.latest()))


@pytest.mark.parametrize("entry_point", ["insert", "append"])
def test_a_partition_has_one_file_where_its_rows_are_brought_together(
    spark: SparkSession, warehouse: Path, entry_point: str
) -> None:
    path = f"{warehouse}/d.db/parts_{entry_point}"
    options = {"partition.sink-strategy": "hash"}
    table = PaimonTable.create(spark, path, "id long not null, p long", partition_by="p", options=options)
    ENTRY_POINTS[entry_point](spark.range(0, 600, 1, 4).selectExpr("id", "id % 30 AS p"), path)
    assert number_of_files(path) == 30
    assert table.to_df().selectExpr("count(DISTINCT id)", "count(DISTINCT p)").first() == (600, 30)


@pytest.mark.parametrize("entry_point", ["insert", "append"])
def test_a_partition_has_one_file_unless_a_query_arranges_its_rows(
    spark: SparkSession, warehouse: Path, entry_point: str
) -> None:
    path = f"{warehouse}/d.db/free_{entry_point}"
    options = {"write-only": "true"}
    table = PaimonTable.create(spark, path, "id long not null, p long", partition_by="p", options=options)
    rows = spark.range(0, 120, 1, 4).selectExpr("id", "id % 6 AS p")
    made = []
    ordered, distributed = rows.sortWithinPartitions(desc("id")), rows.repartition(3)
    for arranged in (rows, ordered.cache(), distributed, rows.selectExpr("id", "99L AS p")):
        before = number_of_files(path)
        ENTRY_POINTS[entry_point](arranged, path)
        made.append(number_of_files(path) - before)
    ordered.unpersist()
    assert made == [6, 24, 18, 4]
    spark.sql(f"ALTER TABLE {CATALOG}.d.free_{entry_point} SET TBLPROPERTIES ('partition.sink-strategy' = 'none')")
    ENTRY_POINTS[entry_point](rows, path)
    assert number_of_files(path) == sum(made) + 24
    assert table.to_df().selectExpr("count(*)", "count(DISTINCT id)").first() == (600, 120)


def test_a_large_partition_has_several_writers(spark: SparkSession, warehouse: Path) -> None:
    path = f"{warehouse}/d.db/large_partition"
    PaimonTable.create(spark, path, "id long not null, p long", partition_by="p")
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "100kB")
    try:
        insert(spark.range(0, 200_000, 1, 4).selectExpr("hash(id) AS id", "id div 1000000 AS p"), path)
    finally:
        spark.conf.unset("spark.sql.adaptive.advisoryPartitionSizeInBytes")
    assert 1 < number_of_files(path) <= 4


@pytest.mark.parametrize(("entry_point", "rows", "target", "tasks"), [
    *((entry_point, 200_000, 20_000, 5) for entry_point in ENTRY_POINTS), ("insert", 100_000, 1_000, 3),
])  # fmt: skip
def test_buckets_are_full(
    spark: SparkSession, warehouse: Path, entry_point: str, rows: int, target: int, tasks: int
) -> None:
    path = f"{warehouse}/d.db/{entry_point}_{target}"
    options = {"dynamic-bucket.target-row-num": str(target)}
    table = PaimonTable.create(spark, path, "id long not null, v string", primary_key="id", options=options)
    ENTRY_POINTS[entry_point](spark.range(0, rows, 1, tasks).selectExpr("id", "concat('v', id) AS v"), path)
    store = load_table(path)
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    hashes = [entry.row_count for entry in store.manifests.index_entries(snapshot)]
    assert sum(hashes) <= rows  # some keys have one hash
    assert len(hashes) == rows // target
    assert all(count == target for count in sorted(hashes)[1:])
    assert table.to_df().selectExpr("count(DISTINCT id)", "count(*)", "count(v)").first() == (rows, rows, rows)
