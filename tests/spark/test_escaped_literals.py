"""`spark.sql.parser.escapedStringLiterals`: a backslash of a statement is a backslash; what we print for Spark, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.warehouses import run_by, session_of

pytestmark = pytest.mark.spark

Run = Callable[[str], DataFrame]
ODD = 'a\\b "c" \\n \\\\ it\'s'


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return session_of(spark, "escapes", tmp_path_factory.mktemp("escapes"))


@pytest.fixture(params=["true", "false"])
def escapes(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[str]:
    session.conf.set("spark.sql.parser.escapedStringLiterals", request.param)
    yield request.param
    session.conf.unset("spark.sql.parser.escapedStringLiterals")


@pytest.mark.parametrize("front", ["catalog", "text"])
def test_defaults(session: SparkSession, escapes: str, front: str) -> None:
    run = run_by(session, front)
    name = f"escapes.db.defaults_{front}_{escapes}"
    literal = "'a\\b'" if escapes == "true" else "'a\\\\b'"
    run(f"CREATE TABLE {name} (k INT, v STRING DEFAULT {literal}, w STRING DEFAULT 'plain')").collect()
    run(f"INSERT INTO {name} (k) VALUES (1)").collect()
    run(f"INSERT INTO {name} VALUES (2, DEFAULT, DEFAULT)").collect()
    run(f"UPDATE {name} SET v = DEFAULT WHERE k = 1").collect()
    assert [tuple(row) for row in session.table(name).orderBy("k").collect()] == [
        (1, "a\\b", "plain"),
        (2, "a\\b", "plain"),
    ]


@pytest.mark.parametrize("kind", ["", "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')"])
@pytest.mark.parametrize("front", ["catalog", "text"])
def test_conditions_and_values(session: SparkSession, escapes: str, front: str, kind: str) -> None:
    run = run_by(session, front)
    name = f"escapes.db.rows_{front}_{escapes}_{len(kind)}"
    session.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING) {kind}")
    rows = session.createDataFrame([(1, "a\\b"), (2, ODD), (3, "c")], "k int, v string")
    rows.writeTo(name).append()
    literal = "'a\\b'" if escapes == "true" else "'a\\\\b'"
    assert [row.k for row in run(f"SELECT k FROM {name} WHERE v = {literal}").collect()] == [1]
    run(f"UPDATE {name} SET v = concat(v, {literal}) WHERE v IN ({literal}, 'x')").collect()
    run(f"DELETE FROM {name} WHERE v = 'c'").collect()
    run(
        f"MERGE INTO {name} t USING (SELECT 2 AS k, {literal} AS v) s ON t.k = s.k "
        f"WHEN MATCHED AND s.v = {literal} THEN UPDATE SET v = concat(s.v, '!')"
    ).collect()
    assert [tuple(row) for row in session.table(name).orderBy("k").collect()] == [(1, "a\\ba\\b"), (2, "a\\b!")]


@pytest.mark.parametrize("front", ["catalog", "text"])
def test_partitions(session: SparkSession, escapes: str, front: str) -> None:
    run = run_by(session, front)
    name = f"escapes.db.parts_{front}_{escapes}"
    literal = "'a\\b'" if escapes == "true" else "'a\\\\b'"
    run(f"CREATE TABLE {name} (v STRING, dt STRING) PARTITIONED BY (dt)").collect()
    run(f"INSERT INTO {name} VALUES ('x', {literal}), ('y', 'other')").collect()
    run(f"INSERT OVERWRITE {name} PARTITION (dt = {literal}) SELECT 'z'").collect()
    assert [tuple(row) for row in session.table(name).orderBy("v").collect()] == [("y", "other"), ("z", "a\\b")]
    run(f"ALTER TABLE {name} DROP PARTITION (dt = {literal})").collect()
    assert [tuple(row) for row in session.table(name).collect()] == [("y", "other")]
