"""CALL of what lets the past go, the same as methods of PaimonTable, and expiry after writes."""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.files.orphan_files import RemovedFiles
from paimon_spark.maintain.refs import tags
from paimon_spark.spark.table.upkeep import remove_orphan_files
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sql(spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """A session of its own with the catalog ``ex``, where it is current."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.newSession())
    paimon_spark.register_catalog(session, "ex", warehouse=str(warehouse))
    session.sql("CREATE DATABASE ex.db")
    session.sql("USE ex.db")
    yield session
    paimon_spark.register(spark)
    spark.range(1).collect()  # the session of the other tests is the active one again


@pytest.fixture
def table(sql: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> FileStoreTable:
    """Snapshots 1 to 4, each with other rows in another partition."""
    made = make_table(warehouse / "db.db" / f"t{abs(hash(request.node.name))}", partition=["dt"], bucket="-1")
    for number in range(1, 5):
        day = f"2020-01-0{number}"
        file = data_file(made, {number: f"v{number}"}, partition=day)
        commit(made, [message(made, file, partition=day)], overwrite=OverwriteSpec.static())
    return made


def call(sql: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql.sql(f"CALL sys.{text}").collect()]


def name(table: FileStoreTable) -> str:
    return "db." + table.path.rpartition("/")[2]


def orphan(table: FileStoreTable, *, old: bool = True) -> Path:
    path = Path(table.path) / "dt=2020-01-04" / "bucket-0" / "data-left.parquet"
    path.write_bytes(b"0123456789")
    if old:
        os.utime(path, (1_500_000_000, 1_500_000_000))
    return path


def test_snapshots(sql: SparkSession, table: FileStoreTable) -> None:
    of = name(table)
    assert call(sql, f"expire_snapshots(table => '{of}')") == [(0,)]
    assert call(sql, f"expire_snapshots('{of}', 2, 1, null, 1)") == [(1,)]
    with pytest.raises(IllegalArgumentException, match=r"retainMax \(2\) must not be less than retainMin \(10\)"):
        call(sql, f"expire_snapshots(table => '{of}', retain_max => 2)")
    older = "older_than => '2020-01-01 00:00:00'"
    assert call(sql, f"expire_snapshots(table => '{of}', retain_min => 1, {older})") == [(0,)]
    later = f"older_than => '{datetime.now() + timedelta(minutes=1):%Y-%m-%d %H:%M:%S}'"
    assert call(sql, f"expire_snapshots(table => '{of}', retain_min => 2, {later})") == [(1,)]
    options = "options => 'snapshot.num-retained.min=1, snapshot.num-retained.max=1'"
    assert call(sql, f"expire_snapshots(table => '{of}', {options})") == [(1,)]
    assert table.snapshots.ids() == [4]
    assert sql.sql(f"CALL sys.expire_snapshots('{of}')").schema.simpleString() == "struct<deleted_snapshots_count:int>"
    assert call(sql, f"expire_changelogs(table => '{of}', delete_all => true)") == [(0,)]


def test_partitions(sql: SparkSession, table: FileStoreTable) -> None:
    of = name(table)
    table = load_table(table.path)
    commit(table, [message(table, data_file(table, {9: "v"}, partition="9999-01-01"), partition="9999-01-01")])
    with pytest.raises(IllegalArgumentException, match="Both the partition expiration time and partition field"):
        call(sql, f"expire_partitions(table => '{of}')")
    expired = call(sql, f"expire_partitions(table => '{of}', expiration_time => '1 d')")
    assert expired == [("dt=2020-01-04",)]
    assert call(sql, f"expire_partitions(table => '{of}', expiration_time => '1 d')") == [("No expired partitions.",)]
    update = "expiration_time => '1 d', expire_strategy => 'update-time', max_expires => 1"
    assert call(sql, f"expire_partitions(table => '{of}', {update})") == [("No expired partitions.",)]
    assert rows(table) == {9: "v"}
    opened = paimon_spark.PaimonTable.for_path(sql, table.path)
    assert opened.expire_partitions(partition_expiration_time="1 d") == []


@pytest.mark.parametrize("mode", ["local", "DISTRIBUTED"])
def test_orphan_files(sql: SparkSession, table: FileStoreTable, mode: str) -> None:
    of, left = name(table), orphan(table)
    tags.create_tag(table, "kept", snapshot_id=2)
    before = table_files(table)
    how = f"mode => '{mode}', parallelism => 2"
    assert call(sql, f"remove_orphan_files(table => '{of}', dry_run => true, {how})") == [(1, 10)]
    assert left.exists()
    assert call(sql, f"remove_orphan_files(table => '{of}', {how})") == [(1, 10)]
    assert not left.exists()
    assert call(sql, f"remove_orphan_files(table => '{of}', {how})") == [(0, 0)]
    assert before - table_files(table) == {"dt=2020-01-04/bucket-0/data-left.parquet"}
    with pytest.raises(IllegalArgumentException, match="Unknown mode: near"):
        call(sql, f"remove_orphan_files(table => '{of}', mode => 'near')")


@pytest.mark.thorough
def test_a_job_takes_what_a_branch_left(sql: SparkSession, table: FileStoreTable) -> None:
    """Files that manifests mention as deleted, and that nothing has any more."""
    opened = paimon_spark.PaimonTable.for_path(sql, table.path)
    opened.create_tag("two", snapshot_id=2)
    opened.create_branch("b", tag="two")
    opened.delete_tag("two")
    assert opened.expire_snapshots(retain_max=1, retain_min=1) == 3
    opened.delete_branch("b")
    left = {file for file in table_files(table) if file.startswith("dt=2020-01-02/")}
    assert len(left) == 1
    for path in Path(table.path).rglob("*"):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    reported = opened.remove_orphan_files(dry_run=True)
    assert opened.remove_orphan_files(mode="distributed") == reported
    assert not left & table_files(table)
    assert rows(table) == {4: "v4"}
    assert opened.remove_orphan_files() == RemovedFiles(0, 0)


@pytest.mark.thorough
def test_orphan_files_of_a_database(sql: SparkSession, table: FileStoreTable, warehouse: Path) -> None:
    sql.sql("CREATE DATABASE IF NOT EXISTS ex.all_of_it")
    left = []
    for number in (1, 2):
        made = make_table(warehouse / "all_of_it.db" / f"t{number}", partition=["dt"], bucket="-1")
        file = data_file(made, {1: "v"}, partition="2020-01-04")
        commit(made, [message(made, file, partition="2020-01-04")])
        left.append(orphan(made))
    other = orphan(table)
    assert call(sql, "remove_orphan_files(table => 'ex.all_of_it.*', mode => 'local')") == [(2, 20)]
    assert [path.exists() for path in (*left, other)] == [False, False, True]
    assert remove_orphan_files(
        sql, table, older_than=None, dry_run=False, mode="distributed", parallelism=None
    ) == RemovedFiles(1, 10)


def test_purge(sql: SparkSession, table: FileStoreTable) -> None:
    left = orphan(table, old=False)
    assert call(sql, f"purge_files('{name(table)}')") == [("Success",)]
    assert not left.exists()
    assert sql.table(f"ex.{name(table)}").count() == 0
    assert len(table.snapshots.ids()) == 1


def test_consumers(sql: SparkSession, table: FileStoreTable) -> None:
    of = name(table)
    for consumer, number in (("a1", 2), ("a2", 3), ("b", 4)):
        call_of = f"reset_consumer(table => '{of}', consumerId => '{consumer}', nextSnapshotId => {number})"
        assert call(sql, call_of) == [(True,)]
    opened = paimon_spark.PaimonTable.for_path(sql, table.path)
    assert opened.consumer_ids() == {"a1": 2, "a2": 3, "b": 4}
    assert call(sql, f"expire_snapshots('{of}', 1, 1)") == [(1,)]
    assert call(sql, f"reset_consumer('{of}', 'b')") == [(True,)]
    assert call(sql, f"clear_consumers('{of}', 'a.', '.2')") == [(True,)]
    assert opened.consumer_ids() == {"a2": 3}
    opened.reset_consumer("c", 4)
    assert opened.clear_consumers(including="c") == ["c"]


def test_after_writes(sql: SparkSession, warehouse: Path) -> None:
    sql.sql(
        "CREATE TABLE ex.db.auto (k INT, v STRING) TBLPROPERTIES ('bucket' = '-1', 'compaction.min.file-num' = '100', "
        "'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '2')"
    )
    table = load_table(str(warehouse / "db.db" / "auto"))
    for number in range(3):
        sql.sql(f"INSERT INTO ex.db.auto VALUES ({number}, 'sql')")
    assert table.snapshots.ids() == [2, 3]
    df = sql.sql("SELECT 7 k, 'df' v")
    df.write.format("paimon").mode("append").save(table.path)
    assert table.snapshots.ids() == [3, 4]
    df.write.format("paimon").mode("append").option("write-only", "true").save(table.path)
    assert table.snapshots.ids() == [3, 4, 5]
    paimon_spark.PaimonTable.for_path(sql, table.path).append(df)
    assert table.snapshots.ids() == [5, 6]
    sql.sql("TRUNCATE TABLE ex.db.auto")
    assert table.snapshots.ids() == [6, 7]
