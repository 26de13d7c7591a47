"""One decision for both fronts: `spark.sql` over a catalog and `paimon_spark.sql` say and do the same."""

import datetime as dt

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from tests.support.warehouses import run_by, session_of

pytestmark = pytest.mark.spark

COLUMNS = (
    "dt STRING, k BIGINT NOT NULL COMMENT 'the key', c CHAR(3), v VARCHAR(7) DEFAULT 'it''s', n INT DEFAULT 1 + 1, "
    "d DATE DEFAULT DATE '2024-01-31', a ARRAY<INT> DEFAULT array(1, 2), s STRUCT<x: INT, Y: STRING>, "
    "m DECIMAL(5, 2) DEFAULT CAST(1.5 AS DECIMAL(5, 2))"
)


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session that knows the same warehouse under the same name by both fronts."""
    found = session_of(spark, "fronts", tmp_path_factory.mktemp("fronts"))
    for name, run in (("one", run_by(found, "catalog")), ("two", run_by(found, "text"))):
        run(
            f"CREATE TABLE fronts.db.{name} ({COLUMNS}) PARTITIONED BY (dt) COMMENT 'of ''both''' "
            "TBLPROPERTIES ('primary-key' = 'dt,k', 'bucket' = '1')"
        ).collect()
        run(f"INSERT INTO fronts.db.{name} (dt, k) VALUES ('a', 1)").collect()
        run(f"INSERT INTO fronts.db.{name} VALUES ('b/c', 2, 'x', DEFAULT, DEFAULT, DEFAULT, DEFAULT, NULL, DEFAULT)")
        run(f"UPDATE fronts.db.{name} SET a = DEFAULT, d = DEFAULT WHERE k = 1").collect()
    return found


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


def _without_quotes(shown: list[tuple[object, ...]]) -> str:
    """A statement without what versions of Spark show in different ways."""
    return str(shown).replace("`", "").replace(" ", "").replace("COLLATEUTF8_BINARY", "")


@pytest.mark.parametrize(
    "statement",
    ["DESCRIBE", "DESCRIBE EXTENDED", "SHOW COLUMNS IN", "SHOW TBLPROPERTIES", "SHOW CREATE TABLE", "SHOW PARTITIONS"],
)
def test_what_is_shown(session: SparkSession, statement: str) -> None:
    by_catalog = rows(session.sql(f"{statement} fronts.db.one"))
    by_text = rows(paimon_spark.sql(session, f"{statement} fronts.db.one"))
    if statement == "SHOW CREATE TABLE":
        assert _without_quotes(by_text) == _without_quotes(by_catalog)
    elif statement == "DESCRIBE EXTENDED":  # versions of Spark say more than others
        assert set(by_text) - {("Name", "fronts.db.one", "")} <= set(by_catalog)
    else:
        assert by_text == by_catalog
    two = rows(session.sql(f"{statement} fronts.db.two"))
    assert str(two).replace("db.two", "db.one").replace("/two", "/one").replace("'two'", "'one'") == str(
        rows(session.sql(f"{statement} fronts.db.one"))
    )


@pytest.mark.parametrize("front", ["catalog", "text"])
def test_a_partition_is_described_as_the_official_connector_does(session: SparkSession, front: str) -> None:
    run = run_by(session, front)
    run(
        "CREATE TABLE IF NOT EXISTS fronts.db.dated (id INT NOT NULL, name STRING DEFAULT 'Bob', "
        "age INT COMMENT 'Age', y INT COMMENT 'Year', d DATE) PARTITIONED BY (y, d)"
    ).collect()
    day = dt.date(2025, 9, 20 + len(front))
    run(f"INSERT INTO fronts.db.dated VALUES (1, 'a', 16, 2025, DATE '{day}'), (2, 'b', 17, 2025, DATE '{day}')")
    partition = f"PARTITION (d = '{day}', Y = 2025)"
    table = paimon_spark.PaimonTable.for_path(session, rows(run("SHOW TBLPROPERTIES fronts.db.dated ('path')"))[0][1])
    files = [row for row in table.files().collect() if str(day) in row.partition]
    millis = max(int(file.creation_time.timestamp() * 1000) for file in files)
    created = dt.datetime.fromtimestamp(millis // 1000).astimezone()
    size = sum(file.file_size_in_bytes for file in files)
    counts = f"fileCount={len(files)}, fileSizeInBytes={size}, lastFileCreationTime={millis}, recordCount=2"
    assert rows(run(f"DESC fronts.db.dated {partition}")) == rows(run("DESCRIBE TABLE fronts.db.dated"))
    for word in ("EXTENDED", "FORMATTED"):
        shown = rows(run(f"DESCRIBE {word} fronts.db.dated {partition}"))
        assert shown[: len(shown) - 12] == rows(run("DESCRIBE EXTENDED fronts.db.dated"))
        assert shown[-12:] == [
            ("", "", ""),
            ("# Detailed Partition Information", "", ""),
            ("Database", "db", ""),
            ("Table", "dated", ""),
            ("Partition Values", f"[y=2025, d={day}]", ""),
            ("Partition Parameters", f"{{{counts}}}", ""),
            ("Created Time", created.strftime("%a %b %d %H:%M:%S %Z %Y"), ""),
            ("Last Access", "UNKNOWN", ""),
            ("Partition Statistics", f"{size} bytes, 2 rows", ""),
            ("", "", ""),
            ("# Column Not Null", "", ""),
            ("id", "int", "NOT NULL"),
        ]
    for wrong in ("(y = 2025)", "(y = 2024, d = '2025-09-20')", "(y = NULL, d = NULL)", "(nope = 1, y = 2025)"):
        with pytest.raises((PySparkException, paimon_spark.PaimonError), match=r"PARTITIONS_NOT_FOUND"):
            run(f"DESCRIBE fronts.db.dated PARTITION {wrong}").collect()
    if front == "catalog":
        extended = run(f"SHOW TABLE EXTENDED IN fronts.db LIKE 'dated' {partition}").head().information
        assert f"fileSizeInBytes: {size}" in extended
        assert "recordCount: 2" in extended


def test_location_is_none_of_a_definition(session: SparkSession) -> None:
    for shown in (session.sql, lambda text: paimon_spark.sql(session, text)):
        text = rows(shown("SHOW CREATE TABLE fronts.db.one"))[0][0]
        assert "LOCATION" not in str(text)
        assert "'path'" not in str(text)
        assert any(row[0] == "path" for row in rows(shown("SHOW TBLPROPERTIES fronts.db.one")))


def test_defaults(session: SparkSession) -> None:
    one = rows(session.table("fronts.db.one").orderBy("k"))
    assert one == rows(session.table("fronts.db.two").orderBy("k"))
    assert one[0][3:7] == ("it's", 2, one[1][5], [1, 2])
    assert str(one[1][5]) == "2024-01-31"
    for run in (session.sql, lambda text: paimon_spark.sql(session, text)):
        for refused in ("rand()", "current_date", "upper('a')", "concat('a', rand())"):
            with pytest.raises(
                (PySparkException, paimon_spark.UnsupportedError), match=r"Unsupported default value `|INVALID_DEFAULT"
            ):
                run(f"CREATE TABLE fronts.db.three (v STRING DEFAULT {refused})")


@pytest.mark.parametrize("front", ["catalog", "text"])
def test_values_that_compare_stand_before_others(session: SparkSession, front: str) -> None:
    run, table = run_by(session, front), f"fronts.db.compared_{front}"
    run(f"CREATE TABLE {table} (k INT NOT NULL, small BOOLEAN, n INT DEFAULT 7) TBLPROPERTIES ('primary-key' = 'k')")
    run(f"INSERT INTO {table} VALUES (1, 2 < 3, DEFAULT), (2, 3 < 2, 5)").collect()
    assert sorted(rows(run(f"SELECT * FROM {table}"))) == [(1, True, 7), (2, False, 5)]
    run(
        f"MERGE INTO {table} t USING (SELECT explode(array(1, 3)) AS k, 4 AS n) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET small = s.n < 3, n = s.n "
        "WHEN NOT MATCHED THEN INSERT (k, small, n) VALUES (s.k, s.n < 5, s.n)"
    ).collect()
    assert sorted(rows(run(f"SELECT * FROM {table}"))) == [(1, False, 4), (2, False, 5), (3, True, 4)]
