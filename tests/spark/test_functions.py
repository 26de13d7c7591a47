"""Functions of SQL that a REST catalog keeps, by both fronts: statements, what they show, and calls in queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.metastore.rest import RestMetastore
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.view_records import Function
from paimon_spark.table.catalog_views import create_function, drop_function, find_function, functions_of
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog
from tests.support.hive_server import HiveServer
from tests.support.warehouses import FRONTS, Run, run_by, session_of_rest

pytestmark = pytest.mark.spark
_INT = (DataField(0, "x", IntType()),)


@pytest.fixture(scope="module")
def session(spark: SparkSession, rest: Any) -> SparkSession:
    options = {key: text for key, text in rest.options().items() if key != "warehouse"}
    return session_of_rest(spark, "r", options)


@pytest.fixture
def catalog(rest: Any) -> MetastoreCatalog:
    found = open_catalog("wh", rest.options())
    assert isinstance(found, MetastoreCatalog)
    assert isinstance(found.metastore, RestMetastore)
    return found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession, catalog: MetastoreCatalog) -> Iterator[Run]:
    run = run_by(session, request.param)
    run("CREATE DATABASE r.fn")
    run("USE r.fn")
    yield run
    run("USE spark_catalog")
    for name in functions_of(catalog, "fn"):  # the server of Java's tests keeps those of a database that it drops
        drop_function(catalog, "fn", name)
    for row in run("SHOW TABLES IN r.fn").collect():
        run(f"DROP TABLE r.fn.{row.tableName}")
    run("DROP VIEW IF EXISTS r.fn.v")
    run("DROP DATABASE r.fn CASCADE")


def _value(run: Run, text: str) -> Any:
    return run(text).collect()[0][0]


def test_a_function_is_made_called_replaced_and_dropped(run: Run) -> None:
    run("CREATE FUNCTION area(width DOUBLE, height DOUBLE) RETURNS DOUBLE RETURN width * height")
    assert _value(run, "SELECT area(2, 3)") == 6.0
    assert _value(run, "SELECT fn.area(2, 4)") == 8.0
    assert _value(run, "SELECT r.fn.area(2, 5) + abs(-1)") == 11.0
    run("CREATE TABLE t (a INT, b INT)")
    run("INSERT INTO t SELECT 1, 2 UNION ALL SELECT area(3, 1), 4")
    with pytest.raises(Exception, match="CANNOT_EVALUATE_EXPRESSION_IN_INLINE_TABLE"):  # as of Spark's own functions
        run("INSERT INTO t VALUES (1, area(1, 2))")
    assert sorted(row[0] for row in run("SELECT area(a, b) FROM t").collect()) == [2.0, 12.0]
    assert _value(run, "SELECT count(*) FROM t WHERE area(a, b) > 2") == 1
    grouped = "SELECT area(a, 1) AS g, count(*) FROM t GROUP BY area(a, 1) HAVING area(max(b), 1) > 2"
    assert [tuple(row) for row in run(grouped).collect()] == [(3.0, 1)]
    run("UPDATE t SET b = area(b, 10) WHERE a = 1")
    assert _value(run, "SELECT sum(b) FROM t") == 24
    with pytest.raises(Exception, match="already exists"):
        run("CREATE FUNCTION area(x INT) RETURNS INT RETURN x")
    run("CREATE FUNCTION IF NOT EXISTS area(x INT) RETURNS INT RETURN x")
    assert _value(run, "SELECT area(2, 3)") == 6.0
    run("CREATE OR REPLACE FUNCTION r.fn.area(x INT, y INT DEFAULT 10) RETURN x + y")
    assert _value(run, "SELECT area(2)") == 12
    assert _value(run, "SELECT area(2, 3)") == 5
    run("DROP FUNCTION area")
    with pytest.raises(Exception, match=r"area"):
        run("SELECT r.fn.area(2, 3)").collect()
    with pytest.raises(Exception, match="cannot be found"):
        run("DROP FUNCTION r.fn.area")
    run("DROP FUNCTION IF EXISTS r.fn.area")


def test_a_query_of_a_table_and_functions_in_functions(run: Run) -> None:
    run("CREATE TABLE emp (dept INT, salary INT)")
    run("INSERT INTO emp VALUES (1, 100), (1, 200), (2, 300)")
    run("CREATE FUNCTION total(d INT) RETURNS INT RETURN SELECT sum(salary) FROM emp WHERE dept = d")
    run("CREATE FUNCTION twice(d INT) RETURNS INT RETURN 2 * fn.total(d)")
    assert _value(run, "SELECT total(1)") == 300
    assert sorted(row[0] for row in run("SELECT DISTINCT total(dept) FROM emp").collect()) == [300]
    assert _value(run, "SELECT twice(2)") == 600
    run("INSERT INTO emp VALUES (2, 1)")
    assert _value(run, "SELECT r.fn.twice(2)") == 602
    run("CREATE FUNCTION share(d INT) RETURNS DOUBLE RETURN total(d) / (SELECT sum(emp.salary) FROM emp)")
    assert _value(run, "SELECT share(1) * 601") == 300
    run("CREATE FUNCTION thrice(d INT) RETURNS INT RETURN twice(d) + r.fn.total(d)")
    assert _value(run, "SELECT thrice(1)") == 900
    shown = [row[0] for row in run("DESCRIBE FUNCTION EXTENDED thrice").collect()]
    assert "Data Access:   READS SQL DATA" in shown
    run("CREATE VIEW v AS SELECT dept, r.fn.total(dept) AS t FROM emp")
    run("USE spark_catalog")
    assert sorted(tuple(row) for row in run("SELECT * FROM r.fn.v").collect())[0] == (1, 300)
    assert _value(run, "SELECT r.fn.thrice(1)") == 900
    assert _value(run, "SELECT r.fn.share(1) * 601") == 300
    run("USE r.fn")
    with pytest.raises(Exception, match="Cyclic function reference"):
        run("CREATE OR REPLACE FUNCTION total(d INT) RETURNS INT RETURN twice(d)")
    assert _value(run, "SELECT total(1)") == 300


def test_what_is_shown(run: Run) -> None:
    run(
        "CREATE FUNCTION inc(x INT DEFAULT 1 COMMENT 'the x', other STRING DEFAULT 'b') RETURNS INT "
        "COMMENT 'more' RETURN x + 1"
    )
    shown = [row[0] for row in run("DESCRIBE FUNCTION inc").collect()]
    assert shown == [
        "Function: fn.inc",
        "Type:     SCALAR",
        "Input:    x     INT   ",
        "          other STRING",
        "Returns:  INT",
    ]
    shown = [row[0] for row in run("DESC FUNCTION EXTENDED r.fn.inc").collect()]
    assert shown[2:4] == [
        "Input:         x     INT    DEFAULT 1 'the x'",
        "               other STRING DEFAULT 'b'",
    ]
    assert shown[5:8] == ["Comment:       more", "Deterministic: true", "Data Access:   CONTAINS SQL"]
    assert any("spark.sql.ansi.enabled=" in line for line in shown)
    assert shown[-1] == "Body:          x + 1"
    assert _value(run, "SELECT inc(2)") == 3
    shown = [row[0] for row in run("SHOW USER FUNCTIONS IN r.fn").collect()]
    assert [name for name in shown if name.startswith("r.")] == ["r.fn.inc"]
    assert not [name for name in shown if "inc__" in name or "__paimon" in name]  # Spark shows temporary ones too
    assert [row[0] for row in run("SHOW USER FUNCTIONS IN r.fn LIKE 'x*'").collect()] == []
    assert "r.fn.inc" in [row[0] for row in run("SHOW FUNCTIONS IN r.fn").collect()]
    assert "Function: abs" in [row[0] for row in run("DESCRIBE FUNCTION abs").collect()]


def test_settings_of_when_it_was_made(run: Run, session: SparkSession) -> None:
    session.conf.set("spark.sql.ansi.enabled", "true")
    run("CREATE FUNCTION inverse(x INT) RETURNS DOUBLE RETURN 1 / x")
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            run("SELECT inverse(0)").collect()
    finally:
        session.conf.unset("spark.sql.ansi.enabled")


def test_names_in_a_body(run: Run, session: SparkSession) -> None:
    run("CREATE FUNCTION scale(x INT, y INT DEFAULT 2) RETURNS INT RETURN scale.x * SCALE.y + abs(x)")
    assert _value(run, "SELECT scale(3)") == 9
    assert _value(run, "SELECT fn.scale(3, x) FROM (SELECT 10 AS x) AS scale") == 33
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION scale(x INT) RETURNS INT RETURN -x")
    try:
        assert _value(run, "SELECT scale(3)") == -3
        assert _value(run, "SELECT fn.scale(3)") == 9
    finally:
        session.sql("DROP TEMPORARY FUNCTION scale")


def test_a_temporary_view_keeps_its_functions(run: Run) -> None:
    run("CREATE FUNCTION inc(x INT) RETURNS INT RETURN x + 1")
    run("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT r.fn.inc(1) AS a")
    assert _value(run, "SELECT a FROM passing") == 2
    run("DROP VIEW passing")


def test_what_is_refused(run: Run, catalog: MetastoreCatalog, session: SparkSession) -> None:
    session.createDataFrame([(1,)], "a INT").createOrReplaceTempView("passing")
    for statement, reason in (
        ("CREATE FUNCTION f AS 'com.example.F' USING JAR '/tmp/f.jar'", "Java class cannot be made"),
        ("CREATE FUNCTION f(x INT) RETURNS TABLE(a INT) RETURN SELECT x AS a", "does not support creating SQL table"),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN sum(x)", "CANNOT_CONTAIN_COMPLEX_FUNCTIONS"),
        ("CREATE FUNCTION f(x INT, x INT) RETURNS INT RETURN x", "(?i)duplicate"),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN y", "UNRESOLVED_COLUMN"),
        ("CREATE FUNCTION f() RETURNS INT RETURN SELECT max(a) FROM passing", "temporary view passing"),
        ("CREATE FUNCTION `1`() RETURNS INT RETURN 1", "Invalid function name: 1"),
        ("CREATE FUNCTION r.nowhere.f() RETURNS INT RETURN 1", "nowhere"),
        ("DESCRIBE FUNCTION r.fn.f", "cannot be found"),
        ("SELECT r.fn.f(1)", "r.*fn.*f"),
    ):
        with pytest.raises(Exception, match=reason):
            run(statement).collect()
    file = {"type": "file", "fileResources": [{"resourceType": "jar", "uri": "/f.jar"}], "className": "a.B"}
    create_function(catalog, "fn", "of_file", Function(_INT, _INT, definitions={"spark": file}))
    lambda_ = {"type": "lambda", "definition": "(Integer x) -> x", "language": "JAVA"}
    create_function(catalog, "fn", "of_lambda", Function(_INT, _INT, definitions={"spark": lambda_}))
    create_function(catalog, "fn", "of_flink", Function(_INT, _INT, definitions={"flink": lambda_}))
    for name, reason in (
        ("file", r"Java classes in files"),
        ("lambda", "lambda expressions"),
        ("flink", "no definition"),
    ):
        with pytest.raises(Exception, match=rf"r\.fn\.of_{name}.*{reason}"):
            run(f"SELECT r.fn.of_{name}(1)").collect()
    assert [row[0] for row in run("DESCRIBE FUNCTION r.fn.of_file").collect()] == ["Function: fn.of_file", "Class: a.B"]
    run("DROP FUNCTION r.fn.of_lambda")


def test_what_is_kept(run: Run, catalog: MetastoreCatalog) -> None:
    run("CREATE FUNCTION kept(x INT, y STRING DEFAULT 'b' COMMENT 'c') RETURNS BIGINT COMMENT 'd' RETURN x + rand()")
    found = find_function(catalog, "fn", "kept")
    assert found is not None
    kept = found.to_json_object("kept")
    configs = {key: text for key, text in kept["options"].items() if key.startswith("sqlConfig.spark.sql.")}
    assert "sqlConfig.spark.sql.ansi.enabled" in configs
    assert {**kept, "options": {key: text for key, text in kept["options"].items() if key not in configs}} == {
        "name": "kept",
        "inputParams": [
            {"id": 0, "name": "x", "type": "INT"},
            {"id": 1, "name": "y", "type": "STRING", "description": "c", "defaultValue": "'b'"},
        ],
        "returnParams": [{"id": 0, "name": "kept", "type": "BIGINT"}],
        "deterministic": False,
        "definitions": {"spark": {"type": "sql", "definition": "x + rand()"}},
        "comment": "d",
        "options": {
            "spark.sql-function.is-query": "false",
            "spark.sql-function.deterministic": "false",
            "spark.sql-function.contains-sql": "true",
            "catalogAndNamespace.numParts": "2",
            "catalogAndNamespace.part.0": "r",
            "catalogAndNamespace.part.1": "fn",
            "referredTempViewNames": "[]",
            "referredTempFunctionsNames": "[]",
            "referredTempVariableNames": "[]",
        },
    }


@pytest.mark.parametrize("front", FRONTS)
def test_other_catalogs_keep_none(spark: SparkSession, tmp_path: Path, front: str, hive: HiveServer) -> None:
    session = spark.newSession()
    for name, options in (
        ("f", {}),
        ("j", {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db"}),
        ("h", {"metastore": "hive", "uri": hive.uri}),
    ):
        paimon_spark.register_catalog(session, name, warehouse=str(tmp_path / name), **options)
        paimon_spark.sql(session, "SELECT 1", warehouse=str(tmp_path / name), catalog=name, **options)
        run = run_by(session, front)
        with pytest.raises(Exception, match=rf"Catalog {name} keeps no functions .*'metastore' = 'rest'"):
            run(f"CREATE FUNCTION {name}.default.g(x INT) RETURNS INT RETURN x")
        with pytest.raises(Exception, match="keeps no functions"):
            run(f"DROP FUNCTION {name}.default.g")
        run(f"DROP FUNCTION IF EXISTS {name}.default.g")
