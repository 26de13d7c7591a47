"""Changes through Spark: options, SQL, methods, table functions; on classic sessions all give the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import OptionError
from tests.support.golden import GoldenRead, golden_tables, row_multiset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CATALOG = "changes"
(LOOKUP,) = [table for table in golden_tables() if table.name == "changelog_lookup"]
READS = {read["id"]: GoldenRead(LOOKUP, read) for read in LOOKUP.expect["reads"]}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A catalog with tables that Java made: `db.t` with a changelog, `db.tags` with tags."""
    path = tmp_path_factory.mktemp("changes_warehouse")
    (path / "db.db").mkdir()
    shutil.copytree(golden / "changelog_lookup" / "table", path / "db.db" / "t")
    shutil.copytree(golden / "tags_and_expired_append" / "table", path / "db.db" / "tags")
    shutil.copytree(golden / "changelog_none" / "table", path / "db.db" / "silent")
    shutil.copytree(golden / "changelog_append" / "table", path / "db.db" / "appended")
    paimon_spark.register_catalog(spark, CATALOG, warehouse=str(path))
    spark.sql(f"USE {CATALOG}.db")
    yield path
    spark.sql("USE spark_catalog.default")


def assert_rows(df: DataFrame, read: str) -> None:
    assert row_multiset(df.toArrow()) == row_multiset(READS[read].rows())


def test_options_and_sql(spark: SparkSession, warehouse: Path) -> None:
    between = {"incremental-between": "2,9"}
    path = f"{warehouse}/db.db/t"
    assert_rows(spark.read.format("paimon").options(**between).load(path), "auto_2_9")
    assert_rows(spark.read.options(**between).table("t"), "auto_2_9")
    assert_rows(spark.sql("SELECT * FROM t WITH ('incremental-between' = '2,9')"), "auto_2_9")
    mode = "'incremental-between-scan-mode' = 'diff'"
    assert_rows(spark.sql(f"SELECT * FROM t WITH ('incremental-between' = '2,9', {mode})"), "diff_2_9")
    assert_rows(
        spark.sql(f"SELECT * FROM `t$audit_log` WITH ('incremental-between' = '2,9', {mode})"), "audit_diff_2_9"
    )
    assert_rows(spark.sql("SELECT * FROM `t$audit_log`"), "audit_log")
    assert_rows(spark.table("`t$binlog`"), "binlog")
    assert_rows(spark.table("t"), "latest")


def test_methods(spark: SparkSession, warehouse: Path) -> None:
    table = PaimonTable.for_path(spark, f"{warehouse}/db.db/t")
    assert_rows(table.changes(2, 9), "auto_2_9")
    assert_rows(table.changes(0), "auto_0_10")
    assert_rows(table.changes(1, 3, source="delta"), "delta_1_3")
    assert_rows(table.changes(2, 9, source="diff", with_kinds=True), "audit_diff_2_9")
    assert_rows(table.audit_log(incremental_between="1,3"), "audit_auto_1_3")
    assert_rows(table.binlog(), "binlog")
    start, end = (int(text) for text in READS["time_range"].options["incremental-between-timestamp"].split(","))
    times = [datetime.fromtimestamp(millis / 1000, UTC) for millis in (start, end)]
    assert_rows(table.changes(from_time=times[0], to_time=times[1]), "time_range")
    with pytest.raises(OptionError, match="exactly one of"):
        table.changes(1, from_time=times[0])
    with pytest.raises(OptionError, match="to_version with from_version"):
        table.changes(to_version=3, from_time=times[0])


def values(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


@pytest.mark.thorough
def test_table_functions(spark: SparkSession, warehouse: Path) -> None:
    assert_rows(spark.sql("SELECT * FROM paimon_incremental_query('t', '2', '9')"), "auto_2_9")
    assert_rows(spark.sql("SELECT * FROM paimon_incremental_query('db.t', 2, 9)"), "auto_2_9")
    assert_rows(spark.sql(f"SELECT * FROM paimon_incremental_query('{CATALOG}.db.t', '1', '3')"), "auto_1_3")
    assert_rows(spark.sql("SELECT * FROM paimon_incremental_query('`t$audit_log`', '2', '9')"), "audit_auto_2_9")
    times = READS["time_range"].options["incremental-between-timestamp"].replace(",", "', '")
    assert_rows(spark.sql(f"SELECT * FROM paimon_incremental_between_timestamp('t', '{times}')"), "time_range")
    assert values(spark, "SELECT count(*) FROM paimon_incremental_query('tags', 'first', 'third')") == [
        (golden_rows("incremental_tags"),)
    ]
    joined = "SELECT count(*) FROM paimon_incremental_query('t', 2, 9) x JOIN t ON x.k = t.k WHERE x.k < 5"
    assert values(spark, joined)[0][0] > 0


def golden_rows(read: str) -> int:
    (tags,) = [table for table in golden_tables() if table.name == "tags_and_expired_append"]
    (found,) = [found for found in tags.expect["reads"] if found["id"] == read]
    return int(found["count"])


def test_automatic_tags(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE auto (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')")
    for number, tag in enumerate(("2024-12-01", "2024-12-02", "2024-12-04"), 1):
        spark.sql(f"INSERT INTO auto VALUES ({number}, 'v{number}')")
        spark.sql(f"CALL sys.create_tag('db.auto', '{tag}')")
    found = {
        tag: values(spark, f"SELECT a FROM paimon_incremental_to_auto_tag('auto', '{tag}')")
        for tag in ("2024-12-01", "2024-12-02", "2024-12-03", "2024-12-04")
    }
    assert found == {"2024-12-01": [], "2024-12-02": [(2,)], "2024-12-03": [], "2024-12-04": [(3,)]}
    with pytest.raises(PySparkException, match="not an auto-created tag"):
        spark.sql("SELECT * FROM paimon_incremental_to_auto_tag('auto', 'monday')").collect()


def plan_of(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


def test_filters_and_columns_are_pushed_down(spark: SparkSession, warehouse: Path) -> None:
    df = spark.sql("SELECT v FROM paimon_incremental_query('t', 2, 9) WHERE k = 7")
    assert "columns=[k, v], filter=[k = 7]" in plan_of(df).replace("`", "")
    assert "changes=changelog of snapshots 3 to 9" in plan_of(df)
    audit = spark.sql("SELECT v FROM `t$audit_log` WHERE k = 7 AND rowkind = '-D'")
    assert "rowkind = '-D'" in plan_of(audit).replace("`", "")
    everything = READS["audit_auto_2_9"].rows().to_pylist()
    wanted = sorted(repr(row["v"]) for row in everything if row["rowkind"] == "+U" and row["k"] < 20)
    sql = "SELECT v FROM paimon_incremental_query('`t$audit_log`', 2, 9) WHERE rowkind = '+U' AND k < 20"
    assert sorted(repr(row[0]) for row in values(spark, sql)) == wanted
    assert wanted


def test_counts_are_of_the_changes(spark: SparkSession, warehouse: Path) -> None:
    rows = READS["auto_2_9"].rows()
    assert values(spark, "SELECT count(*) FROM t WITH ('incremental-between' = '2,9')") == [(rows.num_rows,)]
    assert values(spark, "SELECT max(k) FROM `t$audit_log` WITH ('incremental-between' = '2,9')") == [
        (max(rows["k"].to_pylist()),)
    ]
    assert len(spark.sql("SELECT * FROM paimon_incremental_query('t', 2, 9) LIMIT 3").collect()) == 3


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("paimon_incremental_query('t', 1)", "needs the name of a table and 2 more parameters"),
        ("paimon_incremental_query('t', NULL, 2)", "not NULL"),
        ("paimon_incremental_query('t', 5, 99)", r"out of available snapshotId range \[1, 10\]"),
        ("paimon_incremental_query('t', 5, 4)", "should be >= starting snapshotId 5"),
        ("paimon_incremental_query('tags', 'first', '4')", "not two snapshot Ids.*The tags are: .*first"),
        ("paimon_incremental_query('nothing', 1, 2)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("paimon_incremental_query('spark_catalog.default.x', 1, 2)", "reads tables of a Paimon catalog"),
        ("t WITH ('incremental-between' = '1,2', 'incremental-to-auto-tag' = 'x')", "must set only one key"),
        ("t WITH ('incremental-between' = '1,2', 'scan.snapshot-id' = '3')", "must be null when you set"),
        ("`t$audit_log` WITH ('table-read.sequence-number.enabled' = 'true')", "not supported by hint"),
    ],
)
def test_what_cannot_be_read(spark: SparkSession, warehouse: Path, sql: str, message: str) -> None:
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        spark.sql(f"SELECT * FROM {sql}").collect()


@pytest.mark.thorough
def test_new_sessions_know_the_functions(spark: SparkSession, warehouse: Path) -> None:
    other = spark.newSession()
    sql = f"SELECT count(*) FROM paimon_incremental_query('{CATALOG}.db.t', 2, 9)"
    assert values(other, sql) == [(READS["auto_2_9"].read["count"],)]
    paimon_spark.register(spark)


CHANGES = {
    "count(*) FROM t CHANGES FROM VERSION 3 TO VERSION 9": 83,
    "count(*) FROM t CHANGES FROM VERSION 2 EXCLUSIVE TO VERSION 9": 83,
    "count(*) FROM t CHANGES FROM VERSION 1": 154,
    "count(*) FROM appended CHANGES FROM VERSION 1 TO VERSION 2": 60,
    "count(*) FROM t CHANGES FROM TIMESTAMP '2020-01-01 00:00:00'": 154,
}
REFUSED_CHANGES = {
    "* FROM silent CHANGES FROM VERSION 3 TO VERSION 4": "CHANGES needs a changelog",
    "* FROM appended CHANGES FROM VERSION 1 TO VERSION 6": "is an overwrite",
    "* FROM t CHANGES FROM VERSION 3 TO VERSION 99": "out of available snapshotId range",
    "* FROM t CHANGES FROM VERSION 'x' TO VERSION 9": "neither a snapshot's id nor a tag",
    "* FROM nope CHANGES FROM VERSION 3 TO VERSION 9": "TABLE_OR_VIEW_NOT_FOUND",
}


def test_changes_clause(spark: SparkSession, warehouse: Path) -> None:
    if tuple(int(part) for part in spark.version.split(".")[:2]) < (4, 3):
        with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
            spark.sql("SELECT * FROM t CHANGES FROM VERSION 3 TO VERSION 9")
        return
    assert {sql: values(spark, f"SELECT {sql}")[0][0] for sql in CHANGES} == CHANGES
    rows = values(spark, "SELECT k, v, n, _change_type, _commit_version FROM t CHANGES FROM VERSION 3 TO VERSION 9")
    kinds = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}
    audit = READS["audit_auto_2_9"].rows().to_pylist()
    assert sorted(map(repr, (row[:4] for row in rows))) == sorted(
        repr((row["k"], row["v"], row["n"], kinds[row["rowkind"]])) for row in audit
    )
    assert {row[4] for row in rows} <= set(range(3, 10))
    deleted = "SELECT k FROM t CHANGES FROM VERSION 3 TO VERSION 9 WHERE _change_type = 'delete' AND k < 9"
    wanted = sorted(row["k"] for row in audit if row["rowkind"] == "-D" and row["k"] < 9)
    assert sorted(row[0] for row in values(spark, deleted)) == wanted
    for sql, message in REFUSED_CHANGES.items():
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"SELECT {sql}").collect()
