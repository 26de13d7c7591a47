"""Cached rows after this process has changed their table: by statements, procedures, methods, text and saves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from tests.support.warehouses import in_use

pytestmark = pytest.mark.spark

Change = Callable[[SparkSession, str], object]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from in_use(spark, "kept", tmp_path_factory.mktemp("kept"), by_text=True)


def new_row(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 3 AS k, 'z' AS v")


def table_at(spark: SparkSession, path: str) -> paimon_spark.PaimonTable:
    return paimon_spark.PaimonTable.for_path(spark, path)


NEW, OLD = [(1, "x"), (2, "y"), (3, "z")], [(1, "x")]
CHANGES: dict[str, tuple[Change, list[tuple[int, str]]]] = {
    "statement": (lambda spark, path: spark.sql("INSERT INTO held VALUES (3, 'z')"), NEW),
    "statement by path": (lambda spark, path: spark.sql(f"INSERT INTO kept.`{path}` VALUES (3, 'z')"), NEW),
    "save": (lambda spark, path: new_row(spark).write.format("paimon").mode("append").save(path), NEW),
    "method": (lambda spark, path: table_at(spark, path).append(new_row(spark)), NEW),
    "delete": (lambda spark, path: table_at(spark, path).delete("k = 2"), OLD),
    "text": (lambda spark, path: paimon_spark.sql(spark, "INSERT INTO held VALUES (3, 'z')"), NEW),
    "procedure": (lambda spark, path: spark.sql("CALL kept.sys.rollback(table => 'held', version => '1')"), OLD),
    "rollback": (lambda spark, path: table_at(spark, path).rollback_to(snapshot_id=1), OLD),
}


@pytest.mark.parametrize("change", CHANGES)
def test_cached_rows_are_read_again(spark: SparkSession, warehouse: Path, change: str) -> None:
    spark.sql("DROP TABLE IF EXISTS held")
    spark.sql("CREATE TABLE held (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    for row in ((1, "x"), (2, "y")):
        spark.sql(f"INSERT INTO held VALUES {row}")
    path = str(warehouse / "db.db" / "held")
    spark.catalog.cacheTable("held")
    pinned = spark.read.format("paimon").load(path).cache()
    counted = spark.table("held").groupBy().count().cache()
    try:
        assert (spark.table("held").count(), pinned.count(), counted.first()) == (2, 2, (2,))
        deed, rows = CHANGES[change]
        deed(spark, path)
        assert sorted(map(tuple, spark.table("held").collect())) == rows
        assert "InMemoryRelation" in spark.table("held")._jdf.queryExecution().executedPlan().toString()
        assert spark.sql("SELECT count(*) FROM held").first() == (len(rows),)
        assert sorted(map(tuple, pinned.collect())) == [(1, "x"), (2, "y")]  # a load stays on its snapshot
    finally:
        spark.catalog.clearCache()
