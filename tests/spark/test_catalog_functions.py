"""What the SQL catalog says of functions: those of the namespace ``sys``, and that it has no others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.storage.blob_descriptor import blob_view, descriptor

pytestmark = pytest.mark.spark

AS_DESCRIPTOR = ", 'blob-as-descriptor' = 'true'"
AS_VIEW = ", 'blob-view-field' = 'b'"


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """The session with the current database `functions.db`, whose tables are partitioned in several ways."""
    paimon_spark.register_catalog(spark, "functions", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE functions.db")
    spark.sql("USE functions.db")
    spark.sql("CREATE TABLE t (k INT, p INT, dt STRING) PARTITIONED BY (p, dt)")
    spark.sql("INSERT INTO t VALUES (1, 9, 'z'), (2, 10, 'a'), (3, 10, 'b'), (4, NULL, 'c')")
    spark.sql("CREATE TABLE days (k INT, day DATE) PARTITIONED BY (day)")
    spark.sql("INSERT INTO days VALUES (1, DATE'2024-01-31'), (2, DATE'2023-12-31')")
    spark.sql("CREATE TABLE plain (k INT)")
    spark.sql("CREATE TABLE empty (k INT, dt STRING) PARTITIONED BY (dt)")
    yield spark
    spark.sql("USE spark_catalog.default")


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(statement).collect())


def test_max_pt(catalog: SparkSession) -> None:
    assert rows(catalog, "SELECT sys.max_pt('t'), functions.sys.max_pt('db.days')") == [("10", "2024-01-31")]
    assert rows(catalog, "SELECT k FROM t WHERE p = SYS.MAX_PT('functions.db.t')") == [(2,), (3,)]
    catalog.sql("ALTER TABLE days DROP PARTITION (day = '2024-01-31')")
    query = "SELECT k FROM days WHERE day = sys.max_pt('days')"
    assert rows(catalog, query) == [(2,)]
    catalog.sql("INSERT INTO days VALUES (3, DATE'2025-01-01')")
    assert rows(catalog, query) == [(3,)]
    assert "files=1" in str(catalog.sql(f"EXPLAIN {query}").head())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'plain'", "not a partitioned table"),
        ("'empty'", "has no partitions yet"),
        ("'nope'", "no Paimon table"),
        ("CAST(NULL AS STRING)", "cannot be null"),
        ("1", "takes one text"),
        ("", "takes one text"),
    ],
)
def test_max_pt_of_what_has_none(catalog: SparkSession, arguments: str, words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        catalog.sql(f"SELECT sys.max_pt({arguments})").collect()


@pytest.mark.parametrize("name", ["nope", "sys.nope", "functions.db.nope", "max_pt"])
def test_other_functions_are_unknown(catalog: SparkSession, name: str) -> None:
    with pytest.raises(PySparkException) as error:
        catalog.sql(f"SELECT {name}('t')")
    assert error.value.getCondition() == "UNRESOLVED_ROUTINE"


BLOBS = "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'blob-field' = 'b'{})"


def test_descriptors(catalog: SparkSession, warehouse: Path) -> None:
    uri = f"file:{warehouse}/ä value"
    (warehouse / "ä value").write_bytes(b"hello")
    of_rows = f"sys.path_to_descriptor(u) FROM (SELECT explode(array('{uri}')) u)"  # no constant
    constant, moved = catalog.sql(f"SELECT sys.path_to_descriptor('{uri}'), {of_rows}").collect()[0]
    assert bytes(constant) == bytes(moved) == descriptor(uri, 0, -1)
    assert rows(catalog, "SELECT sys.path_to_descriptor(CAST(NULL AS STRING))") == [(None,)]
    catalog.sql(f"CREATE TABLE described (k INT, b BINARY) {BLOBS.format(AS_DESCRIPTOR)}")
    catalog.sql(f"INSERT INTO described VALUES (1, sys.path_to_descriptor('{uri}')), (2, X'01'), (3, NULL)")
    catalog.sql(f"INSERT INTO described SELECT 4, {of_rows}")
    shown = dict(rows(catalog, "SELECT k, sys.descriptor_to_string(b) FROM described"))
    assert shown.pop(3) is None
    assert all(
        re.fullmatch(r"BlobDescriptor\{version=2, uri='.*\.blob', offset=\d+, length=\d}", text)
        for text in shown.values()
    )
    catalog.sql("ALTER TABLE described SET TBLPROPERTIES ('blob-as-descriptor' = 'false')")
    assert [(k, b and bytes(b)) for k, b in rows(catalog, "SELECT k, b FROM described")] == [
        (1, b"hello"),
        (2, b"\x01"),
        (3, None),
        (4, b"hello"),
    ]


def test_descriptors_as_text(catalog: SparkSession) -> None:
    old = b"\x01" + descriptor("x'y", 3, 9)[9:]  # the first version has no magic number
    cases = [descriptor("s3://b/ö", 1 << 40, -1), old, descriptor("", 0, 0)]
    for case in cases:
        for value in (f"X'{case.hex()}'", f"unhex('{case.hex()}')"):
            version = case[0]
            uri, offset, length = {cases[0]: ("s3://b/ö", 1 << 40, -1), old: ("x'y", 3, 9), cases[2]: ("", 0, 0)}[case]
            text = f"BlobDescriptor{{version={version}, uri='{uri}', offset={offset}, length={length}}}"
            assert rows(catalog, f"SELECT sys.descriptor_to_string({value}) FROM plain RIGHT JOIN range(1)") == [
                (text,)
            ]
    for damaged in (b"\x02abc", descriptor("abc", 0, 0)[:-1], b"", b"\x03" + cases[0][1:]):
        with pytest.raises(PySparkException, match="no descriptor of a BLOB value"):
            catalog.sql(f"SELECT sys.descriptor_to_string(X'{damaged.hex()}')").collect()


def test_views_of_blobs(catalog: SparkSession) -> None:
    catalog.sql(f"CREATE TABLE source (k INT, b BINARY) {BLOBS.format('')}")
    catalog.sql("INSERT INTO source VALUES (1, X'0A'), (2, X'0B')")
    catalog.sql(f"CREATE TABLE views (k INT, b BINARY) {BLOBS.format(AS_VIEW)}")
    named = "sys.blob_view('source', 'b', _ROW_ID)"
    catalog.sql(f"INSERT INTO views SELECT k, {named} FROM `source$row_tracking`")
    assert [(k, bytes(b)) for k, b in rows(catalog, "SELECT * FROM views")] == [(1, b"\x0a"), (2, b"\x0b")]
    given = rows(
        catalog,
        "SELECT sys.blob_view('functions.db.source', 'b', 1L), sys.blob_view('source', 'b', CAST(NULL AS BIGINT))",
    )
    assert [(bytes(one), none) for one, none in given] == [(blob_view("db.source", 1, 1), None)]
    for call, words in {
        "'source', 'k', 1L": "is not a BLOB field",
        "'source', 'z', 1L": "Cannot find blob field z",
        "concat('source', k), 'b', 1L": "must be a literal",
        "'source', 1, 1L": "is called as blob_view",
    }.items():
        with pytest.raises(PySparkException, match=words):
            catalog.sql(f"SELECT sys.blob_view({call}) FROM source").collect()


def test_buckets(catalog: SparkSession) -> None:
    for kind, function in (("default", "bucket"), ("mod", "mod_bucket")):
        options = f"'bucket' = '7', 'bucket-key' = 'k', 'bucket-function.type' = '{kind}'"
        catalog.sql(f"CREATE TABLE {function}s (k BIGINT, s STRING) TBLPROPERTIES ({options})")
        catalog.sql(f"INSERT INTO {function}s SELECT id, concat('s', id) FROM range(40)")
        assert rows(catalog, f"SELECT count(*) FROM {function}s WHERE sys.{function}(7, k) = __paimon_bucket") == [
            (40,)
        ]
    assert len(rows(catalog, "SELECT DISTINCT sys.bucket(5, s, k) FROM buckets")) == 5
    with pytest.raises(PySparkException, match="no expression of Spark's functions"):
        catalog.sql("SELECT sys.bucket(5, array(k)) FROM buckets").collect()


@pytest.mark.parametrize("name", ["try_descriptor_to_presigned_url", "descriptor_to_presigned_url", "hive_bucket"])
def test_functions_that_are_refused_by_name(catalog: SparkSession, name: str) -> None:
    with pytest.raises(Exception, match=f"Function sys.{name} is not supported"):
        catalog.sql(f"SELECT sys.{name}('t', X'00', INTERVAL '1' SECOND)").collect()


def test_functions_of_the_session(catalog: SparkSession) -> None:
    catalog.sql("CREATE TEMPORARY FUNCTION one_more(x INT) RETURNS INT RETURN x + 1")
    assert rows(catalog, "SELECT one_more(k) FROM t WHERE p = 9") == [(2,)]
    assert {"abs", "one_more"} <= {function.name for function in catalog.catalog.listFunctions()}
    assert catalog.catalog.functionExists("sys.max_pt")
    assert not catalog.catalog.functionExists("sys.nope")
