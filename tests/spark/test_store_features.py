"""What works on a local disk works on each store: kinds of tables, `paimon_spark.sql`, renames, upkeep, migration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.storage.file_io import FileIO
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS, store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

Run = Callable[[str], DataFrame]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession, server: StoreServer) -> SparkSession:
    session = spark.newSession()
    paimon_spark.register_catalog(session, "far", warehouse=server.root, **server.options)
    return session


@pytest.fixture
def run(session: SparkSession) -> Iterator[Run]:
    """Runs a statement in a database `d`."""
    session.sql("CREATE DATABASE far.d")
    yield session.sql
    session.sql("DROP DATABASE IF EXISTS far.d CASCADE")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_buckets_that_grow_and_are_postponed(run: Run) -> None:
    for name, bucket in (("dynamic", "-1"), ("postponed", "-2")):
        properties = f"'primary-key'='k', 'bucket'='{bucket}', 'postpone.batch-write-fixed-bucket'='false'"
        run(f"CREATE TABLE far.d.{name} (k INT NOT NULL, v STRING) TBLPROPERTIES ({properties})")
        run(f"INSERT INTO far.d.{name} VALUES (1, 'a'), (2, 'b')")
        run(f"INSERT INTO far.d.{name} VALUES (2, 'B'), (3, 'c')")
        run(f"CALL far.sys.compact(table => 'd.{name}')")
        assert rows(run(f"SELECT * FROM far.d.{name}")) == [(1, "a"), (2, "B"), (3, "c")]


def test_statements_by_text(session: SparkSession, server: StoreServer, run: Run) -> None:
    def text(statement: str) -> DataFrame:
        return paimon_spark.sql(session, statement, warehouse=server.root, catalog="texts", **server.options)

    text("CREATE TABLE texts.d.t (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    text("INSERT INTO texts.d.t VALUES (1, 1), (2, 2)")
    text("UPDATE texts.d.t SET v = v + 1 WHERE k = 2")
    assert rows(text("SELECT * FROM texts.d.t")) == rows(run("SELECT * FROM far.d.t")) == [(1, 1), (2, 3)]
    text("ALTER TABLE texts.d.t RENAME TO d.u")
    assert [row.tableName for row in text("SHOW TABLES IN texts.d").collect()] == ["u"]
    text("DROP TABLE texts.d.u")
    text("DROP DATABASE texts.d CASCADE")
    assert rows(run("SHOW DATABASES IN far LIKE 'd'")) == []


def test_upkeep(server: StoreServer, run: Run) -> None:
    run("CREATE TABLE far.d.t (k INT)")
    for number in range(3):
        run(f"INSERT INTO far.d.t VALUES ({number})")
    run("CALL far.sys.create_tag(table => 'd.t', tag => 'one', snapshot => 1)")
    run("CALL far.sys.expire_snapshots(table => 'd.t', retain_max => 1, retain_min => 1)")
    assert [row[0] for row in run("SELECT snapshot_id FROM far.d.`t$snapshots`").collect()] == [3]
    path = f"{server.root}/d.db/t/bucket-0/data-of-nobody-0.parquet"
    file_io = FileIO.for_path(path, server.options)
    file_io.write_bytes(path, b"PAR1")
    time.sleep(2.2)  # whole seconds are compared
    before = f"{datetime.now(UTC) - timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"
    run(f"CALL far.sys.remove_orphan_files(table => 'd.t', older_than => '{before}')")
    assert not file_io.exists(path)
    assert rows(run("SELECT * FROM far.d.t")) == [(0,), (1,), (2,)]
    assert rows(run("SELECT * FROM far.d.t VERSION AS OF 'one'")) == [(0,)]
    run("ALTER TABLE far.d.t RENAME TO d.u")
    run("CALL far.sys.rollback(table => 'd.u', version => 'one')")
    assert rows(run("SELECT * FROM far.d.u")) == [(0,)]
    run("DROP TABLE far.d.u")
    assert not file_io.exists(f"{server.root}/d.db/u")


def test_a_directory_that_spark_reads_is_migrated(session: SparkSession, server: StoreServer, run: Run) -> None:
    source, target = f"{server.root}/source", f"{server.root}/d.db/taken"
    file_io = FileIO.for_path(source, server.options)
    if server.url.startswith("hdfs"):
        session.range(5).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(source)
        table = PaimonTable.migrate(session, source, target)
        assert rows(table.to_df()) == [(n, n % 2) for n in range(5)]
        assert rows(run("SELECT count(*) FROM far.d.taken")) == [(5,)]
        return
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2]}), buffer)
    file_io.write_bytes(f"{source}/part-0.parquet", buffer.getvalue().to_pybytes())
    with pytest.raises(Exception, match=r"(?i)FileSystem"):  # the session has Hadoop's of no other store
        PaimonTable.migrate(session, source, target, options=server.options)
    assert [entry.name for entry in file_io.list_names(source)] == ["part-0.parquet"]
    assert not file_io.exists(target)
    file_io.delete_quietly(source, recursive=True)
