"""System tables and branches, by path, as `PaimonTable` methods and in the catalog."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import UnsupportedError
from paimon_spark.table.system.registry import GLOBAL_TABLES, SYSTEM_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "systables"


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A warehouse with two tables that Java made: `db.t` with tags and a schema change, `db.b` with branches."""
    path = tmp_path_factory.mktemp("system_warehouse")
    (path / "db.db").mkdir()
    shutil.copytree(golden / "system_tables" / "table", path / "db.db" / "t")
    shutil.copytree(golden / "branches" / "table", path / "db.db" / "b")
    paimon_spark.register_catalog(spark, CATALOG, warehouse=str(path))
    spark.sql(f"USE {CATALOG}.db")
    yield path
    spark.sql("USE spark_catalog.default")


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_all_ways_give_the_same_rows(spark: SparkSession, warehouse: Path, name: str) -> None:
    path = f"{warehouse}/db.db/t"
    loaded = spark.read.format("paimon").load(f"{path}${name}")
    rows = loaded.collect()
    assert getattr(PaimonTable.for_path(spark, path), name)().collect() == rows
    selected = spark.table(f"`t${name}`")
    assert selected.schema == loaded.schema
    assert selected.collect() == rows
    assert selected.count() == len(rows)


def test_read_optimized(spark: SparkSession, warehouse: Path) -> None:
    path = f"{warehouse}/db.db/t"
    rows = sorted(map(repr, spark.read.format("paimon").load(f"{path}$ro").collect()))
    assert len(rows) == 70
    assert sorted(map(repr, spark.table("`t$ro`").collect())) == rows
    assert sorted(map(repr, PaimonTable.for_path(spark, path).read_optimized().collect())) == rows
    assert values(spark, "SELECT count(*) FROM `t$ro` WHERE k >= 0") == values(spark, "SELECT count(*) FROM `t$ro`")
    assert values(spark, "SELECT count(*) FROM t") == [(71,)]
    assert values(spark, "SELECT count(*) FROM `t$ro` VERSION AS OF 1") == [(0,)]
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql("INSERT INTO `t$ro` SELECT * FROM t")
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql("DELETE FROM `t$ro` WHERE true")
    assert values(spark, "SELECT count(*) FROM t") == [(71,)]


def test_row_tracking(spark: SparkSession, warehouse: Path, golden: Path) -> None:
    shutil.copytree(golden / "row_tracking" / "table", warehouse / "db.db" / "tracked")
    sql = "SELECT k, _ROW_ID, _SEQUENCE_NUMBER FROM `tracked$row_tracking` WHERE _ROW_ID BETWEEN 88 AND 91 ORDER BY 2"
    rows = values(spark, sql)
    assert [(row_id, number) for _, row_id, number in rows][2:] == [(90, 5), (91, 5)]
    tracked = PaimonTable.for_path(spark, f"{warehouse}/db.db/tracked")
    few = tracked.row_tracking(filter="_ROW_ID BETWEEN 88 AND 91", columns="k, _ROW_ID, _SEQUENCE_NUMBER")
    assert sorted(map(tuple, few.collect()), key=lambda row: row[1]) == rows
    assert values(spark, "SELECT count(*), max(_ROW_ID) FROM `tracked$row_tracking`") == [(100, 99)]


def values(spark: SparkSession, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


@pytest.mark.thorough
def test_they_travel(spark: SparkSession, warehouse: Path) -> None:
    assert values(spark, "SELECT count(*) FROM `t$files`") == [(5,)]
    assert values(spark, "SELECT count(*) FROM `t$files` VERSION AS OF 2") == [(8,)]
    assert values(spark, "SELECT sum(file_count) FROM `t$partitions` VERSION AS OF 't1'") == [(4,)]
    assert values(spark, "SELECT count(*) FROM `t$manifests` WITH ('scan.snapshot-id' = '2')") == [(2,)]
    assert spark.read.option("scan.tag-name", "t1").table("`t$files`").count() == 4
    assert PaimonTable.for_path(spark, f"{warehouse}/db.db/t").files(scan_snapshot_id=2).count() == 8
    with pytest.raises(PySparkException, match="77"):
        spark.sql("SELECT * FROM `t$files` VERSION AS OF 77").collect()


def test_filters_columns_and_joins(spark: SparkSession, warehouse: Path) -> None:
    reader = spark.read.format("paimon").option("columns", "bucket, level").option("filter", "record_count = 20")
    loaded = reader.load(f"{warehouse}/db.db/t$files")
    assert sorted(map(tuple, loaded.collect())) == [(0, 5), (0, 5)]
    sql = (
        "SELECT commit_kind, tag_name FROM `t$snapshots` s JOIN `t$tags` t USING (snapshot_id) WHERE record_count > 30"
    )
    assert values(spark, sql) == [("APPEND", "t2")]
    assert values(spark, "SELECT value FROM `t$OPTIONS` WHERE key = 'bucket'") == [("2",)]


@pytest.mark.thorough
def test_what_a_session_says_of_a_table_counts_for_its_system_tables(spark: SparkSession, warehouse: Path) -> None:
    key = f"spark.paimon.{CATALOG}.db.t.scan.snapshot-id"
    other = f"spark.paimon.{CATALOG}.db.tt.scan.snapshot-id"
    spark.conf.set(key, "2")
    spark.conf.set(other, "1")
    try:
        assert values(spark, "SELECT count(*) FROM `t$files`") == [(8,)]
        assert values(spark, "SELECT count(*) FROM `t$files` VERSION AS OF 't1'") == [(4,)]
        assert values(spark, "SELECT count(*) FROM `t$snapshots`") == [(5,)]
        assert values(spark, "SELECT sum(file_count) FROM `t$buckets` WITH ('scan.tag-name' = 't1')") == [(4,)]
    finally:
        spark.conf.unset(key)
        spark.conf.unset(other)
    assert values(spark, "SELECT count(*) FROM `t$files`") == [(5,)]


def test_the_tables_of_the_catalog(spark: SparkSession, warehouse: Path) -> None:
    assert values(spark, "SHOW TABLES IN sys") == [("sys", name, False) for name in sorted(GLOBAL_TABLES)]
    assert ("db", "t", True) in values(spark, "SELECT database_name, table_name, primary_key FROM sys.tables")
    options = f"SELECT key, value FROM {CATALOG}.sys.all_table_options WHERE table_name = 't' AND key = 'bucket'"
    assert values(spark, options) == [("bucket", "2")]
    assert values(spark, "SELECT value FROM sys.catalog_options WHERE key = 'warehouse'") == [(str(warehouse),)]
    sums = "SELECT sum(record_count), sum(file_count) FROM {} WHERE {}"
    assert values(spark, sums.format("sys.partitions", "table_name = 't'")) == values(
        spark, sums.format("`t$partitions`", "true")
    )
    assert spark.catalog.tableExists(f"{CATALOG}.sys.tables")
    assert not spark.catalog.tableExists(f"{CATALOG}.sys.nothing")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM sys.nothing")
    for statement in (
        "CREATE TABLE sys.mine (a INT)",
        "DROP TABLE sys.tables",
        "INSERT INTO sys.tables SELECT * FROM sys.tables",
    ):
        with pytest.raises((PySparkException, Py4JJavaError)):
            spark.sql(statement)


def test_the_tables_of_the_catalog_by_text(spark: SparkSession, warehouse: Path) -> None:
    """The front that Spark Connect has."""

    def by_text(statement: str) -> list[tuple[object, ...]]:
        rows = paimon_spark.sql(spark, statement, catalog=CATALOG, warehouse=str(warehouse)).collect()
        return [tuple(row) for row in rows]

    for name in GLOBAL_TABLES:
        statement = f"SELECT * FROM {CATALOG}.sys.{name} ORDER BY ALL"
        assert by_text(statement) == values(spark, statement)
        assert by_text(f"DESCRIBE {CATALOG}.sys.{name}") == values(spark, f"DESCRIBE {CATALOG}.sys.{name}")
    joined = f"SELECT count(*) FROM {CATALOG}.sys.tables t JOIN {CATALOG}.db.t ON t.table_name = 't'"
    assert by_text(joined) == values(spark, joined)
    for statement in (
        f"INSERT INTO {CATALOG}.sys.tables SELECT 1",
        f"DELETE FROM {CATALOG}.sys.tables",
        f"SELECT * FROM {CATALOG}.sys.tables VERSION AS OF 1",
    ):
        with pytest.raises(UnsupportedError, match=r"is for reading|has neither versions"):
            by_text(statement)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        by_text(f"SELECT * FROM {CATALOG}.sys.nothing")


def test_one_column_is_described_by_text_as_spark_does(spark: SparkSession, warehouse: Path) -> None:
    for clause in ("k", "K", "t.k", f"{CATALOG}.db.t.k"):
        statement = f"DESCRIBE {CATALOG}.db.t {clause}"
        shown = paimon_spark.sql(spark, statement, catalog=CATALOG, warehouse=str(warehouse))
        expected = spark.sql(statement)
        assert (shown.columns, shown.collect()) == (expected.columns, expected.collect())
    for clause, words in (("nothing", "UNRESOLVED_COLUMN"), ("k.x", "does not support nested column")):
        with pytest.raises(AnalysisException, match=words):
            paimon_spark.sql(spark, f"DESCRIBE {CATALOG}.db.t {clause}", catalog=CATALOG, warehouse=str(warehouse))


def test_a_second_query_sees_what_came_in_between(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE grows (k INT)")
    sql = "SELECT snapshot_id, delta_record_count FROM `grows$snapshots`"
    assert values(spark, sql) == []
    spark.sql("INSERT INTO grows VALUES (1), (2)")
    assert values(spark, sql) == [(1, 2)]


def test_branches_are_tables(spark: SparkSession, warehouse: Path) -> None:
    names = [name for (name,) in values(spark, "SELECT branch_name FROM `b$branches`")]
    assert "b" in names
    by_path = spark.read.format("paimon").load(f"{warehouse}/db.db/b$branch_b")
    in_catalog = spark.table("`b$branch_b`")
    assert in_catalog.schema.names == by_path.schema.names
    assert sorted(map(repr, in_catalog.collect())) == sorted(map(repr, by_path.collect()))
    assert sorted(
        map(repr, spark.read.option("branch", "b").format("paimon").load(f"{warehouse}/db.db/b").collect())
    ) == (sorted(map(repr, by_path.collect())))
    of_branch = values(spark, "SELECT max(snapshot_id) FROM `b$branch_b$snapshots`")
    assert of_branch == [
        (max(int(p.name[9:]) for p in (warehouse / "db.db/b/branch/branch-b/snapshot").glob("snapshot-*")),)
    ]


@pytest.mark.thorough
def test_writes_to_a_branch_stay_there(spark: SparkSession, warehouse: Path) -> None:
    before = spark.table("b").count()
    of_branch = spark.table("`b$branch_b`").count()
    row = spark.table("`b$branch_b`").limit(1)
    row.writeTo(f"{CATALOG}.db.`b$branch_b`").append()
    assert spark.table("b").count() == before
    assert spark.table("`b$branch_b`").count() >= of_branch
    assert spark.table("`b$branch_b$snapshots`").where("commit_kind = 'APPEND'").count() > 0
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("`b$branch_nope`")


def test_they_are_for_reading(spark: SparkSession, warehouse: Path) -> None:
    for statement in (
        "INSERT INTO `t$options` VALUES ('a', 'b')",
        "DROP TABLE `t$snapshots`",
        "ALTER TABLE `t$snapshots` ADD COLUMN x INT",
        "ALTER TABLE `t$snapshots` SET TBLPROPERTIES ('a' = 'b')",
        "CREATE OR REPLACE TABLE `t$snapshots` (x INT)",
        "ALTER TABLE `t$snapshots` RENAME TO other",
        "TRUNCATE TABLE `t$files`",
    ):
        with pytest.raises((PySparkException, Py4JJavaError)):
            spark.sql(statement)
    assert spark.table("t").columns == ["p", "k", "v", "extra"]
    with pytest.raises(PySparkException, match="for reading"):
        spark.range(1).write.format("paimon").mode("append").save(f"{warehouse}/db.db/t$files")
    assert spark.table("t").count() == 71


def test_names_that_are_none(spark: SparkSession, warehouse: Path) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM `t$snapshotz`")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM `nope$snapshots`")
    with pytest.raises(PySparkException, match=r"does not support row tracking.*row-tracking\.enabled"):
        spark.sql("SELECT * FROM `t$row_tracking`").collect()
    assert not spark.catalog.tableExists("`t$snapshotz`")
    assert spark.catalog.tableExists("`t$snapshots`")
