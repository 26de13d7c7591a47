"""Writing streams is refused when it is asked for, by name, and leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable, UnsupportedError
from paimon_spark.spark.source.data_source import PaimonDataSource

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS k")


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams")
    paimon_spark.register_catalog(spark, "streams", warehouse=str(path))
    spark.sql("CREATE DATABASE streams.db")
    PaimonTable.create(spark, str(path / "db.db" / "t"), "k int")
    return path


def test_by_path(warehouse: Path, rows: DataFrame) -> None:
    starts: list[Callable[[Any], Any]] = [
        lambda writer: writer.format("paimon").start(str(warehouse / "new")),
        lambda writer: writer.start(path=str(warehouse / "new"), format="paimon"),
        lambda writer: writer.format("paimon").toTable("streams.db.t"),
        lambda writer: writer.toTable(tableName="streams.db.new", format="paimon"),
    ]
    for start in starts:
        with pytest.raises(UnsupportedError, match=r"writeStream to a Paimon table is not supported yet.*foreachBatch"):
            start(rows.writeStream.option("checkpointLocation", str(warehouse / "checkpoint")))
    assert sorted(p.name for p in warehouse.rglob("*") if p.name in ("new", "checkpoint")) == []


def test_by_the_catalog(spark: SparkSession, warehouse: Path, rows: DataFrame) -> None:
    writer = rows.writeStream.option("checkpointLocation", str(warehouse / "checkpoint"))
    with pytest.raises(PySparkException, match="writeStream to a Paimon table is not supported yet"):
        writer.toTable("streams.db.new")
    with pytest.raises(PySparkException, match=r"streams\.db\.t doesn't support streaming write"):
        writer.toTable("streams.db.t")
    assert not spark.catalog.tableExists("streams.db.new")


def test_where_the_session_was_not_registered(spark: SparkSession) -> None:
    source = PaimonDataSource({"path": "/nowhere"})
    schema = spark.range(0).schema
    with pytest.raises(UnsupportedError, match="writeStream"):
        source.streamWriter(schema, overwrite=False)
