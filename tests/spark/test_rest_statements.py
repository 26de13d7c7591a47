"""A REST catalog, by both fronts: statements change rows, names and schemas as elsewhere, with few requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.support.rest_server import RestProxy, RestServer, rest_proxy
from tests.support.warehouses import FRONTS, Run, run_in_database, session_of_rest

pytestmark = pytest.mark.spark
_NUMBERS = itertools.count()
of_catalog = pytest.mark.parametrize("run", ["catalog"], indirect=True)
"""Tests whose statements are the same by either front."""


@pytest.fixture(scope="module")
def proxy(rest: RestServer) -> Iterator[RestProxy]:
    with rest_proxy(rest) as found:
        yield found


@pytest.fixture(scope="module")
def options(rest: RestServer, proxy: RestProxy) -> dict[str, str]:
    return {key: text for key, text in rest.options(proxy.uri).items() if key != "warehouse"}


@pytest.fixture(scope="module")
def session(spark: SparkSession, options: dict[str, str]) -> SparkSession:
    return session_of_rest(spark, "r", options)


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[Run]:
    yield from run_in_database(session, request.param, "r.s")


def _rows(run: Run, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in run(text).collect())


def test_system_tables_of_the_catalog(run: Run, session: SparkSession, options: dict[str, str]) -> None:
    run("CREATE TABLE r.s.t (k INT)")
    assert _rows(run, "SELECT database_name, table_name FROM r.sys.tables WHERE database_name = 's'") == [("s", "t")]
    reader = session.read.format("paimon").options(**options, warehouse="wh")
    assert reader.load("rest://wh/sys.db/tables").where("database_name = 's'").count() == 1


def test_statements_of_every_kind(run: Run, proxy: RestProxy, session: SparkSession) -> None:
    run("CREATE TABLE r.s.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    counts = {}
    for statement in (
        "INSERT INTO r.s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE r.s.t SET v = 'x' WHERE k = 1",
        "DELETE FROM r.s.t WHERE k = 2",
        "MERGE INTO r.s.t USING (SELECT 3 AS k, 'm' AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
        "CALL r.sys.compact(table => 's.t')",
        "ALTER TABLE r.s.t ADD COLUMN w INT",
    ):
        proxy.taken()
        run(statement)
        counts[statement.split()[0]] = proxy.taken()
    if run == session.sql:
        most = {"INSERT": 4, "UPDATE": 5, "DELETE": 5, "MERGE": 5, "CALL": 5, "ALTER": 8}
        assert all(len(requests) <= most[statement] for statement, requests in counts.items()), counts
    assert all(sum(request.endswith("/commit") for request in counts[name]) == 1 for name in counts if name != "ALTER")
    assert _rows(run, "SELECT k, v FROM r.s.t") == [(1, "x"), (3, "m")]
    proxy.taken()
    assert run("SELECT k, v, w FROM r.s.t").collect()
    assert proxy.taken()[-1] == "GET databases/s/tables/t/snapshot"
    run("CALL r.sys.create_tag(table => 's.t', tag => 'one', snapshot => 1)")
    assert _rows(run, "SELECT k FROM r.s.t VERSION AS OF 'one'") == [(1,), (2,), (3,)]
    assert _rows(run, "SELECT count(*) FROM r.s.`t$snapshots`") == [(5,)]


def test_functions_cost_a_request_where_one_is_called(run: Run, proxy: RestProxy) -> None:
    run("CREATE TABLE r.s.t (k INT, v STRING)")
    run("INSERT INTO r.s.t VALUES (1, 'a')")
    run("CREATE FUNCTION r.s.twice(x INT) RETURNS INT RETURN abs(x) * 2")
    plain, calling, twice = [], [], "GET databases/s/functions/twice"
    for requests, statement in (
        (
            plain,
            "SELECT count(*), max(abs(k)) FROM r.s.t WHERE k IN (1, 2) AND (v LIKE 'a%' OR coalesce(v, 'x') = 'b')",
        ),
        (calling, "SELECT r.s.twice(k), r.s.twice(2) FROM r.s.t"),
        (calling, "SELECT r.s.twice(1)"),
    ):
        proxy.taken()
        assert run(statement).collect()
        requests += proxy.taken()
    assert not [request for request in plain if "/functions" in request]
    of_functions = [request for request in calling if "/functions" in request]
    assert set(of_functions) == {twice}
    assert len(of_functions) <= 3
    proxy.taken()
    run("DROP FUNCTION r.s.twice")
    assert proxy.taken() == ["GET databases/s", "DELETE databases/s/functions/twice"]


def test_names(run: Run) -> None:
    name = f"a{next(_NUMBERS)}"  # the server keeps the snapshots of a renamed table under its old name
    run(f"CREATE TABLE r.s.{name} AS SELECT 1 AS k")
    assert _rows(run, f"SELECT * FROM r.s.{name}") == [(1,)]
    assert [row.tableName for row in run("SHOW TABLES IN r.s").collect()] == [name]
    assert "s" in {row.namespace for row in run("SHOW DATABASES IN r").collect()}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM r.s.b").collect()
    run(f"ALTER TABLE r.s.{name} RENAME TO s.b")
    assert [row.tableName for row in run("SHOW TABLES IN r.s").collect()] == ["b"]


def test_a_table_with_a_location_is_an_external_one(run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = f"{tmp_path}/elsewhere"
    run(f"CREATE TABLE r.s.x (k INT, v STRING) LOCATION '{place}'")
    run("INSERT INTO r.s.x VALUES (1, 'a')")
    assert _rows(run, "SELECT * FROM r.s.x") == [(1, "a")]
    assert (tmp_path / "elsewhere/snapshot/snapshot-1").exists()
    run("DROP TABLE r.s.x")
    assert (tmp_path / "elsewhere/snapshot/snapshot-1").exists()
    paimon_spark.PaimonTable.create(request.getfixturevalue("spark"), f"{tmp_path}/there", "k int")
    with pytest.raises(Exception, match="the table that lies there has other columns"):
        run(f"CREATE TABLE r.s.y (k STRING) LOCATION '{tmp_path}/there'")
    run(f"CREATE TABLE r.s.y (k INT) LOCATION '{tmp_path}/there'")
    run("INSERT INTO r.s.y VALUES (5)")
    assert _rows(run, "SELECT * FROM r.s.y") == [(5,)]


def test_a_query_that_fails_leaves_no_name(run: Run) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("CREATE TABLE r.s.broken AS SELECT 1 / id AS k FROM range(3)")
    assert run("SHOW TABLES IN r.s").collect() == []
    run("CREATE TABLE r.s.broken AS SELECT 1 AS k")
    assert _rows(run, "SELECT * FROM r.s.broken") == [(1,)]


@of_catalog
def test_frames_streams_and_paths(session: SparkSession, run: Run, options: dict[str, str], tmp_path: Path) -> None:
    run("CREATE TABLE r.s.f (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    session.createDataFrame([(1, "a")], "k INT, v STRING").writeTo("r.s.f").append()
    query = (
        session.readStream.table("r.s.f").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).toTable("r.s.copy")
    )  # fmt: skip
    query.awaitTermination()
    assert _rows(run, "SELECT * FROM r.s.copy") == [(1, "a")]
    given = {**options, "warehouse": "wh"}
    handle = paimon_spark.PaimonTable.for_path(session, "rest://wh/s.db/f", **given)
    handle.append(session.createDataFrame([(2, "b")], "k INT, v STRING"))
    assert handle.to_df().count() == 2
    loaded = session.read.format("paimon").options(**given).load("rest://wh/s.db/f")
    assert sorted(map(tuple, loaded.collect())) == [(1, "a"), (2, "b")]
    loaded.write.format("paimon").options(**given).mode("append").save("rest://wh/s.db/saved")
    assert _rows(run, "SELECT count(*) FROM r.s.saved") == [(2,)]


@of_catalog
def test_columns_that_rows_bring(run: Run, session: SparkSession) -> None:
    run("CREATE TABLE r.s.w (k INT, v STRING)")
    rows = session.createDataFrame([(1, "a", 2)], "k INT, v STRING, w INT")
    rows.writeTo("r.s.w").option("write.merge-schema", "true").append()
    assert _rows(run, "SELECT k, v, w FROM r.s.w") == [(1, "a", 2)]


@of_catalog
def test_copies_and_partitions(run: Run) -> None:
    run("CREATE TABLE r.s.p (k INT, day STRING) PARTITIONED BY (day)")
    run("INSERT INTO r.s.p VALUES (1, 'mon'), (2, 'tue')")
    run("INSERT OVERWRITE r.s.p PARTITION (day = 'mon') SELECT 3")
    assert [row[0] for row in run("SHOW PARTITIONS r.s.p").collect()] == ["day=mon", "day=tue"]
    run("CALL r.sys.copy(source_table => 's.p', target_table => 's.copied')")
    assert _rows(run, "SELECT * FROM r.s.copied") == [(2, "tue"), (3, "mon")]
    run("TRUNCATE TABLE r.s.p")
    assert _rows(run, "SELECT * FROM r.s.p") == []


def test_properties_of_databases(run: Run) -> None:
    run("ALTER DATABASE r.s SET DBPROPERTIES ('team' = 'lake')")
    reported = {row[0]: row[1] for row in run("DESCRIBE DATABASE EXTENDED r.s").collect()}
    assert (reported["Location"], "(team,lake)" in reported["Properties"]) == ("/tmp", True)
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        run("DESCRIBE DATABASE r.nowhere")
