"""Subqueries over one table share a scan with the columns of all, where Spark merges them; equal scans are one."""

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.support.golden_frames import collected

pytestmark = [pytest.mark.spark, pytest.mark.catalog("merged", current=True), pytest.mark.usefixtures("reads_by_tasks")]

KINDS = {
    "append": "PARTITIONED BY (p)",
    "keyed": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'write-only' = 'true')",
    "partial": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'write-only' = 'true', "
    "'merge-engine' = 'partial-update')",
}
ONE_SCAN = {
    "filters": "SELECT (SELECT count(*) FROM {t} WHERE g > 5) a, (SELECT avg(k) FROM {t} WHERE g > 5) b, "
    "(SELECT max(length(w)) FROM {t} WHERE g > 5) c",
    "joined": "SELECT * FROM (SELECT sum(g + k) s FROM {t} WHERE k > 3) CROSS JOIN "
    "(SELECT max(length(concat(v, w))) m FROM {t} WHERE k > 3)",
    "a partition": "SELECT (SELECT sum(k + 0) FROM {t} WHERE p = 'a' AND g > 2), "
    "(SELECT max(length(w)) FROM {t} WHERE p = 'a' AND g > 2)",
}
MORE_SCANS = {
    "two partitions": "SELECT (SELECT sum(k + 0) FROM {t} WHERE p = 'a'), (SELECT sum(g + 0) FROM {t} WHERE p = 'b')",
    "partitions by an expression": "SELECT (SELECT sum(k + 0) FROM {t} WHERE upper(p) = 'A'), "
    "(SELECT sum(g + 0) FROM {t} WHERE upper(p) = 'B'), (SELECT sum(g - k) FROM {t})",
    "one partition by an expression": "SELECT (SELECT sum(k + 0) FROM {t} WHERE upper(p) = 'A'), "
    "(SELECT sum(g + 0) FROM {t} WHERE upper(p) = 'A')",
    "rows": "SELECT k, (SELECT max(g + 1) FROM {t}) x, (SELECT min(k - 1) FROM {t}) y FROM {t} WHERE k < 20",
}


def _merged() -> set[str]:
    """The queries of one scan: aggregates that are no subqueries are merged from Spark 4.3 on."""
    version = tuple(map(int, pyspark.__version__.split(".")[:2]))
    return {*ONE_SCAN} if version >= (4, 3) else set() if version == (4, 2) else {*ONE_SCAN} - {"joined"}


@pytest.fixture(scope="module", params=[*KINDS, "path"])
def table(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> str:
    """A table, or a load by its path, whose partition ``a`` is of one file, and the view ``copy`` of its rows."""
    name = "append" if request.param == "path" else request.param
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (k BIGINT NOT NULL, v STRING, w STRING, g BIGINT, p STRING NOT NULL) {KINDS[name]}")
    for p, low, step in (("a", 0, 1), ("b", 100, 1), ("b", 150, 2)):
        rows = (
            f"SELECT id, concat('v', id), concat('w', id % 7), id % 31 * {step}, '{p}' FROM range({low}, {low + 300})"
        )
        spark.sql(f"INSERT INTO {name} {rows}")
    spark.createDataFrame(spark.table(name).toArrow()).createOrReplaceTempView("copy")
    if request.param == "path":
        location = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0]
        spark.read.format("paimon").load(location.data_type).createOrReplaceTempView("loaded")
        return "loaded"
    return name


@pytest.mark.parametrize("query", [*ONE_SCAN, *MORE_SCANS])
def test_rows_of_subqueries(spark: SparkSession, table: str, query: str) -> None:
    text = {**ONE_SCAN, **MORE_SCANS}[query]
    frame = spark.sql(text.format(t=table))
    assert collected(frame) == collected(spark.sql(text.format(t="copy")))
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    if query in _merged():
        scans = {
            line.partition("RelationV2")[2].partition("]")[0] for line in plan.splitlines() if "RelationV2" in line
        }
        assert len(scans) == 1


TWICE = (
    "WITH w AS (SELECT g, sum(k) s FROM {t} WHERE k > 3 GROUP BY g) "
    "SELECT a.g, a.s, b.s FROM w a JOIN w b ON a.g = b.g + {step} ORDER BY a.g"
)


def test_what_a_query_reads_twice_is_read_once(spark: SparkSession, table: str) -> None:
    frame = spark.sql(TWICE.format(t=table, step=1))
    assert collected(frame) == collected(spark.sql(TWICE.format(t="copy", step=1)))
    assert frame._jdf.queryExecution().executedPlan().toString().count("ReusedExchange") == 1


def test_rows_of_other_files_or_columns_are_not_taken_for_the_same(spark: SparkSession, table: str) -> None:
    one = f"SELECT g, sum(k) s FROM {table} WHERE k > 3 GROUP BY g"
    for other in (
        f"SELECT g, sum(k) s FROM {table} WHERE k > 4 GROUP BY g",
        f"SELECT g, sum(g) s FROM {table} WHERE k > 3 GROUP BY g",
        f"SELECT g, sum(k) s FROM {table} WHERE p = 'b' AND k > 3 GROUP BY g",
    ):
        text = f"SELECT a.g, a.s, b.s FROM ({one}) a JOIN ({other}) b ON a.g = b.g ORDER BY a.g"
        assert collected(spark.sql(text)) == collected(spark.sql(text.replace(table, "copy")))
