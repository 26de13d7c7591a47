"""A warehouse on each store: the SQL catalog, paimon_spark.sql, DataFrames, methods and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.catalog import driver_read
from paimon_spark.storage.file_io import FileIO
from tests.support.s3_server import s3_server
from tests.support.store_server import BUCKET, StoreServer
from tests.support.store_servers import store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

Run = Callable[[str], DataFrame]
CATALOGS = [(store, "catalog") for store in ("s3", "gcs", "azure", "hdfs", "oss")]
FRONTS = [*CATALOGS, ("s3", "text")]
on_each_front = pytest.mark.parametrize("front", FRONTS, indirect=True, ids="-".join)
on_each_store = pytest.mark.parametrize("front", CATALOGS, indirect=True, ids="-".join)


@pytest.fixture(scope="module")
def front(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The store, and what runs statements on it."""
    found: tuple[str, str] = request.param
    return found


@pytest.fixture(scope="module")
def server(front: tuple[str, str]) -> Iterator[StoreServer]:
    with store_server(front[0]) as running:
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession, server: StoreServer) -> SparkSession:
    session = spark.newSession()
    paimon_spark.register_catalog(session, "stored", warehouse=server.root, **server.options)
    return session


def check_nothing_is_left(server: StoreServer) -> None:
    store = FileIO.for_path(server.root, server.options).filesystem(server.root)  # type: ignore[attr-defined]
    if server.root.startswith("hdfs"):  # which keeps the directory of the warehouse
        root = store._strip_protocol(server.root)
        assert set(store.find(root, withdirs=True)) <= {root}
    else:
        assert store.find(BUCKET, withdirs=True) == []


@pytest.fixture
def run(front: tuple[str, str], session: SparkSession, server: StoreServer) -> Iterator[Run]:
    """Runs a statement in a database `d` of its own, which is dropped at the end."""

    def by_text(statement: str) -> DataFrame:
        return paimon_spark.sql(session, statement, warehouse=server.root, catalog="stored", **server.options)

    run = session.sql if front[1] == "catalog" else by_text
    run("CREATE DATABASE stored.d")
    yield run
    run("DROP DATABASE stored.d CASCADE")
    check_nothing_is_left(server)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@on_each_front
def test_tables_with_keys(run: Run) -> None:
    assert rows(run("SHOW DATABASES IN stored")) == [("d",), ("default",)]
    run(
        "CREATE TABLE stored.d.t (k INT NOT NULL, v STRING, dt STRING NOT NULL) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key'='k,dt', 'bucket'='2')"
    )
    run("INSERT INTO stored.d.t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    run("INSERT INTO stored.d.t VALUES (2, 'B', 'x'), (4, 'd', 'y')")
    run("UPDATE stored.d.t SET v = concat(v, '!') WHERE k < 3")
    run("CALL stored.sys.create_tag(table => 'd.t', tag => 'one')")
    run("DELETE FROM stored.d.t WHERE k = 3")
    run(
        "MERGE INTO stored.d.t AS t USING (SELECT 4 AS k, 'm' AS v, 'y' AS dt UNION ALL SELECT 9, 'n', 'z') AS s "
        "ON t.k = s.k AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    left = [(1, "a!", "x"), (2, "B!", "x"), (4, "m", "y"), (9, "n", "z")]
    assert rows(run("SELECT * FROM stored.d.t")) == left
    run("CALL stored.sys.compact(table => 'd.t')")
    assert rows(run("SELECT * FROM stored.d.t WHERE dt = 'y'")) == [(4, "m", "y")]
    assert rows(run("SELECT k FROM stored.d.t VERSION AS OF 'one'")) == [(1,), (2,), (3,), (4,)]
    run("CALL stored.sys.rollback(table => 'd.t', version => 'one')")
    assert rows(run("SELECT count(*) FROM stored.d.t")) == [(4,)]


@on_each_front
def test_tables_without_keys(run: Run) -> None:
    run("CREATE TABLE stored.d.a AS SELECT id, CAST(id AS STRING) AS s FROM range(100)")
    run("INSERT INTO stored.d.a SELECT id, CAST(id AS STRING) FROM range(100, 200)")
    run("DELETE FROM stored.d.a WHERE id < 10")
    run("INSERT OVERWRITE stored.d.a SELECT * FROM stored.d.a WHERE id < 60")
    run("ALTER TABLE stored.d.a ADD COLUMN more INT")
    assert rows(run("SELECT count(*), sum(id), max(more) FROM stored.d.a")) == [(50, 1725, None)]
    run("CREATE OR REPLACE TABLE stored.d.b AS SELECT id FROM stored.d.a")
    assert rows(run("SELECT count(*) FROM stored.d.b")) == [(50,)]


@on_each_store
def test_the_plan_says_why_paimon_reads(front: tuple[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """This session has Hadoop's file system of HDFS and of no other store."""
    monkeypatch.setattr(driver_read, "_MOST_FAR_FILES", 0)
    run("CREATE TABLE stored.d.a AS SELECT id FROM range(3)")
    found = run("SELECT * FROM stored.d.a")
    plan = "\n".join(row[0] for row in run("EXPLAIN SELECT * FROM stored.d.a").collect())
    scheme = {"s3": "s3a", "gcs": "gs", "azure": "abfss", "oss": "oss"}.get(front[0])
    reader = f"reader=paimon (the session's Hadoop cannot open {scheme})" if scheme else "reader=spark-parquet"
    assert reader in plan
    assert rows(found) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("front", ["catalog", "text"])
def test_two_stores_that_have_one_path(spark: SparkSession, front: str) -> None:
    """Two tables of one path in two stores are two tables to a join, a MERGE and an overwrite."""
    session = spark.newSession()
    with s3_server() as first, s3_server() as second:
        for name, server in (("one", first), ("two", second)):
            if front == "catalog":
                paimon_spark.register_catalog(session, name, warehouse=server.root, **server.options)
            else:
                paimon_spark.sql(session, "SELECT 1", warehouse=server.root, catalog=name, **server.options)
        run = session.sql if front == "catalog" else partial(paimon_spark.sql, session)
        for name, values in (("one", "(1, 'a'), (2, 'a')"), ("two", "(2, 'b'), (3, 'b')")):
            run(f"CREATE DATABASE {name}.d")
            run(
                f"CREATE TABLE {name}.d.t (k INT NOT NULL, v STRING) "
                "TBLPROPERTIES ('primary-key'='k', 'bucket'='1', 'deletion-vectors.enabled'='true')"
            )
            run(f"INSERT INTO {name}.d.t VALUES {values}")
        joined = run("SELECT x.v, y.v FROM one.d.t x FULL JOIN two.d.t y ON x.k = y.k")
        assert sorted(map(tuple, joined.collect()), key=str) == [("a", "b"), ("a", None), (None, "b")]
        run("INSERT INTO one.d.t VALUES (2, 'c'), (3, 'c')")
        run(
            "MERGE INTO two.d.t t USING one.d.t s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v || t.v "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        assert rows(run("SELECT * FROM two.d.t")) == [(1, "a"), (2, "cb"), (3, "cb")]
        run("INSERT OVERWRITE two.d.t SELECT * FROM one.d.t WHERE k > 1")
        assert rows(run("SELECT * FROM two.d.t")) == [(2, "c"), (3, "c")]
        run("INSERT INTO one.d.t VALUES (3, 'd')")
        run("DELETE FROM two.d.t WHERE k IN (SELECT k FROM one.d.t WHERE v = 'd')")
        assert rows(run("SELECT * FROM two.d.t")) == [(2, "c")]


def test_a_copy_has_the_same_path_in_another_store(spark: SparkSession) -> None:
    session = spark.newSession()
    with s3_server() as first, s3_server() as second:
        run = partial(paimon_spark.sql, session)
        for name, server in (("one", first), ("two", second)):
            run("SELECT 1", warehouse=server.root, catalog=name, **server.options)
        run("CREATE DATABASE one.d")
        run("CREATE TABLE one.d.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
        run("INSERT INTO one.d.t VALUES (1, 'a'), (2, 'a')")
        path = f"{first.root}/d.db/t"
        assert PaimonTable.for_path(session, path, **first.options).copy(path, options=second.options) == path
        run("INSERT INTO two.d.t VALUES (2, 'b')")
        assert rows(run("SELECT * FROM two.d.t")) == [(1, "a"), (2, "b")]
        assert rows(run("SELECT * FROM one.d.t")) == [(1, "a"), (2, "a")]
        run("CALL one.sys.copy(source_table => 'd.t', target_table => 'two.e.t')")
        assert rows(run("SELECT * FROM two.e.t")) == [(1, "a"), (2, "a")]
        assert rows(run("SHOW DATABASES IN one LIKE 'e'")) == []


@pytest.mark.parametrize(
    "front", [("s3", "catalog"), ("s3", "text"), ("azure", "catalog")], indirect=True, ids="-".join
)
def test_deletion_vectors(run: Run) -> None:
    run(
        "CREATE TABLE stored.d.t (k INT NOT NULL, n BIGINT) "
        "TBLPROPERTIES ('primary-key'='k', 'deletion-vectors.enabled'='true')"
    )
    run("INSERT INTO stored.d.t SELECT id, id FROM range(1000)")
    run("INSERT INTO stored.d.t SELECT id, id + 1 FROM range(500)")
    run("CALL stored.sys.compact(table => 'd.t')")
    assert rows(run("SELECT count(*), sum(n) FROM stored.d.t")) == [(1000, 500000)]


@on_each_store
def test_paths_methods_and_streams(session: SparkSession, server: StoreServer, tmp_path: Path) -> None:
    source, target = f"{server.root}/source", f"{server.root}/target"
    writer = session.range(5).selectExpr("id", "id * 2 AS n").write.format("paimon").options(**server.options)
    writer.option("primary-key", "id").option("bucket", "1").mode("append").save(source)
    table = PaimonTable.for_path(session, source, **server.options)
    table.upsert(session.sql("SELECT 1L AS id, 100L AS n"), on="id")
    table.update({"n": "n + 1"}, "id = 4")
    table.create_branch("b")
    query = (
        session.readStream.format("paimon").options(**server.options).load(source)
        .writeStream.format("paimon").options(**server.options).option("checkpointLocation", str(tmp_path))
        .option("path", target).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    loaded = session.read.format("paimon").options(**server.options).load(target)
    assert rows(loaded) == [(0, 0), (1, 100), (2, 4), (3, 6), (4, 9)]
    assert rows(table.to_df()) == rows(loaded)
    FileIO.for_path(server.root, server.options).delete_quietly(server.root, recursive=True)
    check_nothing_is_left(server)
