"""``count(*)`` of merged tables: tasks send numbers of rows, Spark adds them up; metadata answers where it can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.spark.test_driver_read import explained

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def counts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session in a database with `t`: partitions of 90, 100 and 0 rows, merged from two runs with deletes."""
    paimon_spark.register_catalog(spark, "counts", warehouse=str(tmp_path_factory.mktemp("counts")))
    spark.sql("CREATE DATABASE counts.db")
    spark.sql("USE counts.db")
    spark.sql(
        "CREATE TABLE t (day DATE, id INT, v STRING) PARTITIONED BY (day) "
        "TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2', 'write-only' = 'true')"
    )
    spark.sql("INSERT INTO t SELECT DATE'2024-01-01' + cast(id % 3 as int), id, 'a' FROM range(300)")
    spark.sql("INSERT INTO t SELECT DATE'2024-01-01' + cast(id % 3 as int), id, 'b' FROM range(150)")
    spark.sql("DELETE FROM t WHERE day = DATE'2024-01-01' AND id < 30")
    spark.sql("DELETE FROM t WHERE day = DATE'2024-01-03' AND id >= 0")
    yield spark
    spark.sql("USE spark_catalog.default")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT count(*) FROM t", [(190,)]),
        ("SELECT count(*) + 1 FROM t WHERE day < DATE'2024-01-02'", [(91,)]),
        ("SELECT day, count(*) FROM t GROUP BY day ORDER BY 1", None),
        ("SELECT count(1), 'x', count(*) FROM t WHERE day <> DATE'2024-01-01'", [(100, "x", 100)]),
        ("SELECT (SELECT count(*) FROM t), v FROM t WHERE id = 31 AND day = DATE'2024-01-02'", [(190, "b")]),
    ],
)
def test_tasks_count(counts: SparkSession, query: str, rows: list[tuple[object, ...]] | None) -> None:
    """Counts of all rows, of partitions and by partition."""
    frame = counts.sql(query)
    assert "counted by tasks" in explained(frame)
    found = [tuple(row) for row in frame.collect()]
    if rows is None:
        assert [(str(day), count) for day, count in found if count] == [("2024-01-01", 90), ("2024-01-02", 100)]
    else:
        assert found == rows


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT count(*) FROM t WHERE v = 'b'", 90),
        ("SELECT count(v) FROM t", 190),
        ("SELECT count(DISTINCT day) FROM t", 2),
        ("SELECT count(*) FROM t WHERE day = DATE'1999-01-01'", 0),
    ],
)
def test_other_counts(counts: SparkSession, query: str, count: int) -> None:
    """A filter of rows, a column, distinct values: rows are read. Without files metadata answers."""
    frame = counts.sql(query)
    assert "counted by tasks" not in explained(frame)
    assert frame.collect() == [(count,)]


def test_a_group_without_rows_is_no_group(counts: SparkSession) -> None:
    """A partition of which all rows are deleted does not come out of GROUP BY."""
    found = counts.sql("SELECT day, count(*) FROM t GROUP BY day").collect()
    assert len(found) == 2
