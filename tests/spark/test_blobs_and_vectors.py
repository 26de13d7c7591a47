"""BLOB and VECTOR columns, which SQL names by options: made, written and read by every entry point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonError
from paimon_spark.storage.blob_descriptor import blob_view, descriptor
from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("blobs")]

DATA_EVOLUTION = "'row-tracking.enabled'='true', 'data-evolution.enabled'='true'"


@pytest.fixture(params=["catalog", "statement"])
def sql(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Callable[[str], list[object]]:
    """Runs SQL by the catalog, or as a session without one does."""
    if request.param == "catalog":
        return lambda text: spark.sql(text).collect()
    return lambda text: paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="blobs").collect()


def test_blobs_and_vectors(sql: Callable[[str], list[object]], warehouse: Path, spark: SparkSession) -> None:
    sql("DROP TABLE IF EXISTS blobs.db.t")
    sql(
        "CREATE TABLE blobs.db.t (k INT, pic BINARY, emb ARRAY<FLOAT>) TBLPROPERTIES ('blob-field'='pic', "
        f"'vector-field'='emb', 'field.emb.vector-dim'='2', {DATA_EVOLUTION})"
    )
    path = str(warehouse / "db.db" / "t")
    assert [field.type.sql() for field in load_table(path).schema.fields] == ["INT", "BLOB", "VECTOR<FLOAT, 2>"]
    sql("INSERT INTO blobs.db.t VALUES (1, X'0102', array(float(0.5), float(1))), (2, NULL, NULL)")
    rows = spark.createDataFrame([(3, bytearray(b"x" * 5000), [2.0, 3.0])], "k INT, pic BINARY, emb ARRAY<FLOAT>")
    rows.write.format("paimon").mode("append").save(path)
    wanted = [(1, b"\x01\x02", [0.5, 1.0]), (2, None, None), (3, b"x" * 5000, [2.0, 3.0])]
    for found in (sql("SELECT * FROM blobs.db.t"), spark.read.format("paimon").load(path).collect()):
        assert sorted(map(tuple, found)) == wanted
    assert sorted(map(tuple, sql("SELECT k, length(pic) FROM blobs.db.t WHERE k > 1"))) == [(2, None), (3, 5000)]
    assert sorted(map(tuple, sql("SELECT count(*) FROM blobs.db.t"))) == [(3,)]
    with pytest.raises((PySparkException, PaimonError), match="cannot hold an array of 1"):
        sql("INSERT INTO blobs.db.t VALUES (4, NULL, array(float(1)))")


def test_types_that_do_not_fit_are_reported(sql: Callable[[str], list[object]]) -> None:
    for options, text in (
        (f"'blob-field'='k', {DATA_EVOLUTION}", "must be binary"),
        ("'blob-field'='pic'", "ata evolution config must enabled"),
        ("'vector-field'='emb'", "vector-dim"),
        ("'vector-field'='emb', 'field.emb.vector-dim'='x'", "for 'field.emb.vector-dim', but got: x\\."),
        ("'vector-field'='emb', 'field.emb.vector-dim'=' '", "for 'field.emb.vector-dim', but got empty value"),
        ("'vector-field'='k', 'field.k.vector-dim'='2'", "must be array, but is int"),
    ):
        with pytest.raises((PySparkException, PaimonError), match=text):
            sql(f"CREATE TABLE blobs.db.bad (k INT, pic BINARY, emb ARRAY<FLOAT>) TBLPROPERTIES ({options})")


def test_arrays_and_maps_of_blobs(sql: Callable[[str], list[object]], warehouse: Path) -> None:
    sql("DROP TABLE IF EXISTS blobs.db.many")
    sql(
        "CREATE TABLE blobs.db.many (k INT, pics ARRAY<BINARY> COMMENT '__BLOB_FIELD; pictures', "
        f"parts MAP<STRING, BINARY>, v INT) TBLPROPERTIES ('blob-field'='parts', {DATA_EVOLUTION})"
    )
    assert load_table(str(warehouse / "db.db" / "many")).schema.field("pics").description == "pictures"
    kinds = [field.type.sql() for field in load_table(str(warehouse / "db.db" / "many")).schema.fields]
    assert kinds == ["INT", "ARRAY<BLOB>", "MAP<STRING NOT NULL, BLOB>", "INT"]
    sql("INSERT INTO blobs.db.many VALUES (1, array(X'01', NULL), map('a', X'02'), 1), (2, NULL, map(), 2)")
    sql("UPDATE blobs.db.many SET pics = array(X'03'), v = 5 WHERE k = 2")
    found = [(k, pics, parts, v) for k, pics, parts, v in sql("SELECT * FROM blobs.db.many")]  # type: ignore[misc]
    assert sorted(found) == [(1, [b"\x01", None], {"a": b"\x02"}, 1), (2, [b"\x03"], {}, 5)]


def test_descriptors_and_views(sql: Callable[[str], list[object]], warehouse: Path, spark: SparkSession) -> None:
    for name in ("described", "source"):
        sql(f"DROP TABLE IF EXISTS blobs.db.{name}")
    sql(f"CREATE TABLE blobs.db.source (k INT, pic BINARY COMMENT '__BLOB_FIELD') TBLPROPERTIES ({DATA_EVOLUTION})")
    sql("INSERT INTO blobs.db.source VALUES (1, X'01'), (2, X'0202'), (3, NULL)")
    sql(
        "CREATE TABLE blobs.db.described (k INT, d BINARY COMMENT '__BLOB_DESCRIPTOR_FIELD') "
        f"TBLPROPERTIES ({DATA_EVOLUTION})"
    )
    sql("ALTER TABLE blobs.db.described ADD COLUMN v BINARY COMMENT '__BLOB_VIEW_FIELD; of source'")
    path = str(warehouse / "db.db" / "source")
    locations = spark.read.format("paimon").option("blob-as-descriptor", "true").load(path).collect()
    rows = [(k, location, bytearray(blob_view("db.source", 1, k - 1))) for k, location in sorted(locations)]
    target = str(warehouse / "db.db" / "described")
    frame = spark.createDataFrame(rows, "k INT, d BINARY, v BINARY")
    frame.write.format("paimon").mode("append").save(target)
    wanted = [(1, b"\x01", b"\x01"), (2, b"\x02\x02", b"\x02\x02"), (3, None, None)]
    for found in (sql("SELECT * FROM blobs.db.described"), spark.read.format("paimon").load(target).collect()):
        assert sorted(map(tuple, found)) == wanted
    assert [tuple(row) for row in sql("SELECT k FROM blobs.db.described WHERE v = X'0202' AND d = X'0202'")] == [(2,)]
    assert [tuple(row) for row in sql("SELECT count(*) FROM blobs.db.described WHERE d IS NULL OR v = X'01'")] == [(2,)]
    outside = warehouse.parent / f"outside-{warehouse.name}"
    outside.write_bytes(b"outside")
    other = [(4, bytearray(descriptor(str(outside), 0, 3)), None)]
    spark.createDataFrame(other, frame.schema).write.format("paimon").mode("append").save(target)
    with pytest.raises((PySparkException, PaimonError), match="blob-descriptor-paths"):
        sql("SELECT * FROM blobs.db.described WHERE k = 4")
    read = spark.read.format("paimon").option("blob-descriptor-paths", str(warehouse.parent)).load(target)
    assert [tuple(row) for row in read.where("k = 4").collect()] == [(4, b"out", None)]
