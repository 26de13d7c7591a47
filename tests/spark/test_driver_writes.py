"""A few rows that the driver has are written by it: no job runs, and the rows are those that tasks would write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import PaimonError
from tests.support.calls import jobs_of

pytestmark = [pytest.mark.spark, pytest.mark.catalog("driver", current=True)]

KINDS = {
    "keyed": "'primary-key' = 'id', 'bucket' = '2'",
    "vectors": "'primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
    "dynamic": "'primary-key' = 'id'",
    "merged": "'primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
    "append": "'bucket' = '-1'",
}
TYPES = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(20, 3), c CHAR(5), v VARCHAR(9), "
    "x STRING, y BINARY, a DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, l1 ARRAY<INT>, m MAP<STRING, DECIMAL(5, 2)>, "
    "st STRUCT<p: INT, q: STRUCT<r: STRING, z: TIMESTAMP>>, j VARIANT"
)
VALUES = (
    "(true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345678901234567.125, 'ab', 'cde', 'ü', X'00FF', DATE '1969-12-31', "
    "TIMESTAMP '2024-03-31 02:30:00.123456', TIMESTAMP_NTZ '1900-01-01 00:00:00.000001', array(1, null), "
    "map('k', 1.25BD), named_struct('p', 1, 'q', named_struct('r', 'x', 'z', TIMESTAMP '2020-01-01 00:00:00')), "
    "parse_json('{\"a\": [1, null]}'))"
)


def _written(spark: SparkSession, run: Callable[[], object]) -> int:
    """Run a write; return the number of Spark's jobs."""
    with jobs_of(spark) as jobs:
        run()
    return len(jobs)


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("kind", KINDS)
def test_no_job_runs(spark: SparkSession, warehouse: Path, kind: str) -> None:
    table = f"no_job_{kind}"
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, v STRING) TBLPROPERTIES ({KINDS[kind]})")
    assert _written(spark, lambda: spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")) == 0
    assert _written(spark, lambda: spark.sql(f"INSERT INTO {table} (v, id) VALUES ('c', 3)")) == 0
    assert _rows(spark.table(table)) == [(1, "a"), (2, "b"), (3, "c")]
    assert _written(spark, lambda: spark.sql(f"INSERT OVERWRITE {table} VALUES (4, 'd')")) == 0
    assert _rows(spark.table(table)) == [(4, "d")]
    text = spark.sql(f"EXPLAIN INSERT INTO {table} VALUES (1, 'a')").first()[0]
    assert ", in the driver)" in text


def test_partitions_are_replaced_and_written(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE parts (p STRING, id INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO parts VALUES ('a', 1), ('b', 2), (null, 3)")
    assert _written(spark, lambda: spark.sql("INSERT OVERWRITE parts PARTITION (p = 'a') VALUES (4)")) == 0
    assert _rows(spark.table("parts").where("p is not null")) == [("a", 4), ("b", 2)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        assert _written(spark, lambda: spark.sql("INSERT OVERWRITE parts VALUES ('b', 5)")) == 0
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert _rows(spark.table("parts").where("p is not null")) == [("a", 4), ("b", 5)]
    assert spark.table("parts").where("p is null").count() == 1


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_values_of_every_type_equal_those_of_tasks(spark: SparkSession, warehouse: Path, zone: str) -> None:
    name = zone.rpartition("/")[2].lower()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for table in (f"here_{name}", f"tasks_{name}"):
            spark.sql(f"CREATE TABLE {table} ({TYPES})")
        assert _written(spark, lambda: spark.sql(f"INSERT INTO here_{name} VALUES {VALUES}")) == 0
        of_tasks = f"INSERT INTO tasks_{name} SELECT /*+ REPARTITION(2) */ * FROM VALUES {VALUES}"
        assert _written(spark, lambda: spark.sql(of_tasks)) > 0
        texts = ", ".join(f"to_json(struct({column.split()[0]}))" for column in TYPES.split(", ") if ":" not in column)
        texts = "to_json(struct(*)), " + "hex(y), ts, tn"
        assert _rows(spark.sql(f"SELECT {texts} FROM here_{name}")) == _rows(
            spark.sql(f"SELECT {texts} FROM tasks_{name}")
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_rows_that_a_table_refuses_leave_nothing(spark: SparkSession, warehouse: Path) -> None:
    options = "'primary-key' = 'id', 'bucket' = '1', 'rowkind.field' = 'v'"
    spark.sql(f"CREATE TABLE refuses (id INT, v STRING) TBLPROPERTIES ({options})")
    with pytest.raises(PaimonError, match="row kind"):
        spark.sql("INSERT INTO refuses VALUES (1, '+I'), (2, 'b')")
    assert not list((warehouse / "db.db" / "refuses").rglob("data-*"))
    assert spark.table("refuses").count() == 0


def test_many_rows_are_left_to_tasks(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE many (id INT)")
    values = ", ".join(f"({number})" for number in range(10_001))
    assert _written(spark, lambda: spark.sql(f"INSERT INTO many VALUES {values}")) > 0
    assert spark.table("many").count() == 10_001
    assert _written(spark, lambda: spark.sql("INSERT INTO many SELECT id FROM many WHERE id < 2")) > 0
    assert spark.table("many").count() == 10_003
