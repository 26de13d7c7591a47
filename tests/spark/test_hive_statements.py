"""A catalog whose names are in Hive's metastore, by both fronts: statements change rows, names and schemas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.metastore import hive_client
from paimon_spark.metastore.hive_client import Address, HiveClient
from tests.acceptance.cases import CASES
from tests.acceptance.run import run_file
from tests.support.acceptance_backend import Backend, utc_clocks
from tests.support.hive_server import HiveServer
from tests.support.warehouses import FRONTS, Run, run_by

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="module")
def options(hive: HiveServer) -> dict[str, str]:
    return {"metastore": "hive", "uri": hive.uri, "lock.enabled": "true"}


@pytest.fixture(scope="module")
def session(spark: SparkSession, warehouse: str, options: dict[str, str]) -> SparkSession:
    found = spark.newSession()
    paimon_spark.register_catalog(found, "h", warehouse=warehouse, **options)
    paimon_spark.sql(found, "SELECT 1", warehouse=warehouse, catalog="h", **options)
    return found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[Run]:
    run = run_by(session, request.param)
    run("CREATE DATABASE h.d COMMENT 'of mine' WITH DBPROPERTIES ('a' = '1')")
    yield run
    run("DROP DATABASE h.d CASCADE")


@pytest.fixture
def client(hive: HiveServer) -> HiveClient:
    return HiveClient(Address((("127.0.0.1", hive.port),), 60.0))


def _rows(run: Run, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in run(text).collect())


def test_statements_of_every_kind(run: Run, client: HiveClient, monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[str] = []
    acquired = hive_client._acquired
    monkeypatch.setattr(
        hive_client, "_acquired", lambda c, o, database, name: (locks.append(name), acquired(c, o, database, name))[1]
    )
    run("CREATE TABLE h.d.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    assert client.call("get_table", "d", "t").parameters["primary-key"] == "k"
    taken = []
    for statement in (
        "INSERT INTO h.d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE h.d.t SET v = 'x' WHERE k = 1",
        "DELETE FROM h.d.t WHERE k = 2",
        "MERGE INTO h.d.t USING (SELECT 3 AS k, 'm' AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
        "CALL h.sys.compact(table => 'd.t')",
        "ALTER TABLE h.d.t ADD COLUMN w INT COMMENT 'new'",
    ):
        locks.clear()
        run(statement)
        taken.append(set(locks))
    assert taken == [{"t"}] * 6
    columns = [(each.name, each.type, each.comment) for each in client.call("get_table", "d", "t").sd.cols]
    assert columns == [("k", "int", None), ("v", "string", None), ("w", "int", "new")]
    assert _rows(run, "SELECT k, v FROM h.d.t") == [(1, "x"), (3, "m")]
    run("CALL h.sys.create_tag(table => 'd.t', tag => 'one', snapshot => 1)")
    assert _rows(run, "SELECT k FROM h.d.t VERSION AS OF 'one'") == [(1,), (2,), (3,)]
    assert _rows(run, "SELECT count(*) FROM h.d.`t$snapshots`") == [(5,)]


def test_a_change_that_the_metastore_refuses_is_one_sentence(run: Run, client: HiveClient) -> None:
    run("CREATE TABLE h.d.dropped (k INT, v STRING, n INT)")
    with pytest.raises(PaimonError, match=r"does not take the change: The Hive metastore") as refused:
        run("ALTER TABLE h.d.dropped DROP COLUMN v")
    assert "\tat " not in str(refused.value)
    assert client is not None


def test_names_and_databases(run: Run, client: HiveClient, warehouse: str) -> None:
    run("CREATE TABLE h.d.a AS SELECT 1 AS k")
    run("ALTER TABLE h.d.a RENAME TO d.b")
    assert client.call("get_all_tables", "d") == ["b"]
    assert _rows(run, "SELECT * FROM h.d.b") == [(1,)]
    assert [row.tableName for row in run("SHOW TABLES IN h.d").collect()] == ["b"]
    assert {row.namespace for row in run("SHOW DATABASES IN h").collect()} == {"d", "default"}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM h.d.a").collect()
    run("ALTER DATABASE h.d SET DBPROPERTIES ('b' = '2')")
    found = client.call("get_database", "d")
    assert (found.description, found.parameters) == ("of mine", {"a": "1", "b": "2"})
    assert found.locationUri == f"file:{warehouse}/d.db"
    described = dict(tuple(row) for row in run("DESCRIBE DATABASE EXTENDED h.d").collect())
    assert described["Comment"] == "of mine"
    run("DROP TABLE h.d.b")
    assert client.call("get_all_tables", "d") == []


@pytest.mark.parametrize("run", ["text"], indirect=True)
def test_a_query_that_fails_leaves_no_name(run: Run, client: HiveClient) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("CREATE TABLE h.d.broken AS SELECT 1 / id AS k FROM range(3)")
    assert client.call("get_all_tables", "d") == []
    run("CREATE TABLE h.d.broken AS SELECT 1 AS k")
    run("CREATE OR REPLACE TABLE h.d.broken AS SELECT 2 AS k, 3 AS l")
    assert _rows(run, "SELECT * FROM h.d.broken") == [(2, 3)]
    assert [each.name for each in client.call("get_table", "d", "broken").sd.cols] == ["k", "l"]


def test_an_external_table(run: Run, client: HiveClient, tmp_path: Path) -> None:
    location = f"{tmp_path}/outside"
    run(f"CREATE TABLE h.d.x (k INT) LOCATION '{location}'")
    run("INSERT INTO h.d.x VALUES (1)")
    assert client.call("get_table", "d", "x").tableType == "EXTERNAL_TABLE"
    run("DROP TABLE h.d.x")
    assert Path(f"{location}/snapshot/snapshot-1").exists()
    run(f"CREATE TABLE h.d.y (k INT) LOCATION '{location}'")
    assert _rows(run, "SELECT * FROM h.d.y") == [(1,)]
    run(f"CREATE TABLE h.d.z USING paimon LOCATION '{location}'")
    assert _rows(run, "SELECT k FROM h.d.z") == [(1,)]
    with pytest.raises(Exception, match="'k2' = 'v', and not set of the table that lies there"):
        run(f"CREATE TABLE h.d.w USING paimon TBLPROPERTIES ('k2' = 'v') LOCATION '{location}'")
    with pytest.raises(Exception, match="at least one column"):
        run(f"CREATE TABLE h.d.w USING paimon LOCATION '{tmp_path}/nothing'")
    nested = f"{tmp_path}/nested"
    run(f"CREATE TABLE h.`{nested}` (a INT, c STRUCT<f: INT>)")
    run(f"ALTER TABLE h.`{nested}` ADD COLUMNS (b INT, c.g INT)")
    run(f"CREATE TABLE h.d.n (a INT, c STRUCT<f: INT, g: INT>, b INT) LOCATION '{nested}'")
    run(f"CREATE DATABASE h.e LOCATION '{tmp_path}/e'")
    run("CREATE TABLE h.e.t AS SELECT 5 AS k")
    assert Path(f"{tmp_path}/e/t/snapshot/snapshot-1").exists()
    assert _rows(run, "SELECT * FROM h.e.t") == [(5,)]
    run("UPDATE h.e.t SET k = 6")
    assert _rows(run, "SELECT * FROM h.e.t") == [(6,)]
    run("DROP DATABASE h.e CASCADE")


@pytest.mark.parametrize("run", ["catalog"], indirect=True)
def test_frames_streams_and_other_entry_points(
    session: SparkSession, run: Run, tmp_path: Path, warehouse: str, options: dict[str, str]
) -> None:
    run("CREATE TABLE h.d.s (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    session.createDataFrame([(1, "a")], "k INT, v STRING").writeTo("h.d.s").append()
    query = (
        session.readStream.table("h.d.s").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).toTable("h.d.copy")
    )  # fmt: skip
    query.awaitTermination()
    assert _rows(run, "SELECT * FROM h.d.copy") == [(1, "a")]
    found = paimon_spark.PaimonTable.for_name(session, "h.d.s")
    found.append(session.createDataFrame([(2, "b")], "k INT, v STRING"))
    assert found.count() == 2
    table = paimon_spark.open_table("d.s", catalog=warehouse, **options)
    table.append(pa.table({"k": pa.array([3], pa.int32()), "v": ["c"]}))
    assert _rows(run, "SELECT k FROM h.d.s") == [(1,), (2,), (3,)]
    by_path = {**options, "warehouse": warehouse}
    assert session.read.format("paimon").options(**by_path).load(f"{warehouse}/d.db/s").count() == 3


def test_the_address_is_that_of_sparks_own_metastore(spark: SparkSession, warehouse: str, hive: HiveServer) -> None:
    found = spark.newSession()
    for key, value in (
        ("spark.hadoop.hive.metastore.uris", hive.uri),
        ("spark.sql.catalog.official", "org.apache.paimon.spark.SparkCatalog"),
        ("spark.sql.catalog.official.metastore", "hive"),
        ("spark.sql.catalog.official.warehouse", warehouse),
    ):
        found.conf.set(key, value)
    paimon_spark.register(found)
    assert "default" in {row.namespace for row in found.sql("SHOW DATABASES IN official").collect()}
    text = paimon_spark.sql(found, "SHOW DATABASES", warehouse=warehouse, metastore="hive")
    assert "default" in {row.namespace for row in text.collect()}


@pytest.mark.thorough
def test_an_acceptance_case(spark: SparkSession, options: dict[str, str], tmp_path: Path, client: HiveClient) -> None:
    session, case = spark.newSession(), "wr_truncate_ctas"
    root = str(tmp_path / "wh")
    paimon_spark.register(session)
    with utc_clocks():
        paimon_spark.register_catalog(session, "c", warehouse=root, **options)
        found = Backend(session, root, str(tmp_path / "checkpoints"), store_options={**options, "warehouse": root})
        steps, failure = run_file(found, str(CASES / f"{case}.slt"))
        session.sql(f"DROP DATABASE c.{case} CASCADE")
    paimon_spark.register(spark)  # makes it the thread's active session again
    assert failure is None, failure
    assert steps > 0
    assert case not in client.call("get_all_databases")
