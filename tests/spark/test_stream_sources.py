"""Queries over streams: by path and by name, planned by us and by Spark's Python source, with restarts and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader

from paimon_spark.read.stream_offset import StreamOffset
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.stream_source import SelfPacedStreamReader, StreamSource
from tests.support.plain_source import plain_session
from tests.support.queries import Query
from tests.support.streams import source_of

pytestmark = [pytest.mark.spark, pytest.mark.catalog("streamed")]


@pytest.fixture
def table(spark: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """The name of a table with keys and a row in each of three snapshots; it lies in `db.db`."""
    name = "t" + "".join(filter(str.isalnum, request.node.name))
    spark.sql(
        f"CREATE TABLE streamed.db.{name} (k INT, v STRING, c CHAR(1)) TBLPROPERTIES ('primary-key'='k','bucket'='2')"
    )
    for key in range(3):
        spark.sql(f"INSERT INTO streamed.db.{name} VALUES ({key}, 'v{key}', 'c')")
    return name


def by_path(spark: SparkSession, warehouse: Path, table: str, **options: str) -> DataFrame:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return spark.readStream.format("paimon").options(**named).load(str(warehouse / "db.db" / table))


@pytest.mark.parametrize("entry_point", ["path", "name", "plain"])
def test_a_query_goes_on_after_a_restart(
    spark: SparkSession, warehouse: Path, table: str, tmp_path: Path, entry_point: str
) -> None:
    entry_points: dict[str, Callable[[], DataFrame]] = {
        "path": lambda: by_path(spark, warehouse, table),
        "name": lambda: spark.readStream.table(f"streamed.db.{table}"),
        "plain": lambda: by_path(plain_session(spark), warehouse, table),
    }
    query = Query(tmp_path / "checkpoint")
    assert query.run(entry_points[entry_point]()) == [(key, f"v{key}", "c") for key in range(3)]
    assert query.run(entry_points[entry_point]()) == []
    spark.sql(f"INSERT INTO streamed.db.{table} VALUES (1, 'w', NULL), (9, 'w', NULL)")
    assert query.run(entry_points[entry_point]()) == [(1, "w", None), (9, "w", None)]
    (source,) = query.progress[-1]["sources"]
    assert source["endOffset"] == {"snapshot": 5, "position": 0, "full": False}
    if entry_point != "plain":
        assert source["description"].startswith("paimon ")
        assert table in source["description"]
        assert source["metrics"]["snapshotsBehind"] == "0"


@pytest.mark.parametrize("entry_point", ["path", "plain"])
def test_limits_and_consumers(
    spark: SparkSession, warehouse: Path, table: str, tmp_path: Path, entry_point: str
) -> None:
    session = spark if entry_point == "path" else plain_session(spark)
    query = Query(tmp_path / "checkpoint")
    stream = session.readStream.format("paimon").option("scan.snapshot-id", "2").option("consumer-id", "me")
    stream = stream.option("read.stream.maxFilesPerTrigger", "1")
    assert [row[0] for row in query.run(stream.load(str(warehouse / "db.db" / table)))] == [1, 2]
    assert query.batches == 2
    consumer = json.loads((warehouse / "db.db" / table / "consumer" / "consumer-me").read_text())
    assert consumer["nextSnapshot"] in (3, 4)


def test_columns_and_filters_are_pushed_down(
    spark: SparkSession, warehouse: Path, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], str]] = []
    plain = StreamSource.stream

    def noting(self: StreamSource, schema: Any, predicate: Any = None) -> Any:
        seen.append((schema.names, str(predicate)))
        return plain(self, schema, predicate)

    monkeypatch.setattr(StreamSource, "stream", noting)
    wanted = [("v2", 1)]
    stream = by_path(spark, warehouse, table).where("k > 1").selectExpr("v", "k - 1 AS less")
    assert Query(tmp_path / "a").run(stream) == wanted
    assert seen[-1][0] == ["k", "v"]
    assert "'k'" in seen[-1][1]
    counted = spark.readStream.table(f"streamed.db.{table}").where("v = 'v1'").select("v", "__paimon_bucket")
    ((value, bucket),) = Query(tmp_path / "b").run(counted)
    assert (value, bucket in (0, 1)) == ("v1", True)
    assert seen[-1][0] == ["v", "__paimon_bucket"]
    both = spark.readStream.table(f"streamed.db.{table}")
    union = both.where("k = 0").select("v").union(both.where("k = 2").select("c"))
    query = Query(tmp_path / "c")
    assert query.run(union) == [("c",), ("v0",)]
    given = {"columns": "v, k", "filter": "k >= 2"}
    assert Query(tmp_path / "d").run(by_path(spark, warehouse, table, **given)) == [("v2", 2)]
    assert Query(tmp_path / "e").run(by_path(plain_session(spark), warehouse, table, **given)) == [("v2", 2)]


def test_rows_with_their_kinds(spark: SparkSession, warehouse: Path, table: str, tmp_path: Path) -> None:
    spark.sql(f"DELETE FROM streamed.db.{table} WHERE k = 1")
    options = {"scan.snapshot-id": "3"}
    wanted = [("+I", 2, "v2", "c"), ("-D", 1, "v1", "c")]
    log = spark.readStream.options(**options).table(f"streamed.db.`{table}$audit_log`")
    assert Query(tmp_path / "a").run(log) == wanted
    assert Query(tmp_path / "b").run(by_path(spark, warehouse, table, read__changelog="true", **options)) == wanted
    with pytest.raises(PySparkException, match=r"read.changelog.*audit_log"):
        Query(tmp_path / "c").run(spark.readStream.option("read.changelog", "true").table(f"streamed.db.{table}"))


def test_a_stream_has_the_latest_columns_wherever_it_begins(
    spark: SparkSession, warehouse: Path, table: str, tmp_path: Path
) -> None:
    spark.sql(f"ALTER TABLE streamed.db.{table} ADD COLUMN w INT")
    spark.sql(f"INSERT INTO streamed.db.{table} VALUES (7, 'v7', 'c', 7)")
    wanted = [(2, "v2", "c", None), (7, "v7", "c", 7)]
    named = spark.readStream.option("scan.snapshot-id", "3").table(f"streamed.db.{table}")
    assert Query(tmp_path / "a").run(named) == wanted
    assert Query(tmp_path / "b").run(by_path(spark, warehouse, table, scan__snapshot_id="3")) == wanted
    text = f"SELECT * FROM STREAM streamed.db.{table} WITH ('scan.snapshot-id' = '3')"
    assert Query(tmp_path / "c").run(spark.sql(text)) == wanted
    spark.sql("USE streamed.db")
    try:
        assert Query(tmp_path / "d").run(spark.sql(text.replace("streamed.db.", ""))) == wanted
    finally:
        spark.sql("USE spark_catalog.default")
    spark.conf.set("spark.paimon.scan.snapshot-id", "3")
    try:
        assert Query(tmp_path / "e").run(spark.readStream.table(f"streamed.db.{table}")) == wanted
    finally:
        spark.conf.unset("spark.paimon.scan.snapshot-id")
    spark.readStream.table(f"streamed.db.{table}").createOrReplaceTempView("streamed_view")
    spark.sql("USE streamed.db")
    try:
        assert (7, "v7", "c", 7) in Query(tmp_path / "f").run(spark.readStream.table("streamed_view"))
    finally:
        spark.sql("USE spark_catalog.default")
    batch = spark.sql(f"SELECT * FROM streamed.db.{table} WITH ('scan.snapshot-id' = '3')")
    assert batch.columns == ["k", "v", "c"]


def test_changes_as_a_stream(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    name = "streamed.db.changed"
    keyed = "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'lookup')"
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) {keyed}")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'x')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'b')")
    spark.sql(f"DELETE FROM {name} WHERE k = 1")
    commits = spark.sql("SELECT snapshot_id FROM streamed.db.`changed$snapshots` WHERE commit_kind = 'COMPACT'")
    first, update, delete = sorted(row.snapshot_id for row in commits.collect())

    def changes(query: Query, **options: str) -> list[tuple[Any, ...]]:
        stream = spark.readStream.options(**options).changes(name)
        return query.run(stream.select("_commit_version", "_change_type", "k", "v"))

    query = Query(tmp_path / "a")
    updated = [(update, "update_postimage", 1, "b"), (update, "update_preimage", 1, "a")]
    deleted = [(delete, "delete", 1, "b")]
    inserted = [(first, "insert", 1, "a"), (first, "insert", 2, "x")]
    assert changes(query, startingVersion="1") == [*inserted, *updated, *deleted]
    batch = spark.read.option("startingVersion", "1").changes(name).select("_commit_version", "_change_type", "k", "v")
    assert sorted(map(tuple, batch.collect())) == [*inserted, *updated, *deleted]
    late = {"startingVersion": str(update), "startingBoundInclusive": "false"}
    assert changes(Query(tmp_path / "b"), **late) == deleted
    times = spark.readStream.option("startingTimestamp", "2020-01-01").changes(name).where("v = 'b'").select("k")
    assert Query(tmp_path / "c").run(times) == [(1,), (1,)]
    assert changes(Query(tmp_path / "d")) == [(delete, "insert", 2, "x")], "the state, and then its changes"
    spark.sql(f"INSERT OVERWRITE {name} VALUES (3, 'c')")
    with pytest.raises(StreamingQueryException, match="is an overwrite"):
        changes(query, startingVersion="1")
    with pytest.raises(PySparkException, match="has no end"):
        changes(Query(tmp_path / "e"), startingVersion="1", endingVersion="2")
    with pytest.raises(PySparkException, match="needs a version or a timestamp"):
        spark.read.changes(name).collect()
    silent = "streamed.db.silent"
    spark.sql(f"CREATE TABLE {silent} (k INT) TBLPROPERTIES ('primary-key' = 'k')")
    with pytest.raises(PySparkException, match="needs a changelog"):
        spark.readStream.changes(silent)


def test_what_stops_a_query(spark: SparkSession, warehouse: Path, table: str, tmp_path: Path) -> None:
    query = Query(tmp_path / "checkpoint")
    query.run(by_path(spark, warehouse, table))
    spark.sql(f"INSERT INTO streamed.db.{table} VALUES (4, 'w', NULL)")
    spark.sql(f"INSERT INTO streamed.db.{table} VALUES (5, 'w', NULL)")
    spark.sql(f"CALL streamed.sys.expire_snapshots(table => 'db.{table}', retain_max => 1, retain_min => 1)")
    with pytest.raises(StreamingQueryException, match=r"changes of snapshot 4 .*has expired.*consumer-id"):
        query.run(by_path(spark, warehouse, table))
    with pytest.raises(PySparkException, match="belongs to batch reads"):
        by_path(spark, warehouse, table, incremental_between="1,2")
    with pytest.raises(PySparkException, match="consumer-id"):
        spark.sql(f"SELECT * FROM streamed.db.{table} WITH ('consumer-id' = 'me')").collect()


def test_before_admission_control(warehouse: Path, table: str) -> None:
    """PySpark 4.0 and 4.1 call these in this order."""

    def reader(**options: str) -> SelfPacedStreamReader:
        source = source_of(warehouse / "db.db" / table, options)
        schema = PaimonDataSource({"path": str(warehouse / "db.db" / table)}).schema()
        return SelfPacedStreamReader(source.stream(schema))

    limited = {"read.stream.maxFilesPerTrigger": "1"}
    new = reader(**limited)
    assert isinstance(new, DataSourceStreamReader)
    assert new.latestOffset() == StreamOffset(4).to_json()
    assert new.initialOffset() == StreamOffset(3, full=True).to_json()
    assert len(new.partitions(new.initialOffset(), StreamOffset(4).to_json())) >= 1
    assert new.latestOffset() == StreamOffset(4).to_json()
    again = reader(**limited)
    start = StreamOffset(1).to_json()
    assert again.partitions(start, start) == []  # Spark shows a restarted source where it stands
    assert [again.latestOffset()["snapshot"] for _ in range(4)] == [2, 3, 4, 4]
