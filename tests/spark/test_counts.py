"""Aggregations of merged tables: tasks send numbers of rows and partial results; metadata answers where it can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.support.plan_texts import explained

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
    """A filter of rows, distinct values: rows are read. Without files metadata answers."""
    frame = counts.sql(query)
    assert "counted by tasks" not in explained(frame)
    assert frame.collect() == [(count,)]


def test_a_group_without_rows_is_no_group(counts: SparkSession) -> None:
    """A partition of which all rows are deleted does not come out of GROUP BY."""
    found = counts.sql("SELECT day, count(*) FROM t GROUP BY day").collect()
    assert len(found) == 2


AGGREGATES = """count(*), count(t), sum(b), sum(i), min(i), sum(l), max(l), sum(f), min(f), max(f), sum(d), min(d),
    max(d), avg(d), sum(n), avg(n), max(n), min(t), max(t), max(y), min(e), max(e), min(s), max(s), sum(l) + 1,
    avg(i)"""
ALL_ROWS = "(SELECT * FROM a WHERE monotonically_increasing_id() >= 0)"  # nothing is pushed into it
GROUPED = "count(*), count(t), sum(b), sum(l), sum(f), sum(d), avg(n), min(t), max(e)"


@pytest.fixture(scope="module")
def aggregates(counts: SparkSession) -> SparkSession:
    """The session with `a`: rows of many types, merged from two runs, some with NaN, -0.0 and null."""
    counts.sql(
        "CREATE TABLE a (id INT, g INT, b TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(8, 2), w DECIMAL(30), "
        "t STRING, y BINARY, e DATE, s TIMESTAMP, x ARRAY<INT>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true')"
    )
    for seed in (1, 2):
        counts.sql(
            f"""INSERT INTO a SELECT id, r % 5, r % 128, r, 101 * cast(r AS BIGINT) * r, r / 7,
            CASE r % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 0 ELSE r / 3e5 END, r % 10000000 / 9, 5,
            if(r % 11 = 0, null, 'é' || r), encode(cast(r AS STRING), 'UTF-8'), date_add(DATE'0150-01-01', r % 900000),
            timestamp_micros(1000003 * cast(r AS BIGINT) * 1009), null
            FROM (SELECT cast(id AS INT) id, cast(abs(hash(id + {seed})) % 1000000 AS INT) r FROM range(40000))
            WHERE r % {seed + 1} < 2"""
        )
    return counts


@pytest.mark.parametrize("groups", ["", "g, d", "t"])
def test_aggregates_by_tasks_are_those_of_spark(aggregates: SparkSession, groups: str) -> None:
    """All functions, and groups: the same to the last bit as Spark makes of the same rows."""
    what = f"{groups}, {GROUPED}" if groups else AGGREGATES
    behind = f"GROUP BY {groups}" if groups else ""
    pushed = aggregates.sql(f"SELECT {what} FROM a {behind}")
    plain = aggregates.sql(f"SELECT {what} FROM {ALL_ROWS} {behind}")
    assert "aggregated by tasks" in explained(pushed)
    assert "aggregated by tasks" not in explained(plain)
    assert pushed.dtypes == plain.dtypes
    found, expected = (sorted(map(str, frame.collect())) for frame in (pushed, plain))
    assert found == expected
    assert len(found) > 1 or not groups


@pytest.mark.parametrize("ansi", [True, False])
def test_sums_overflow_where_spark_overflows(counts: SparkSession, ansi: bool) -> None:
    """A sum whose parts are too large for its type fails, or wraps, as Spark's own."""
    counts.sql(
        "CREATE OR REPLACE TABLE o (id INT, up BIGINT, down BIGINT, small DECIMAL(2)) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    )
    most = 2**63 - 1
    for value in (1, most // 3):
        counts.sql(f"INSERT INTO o SELECT id, {value}, if(id % 2 = 0, {value}, -{value}), 99 FROM range(10)")
    counts.conf.set("spark.sql.ansi.enabled", str(ansi))
    try:
        frame = counts.sql("SELECT sum(up) FROM o")
        assert "aggregated by tasks" in explained(frame)
        if ansi:
            with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
                frame.collect()
        else:
            assert frame.collect() == [((most // 3 * 10 + 2**63) % 2**64 - 2**63,)]
        assert counts.sql("SELECT sum(down), sum(small), max(up) FROM o").collect() == [(0, 990, most // 3)]
    finally:
        counts.conf.unset("spark.sql.ansi.enabled")


def test_an_aggregation_with_other_rows(aggregates: SparkSession) -> None:
    """Spark asks how large the partial results are before it joins them."""
    query = (
        "SELECT count(*) FROM {} WHERE g IN (SELECT max(g) FROM {} GROUP BY t) AND id > (SELECT count(*) FROM a) / 2"
    )
    frame = aggregates.sql(query.format("a", "a"))
    assert "aggregated by tasks: t, max(g)" in explained(frame)
    assert frame.collect() == aggregates.sql(query.format(ALL_ROWS, ALL_ROWS)).collect()


def test_what_tasks_do_not_aggregate(aggregates: SparkSession) -> None:
    """Spark aggregates rows where partial results would not be the same, or rows are few."""
    for query in [
        "SELECT sum(DISTINCT b) FROM a",
        "SELECT count(DISTINCT g), sum(b) FROM a",
        "SELECT sum(w) FROM a",  # more digits than Spark's sums have to spare
        "SELECT avg(l) FROM a",  # Spark adds up doubles
        "SELECT g, max(d) FROM a GROUP BY g",
        "SELECT sum(b + 1) FROM a",
        "SELECT count(x) FROM a",
        "SELECT sum(b) FILTER (WHERE g = 1) FROM a",
        "SELECT sum(b) FROM a WHERE g = 1",
        "SELECT sum(b) FROM a WHERE id = 7",  # the driver reads it
        "SELECT sum(b) FROM a WHERE id < 0",
    ]:
        frame = aggregates.sql(query)
        assert "aggregated by tasks" not in explained(frame), query
        if "DISTINCT" in query or "avg" in query:
            assert frame.collect() == aggregates.sql(query.replace("FROM a", f"FROM {ALL_ROWS}")).collect()
