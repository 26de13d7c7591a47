"""MERGE whose clauses read the target of a primary-key table: old rows are looked up; the rows are those of a join."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import DataError
from paimon_spark.spark.sql import merge_strategy
from tests.support.golden_frames import collected

pytestmark = [
    pytest.mark.spark,
    pytest.mark.catalog("looked", current=True),
    pytest.mark.usefixtures("warehouse"),
]

COLUMNS = (
    "k BIGINT NOT NULL, p STRING NOT NULL, v STRING, d DOUBLE, n INT NOT NULL, at TIMESTAMP, "
    "r STRUCT<a: INT, b: ARRAY<STRING>>, m DECIMAL(20, 4)"
)
KINDS = {
    "dynamic": "TBLPROPERTIES ('primary-key' = 'k')",
    "fixed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '3')",
    "partitioned": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2')",
    "partitioned dynamic": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k')",
    "partial": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'merge-engine' = 'partial-update', "
    "'partial-update.remove-record-on-delete' = 'true')",
    "vectors": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'deletion-vectors.enabled' = 'true')",
    "changelog": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'changelog-producer' = 'input')",
    "sequence": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'sequence.field' = 'n')",
}
INSERT = "WHEN NOT MATCHED THEN INSERT *"
MERGES = {
    "a condition": f"WHEN MATCHED AND t.d < s.d THEN UPDATE SET * {INSERT}",
    "a value": f"WHEN MATCHED THEN UPDATE SET v = concat(t.v, '+', s.v), d = t.d + s.d, n = s.n {INSERT}",
    "several clauses": "WHEN MATCHED AND t.v IS NULL THEN DELETE WHEN MATCHED AND t.n % 3 = 0 THEN UPDATE SET "
    f"r = s.r, m = t.m * 2, n = t.n + 100 WHEN MATCHED AND s.d > 50 THEN UPDATE SET * {INSERT}",
    "a field": f"WHEN MATCHED AND size(t.r.b) > 1 THEN UPDATE SET r.a = t.r.a + s.r.a, n = t.n + 50 {INSERT}",
    "an error for other rows": "WHEN MATCHED AND t.n > 0 AND 100 / (s.k - 1000) < 0 THEN UPDATE SET at = s.at "
    f"{INSERT}",
    "times": f"WHEN MATCHED AND s.at > t.at THEN UPDATE SET at = t.at + INTERVAL 1 HOUR, n = t.n + 7 {INSERT}",
    "keys": f"WHEN MATCHED AND t.k % 2 = 0 THEN UPDATE SET v = s.v, n = s.n + 1000 {INSERT}",
}
WITHOUT_INSERT = {
    "update": "WHEN MATCHED AND t.d < s.d THEN UPDATE SET d = s.d, n = t.n + 1000",
    "delete": "WHEN MATCHED AND t.v > s.v THEN DELETE",
    "a conditional insert": "WHEN MATCHED AND t.d < 20 THEN UPDATE SET * WHEN NOT MATCHED AND s.d > 60 THEN INSERT *",
}


def _rows(low: int, high: int, step: int, salt: int) -> str:
    return (
        f"SELECT id AS k, concat('p', id % 3) AS p, if(id % 11 = 0, NULL, concat('v', id * {salt})) AS v, "
        f"CAST(id * {salt} % 97 AS DOUBLE) AS d, CAST(id * {salt} AS INT) AS n, "
        f"timestamp_seconds(id * {salt} * 1000) AS at, "
        "if(id % 5 = 0, NULL, struct(CAST(id % 7 AS INT) AS a, "
        "array_repeat(concat('b', id), CAST(id % 4 AS INT)) AS b)) AS r, "
        f"CAST(id / {salt} AS DECIMAL(20, 4)) AS m FROM range({low}, {high}, {step}, 3)"
    )


def _joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_strategy, "_has_unread_types", lambda schema, read: True)


def _key(kind: str) -> str:
    return "t.k = s.k AND t.p = s.p" if kind.startswith("partitioned") else "t.k = s.k"


def _merge(spark: SparkSession, table: str, kind: str, source: str, clauses: str, way: str) -> None:
    text = f"MERGE INTO {table} t USING ({source}) s ON {_key(kind)} {clauses}"
    assert f"{way} (" in spark.sql(f"EXPLAIN {text}").collect()[0][0]
    spark.sql(text)


CASES = [*((kind, "many") for kind in KINDS), ("dynamic", "few"), ("fixed", "few")]


@pytest.mark.parametrize(("kind", "source"), CASES)
def test_rows_are_those_of_a_join(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, source: str) -> None:
    merges = MERGES if "dynamic" in kind else {**MERGES, **WITHOUT_INSERT}
    rows = _rows(90, 260, 3, 5)
    if source == "few":  # the driver has them
        spark.createDataFrame(spark.sql(_rows(95, 260, 20, 5)).toArrow()).createOrReplaceTempView("few")
        rows = "SELECT * FROM few"
    for table in ("looked_up", "joined"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {KINDS[kind]}")
        spark.sql(f"INSERT INTO {table} {_rows(0, 120, 1, 3)}")
        spark.sql(f"INSERT INTO {table} {_rows(80, 200, 1, 4)}")
    for name, clauses in merges.items():
        _merge(spark, "looked_up", kind, rows, clauses, "lookup join")
        with monkeypatch.context() as patched:
            _joined(patched)
            _merge(spark, "joined", kind, rows, clauses, "key join")
        found = collected(spark.table("looked_up"))
        assert found == collected(spark.table("joined")), name
    assert spark.table("looked_up").count() > 120


@pytest.mark.parametrize("kind", ["dynamic", "partitioned"])
def test_the_text_does_as_the_catalog(spark: SparkSession, warehouse: Path, kind: str) -> None:
    """On Connect there is only the text."""
    for table in ("by_catalog", "by_text"):
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {KINDS[kind]}")
        spark.sql(f"INSERT INTO {table} {_rows(0, 120, 1, 3)}")
    path = f"{warehouse}/{spark.catalog.currentDatabase()}.db/by_text"
    for name, clauses in MERGES.items():
        _merge(spark, "by_catalog", kind, _rows(90, 260, 3, 5), clauses, "lookup join")
        text = f"MERGE INTO paimon.`{path}` t USING ({_rows(90, 260, 3, 5)}) s ON {_key(kind)} {clauses}"
        assert "lookup join (" in paimon_spark.sql(spark, f"EXPLAIN {text}").collect()[0][0], name
        paimon_spark.sql(spark, text)
        assert collected(spark.table("by_catalog")) == collected(spark.table("by_text")), name
    for table in ("by_catalog", "by_text"):
        spark.sql(f"DROP TABLE {table}")


def test_a_row_that_is_matched_twice_is_an_error(spark: SparkSession) -> None:
    _table(spark, "twice")
    before = collected(spark.table("twice"))
    source = f"{_rows(90, 100, 1, 5)} UNION ALL {_rows(95, 96, 1, 5)}"
    with pytest.raises(DataError, match="MERGE"):
        _merge(spark, "twice", "dynamic", source, MERGES["a value"], "lookup join")
    assert collected(spark.table("twice")) == before


def _table(spark: SparkSession, name: str) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {KINDS['dynamic']}")
    spark.sql(f"INSERT INTO {name} {_rows(0, 120, 1, 3)}")


def test_null_keys_match_nothing(spark: SparkSession) -> None:
    _table(spark, "nulls")
    source = f"{_rows(90, 92, 1, 5)} UNION ALL SELECT NULL, 'p', 'v', 1D, 1, NULL, NULL, NULL"
    spark.sql(f"CREATE OR REPLACE TABLE fixed ({COLUMNS}) {KINDS['fixed']}")
    spark.sql("INSERT INTO fixed SELECT * FROM nulls")
    _merge(spark, "fixed", "fixed", source, WITHOUT_INSERT["update"], "lookup join")
    _merge(spark, "fixed", "fixed", source, WITHOUT_INSERT["a conditional insert"], "lookup join")
    assert spark.table("fixed").count() == 120


def test_an_error_in_a_clause_changes_nothing(spark: SparkSession) -> None:
    _table(spark, "errors")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        _merge(
            spark, "errors", "dynamic", _rows(90, 130, 1, 5),
            f"WHEN MATCHED AND t.n / (t.k - 95) > 1 THEN UPDATE SET * {INSERT}", "lookup join",
        )  # fmt: skip
    assert spark.table("`errors$snapshots`").count() == 1
