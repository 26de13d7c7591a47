"""Many small files are read by Paimon's reader, together, where Spark's own would take longer to open them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import input_file_name

from tests.support.golden import row_multiset
from tests.support.golden_frames import collected

pytestmark = [pytest.mark.spark, pytest.mark.catalog("small", current=True), pytest.mark.usefixtures("reads_by_tasks")]

NATIVE, OWN = "reader=spark-parquet", "reader=paimon (its files are many and small)"
KINDS = {
    "append": "'file.format' = 'parquet'",
    "keys": "'primary-key' = 'k,p', 'bucket' = '1'",
    "partial": "'primary-key' = 'k,p', 'bucket' = '1', 'merge-engine' = 'partial-update'",
    "vectors": "'deletion-vectors.enabled' = 'true', 'bucket' = '-1'",
    "merged": "'primary-key' = 'k,p', 'bucket' = '1', 'write-only' = 'true'",
    "summed": "'primary-key' = 'k,p', 'bucket' = '1', 'write-only' = 'true', 'merge-engine' = 'aggregation'",
}
QUERIES = [
    "SELECT * FROM {t}",
    "SELECT v, k FROM {t} WHERE v LIKE '%7%' AND k > 20",
    "SELECT p, sum(k), max(v), count(*) FROM {t} GROUP BY p",
    "SELECT count(*) FROM {t}",
    "SELECT avg(k), min(v), count(v) FROM {t} WHERE p <> 3",
    "SELECT a.k, b.v FROM {t} a JOIN {t} b ON a.k = b.k + 1",
    "SELECT m.k FROM {t} m JOIN (SELECT DISTINCT p FROM {t} WHERE k = 5) d ON m.p = d.p",
]


def explained(spark: SparkSession, query: str) -> str:
    return str(spark.sql(f"EXPLAIN {query}").collect()[0][0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_sparks_reader(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = f"small_{kind}"
    spark.sql(f"CREATE TABLE {table} (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({KINDS[kind]})")
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, concat('v', id), id % 40 FROM range(200)")
    if kind == "vectors":
        spark.sql(f"DELETE FROM {table} WHERE k IN (7, 77)")
    if kind in ("merged", "summed"):
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, concat('v', id), id % 40 FROM range(100, 300)")
    texts = [query.format(t=table) for query in QUERIES]
    expected = [row_multiset(collected(spark.sql(text))) for text in texts]
    assert (NATIVE in explained(spark, f"SELECT k, v FROM {table}")) == (kind not in ("merged", "summed"))
    monkeypatch.setattr("paimon_spark.read.small_files._MANY_FILES", 30)
    assert NATIVE not in explained(spark, f"SELECT k, v FROM {table}")
    assert (OWN in explained(spark, f"SELECT k, v FROM {table}")) == (kind in ("append", "keys", "partial"))
    assert [row_multiset(collected(spark.sql(text))) for text in texts] == expected
    if kind == "append":
        names = {row[0] for row in spark.table(table).select(input_file_name()).collect()}
        assert len(names) == 40
        spark.sql(f"ALTER TABLE {table} ADD COLUMN w INT")
        spark.sql(f"INSERT INTO {table} SELECT id, 'new', id, 5 FROM range(40)")
        found = spark.sql(f"SELECT p, v, w FROM {table} WHERE k = p").collect()
        assert sorted(tuple(row) for row in found) == sorted(
            row for p in range(40) for row in ((p, f"v{p}", None), (p, "new", 5))
        )
