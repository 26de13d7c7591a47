"""VARIANT columns of which a query touches some paths: the scan reads these, and the rows stay the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

import paimon_spark
from tests.support.variants import shredding_schema

pytestmark = pytest.mark.spark

SCHEMA = shredding_schema(v={"a": {"b": "INT"}, "d": "STRING"})


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    path = tmp_path_factory.mktemp("variants")
    paimon_spark.register_catalog(spark, "variants", warehouse=str(path))
    spark.sql("CREATE DATABASE IF NOT EXISTS variants.db")
    spark.sql("USE variants.db")
    columns = "(id INT NOT NULL, v VARIANT, s STRUCT<n: INT, w: VARIANT>)"
    spark.sql(f"CREATE TABLE t {columns} TBLPROPERTIES ('variant.shreddingSchema' = '{SCHEMA}')")
    spark.sql(
        f"CREATE TABLE merged {columns} TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true', "
        f"'variant.shreddingSchema' = '{SCHEMA}')"
    )
    values = """SELECT id, parse_json(j), named_struct('n', id, 'w', parse_json(j)) FROM VALUES
        (1, '{"a": {"b": 1, "c": "x"}, "d": "y", "e": [{"f": 1}]}'), (2, '{"a": {"b": "no"}, "d": 2}'),
        (3, '[1, 2]'), (4, null), (5, 'null'), (6, '{"a": 7}') AS t(id, j)"""
    spark.sql('INSERT INTO merged SELECT id, parse_json(\'{"d": "old"}\'), null FROM VALUES 1, 2, 7 AS t(id)')
    for table in ("t", "merged"):
        spark.sql(f"INSERT INTO {table} {values}")
    yield spark
    spark.sql("USE spark_catalog.default")


def touched(spark: SparkSession, query: str) -> list[str]:
    """What the scans of a query say of VARIANT columns."""
    plan = str(spark.sql(query)._jdf.queryExecution().executedPlan().toString())
    parts = [line.partition("variants=[")[2] for line in plan.splitlines() if "BatchScan" in line]
    return [part.partition("]]")[0] + "]" if part else "" for part in parts]


QUERIES = {
    "SELECT id, try_variant_get(v, '$.a.b', 'int') FROM t": ["v=[a.b]"],
    "SELECT id FROM t WHERE v:d::string = 'y'": ["v=[d]"],
    "SELECT sum(try_variant_get(v, '$.a.b', 'int')), count(*) FROM t WHERE v:d IS NOT NULL": ["v=[a.b, d]"],
    "SELECT v:d::string AS d, max(CASE WHEN id = 1 THEN v:a.b::int END) FROM t GROUP BY 1 ORDER BY 1": ["v=[a.b, d]"],
    "SELECT id, s.w:e[0].f::int, s.n FROM t": ["s.w=[e]"],
    "SELECT count(*) FROM t WHERE v IS NOT NULL": ["v=[]"],
    "SELECT v, v:d::string FROM t": [""],
    "SELECT v::string FROM t": [""],
    "SELECT variant_get(v, '$[1]', 'int') FROM t WHERE id = 3": [""],
    "SELECT x.id, d FROM t x LEFT JOIN (SELECT id, v:d::string AS d FROM t) y ON x.id = y.id": ["", "v=[d]"],
}


@pytest.mark.parametrize("table", ["t", "merged"])
def test_paths_of_queries(catalog: SparkSession, table: str) -> None:
    """Each query reads its paths, and finds what it finds in the whole values."""
    queries = {re.sub(r"\bt\b", table, query): reported for query, reported in QUERIES.items()}
    assert {query: touched(catalog, query) for query in queries} == queries
    narrowed = {query: sorted(map(str, catalog.sql(query).collect())) for query in queries}
    catalog.conf.set("spark.sql.variant.pushVariantIntoScan", "false")
    try:
        assert touched(catalog, next(iter(queries))) == [""]
        whole = {query: sorted(map(str, catalog.sql(query).collect())) for query in queries}
    finally:
        catalog.conf.unset("spark.sql.variant.pushVariantIntoScan")
    assert narrowed == whole
    assert "Row(id=1, try_variant_get(v, $.a.b)=1)" in narrowed[next(iter(queries))]


def test_sparks_own_reader_reads_our_files(catalog: SparkSession) -> None:
    """Values, and paths of them that it takes out of the typed columns itself."""
    path = catalog.sql("SHOW TBLPROPERTIES t ('path')").first().value
    files = [str(file) for file in Path(path.removeprefix("file:")).rglob("*.parquet")]
    assert any("typed_value" in str(pq.read_schema(file)) for file in files)
    found = catalog.read.schema("id int, v variant").parquet(*files)
    columns = ["id", "CAST(v AS STRING) AS v", "try_variant_get(v, '$.a.b', 'int') AS b"]
    assert sorted(map(str, found.selectExpr(*columns).collect())) == sorted(
        map(str, catalog.table("t").selectExpr(*columns).collect())
    )
    narrow = columns[2:]
    assert sorted(map(str, found.selectExpr("id", *narrow).collect())) == sorted(
        map(str, catalog.table("t").selectExpr("id", *narrow).collect())
    )


def test_a_wrong_cast_fails_where_it_is_evaluated(catalog: SparkSession) -> None:
    with pytest.raises(SparkRuntimeException, match="INVALID_VARIANT_CAST"):
        catalog.sql("SELECT sum(v:a.b::int) FROM t").collect()
    query = "SELECT max(CASE WHEN id < 2 THEN v:a.b::int END) AS m FROM t"
    assert touched(catalog, query) == ["v=[a.b]"]
    assert [row.m for row in catalog.sql(query).collect()] == [1]
    assert [row.b for row in catalog.sql("SELECT v:a.b::int AS b FROM t WHERE v:d::string = 'y'").collect()] == [1]


def test_the_optimizer_comes_to_an_end(catalog: SparkSession) -> None:
    """A batch of rules that goes on changing the plan is an error while ``spark.testing`` is set, else only slow."""
    system = catalog._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")
    try:
        found = catalog.sql(
            "SELECT variant_get(v, '$.a.b', 'int') AS b FROM t WHERE id = 1 AND upper(v:d::string) = 'Y'"
        )
        assert [row.b for row in found.collect()] == [1]
    finally:
        system.clearProperty("spark.testing")
