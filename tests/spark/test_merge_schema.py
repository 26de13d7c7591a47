"""Option `write.merge-schema` through every door: new columns of writes by name are added to the table."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import paimon_spark
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark

KEY = "write.merge-schema"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("merge_schema")
    paimon_spark.register_catalog(spark, "wide", warehouse=str(path))
    spark.sql("CREATE DATABASE wide.db")
    spark.sql("USE wide.db")
    paimon_spark.sql(spark, "SELECT 1", warehouse=str(path), catalog="wide", database="db")
    yield path
    spark.sql("USE spark_catalog.default")


@pytest.fixture
def name(spark: SparkSession, warehouse: Path) -> str:
    """A table (k INT, v STRING, dt STRING) with one row."""
    found = f"t{next(_numbers)}"
    properties = "TBLPROPERTIES ('primary-key' = 'k,dt', 'bucket' = '2')"
    spark.sql(f"CREATE TABLE {found} (k INT NOT NULL, v STRING, dt STRING) PARTITIONED BY (dt) {properties}")
    spark.sql(f"INSERT INTO {found} VALUES (1, 'a', 'x')")
    return found


@pytest.fixture
def wide(spark: SparkSession) -> DataFrame:
    """A row with a column that the table lacks, in another order, and without one that it has."""
    return spark.sql("SELECT 'x' AS dt, 2.5D AS w, 2 AS k")


def rows(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(f"wide.db.{name}").collect())


WIDE = [(1, "a", "x", None), (2, None, "x", 2.5)]
WRITES: dict[str, Callable[[DataFrame, str], object]] = {
    "writeTo": lambda wide, name: wide.writeTo(name).option(KEY, "true").append(),
    "overwrite": lambda wide, name: wide.writeTo(name).option(KEY.upper(), "TRUE").overwrite(lit(True)),
    "another word": lambda wide, name: wide.writeTo(name).option("mergeSchema", "true").append(),
    "saveAsTable": lambda wide, name: wide.write.option(KEY, "true").mode("append").saveAsTable(name),
}


@pytest.mark.parametrize("door", WRITES)
def test_as_an_option_of_a_writer(spark: SparkSession, warehouse: Path, name: str, wide: DataFrame, door: str) -> None:
    with pytest.raises(PySparkException, match="EXTRA_COLUMNS"):
        wide.writeTo(f"wide.db.{name}").append()
    WRITES[door](wide, f"wide.db.{name}")
    assert rows(spark, name) == (WIDE[1:] if door == "overwrite" else WIDE)
    schema = load_table(str(warehouse / "db.db" / name)).schema
    assert (schema.id, [field.type.sql() for field in schema.fields][-1]) == (1, "DOUBLE")
    wide.writeTo(f"wide.db.{name}").option(KEY, "true").append()
    assert load_table(str(warehouse / "db.db" / name)).schema.id == 1


@pytest.mark.thorough
def test_as_a_setting_of_the_session(spark: SparkSession, warehouse: Path, name: str, wide: DataFrame) -> None:
    spark.conf.set(f"spark.paimon.{KEY}", "true")
    try:
        explained = spark.sql(f"EXPLAIN INSERT INTO {name} BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w").head()
        assert explained is not None
        assert load_table(str(warehouse / "db.db" / name)).schema.id == 0
        spark.sql(f"INSERT INTO {name} BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w")
        assert rows(spark, name) == WIDE
        paimon_spark.sql(spark, f"INSERT INTO {name} BY NAME SELECT DATE'2024-01-31' AS day, 'x' AS dt, 3 AS k")
        assert spark.table(name).columns == ["k", "v", "dt", "w", "day"]
        wide.selectExpr("*", "true AS b").writeTo(f"wide.db.{name}").append()
        assert spark.table(name).columns == ["k", "v", "dt", "w", "day", "b"]
        assert spark.table(name).where("b").count() == 1
        with pytest.raises(PySparkException, match="TOO_MANY_DATA_COLUMNS"):  # by position nothing is added
            spark.sql(f"INSERT INTO {name} SELECT 1, 'a', 'x', 1D, DATE'2024-01-31', true, 7")
        with pytest.raises(PySparkException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
            spark.sql(f"INSERT INTO {name} BY NAME SELECT 5 AS k, 'x' AS dt, map(1, 2) AS w, 1 AS more")
        assert load_table(str(warehouse / "db.db" / name)).schema.id == 3
    finally:
        spark.conf.unset(f"spark.paimon.{KEY}")


def test_as_an_option_of_a_statement(spark: SparkSession, warehouse: Path, name: str) -> None:
    query = "BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w"
    with pytest.raises(PySparkException):
        paimon_spark.sql(spark, f"INSERT INTO {name} {query}")
    paimon_spark.sql(spark, f"INSERT INTO {name} WITH ('{KEY}' = 'true') {query}")
    assert rows(spark, name) == WIDE
    if not spark.version.startswith("4.0."):
        spark.sql(f"INSERT INTO {name} WITH ('{KEY}' = 'true') BY NAME SELECT 3 AS k, 'x' AS dt, 1 AS n")
        assert spark.table(name).columns == ["k", "v", "dt", "w", "n"]
