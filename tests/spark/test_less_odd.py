"""Where the official connector is odd we are not: the same through the SQL catalog and through the data source.

Names of options in any case, system tables by path, columns by name, dates before 1582, key columns with a space in
their names; frames that are used twice; and what a load plans, not only what it gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.reader import PaimonPartition

pytestmark = [pytest.mark.spark, pytest.mark.catalog("less", current=True)]

BOTH = pytest.mark.parametrize("way", ["catalog", "path"])
_numbers = itertools.count()


@pytest.fixture
def name(warehouse: Path) -> str:
    return f"t{next(_numbers)}"


@pytest.fixture
def read(spark: SparkSession, warehouse: Path, way: str) -> Callable[..., DataFrame]:
    """Reads a table through the catalog or by its path."""

    def read(name: str, **options: str) -> DataFrame:
        reader = spark.read.options(**options)
        if way == "catalog":
            return reader.table(f"less.db.`{name}`")
        return reader.format("paimon").load(str(warehouse / "db.db" / name))

    return read


@pytest.fixture
def append(spark: SparkSession, warehouse: Path, way: str) -> Callable[[str, DataFrame], None]:
    """Appends to a table through the catalog or by its path."""

    def append(name: str, frame: DataFrame) -> None:
        if way == "catalog":
            frame.writeTo(f"less.db.{name}").append()
        else:
            frame.write.format("paimon").mode("append").save(str(warehouse / "db.db" / name))

    return append


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@BOTH
def test_names_of_options_in_any_case(spark: SparkSession, name: str, read: Callable[..., DataFrame]) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES ('Primary-Key'='k', 'BUCKET'='1')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'b')")
    assert rows(read(name)) == [(1, "b")]
    assert rows(read(name, **{"SCAN.Snapshot-ID": "1"})) == [(1, "a")]
    assert rows(spark.sql(f"SELECT * FROM {name} WITH ('Scan.Snapshot-Id' = '1')")) == [(1, "a")]
    with pytest.raises(Exception, match=r"Did you mean 'scan\.snapshot-id'"):
        read(name, **{"SCAN.Snapshot-IDS": "1"}).collect()


@BOTH
def test_system_tables(spark: SparkSession, name: str, read: Callable[..., DataFrame]) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    assert rows(read(f"{name}$files").select("partition", "record_count")) == [("{a}", 1), ("{b}", 1)]
    assert read(f"{name}$files").where("partition = '{a}'").count() == 1
    assert rows(read(f"{name}$snapshots").select("snapshot_id", "commit_kind")) == [(1, "APPEND")]


@BOTH
def test_columns_are_matched_by_name(
    spark: SparkSession, name: str, read: Callable[..., DataFrame], append: Callable[[str, DataFrame], None]
) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, a STRING, b STRING)")
    append(name, spark.createDataFrame([("bee", 1, "ay")], "b string, k int, a string"))
    append(name, spark.createDataFrame([("b2", 2)], "b string, k int"))
    append(name, spark.createDataFrame([("B3", 3)], "B string, K int"))
    assert rows(read(name)) == [(1, "ay", "bee"), (2, None, "b2"), (3, None, "B3")]


OLD = [
    (1, date(1, 1, 1), datetime(1, 1, 1, 12)),
    (2, date(1582, 10, 4), datetime(1582, 10, 4, 23, 59, 59, 999999)),
    (3, date(1582, 10, 10), datetime(1582, 10, 10)),
    (4, date(1582, 10, 15), datetime(1582, 10, 15)),
    (5, date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999999)),
]
"""The Gregorian calendar has every one of these days; the hybrid one of old Hive tables lacks 10 October 1582."""


@BOTH
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_dates_before_1582(
    spark: SparkSession,
    name: str,
    read: Callable[..., DataFrame],
    append: Callable[[str, DataFrame], None],
    file_format: str,
) -> None:
    spark.sql(
        f"CREATE TABLE {name} (k INT, day DATE, at TIMESTAMP_NTZ, p DATE) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('file.format'='{file_format}')"
    )
    frame = spark.createDataFrame(OLD, "k int, day date, at timestamp_ntz").withColumn("p", col("day"))
    if file_format == "orc":  # fractions of seconds before 1970 are refused by name
        with pytest.raises(PySparkException, match="Column 'at' holds a timestamp before 1970 with a fraction"):
            append(name, frame)
        append(name, frame.withColumn("at", expr("IF(k IN (2, 5), NULL, at)")))
        assert rows(read(name).select("k", "day", "at")) == [
            (k, day, None if at.microsecond else at) for k, day, at in OLD
        ]
    else:
        append(name, frame)
        assert rows(read(name).select("k", "day", "at")) == OLD
        assert rows(read(name).where("at >= TIMESTAMP_NTZ'1582-10-15 00:00:00'").select("k")) == [(4,), (5,)]
    assert rows(read(name).where("day < DATE'1582-10-10'").select("k")) == [(1,), (2,)]
    assert rows(read(name).where("p = DATE'1582-10-10'").select("k", "p")) == [(3, date(1582, 10, 10))]
    assert rows(read(name).selectExpr("CAST(p AS STRING)").limit(9))[0] == ("0001-01-01",)


@BOTH
def test_key_and_partition_columns_with_a_space(
    spark: SparkSession, name: str, read: Callable[..., DataFrame], append: Callable[[str, DataFrame], None]
) -> None:
    spark.sql(
        f"CREATE TABLE {name} (`my key` INT NOT NULL, `a value` STRING, `the day` STRING NOT NULL) "
        "PARTITIONED BY (`the day`) TBLPROPERTIES ('primary-key'='the day,my key', 'bucket'='2')"
    )
    columns = "`my key` int, `a value` string, `the day` string"
    append(name, spark.createDataFrame([(1, "a", "d 1"), (2, "b", "d 2")], columns))
    append(name, spark.createDataFrame([(1, "A", "d 1")], columns))
    assert rows(read(name)) == [(1, "A", "d 1"), (2, "b", "d 2")]
    assert rows(read(name).where("`the day` = 'd 2' AND `my key` > 1").select("`a value`")) == [("b",)]
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (`the day` = 'd 1') VALUES (7, 'z')")
    assert rows(read(name)) == [(2, "b", "d 2"), (7, "z", "d 1")]
    assert rows(spark.sql(f"SHOW PARTITIONS {name}")) == [("the day=d 1",), ("the day=d 2",)]


@pytest.mark.thorough
def test_a_key_with_a_space_in_a_table_that_a_save_creates(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.createDataFrame([(1, "a"), (1, "b")], "`my key` long, v string")
    frame.write.format("paimon").option("primary-key", "my key").option("bucket", "1").mode("append").save(path)
    loaded = spark.read.format("paimon").option("filter", "`my key` = 1").option("columns", "`my key`").load(path)
    assert rows(loaded) == [(1,)]


@pytest.mark.thorough
@BOTH
def test_frames_that_are_used_twice(spark: SparkSession, name: str, read: Callable[..., DataFrame]) -> None:
    spark.sql(f"CREATE TABLE {name} (id INT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'x'), (3, 'y'), (4, 'z')")
    frame = read(name)
    assert rows(frame.where("p = 'x'").union(frame.where("p = 'z'")).select("id")) == [(1,), (2,), (4,)]
    joined = frame.alias("a").crossJoin(frame.alias("b"))
    assert rows(joined.where("a.id = b.id - 1 AND b.p = 'y'").select("a.id", "b.id")) == [(2, 3)]
    frame.createOrReplaceTempView("less_odd")
    assert rows(spark.sql("SELECT id FROM less_odd WHERE p = 'y'")) == [(3,)]
    assert rows(spark.sql("SELECT id FROM less_odd WHERE id > 3")) == [(4,)]
    assert rows(spark.sql("SELECT count(*), sum(id) FROM less_odd")) == [(4, 10)]
    cached = frame.cache()
    try:
        assert (cached.count(), cached.where("p = 'x'").count(), frame.where("id = 4").count()) == (4, 2, 1)
        plan = str(frame.where("id = 4")._jdf.queryExecution().executedPlan().toString())
        assert "InMemoryTableScan" in plan
    finally:
        cached.unpersist()


def test_what_a_load_plans(spark: SparkSession, name: str, warehouse: Path) -> None:
    """Files and columns of a load with `filter` and `columns`, counted in the partitions that go to the tasks."""
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING, p STRING) PARTITIONED BY (p)")
    for start in (0, 10):
        rows_of_one_task = f"range({start}, {start} + 4, 1, 1)"
        spark.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 'v', concat('p', id % 2) FROM {rows_of_one_task}")
    path = str(warehouse / "db.db" / name)

    def files(**options: str) -> tuple[list[str], int]:
        source = PaimonDataSource({"path": path, **options})
        reader = source.reader(source.schema())
        partitions = [partition for partition in reader.partitions() if isinstance(partition, PaimonPartition)]
        return source.schema().names, sum(len(split.files) for part in partitions for split in part.splits)

    assert files() == (["id", "v", "p"], 4)
    assert files(columns="p, id", filter="p = 'p1'") == (["p", "id"], 2)
    assert files(filter="id >= 10") == (["id", "v", "p"], 2)
    assert files(columns="v", filter="id = 13") == (["v"], 1)
    assert files(filter="id = 99") == (["id", "v", "p"], 0)
