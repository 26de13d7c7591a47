"""`clustering.columns`: writes of tables without keys and buckets put rows in order, through every entry point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.predicate import Leaf
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.catalog("clustered", database="d")

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ROW_COUNT = 3000


def created(spark: SparkSession, warehouse: Path, name: str, options: str) -> str:
    spark.sql(
        f"CREATE TABLE clustered.d.{name} (id INT, x INT, y STRING, `p q` STRING) PARTITIONED BY (`p q`) TBLPROPERTIES "
        f"('write-only' = 'true', 'target-file-row-num' = '200', {options})"
    )
    return f"{warehouse}/d.db/{name}"


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROW_COUNT, 1, 2).selectExpr(
        "cast(id AS INT) id",
        "cast(pmod(hash(id), 1000) AS INT) x",
        "cast(pmod(hash(id, 7), 1000) AS STRING) y",
        "if(id % 2 = 0, 'even', 'odd') `p q`",
    )


def share(path: str, column: str, low: Any, high: Any) -> float:
    """The share of a table's files that a filter needs."""
    table = load_table(path)
    plan = TableScan.of(table, ROWS).select(predicate=Leaf("between", column, (low, high))).plan()
    return sum(len(split.files) for split in plan.splits) / len(table.manifests.live_entries(table.snapshots.latest()))


def by_statement(spark: SparkSession, path: str) -> None:
    rows_of(spark).createOrReplaceTempView("clustered_rows")
    spark.sql(f"INSERT INTO clustered.d.{path.rsplit('/', 1)[1]} SELECT * FROM clustered_rows")


def by_path(spark: SparkSession, path: str) -> None:
    rows_of(spark).write.format("paimon").mode("overwrite").save(path)


def by_method(spark: SparkSession, path: str) -> None:
    paimon_spark.PaimonTable.for_path(spark, path).append(rows_of(spark))


def by_text(spark: SparkSession, path: str) -> None:
    rows_of(spark).createOrReplaceTempView("clustered_rows")
    paimon_spark.sql(spark, f"INSERT OVERWRITE clustered.d.{path.rsplit('/', 1)[1]} SELECT * FROM clustered_rows")


@pytest.mark.parametrize("write", [by_statement, by_path, by_method, by_text])
def test_rows_are_written_in_order(
    spark: SparkSession, warehouse: Path, oracle: Any, write: Callable[[SparkSession, str], None]
) -> None:
    path = created(spark, warehouse, f"ordered_{write.__name__}", "'clustering.columns' = 'x'")
    write(spark, path)
    assert share(path, "x", 10, 20) < 0.5
    assert sorted(map(tuple, oracle.rows(path))) == sorted(map(tuple, rows_of(spark).collect()))


def test_rows_are_written_along_a_curve(spark: SparkSession, warehouse: Path, oracle: Any) -> None:
    path = created(spark, warehouse, "curve", "'sink.clustering.by-columns' = 'x,y'")
    by_statement(spark, path)
    assert share(path, "x", 10, 20) < 0.8
    assert share(path, "y", "10", "20") < 0.8
    assert sorted(map(tuple, oracle.rows(path))) == sorted(map(tuple, rows_of(spark).collect()))
    spark.sql("INSERT INTO clustered.d.curve (id, `p q`) VALUES (-1, 'even')")
    spark.sql("INSERT INTO clustered.d.curve (id, x, `p q`) VALUES (-1, 1, 'even')")
    assert spark.table("clustered.d.curve").where("id = -1").count() == 2


def test_tables_clustered_by_steps_order_rows_where_they_are_asked_to(spark: SparkSession, warehouse: Path) -> None:
    steps = "'clustering.columns' = 'x', 'clustering.incremental' = 'true'"
    path = created(spark, warehouse, "steps", steps)
    by_statement(spark, path)
    assert share(path, "x", 10, 20) == 1.0
    spark.sql("ALTER TABLE clustered.d.steps SET TBLPROPERTIES ('clustering.incremental.optimize-write' = 'true')")
    by_path(spark, path)
    assert share(path, "x", 10, 20) < 0.5


def test_the_columns_may_be_given_with_a_write(spark: SparkSession, warehouse: Path) -> None:
    path = created(spark, warehouse, "given", "'clustering.strategy' = 'order'")
    rows_of(spark).writeTo("clustered.d.given").option("clustering.columns", "x").append()
    assert share(path, "x", 10, 20) < 0.5
    rows_of(spark).write.format("paimon").option("clustering.columns", "y").mode("overwrite").save(path)
    assert share(path, "y", "10", "20") < 0.5
    with pytest.raises(Exception, match="Can't find column nobody"):
        rows_of(spark).writeTo("clustered.d.given").option("clustering.columns", "nobody").append()
