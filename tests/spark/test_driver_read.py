"""Few rows are read in the driver: the rows that tasks give, without a job. What may be many is read by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spark.catalog import driver_read, scan
from tests.support.calls import jobs_of
from tests.support.plan_texts import explained
from tests.support.store_servers import store_server

pytestmark = pytest.mark.spark

HERE = "reader=driver"


@pytest.fixture(scope="module")
def keyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session in a database with `t` of four runs: keys 0 to 9 without 7, even ones changed, 3 deleted."""
    path: Path = tmp_path_factory.mktemp("few_keys")
    paimon_spark.register_catalog(spark, "few", warehouse=str(path))
    spark.sql("CREATE DATABASE few.db")
    spark.sql("USE few.db")
    spark.sql(
        "CREATE TABLE t (id BIGINT, part STRING, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, f FLOAT, d DOUBLE, "
        "dec DECIMAL(38, 10), s STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, c CHAR(4), "
        "m MAP<STRING, INT>) TBLPROPERTIES ('primary-key' = 'id,part', 'bucket' = '1', 'write-only' = 'true')"
    )
    columns = (
        "cast(id as tinyint), cast(-id as smallint), cast(id as int), cast(id / 3 as float), "
        "CASE WHEN id = 2 THEN double('NaN') ELSE id / 7 END, cast(id as decimal(38, 10)) / 3, concat('ä', id), "
        "cast(concat('x', id) as binary), date_add(DATE'0001-01-01', cast(id * 1000 as int)), "
        "timestamp_micros(id * -1000000001), cast(timestamp_micros(id) as timestamp_ntz), 'ab', "
        "map('k', cast(id as int))"
    )
    spark.sql(f"INSERT INTO t SELECT id, 'p', id % 2 = 0, {columns} FROM range(1, 10) WHERE id <> 7")
    changed = columns.replace("-id", "-2 * id")
    spark.sql(f"INSERT INTO t SELECT id, 'p', id % 2 = 0, {changed} FROM range(0, 10, 2)")
    spark.sql("INSERT INTO t (id, part) VALUES (6, 'p')")
    spark.sql("DELETE FROM t WHERE id = 3")
    yield spark
    spark.sql("USE spark_catalog.default")


ATOMIC = "id, part, b, i1, i2, i4, f, d, dec, s, raw, day, at, wall, c"


@pytest.mark.parametrize("key", [1, 2, 3, 6, 7])
def test_a_row_by_its_key_is_the_same_as_from_a_task(
    keyed: SparkSession, monkeypatch: pytest.MonkeyPatch, key: int
) -> None:
    """Each type, old dates, NaN, null, a deleted key, a key that is not there."""
    query = f"SELECT {ATOMIC} FROM t WHERE id = {key} AND part = 'p'"
    here = keyed.sql(query)
    assert HERE in explained(here)
    found = [str(row) for row in here.collect()]
    monkeypatch.setattr(scan, "read_here", lambda *_: None)
    in_memory = keyed.sql(query)  # as on a Spark that lets only a task of its own have the rows
    assert HERE in explained(in_memory)
    assert found == [str(row) for row in in_memory.collect()]
    monkeypatch.setattr(scan, "is_small", lambda *_: False)
    in_task = keyed.sql(query)
    assert HERE not in explained(in_task)
    assert found == [str(row) for row in in_task.collect()]
    assert len(found) == (key in (1, 2, 6))


def test_queries_over_such_rows(keyed: SparkSession) -> None:
    """Counts, joins, limits and columns of the file; the newest row of a key counts."""
    one = "FROM t WHERE id = 2 AND part = 'p'"
    assert keyed.sql(f"SELECT i2, dec {one}").collect() == [(-4, Decimal("0.6666666667"))]
    assert keyed.sql(f"SELECT count(*) {one}").collect() == [(1,)]
    assert keyed.sql("SELECT count(*) FROM t WHERE id = 3 AND part = 'p'").collect() == [(0,)]
    assert keyed.sql("SELECT i4 FROM t WHERE id IN (1, 2, 3, 5) AND part = 'p' ORDER BY 1").collect() == [
        (1,), (2,), (5,),
    ]  # fmt: skip
    joined = keyed.sql(f"SELECT a.id FROM (SELECT * {one}) a JOIN t b ON a.id + 2 = b.id LIMIT 3")
    assert joined.collect() == [(2,)]


KINDS = {
    "append": "'bucket' = '-1'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
    "marked": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'",
    "evolving": "'bucket' = '-1', 'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
    "orc": "'bucket' = '-1', 'file.format' = 'orc'",
    "keyed": "'primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true'",
    "dynamic": "'primary-key' = 'id', 'write-only' = 'true'",
    "partial": "'primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update', 'write-only' = 'true'",
    "vectors": "'primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
}
FEW = {
    "id = 40000": 1,
    "id IN (7, 40000, 7777777)": 2,
    "id BETWEEN 39998 AND 40001": 4,
    "id >= 39998 AND id < 40002 AND v LIKE '%1'": 1,
}
ROWS = 80_000


@pytest.fixture(scope="module", params=KINDS)
def large(request: pytest.FixtureRequest, keyed: SparkSession) -> str:
    """A table of 80,000 rows in files with page indexes, of which a second write changes or adds one."""
    name = f"few.db.{request.param}"
    options = KINDS[request.param]
    columns = "id INT NOT NULL, v STRING, a ARRAY<STRUCT<n: INT>>"
    keyed.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({options})")
    rows = "CAST(id AS INT) id, concat('v', id) v, array(named_struct('n', CAST(id AS INT))) a"
    keyed.sql(f"INSERT INTO {name} SELECT {rows} FROM range(0, {ROWS}, 1, 1)")
    key = ROWS - 1 if "primary-key" in options else ROWS
    keyed.sql(f"INSERT INTO {name} VALUES ({key}, 'new', NULL)")
    return name


def test_few_rows_take_no_job(keyed: SparkSession, large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of table, by its name and by its path: look-ups, small ranges, first rows; tasks give the same rows."""
    path = keyed.sql(f"DESCRIBE EXTENDED {large}").where("col_name = 'Location'").first().data_type
    ways = {"name": lambda: keyed.table(large), "path": lambda: keyed.read.format("paimon").load(path)}
    for way, load in ways.items():
        for condition, count in FEW.items():
            rows = load().where(condition)
            with jobs_of(keyed) as jobs:
                found = rows.collect()
            assert (len(found), jobs) == (count, []), (way, condition)
            assert HERE in explained(rows), (way, condition)
            with monkeypatch.context() as patched:
                patched.setattr(scan, "read_here", lambda *_: None)
                by_tasks = load().where(condition)
                assert sorted(by_tasks.collect()) == sorted(found)
        with jobs_of(keyed) as jobs:
            first = load().select("v", "id").limit(5).collect()
        assert (len({row.id for row in first}), jobs) == (5, []), way
        assert HERE in explained(load().limit(5)), way


@pytest.mark.parametrize("large", ["append", "keyed"], indirect=True)
def test_tasks_read_what_may_be_many(keyed: SparkSession, large: str) -> None:
    """All rows, half-open ranges, other columns of many values, many first rows, paths of files."""
    for query in (
        f"SELECT * FROM {large}",
        f"SELECT * FROM {large} WHERE id > 5",
        f"SELECT * FROM {large} WHERE id BETWEEN 5 AND 50000",
        f"SELECT * FROM {large} LIMIT 5000",
    ):
        assert HERE not in explained(keyed.sql(query)), query
    assert len(keyed.sql(f"SELECT * FROM {large} LIMIT 5000").collect()) == 5000


@pytest.mark.parametrize("large", ["append", "keyed"], indirect=True)
def test_rows_read_here_take_part_in_jobs(keyed: SparkSession, large: str) -> None:
    """Joins, writes and sorts send them to tasks, which do not know the class that shows them."""
    one = f"(SELECT id, v FROM {large} WHERE id IN (3, 4))"
    joined = keyed.sql(f"SELECT /*+ MERGE(b) */ a.v, b.id FROM {large} a JOIN {one} b ON a.id = b.id ORDER BY 2")
    assert [tuple(row) for row in joined.collect()] == [("v3", 3), ("v4", 4)]
    assert keyed.sql(f"SELECT count(*), max(v) FROM {one}").collect() == [(2, "v4")]
    keyed.sql(f"CREATE OR REPLACE TABLE few.db.copied AS SELECT * FROM {one}")
    assert sorted(keyed.table("few.db.copied").rdd.map(tuple).collect()) == [(3, "v3"), (4, "v4")]


def test_the_rows_are_of_the_snapshot_of_the_plan(keyed: SparkSession) -> None:
    """A planned frame keeps its rows while others write."""
    keyed.sql("CREATE TABLE one (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'write-only' = 'true')")
    keyed.sql("INSERT INTO one VALUES (1, 1)")
    keyed.sql("INSERT INTO one VALUES (1, 2)")
    frame = keyed.sql("SELECT v FROM one WHERE id = 1")
    assert HERE in explained(frame)
    keyed.sql("INSERT INTO one VALUES (1, 3)")
    values: list[Any] = frame.collect()
    assert values == [(2,)]
    assert keyed.sql("SELECT v FROM one WHERE id = 1").collect() == [(3,)]


@pytest.fixture(scope="module")
def far(spark: SparkSession) -> Iterator[SparkSession]:
    """A catalog `far` on a store."""
    with store_server("s3") as server:
        session = spark.newSession()
        paimon_spark.register_catalog(session, "far", warehouse=server.root, **server.options)
        session.sql("CREATE DATABASE far.db")
        yield session


@pytest.mark.parametrize("kind", ["marked", "keyed", "orc"])
def test_few_small_files_of_a_store_take_no_job(far: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """All rows, filtered ones, counts, joins, no columns; tasks give the same; a stream of the table goes on."""
    name = f"far.db.{kind}"
    far.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING, a ARRAY<STRUCT<n: INT>>) TBLPROPERTIES ({KINDS[kind]})")
    for n in range(2):
        far.sql(f"INSERT INTO {name} SELECT CAST(id + {n} AS INT), concat('v', {n}), array() FROM range(0, 50, 1, 1)")
    queries = [
        f"SELECT * FROM {name}",
        f"SELECT v FROM {name} WHERE id > 5",
        f"SELECT 1 FROM {name}",
        f"SELECT count(*), max(v) FROM {name} WHERE v <> 'v1'",
        f"SELECT * FROM {name} x JOIN {name} y ON x.id + 1 = y.id",
        f"SELECT v FROM {name} LIMIT 5000",
    ]
    here = {}
    for query in queries:
        rows = far.sql(query)
        with jobs_of(far) as jobs:
            here[query] = sorted(map(str, rows.collect()))
        assert HERE in explained(rows), query
        if "JOIN" not in query and "count" not in query:
            assert jobs == [], query
    with monkeypatch.context() as patched:
        patched.setattr(scan, "read_here", lambda *_: None)
        for query in queries:
            rows = far.sql(query)
            assert HERE not in explained(rows)
            assert sorted(map(str, rows.collect())) == here[query], query
    monkeypatch.setattr(scan, "LocalRowsProxy", None)  # a stream has no use for the rows of now
    stream = far.readStream.table(name).writeStream.format("memory").queryName(f"of_{kind}")
    stream.trigger(availableNow=True).start().awaitTermination()
    assert far.table(f"of_{kind}").where("id = 3").count()


def test_larger_scans_of_a_store_take_a_job(far: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    far.sql("CREATE TABLE far.db.larger (id INT, v STRING)")
    far.sql("INSERT INTO far.db.larger SELECT CAST(id AS INT), 'v' FROM range(0, 9000, 1, 1)")
    query = "SELECT * FROM far.db.larger"
    assert HERE in explained(far.sql(query))
    for limit in ("_MOST_FAR_FILES", "_MOST_WHOLE_BYTES", "SMALL_FILE_BYTES", "_MOST_CHANGED_ROWS"):
        with monkeypatch.context() as patched:
            patched.setattr(driver_read, limit, 0)
            assert HERE not in explained(far.sql(query)), limit
