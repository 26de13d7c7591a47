"""Micro-batches whose files are their rows go to Spark's own Parquet reader; all others to ours, with the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark.catalog import stream as streams
from paimon_spark.spark.jvm.answer_proxy import Question, Reply
from tests.support.queries import Query

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database, the tables of which lie below ``warehouse / "db.db"``."""
    paimon_spark.register_catalog(spark, "native", warehouse=str(tmp_path_factory.mktemp("native")))
    spark.sql("CREATE DATABASE native.db")
    return "native.db"


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which reader each micro-batch was given to: ``parquet`` or ``python``."""
    found: list[str] = []
    planned = streams.StreamProxy._asked_partitions

    def noting(self: streams.StreamProxy, question: Question) -> Reply:
        reply = planned(self, question)
        found.append(reply.value[1][0].split()[0])
        return reply

    monkeypatch.setattr(streams.StreamProxy, "_asked_partitions", noting)
    return found


def columns_of(stream: DataFrame) -> DataFrame:
    return stream.where("v <> 'b' AND p < 3").select("v", "p", "k")


def test_append_tables_with_partitions(spark: SparkSession, db: str, tmp_path: Path, readers: list[str]) -> None:
    name = f"{db}.parts"
    spark.sql(f"CREATE TABLE {name} (k INT, p INT, v STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, NULL), (4, 3, 'd')")
    whole, some, rows = Query(tmp_path / "a"), Query(tmp_path / "b"), Query(tmp_path / "c")
    stream = spark.readStream.table(name)
    assert whole.run(stream) == [(1, 1, "a"), (2, 1, "b"), (3, 2, None), (4, 3, "d")]
    assert len(readers) == 1, "Spark plans a micro-batch twice, it is asked of Python once"
    assert some.run(columns_of(stream)) == [("a", 1, 1)]
    assert rows.run(stream.groupBy().count(), "complete") == [(4,)]
    spark.sql(f"INSERT INTO {name} VALUES (5, 2, 'e')")
    assert whole.run(stream) == [(5, 2, "e")]
    assert some.run(columns_of(stream)) == [("e", 2, 5)]
    assert set(readers) == {"parquet"}
    readers.clear()
    ours = spark.readStream.option("read.spark-parquet", "false").table(name)
    assert Query(tmp_path / "d").run(columns_of(ours)) == [("a", 1, 1), ("e", 2, 5)]
    path = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0].data_type
    filtered = spark.readStream.format("paimon").option("filter", "v >= 'b'").load(path)
    assert [row[0] for row in Query(tmp_path / "e").run(filtered)] == [2, 4, 5]
    assert set(readers) == {"python"}, "Spark does not know the option 'filter'"


def test_changes_of_tables_with_keys(spark: SparkSession, db: str, tmp_path: Path, readers: list[str]) -> None:
    name = f"{db}.keyed"
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {name} VALUES (2, 'B')")
    query, log = Query(tmp_path / "a"), Query(tmp_path / "b")
    stream, kinds = spark.readStream.table(name), spark.readStream.table(f"{db}.`keyed$audit_log`")
    assert query.run(stream) == [(1, "a"), (2, "B")], "the first state is merged"
    assert log.run(kinds) == [("+I", 1, "a"), ("+I", 2, "B")]
    assert set(readers) == {"python"}
    readers.clear()
    spark.sql(f"DELETE FROM {name} WHERE k = 1")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    assert query.run(stream) == [(1, "a"), (3, "c")], "a retracted row comes without its kind"
    assert set(readers) == {"parquet"}
    assert log.run(kinds) == [("+I", 3, "c"), ("-D", 1, "a")]
    assert readers[-1] == "python", "kinds are ours to find"
    readers.clear()
    spark.sql(f"INSERT INTO {name} VALUES (5, 'e')")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN w INT")
    spark.sql(f"INSERT INTO {name} VALUES (4, 'd', 4)")
    assert query.run(spark.readStream.table(name)) == [(4, "d", 4), (5, "e", None)]
    assert set(readers) == {"python"}, "a file lacks a column"


def test_where_spark_lets_no_reader_be_made(
    spark: SparkSession, db: str, tmp_path: Path, readers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{db}.refused"
    spark.sql(f"CREATE TABLE {name} (k INT)")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    plain = streams.parquet_batch

    def unfit(*given: Any, **named: Any) -> Any:
        return ["parquet batch", {**plain(*given, **named)[1], "data": "?"}]

    monkeypatch.setattr(streams, "parquet_batch", unfit)
    query, stream = Query(tmp_path / "a"), spark.readStream.table(name)
    assert query.run(stream) == [(1,)]
    assert readers == ["parquet"], "what Spark refuses"
