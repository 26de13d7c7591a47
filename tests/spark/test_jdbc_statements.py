"""A catalog whose names are in a database, by both fronts: statements change rows, names and schemas as elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.metastore.jdbc import JdbcMetastore
from tests.support.warehouses import FRONTS, Run, run_by

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metastore") / "catalog.db"


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: Path) -> SparkSession:
    found = spark.newSession()
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{database}", "lock.enabled": "true"}
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    paimon_spark.register_catalog(found, "j", warehouse=warehouse, **options)
    paimon_spark.sql(found, "SELECT 1", warehouse=warehouse, catalog="j", **options)
    return found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[Run]:
    run = run_by(session, request.param)
    run("CREATE DATABASE j.d")
    yield run
    run("DROP DATABASE j.d CASCADE")


def _names(database: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT database_name, table_name FROM paimon_tables ORDER BY 1, 2").fetchall()
    finally:
        connection.close()


def _rows(run: Run, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in run(text).collect())


def test_statements_of_every_kind(run: Run, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[str] = []
    acquire = JdbcMetastore._acquire
    monkeypatch.setattr(JdbcMetastore, "_acquire", lambda self, lock: (locks.append(lock), acquire(self, lock))[1])
    run("CREATE TABLE j.d.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    assert _names(database) == [("d", "t")]
    taken = []
    for statement in (
        "INSERT INTO j.d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE j.d.t SET v = 'x' WHERE k = 1",
        "DELETE FROM j.d.t WHERE k = 2",
        "MERGE INTO j.d.t USING (SELECT 3 AS k, 'm' AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
        "CALL j.sys.compact(table => 'd.t')",
        "ALTER TABLE j.d.t ADD COLUMN w INT",
    ):
        locks.clear()
        run(statement)
        taken.append(set(locks))
    assert taken == [{"jdbc.d.t"}] * 6
    assert _rows(run, "SELECT k, v FROM j.d.t") == [(1, "x"), (3, "m")]
    run("CALL j.sys.create_tag(table => 'd.t', tag => 'one', snapshot => 1)")
    assert _rows(run, "SELECT k FROM j.d.t VERSION AS OF 'one'") == [(1,), (2,), (3,)]
    assert _rows(run, "SELECT count(*) FROM j.d.`t$snapshots`") == [(5,)]


def test_names(run: Run, database: Path) -> None:
    run("CREATE TABLE j.d.a AS SELECT 1 AS k")
    run("ALTER TABLE j.d.a RENAME TO d.b")
    assert _names(database) == [("d", "b")]
    assert _rows(run, "SELECT * FROM j.d.b") == [(1,)]
    assert [row.tableName for row in run("SHOW TABLES IN j.d").collect()] == ["b"]
    assert {row.namespace for row in run("SHOW DATABASES IN j").collect()} == {"d", "default"}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM j.d.a").collect()
    run("DROP TABLE j.d.b")
    assert _names(database) == []


def test_a_query_that_fails_leaves_no_name(run: Run, database: Path) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("CREATE TABLE j.d.broken AS SELECT 1 / id AS k FROM range(3)")
    assert _names(database) == []
    run("CREATE TABLE j.d.broken AS SELECT 1 AS k")
    run("CREATE OR REPLACE TABLE j.d.broken AS SELECT 2 AS k")
    assert _rows(run, "SELECT * FROM j.d.broken") == [(2,)]
    assert _names(database) == [("d", "broken")]


def test_frames_and_streams(session: SparkSession, run: Run, tmp_path: Path) -> None:
    run("CREATE TABLE j.d.s (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    session.createDataFrame([(1, "a")], "k INT, v STRING").writeTo("j.d.s").append()
    query = (
        session.readStream.table("j.d.s").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).toTable("j.d.copy")
    )  # fmt: skip
    query.awaitTermination()
    assert _rows(run, "SELECT * FROM j.d.copy") == [(1, "a")]


def test_copies_and_migrated_files_have_names(run: Run, database: Path, session: SparkSession, tmp_path: Path) -> None:
    run("CREATE TABLE j.d.a AS SELECT 1 AS k")
    run("CALL j.sys.copy(source_table => 'd.a', target_table => 'd.copied')")
    files = str(tmp_path / "files")
    session.range(3).write.parquet(files)
    run(f"CALL j.sys.migrate_table(source_type => 'parquet', `table` => '{files}', target_table => 'd.migrated')")
    assert _names(database) == [("d", "a"), ("d", "copied"), ("d", "migrated")]
    assert _rows(run, "SELECT count(*) FROM j.d.migrated") == [(3,)]


def test_repair_adds_the_names_of_tables_that_lie_in_the_warehouse(run: Run, database: Path) -> None:
    run("CREATE TABLE j.d.a AS SELECT 1 AS k")
    run("CREATE TABLE j.d.b AS SELECT 2 AS k")
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("DELETE FROM paimon_tables")
    connection.close()
    run("CALL j.sys.repair('d.b')")
    assert _names(database) == [("d", "b")]
    run("CALL j.sys.repair('')")
    assert _names(database) == [("d", "a"), ("d", "b")]
    assert _rows(run, "SELECT * FROM j.d.a") == [(1,)]
    with pytest.raises(Exception, match=r"d\.none cannot be repaired"):
        run("CALL j.sys.repair('d.none')")
