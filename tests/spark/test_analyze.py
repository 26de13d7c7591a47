"""ANALYZE TABLE on both fronts and as a method; Java reads what it finds, Spark's optimiser uses it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonError, PaimonTable
from paimon_spark.spark.jobs import analyze
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.statistics import statistics_of
from paimon_spark.table.table import load_table
from tests.support.warehouses import FRONTS, Run, run_by, session_of

pytestmark = pytest.mark.spark
COLUMNS = (
    "id STRING NOT NULL, name STRING, byte_col BYTE, short_col SHORT, int_col INT, long_col LONG, float_col FLOAT, "
    "double_col DOUBLE, decimal_col DECIMAL(10, 5), boolean_col BOOLEAN, date_col DATE, timestamp_col TIMESTAMP, "
    "ntz_col TIMESTAMP_NTZ, binary_col BINARY, char_col CHAR(20), varchar_col VARCHAR(20)"
)
ROWS = """
('1', 'a', 1, 1, 1, 1, 1.0, 1.0, 12.12345, true, date'2020-01-01', timestamp'2020-01-01 00:00:00',
 timestamp_ntz'2020-01-01 00:00:00.5', binary('example binary1'), 'a', 'a'),
('2', 'aaa', 1, null, 1, 1, 1.0, 1.0, 12.12345, true, date'2020-01-02', timestamp'2020-01-02 00:00:00', null,
 binary('example binary1'), 'aaa', 'aaa'),
('3', 'bbbb', 2, 1, 1, 1, 1.0, 1.0, 22.12345, true, date'2020-01-02', timestamp'2020-01-02 00:00:00',
 timestamp_ntz'1969-12-31 23:59:59.25', null, 'bbbb', 'bbbb'),
('4', 'bbbbbbbb', 2, 2, 2, 2, 2.0, 2.5, 22.12345, false, date'2020-01-01', timestamp'2020-01-01 00:00:00', null,
 binary('example binary2'), 'bbbbbbbb', 'bbbbbbbb')
"""
FOUND: dict[str, tuple[Any, ...]] = {
    "id": (0, 4, None, None, 0, 1, 1),
    "name": (1, 4, None, None, 0, 4, 8),
    "byte_col": (2, 2, "1", "2", 0, 1, 1),
    "short_col": (3, 2, "1", "2", 1, 2, 2),
    "int_col": (4, 2, "1", "2", 0, 4, 4),
    "long_col": (5, 2, "1", "2", 0, 8, 8),
    "float_col": (6, 2, "1.0", "2.0", 0, 4, 4),
    "double_col": (7, 2, "1.0", "2.5", 0, 8, 8),
    "decimal_col": (8, 2, "12.12345", "22.12345", 0, 8, 8),
    "boolean_col": (9, 2, "false", "true", 0, 1, 1),
    "date_col": (10, 2, "18262", "18263", 0, 4, 4),
    "timestamp_col": (11, 2, "2020-01-01 00:00:00.000000", "2020-01-02 00:00:00.000000", 0, 8, 8),
    "ntz_col": (12, 2, "1969-12-31 23:59:59.250000", "2020-01-01 00:00:00.500000", 2, 8, 8),
    "binary_col": (13, 2, None, None, 1, 15, 15),
    "char_col": (14, 4, None, None, 0, 20, 20),
    "varchar_col": (15, 4, None, None, 0, 4, 8),
}
"""What Java's own test of ANALYZE expects; of the column without a zone, where Java fails, what the format says."""


@pytest.fixture(scope="module")
def session(spark: SparkSession, warehouse: Path) -> SparkSession:
    """A session that knows the same warehouse under the same name by both fronts."""
    found = session_of(spark, "an", warehouse)
    found.conf.set("spark.sql.session.timeZone", "UTC")
    found.sql(f"CREATE TABLE an.db.types ({COLUMNS}) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    found.sql(f"INSERT INTO an.db.types VALUES {ROWS}")
    return found


@pytest.fixture(params=FRONTS)
def run(session: SparkSession, request: pytest.FixtureRequest) -> Run:
    """Runs a statement by one of the two fronts."""
    return run_by(session, request.param)


def statistics(path: Path) -> Any:
    table = load_table(str(path))
    return statistics_of(table, table.snapshots.latest())


def test_all_types(session: SparkSession, run: Run, warehouse: Path, oracle: Any) -> None:
    path = warehouse / "db.db" / "types"
    assert run("ANALYZE TABLE an.db.types COMPUTE STATISTICS FOR ALL COLUMNS").collect() == []
    table = load_table(str(path))
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.ANALYZE
    found = statistics(path)
    assert (found.merged_record_count, found.schema_id) == (4, 0)
    assert found.merged_record_size > 0
    fields = ("col_id", "distinct_count", "min", "max", "null_count", "avg_len", "max_len")
    assert {n: tuple(getattr(c, f) for f in fields) for n, c in found.col_stats.items()} == FOUND
    # Java reads every value
    theirs = oracle.java.table(str(path), oracle.gw.jvm.java.util.HashMap()).statistics().get()
    assert theirs.mergedRecordCount().getAsLong() == 4
    for name, (_, _, least, greatest, *_) in FOUND.items():
        column = theirs.colStats().get(name)
        reported = [_text(bound.get()) if bound.isPresent() else None for bound in (column.min(), column.max())]
        assert [text and text.replace("T", " ")[:16] for text in reported] == [
            text and text[:16] for text in (least, greatest)
        ]
    shown = session.table("an.db.`types$statistics`").collect()
    assert [(row.mergedRecordCount, row.schema_id) for row in shown] == [(4, 0)]


def _text(value: Any) -> str:
    return str(value.toString()) if hasattr(value, "getClass") else str(value).lower()


def test_rows_and_chosen_columns(session: SparkSession, run: Run, warehouse: Path) -> None:
    session.sql(
        "CREATE OR REPLACE TABLE an.db.merged (k INT NOT NULL, `V.w` INT, a ARRAY<INT>) "
        "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')"
    )
    session.sql("TRUNCATE TABLE an.db.merged")
    path = warehouse / "db.db" / "merged"
    for version in range(3):
        session.sql(f"INSERT INTO an.db.merged VALUES (1, {version}, array(1))")
    run("ANALYZE TABLE an.db.merged COMPUTE STATISTICS")
    assert (statistics(path).merged_record_count, statistics(path).col_stats) == (1, {})
    run("analyze table an.db.merged compute statistics for columns k, `v.W`")
    assert list(statistics(path).col_stats) == ["k", "V.w"]
    before = load_table(str(path)).snapshots.latest_id()
    for words, message in (
        ("COMPUTE STATISTICS NOSCAN", "NOSCAN is ineffective with paimon"),
        ("PARTITION (k = 1) COMPUTE STATISTICS", "Analyze table partition is not supported"),
        ("COMPUTE STATISTICS FOR COLUMNS x", "Column x not found"),
        ("COMPUTE STATISTICS FOR ALL COLUMNS", "Analyzing on col: a, data type: ARRAY<INT> is not supported"),
    ):
        with pytest.raises((PySparkException, PaimonError), match=message):
            run(f"ANALYZE TABLE an.db.merged {words}").collect()
    with pytest.raises(PySparkException):
        run("ANALYZE TABLE an.db.merged COMPUTE STATISTICS FOR COLUMNS").collect()
    assert load_table(str(path)).snapshots.latest_id() == before


def test_a_table_without_rows_and_other_tables(session: SparkSession, run: Run, warehouse: Path) -> None:
    session.sql("CREATE OR REPLACE TABLE an.db.none_yet (k INT)")
    run("ANALYZE TABLE an.db.none_yet COMPUTE STATISTICS FOR ALL COLUMNS")
    assert PaimonTable.for_path(session, str(warehouse / "db.db" / "none_yet")).analyze("k") is None
    session.range(3).write.mode("overwrite").saveAsTable("spark_catalog.default.sparks_own")
    run("ANALYZE TABLE spark_catalog.default.sparks_own COMPUTE STATISTICS")
    session.sql("DROP TABLE spark_catalog.default.sparks_own")


def test_only_wanted_columns_are_read(session: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session.sql("CREATE TABLE an.db.wide (v STRING, k SMALLINT, p INT) PARTITIONED BY (p)")
    session.sql("INSERT INTO an.db.wide VALUES ('x', 1, 1)")
    table, read = PaimonTable.for_path(session, str(warehouse / "db.db" / "wide")), []
    table_rows = analyze.table_rows

    def spy(*arguments: Any, columns: list[str], **more: Any) -> DataFrame:
        read.append(columns)
        return table_rows(*arguments, columns=columns, **more)

    monkeypatch.setattr(analyze, "table_rows", spy)
    table.analyze()
    table.analyze("K")
    assert read == [["p"], ["k"]]
    assert statistics(warehouse / "db.db" / "wide").merged_record_count == 1


def test_the_optimiser_knows_columns(spark: SparkSession, session: SparkSession, warehouse: Path) -> None:
    session.sql("CREATE TABLE an.db.big (k INT, v STRING, d DATE)")
    session.sql("INSERT INTO an.db.big SELECT id % 10, 'x', date_add(DATE'2024-01-01', int(id % 5)) FROM range(1000)")
    table = PaimonTable.for_path(session, str(warehouse / "db.db" / "big"))
    assert table.analyze(["k", "d"]) == 2
    session.conf.set("spark.sql.cbo.enabled", "true")
    session.createDataFrame([], "x int")  # makes it the active one: plans are asked from outside of a query
    try:
        found = reported(session.table("an.db.big"))
        assert re.sub(r"#\d+", "", found) == (
            "Map(k -> ColumnStat(Some(10),Some(0),Some(9),Some(0),Some(4),Some(4),None,2), "
            "d -> ColumnStat(Some(5),Some(19723),Some(19727),Some(0),Some(4),Some(4),None,2))"
        )
        session.sql("ALTER TABLE an.db.big ADD COLUMNS (w INT)")
        assert reported(session.table("an.db.big")) == "Map()", "statistics of another schema tell nothing"
    finally:
        session.conf.unset("spark.sql.cbo.enabled")
        spark.createDataFrame([], "x int")


def reported(frame: DataFrame) -> str:
    """What Spark's optimiser knows of the columns of the scan."""
    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    return str(leaf.stats().attributeStats().toString())
