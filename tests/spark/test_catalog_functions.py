"""What the SQL catalog says of functions: ``sys.max_pt``, and that it has no others."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session with the current database `functions.db`, whose tables are partitioned in several ways."""
    paimon_spark.register_catalog(spark, "functions", warehouse=str(tmp_path_factory.mktemp("functions")))
    spark.sql("CREATE DATABASE functions.db")
    spark.sql("USE functions.db")
    spark.sql("CREATE TABLE t (k INT, p INT, dt STRING) PARTITIONED BY (p, dt)")
    spark.sql("INSERT INTO t VALUES (1, 9, 'z'), (2, 10, 'a'), (3, 10, 'b'), (4, NULL, 'c')")
    spark.sql("CREATE TABLE days (k INT, day DATE) PARTITIONED BY (day)")
    spark.sql("INSERT INTO days VALUES (1, DATE'2024-01-31'), (2, DATE'2023-12-31')")
    spark.sql("CREATE TABLE plain (k INT)")
    spark.sql("CREATE TABLE empty (k INT, dt STRING) PARTITIONED BY (dt)")
    yield spark
    spark.sql("USE spark_catalog.default")


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(statement).collect())


def test_max_pt(catalog: SparkSession) -> None:
    assert rows(catalog, "SELECT sys.max_pt('t'), functions.sys.max_pt('db.days')") == [("10", "2024-01-31")]
    assert rows(catalog, "SELECT k FROM t WHERE p = SYS.MAX_PT('functions.db.t')") == [(2,), (3,)]
    catalog.sql("ALTER TABLE days DROP PARTITION (day = '2024-01-31')")
    query = "SELECT k FROM days WHERE day = sys.max_pt('days')"
    assert rows(catalog, query) == [(2,)]
    catalog.sql("INSERT INTO days VALUES (3, DATE'2025-01-01')")
    assert rows(catalog, query) == [(3,)]
    assert "files=1" in str(catalog.sql(f"EXPLAIN {query}").head())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'plain'", "not a partitioned table"),
        ("'empty'", "has no partitions yet"),
        ("'nope'", "no Paimon table"),
        ("CAST(NULL AS STRING)", "cannot be null"),
        ("1", "takes one text"),
        ("", "takes one text"),
    ],
)
def test_max_pt_of_what_has_none(catalog: SparkSession, arguments: str, words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        catalog.sql(f"SELECT sys.max_pt({arguments})").collect()


@pytest.mark.parametrize("name", ["nope", "sys.nope", "functions.db.nope", "max_pt"])
def test_other_functions_are_unknown(catalog: SparkSession, name: str) -> None:
    with pytest.raises(PySparkException) as error:
        catalog.sql(f"SELECT {name}('t')")
    assert error.value.getCondition() == "UNRESOLVED_ROUTINE"


def test_functions_of_the_session(catalog: SparkSession) -> None:
    catalog.sql("CREATE TEMPORARY FUNCTION one_more(x INT) RETURNS INT RETURN x + 1")
    assert rows(catalog, "SELECT one_more(k) FROM t WHERE p = 9") == [(2,)]
    assert {"abs", "one_more"} <= {function.name for function in catalog.catalog.listFunctions()}
    assert catalog.catalog.functionExists("sys.max_pt")
    assert not catalog.catalog.functionExists("sys.nope")
