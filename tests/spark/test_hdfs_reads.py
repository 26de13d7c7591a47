"""Spark's own Parquet reader on HDFS, which PySpark's Hadoop opens without more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    with store_server("hdfs") as running:
        yield running


@pytest.fixture
def session(spark: SparkSession, server: StoreServer) -> Iterator[SparkSession]:
    session = spark.newSession()
    paimon_spark.register_catalog(session, "distributed", warehouse=server.root)
    session.sql("CREATE DATABASE distributed.d")
    yield session
    session.sql("DROP DATABASE distributed.d CASCADE")


def test_files_are_read_natively(session: SparkSession) -> None:
    session.sql("CREATE TABLE distributed.d.a (id INT, v STRING) PARTITIONED BY (v)")
    session.sql("INSERT INTO distributed.d.a SELECT id, concat('ä b=', id % 2) FROM range(6)")
    session.sql("DELETE FROM distributed.d.a WHERE id = 3")
    frame = session.sql("SELECT id, v FROM distributed.d.a WHERE id > 1")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "reader=spark-parquet" in plan
    assert sorted(map(tuple, frame.collect())) == [(2, "ä b=0"), (4, "ä b=0"), (5, "ä b=1")]


def test_options_of_ours_reach_hadoop(session: SparkSession, server: StoreServer) -> None:
    options = {"hadoop.dfs.client.use.datanode.hostname": "false"}
    paimon_spark.register_catalog(session, "optioned", warehouse=server.root, **options)
    session.sql("CREATE TABLE optioned.d.o (id INT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled'='true')")
    session.sql("INSERT INTO optioned.d.o SELECT id, 'ä' FROM range(4)")
    session.sql("DELETE FROM optioned.d.o WHERE id = 1")
    frame = session.sql("SELECT id, v FROM optioned.d.o")
    assert "reader=spark-parquet" in frame._jdf.queryExecution().executedPlan().toString()
    assert sorted(map(tuple, frame.collect())) == [(0, "ä"), (2, "ä"), (3, "ä")]


@pytest.mark.turns("Hadoop")
def test_a_stream_and_its_checkpoint(session: SparkSession, server: StoreServer, tmp_path: Path) -> None:
    session.sql("CREATE TABLE distributed.d.s (id BIGINT, v STRING)")
    session.sql("CREATE TABLE distributed.d.t (id BIGINT, v STRING)")
    session.sql("INSERT INTO distributed.d.s SELECT id, 'x' FROM range(10)")
    for count in (10, 15):
        query = (
            session.readStream.table("distributed.d.s")
            .writeStream.format("paimon")
            .option("checkpointLocation", f"{server.url}/checkpoints/one")
            .trigger(availableNow=True)
            .start(f"{server.root}/d.db/t")
        )
        query.awaitTermination()
        assert session.table("distributed.d.t").count() == count
        session.sql("INSERT INTO distributed.d.s SELECT id, 'y' FROM range(10, 15)")


def test_a_table_by_its_path(session: SparkSession, server: StoreServer) -> None:
    path = f"{server.root}/d.db/p"
    session.range(5).write.format("paimon").mode("append").save(path)
    session.range(5, 8).write.format("paimon").mode("append").save(path)
    assert session.read.format("paimon").load(path).filter("id > 3").count() == 4
    table = paimon_spark.PaimonTable.for_path(session, path)
    table.compact()
    assert session.read.format("paimon").load(path).count() == 8
