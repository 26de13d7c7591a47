"""Conditions on expressions of partition columns: the driver evaluates them, and leaves out whole partitions."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import paimon_spark
from paimon_spark import PaimonTable

pytestmark = pytest.mark.spark


def scanned(df: DataFrame) -> tuple[int, bool]:
    """The files that a query reads, and whether Spark still filters rows."""
    plan = str(df._jdf.queryExecution().executedPlan())
    return int(re.findall(r"files?=(\d+)", plan)[0]), re.search(r"\bFilter\b", plan) is not None


@pytest.fixture(scope="module")
def hours(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with a partition of each day and hour; the path of its database is the warehouse's."""
    warehouse = tmp_path_factory.mktemp("hours")
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "hourly", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE hourly.db")
    spark.sql(
        "CREATE TABLE hourly.db.t (id INT, day STRING, hour INT, at DATE, good BOOLEAN, big BIGINT) "
        "PARTITIONED BY (day, hour, at, good, big) TBLPROPERTIES ('write-only' = 'true')"
    )
    spark.sql("""INSERT INTO hourly.db.t VALUES
        (1, '2026-11-22', 22, DATE '2026-11-22', true, 5000000000), (2, '2026-11-22', 23, DATE '2026-11-22', false, 1),
        (3, '2026-11-23', 0, DATE '2026-11-23', true, NULL), (4, 'other', NULL, NULL, NULL, 3)""")
    return str(warehouse)


@pytest.mark.parametrize(
    ("condition", "ids", "files"),
    [
        ("concat(day, '-', hour) BETWEEN '2026-11-22-23' AND '2026-11-23-5'", [2, 3], 2),
        ("upper(day) = 'OTHER'", [4], 1),
        ("substr(day, 1, 7) = '2026-11'", [1, 2, 3], 3),
        ("day LIKE '%-2_'", [1, 2, 3], 3),
        ("hour % 2 = 0", [1, 3], 2),
        ("coalesce(hour, -1) < 0", [4], 1),
        ("date_format(at, 'dd') = '23'", [3], 1),
        ("year(at) = 2026 AND NOT coalesce(good, false)", [2], 1),
        ("big * 2 > 9000000000", [1], 1),
        ("trim('r', day) = 'othe'", [4], 1),
        ("length(day) + hour > 100", [], 0),
    ],
)
def test_only_whole_partitions_are_read(
    spark: SparkSession, hours: str, condition: str, ids: list[int], files: int
) -> None:
    loaded = spark.read.format("paimon").load(f"{hours}/db.db/t")
    for rows in (spark.table("hourly.db.t"), loaded, PaimonTable.for_path(spark, f"{hours}/db.db/t").to_df()):
        query = rows.where(condition).select("id")
        assert sorted(row.id for row in query.collect()) == ids
        assert scanned(query) == (files, False)


def test_what_speaks_of_other_columns_stays(spark: SparkSession, hours: str) -> None:
    query = spark.table("hourly.db.t").where("upper(day) LIKE '2026%' AND id % 2 = 1 AND id + hour > 20")
    assert [row.id for row in query.collect()] == [1]
    assert scanned(query) == (3, True)


def test_a_condition_that_fails_is_evaluated_by_the_query(spark: SparkSession, hours: str) -> None:
    rows = spark.table("hourly.db.t")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        rows.where("cast(substr(day, 1, 2) AS INT) = 20").collect()
    assert rows.where("hour IS NOT NULL AND cast(substr(day, 1, 2) AS INT) = 20").count() == 3
    assert [row.id for row in rows.where("try_cast(day AS INT) IS NULL AND hour = 0").collect()] == [3]


def test_functions_of_python_and_of_chance_stay(spark: SparkSession, hours: str) -> None:
    late = udf(lambda day: day is not None and day > "2026-11-22", "boolean")
    rows = spark.table("hourly.db.t")
    assert sorted(row.id for row in rows.where(late("day")).collect()) == [3, 4]
    query = rows.where("rand() + hour >= 0")
    assert query.count() == 3
    assert scanned(query)[1]


def test_joins_leave_out_partitions_behind_it(spark: SparkSession, hours: str) -> None:
    spark.createDataFrame(
        [("2026-11-22", "a"), ("2026-11-23", "b")], "day string, name string"
    ).createOrReplaceTempView("names")
    query = "SELECT t.id FROM hourly.db.t t JOIN names n ON t.day = n.day WHERE n.name = 'a' AND t.hour % 2 = 1"
    assert [row.id for row in spark.sql(query).collect()] == [2]


def test_statements_that_change_rows(spark: SparkSession, hours: str) -> None:
    spark.sql("CREATE TABLE hourly.db.changed (id INT, day STRING, v INT) PARTITIONED BY (day)")
    spark.sql("INSERT INTO hourly.db.changed VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    spark.sql("UPDATE hourly.db.changed SET v = 2 WHERE upper(day) = 'B'")
    spark.sql("DELETE FROM hourly.db.changed WHERE upper(day) = 'C'")
    assert sorted(tuple(row) for row in spark.table("hourly.db.changed").collect()) == [(1, "a", 1), (2, "b", 2)]
