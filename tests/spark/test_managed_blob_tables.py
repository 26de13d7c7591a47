"""Tables with primary keys and BLOB columns, by SQL and DataFrames: written, changed, compacted, streamed, cloned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.storage.blob_descriptor import descriptor
from paimon_spark.table.table import load_table
from tests.support.managed import managed_blob_names, references_of

pytestmark = [pytest.mark.spark, pytest.mark.catalog("managed")]


@pytest.fixture(params=["catalog", "statement"])
def sql(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Callable[[str], list[object]]:
    """Runs SQL by the catalog, or as a session without one does."""
    if request.param == "catalog":
        return lambda text: spark.sql(text).collect()
    return lambda text: paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="managed").collect()


def test_statements(sql: Callable[[str], list[object]], warehouse: Path) -> None:
    sql("DROP TABLE IF EXISTS managed.db.t")
    sql(
        "CREATE TABLE managed.db.t (k INT NOT NULL, v STRING, pic BINARY, pics ARRAY<BINARY>) TBLPROPERTIES "
        "('primary-key'='k', 'bucket'='2', 'blob-field'='pic,pics')"
    )
    path = str(warehouse / "db.db" / "t")
    sql(
        "INSERT INTO managed.db.t VALUES (1, 'a', X'01', array(X'0A', NULL)), (2, 'b', NULL, NULL), "
        "(3, 'c', X'', array())"
    )
    sql("UPDATE managed.db.t SET v = 'B', pic = X'0202' WHERE k = 2")
    sql("DELETE FROM managed.db.t WHERE k = 3")
    sql(
        "MERGE INTO managed.db.t USING (SELECT 1 AS k, X'FF' AS p UNION ALL SELECT 4, X'04') s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET pic = s.p WHEN NOT MATCHED THEN INSERT (k, v, pic) VALUES (s.k, 'd', s.p)"
    )
    wanted = [(1, "a", b"\xff", [b"\x0a", None]), (2, "B", b"\x02\x02", None), (4, "d", b"\x04", None)]
    assert sorted(map(tuple, sql("SELECT * FROM managed.db.t"))) == wanted
    sql("CALL managed.sys.compact(table => 'db.t')")
    assert sorted(map(tuple, sql("SELECT * FROM managed.db.t"))) == wanted
    assert sorted(map(tuple, sql("SELECT k, length(pic) FROM managed.db.t WHERE k > 1"))) == [(2, 2), (4, 1)]
    assert [tuple(row) for row in sql("SELECT k FROM managed.db.t WHERE pic = X'0202'")] == [(2,)]
    named = {blob_file.name for blob_files in references_of(path).values() for blob_file in blob_files}
    assert named < set(managed_blob_names(path))
    sql("DROP TABLE IF EXISTS managed.db.c")
    sql("CALL managed.sys.copy(source_table => 'db.t', target_table => 'db.c')")
    sql("DROP TABLE managed.db.t")
    assert sorted(map(tuple, sql("SELECT * FROM managed.db.c"))) == wanted
    sql("INSERT OVERWRITE managed.db.c VALUES (1, 'z', X'77', NULL)")
    sql("CALL managed.sys.expire_snapshots(table => 'db.c', retain_max => 1, retain_min => 1)")
    copied = warehouse / "db.db" / "c"
    for file in copied.rglob("bucket-*/*"):
        os.utime(file, (0, 1))
    many = managed_blob_names(copied)
    sql("CALL managed.sys.remove_orphan_files(table => 'db.c', mode => 'distributed')")
    left = managed_blob_names(copied)
    assert len(left) == 1 < len(many)
    assert [blob_file.name for blob_files in references_of(str(copied)).values() for blob_file in blob_files] == left
    assert sorted(map(tuple, sql("SELECT * FROM managed.db.c"))) == [(1, "z", b"w", None)]


@pytest.mark.parametrize(
    "options",
    [
        "'primary-key'='p,k', 'bucket'='-2'",
        "'primary-key'='p,k', 'bucket'='-2', 'postpone.batch-write-fixed-bucket'='false'",
        "'primary-key'='k', 'bucket'='-1'",
    ],
)
def test_buckets_that_need_a_job(spark: SparkSession, warehouse: Path, options: str) -> None:
    spark.sql("DROP TABLE IF EXISTS managed.db.b")
    spark.sql(
        "CREATE TABLE managed.db.b (p INT NOT NULL, k INT NOT NULL, pic BINARY, v INT) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('blob-field'='pic', {options})"
    )
    path = str(warehouse / "db.db" / "b")
    for turn in range(2):
        rows = [(1 if k % 2 else 2, k, bytes([turn]) * (k + 1), turn) for k in range(turn * 5, 10)]
        spark.createDataFrame(rows, "p INT, k INT, pic BINARY, v INT").writeTo("managed.db.b").append()
        if "false" in options:
            spark.sql("CALL managed.sys.compact(table => 'db.b')")
    found = {k: (len(pic), pic[0], v) for _, k, pic, v in spark.table("managed.db.b").collect()}
    assert found == {k: (k + 1, k // 5, k // 5) for k in range(10)}
    named = {blob_file.name for blob_files in references_of(path).values() for blob_file in blob_files}
    assert named <= set(managed_blob_names(path))


def test_deletes_of_described_values(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE managed.db.described (k INT NOT NULL, v INT, d BINARY, pic BINARY) TBLPROPERTIES "
        "('primary-key'='k', 'bucket'='1', 'blob-descriptor-field'='d', 'blob-field'='pic')"
    )
    (warehouse / "file").write_bytes(b"0123")
    rows = [(k, k, bytearray(descriptor(str(warehouse / "file"), k, 1)), bytearray(b"p")) for k in range(3)]
    spark.createDataFrame(rows, "k INT, v INT, d BINARY, pic BINARY").writeTo("managed.db.described").append()
    spark.sql("DELETE FROM managed.db.described WHERE v = 1")
    assert sorted(map(tuple, spark.table("managed.db.described").collect())) == [(0, 0, b"0", b"p"), (2, 2, b"2", b"p")]
    spark.conf.set("spark.paimon.blob-as-descriptor", "true")
    try:
        spark.sql("UPDATE managed.db.described SET v = 9 WHERE k = 2")
    finally:
        spark.conf.unset("spark.paimon.blob-as-descriptor")
    assert sorted(map(tuple, spark.table("managed.db.described").collect())) == [(0, 0, b"0", b"p"), (2, 9, b"2", b"p")]


def test_streams(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    for name in ("source", "target"):
        spark.sql(
            f"CREATE TABLE managed.db.{name} (k INT NOT NULL, pic BINARY, v INT) TBLPROPERTIES "
            "('primary-key'='k', 'bucket'='1', 'blob-field'='pic')"
        )
    spark.sql("INSERT INTO managed.db.source VALUES (1, X'01', 1), (2, X'0202', 2)")
    spark.sql("INSERT INTO managed.db.source VALUES (1, X'0101', 3)")
    query = (
        spark.readStream.table("managed.db.source")
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path))
        .toTable("managed.db.target")
    )
    query.awaitTermination(120)
    assert sorted(map(tuple, spark.table("managed.db.target").collect())) == [(1, b"\x01\x01", 3), (2, b"\x02\x02", 2)]
    mine = load_table(str(warehouse / "db.db" / "target"))
    named = {blob_file.directory for blob_files in references_of(mine.path).values() for blob_file in blob_files}
    assert named == {f"{mine.path}/bucket-0"}
