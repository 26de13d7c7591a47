"""Views that stay in a catalog, by both fronts: statements, what they show, and queries of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.spec.view_records import View
from paimon_spark.table.catalog_views import create_view, find_view
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.warehouses import FRONTS, Run, run_by

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("views")
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"{folder}/warehouse"}


@pytest.fixture(scope="module")
def session(spark: SparkSession, options: dict[str, str]) -> SparkSession:
    found = spark.newSession()
    paimon_spark.register_catalog(found, "c", **options)
    paimon_spark.sql(found, "SELECT 1", catalog="c", **options)
    return found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Iterator[Run]:
    run = run_by(session, request.param)
    run("CREATE DATABASE c.d")
    run("USE c.d")
    run("CREATE TABLE c.d.t (k INT NOT NULL COMMENT 'key', v STRING)")
    run("INSERT INTO c.d.t VALUES (1, 'a'), (2, 'b')")
    yield run
    run("USE c.default")
    run("DROP DATABASE c.d CASCADE")
    run("USE spark_catalog")


def _rows(run: Run, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in run(text).collect())


def test_views_are_made_shown_read_and_dropped(run: Run) -> None:
    run("CREATE VIEW v AS SELECT * FROM t WHERE k > 1")
    assert _rows(run, "SELECT * FROM v") == [(2, "b")]
    assert _rows(run, "SELECT v.k, t.v FROM c.d.v JOIN c.d.t ON t.k = v.k") == [(2, "b")]
    assert _rows(run, "SHOW VIEWS") == _rows(run, "SHOW VIEWS IN c.d") == [("d", "v", False)]
    assert _rows(run, "SHOW VIEWS IN c.d LIKE 'x*'") == []
    assert [row.tableName for row in run("SHOW TABLES IN c.d").collect()] == ["t"]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        run("CREATE VIEW c.d.v AS SELECT 1 AS x")
    run("CREATE VIEW IF NOT EXISTS c.d.v AS SELECT 1 AS x")
    run("CREATE OR REPLACE VIEW c.d.v AS SELECT max(k) AS top FROM c.d.t")
    assert _rows(run, "SELECT top FROM v") == [(2,)]
    run("DROP VIEW v")
    run("DROP VIEW IF EXISTS c.d.v")
    for statement in ("DROP VIEW c.d.v", "SELECT * FROM c.d.v", "ALTER VIEW c.d.v AS SELECT 1 AS x"):
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            run(statement)


def test_what_descriptions_show(run: Run) -> None:
    run(
        "CREATE VIEW c.d.v (id, txt COMMENT 'it''s') COMMENT 'of t' TBLPROPERTIES ('k1' = 'v1', n = 3) "
        "AS SELECT k, v FROM t -- all"
    )
    shown = [tuple(row) for row in run("DESCRIBE EXTENDED c.d.v").collect()]
    assert shown[:2] == [("id", "INT NOT NULL", "key"), ("txt", "STRING", "it's")]
    assert shown[3:] == [
        ("# Detailed View Information", "", ""),
        ("Name", "d.v", ""),
        ("Comment", "of t", ""),
        ("View Text", "SELECT k, v FROM t -- all", ""),
        ("View Query Output Columns", "[id, txt]", ""),
        ("View Properties", "[k1=v1, n=3]", ""),
    ]
    assert [tuple(row) for row in run("DESC TABLE v").collect()] == shown[:2]
    (text,) = run("SHOW CREATE TABLE v").collect()[0]
    assert text == (
        "CREATE VIEW d.v (\n  id COMMENT 'key',\n  txt COMMENT 'it\\'s')\nCOMMENT 'of t'\nTBLPROPERTIES (\n"
        "  'k1' = 'v1',\n  'n' = '3')\nAS\nSELECT k, v FROM t -- all\n"
    )
    assert _rows(run, "SHOW TBLPROPERTIES c.d.v") == [("k1", "v1"), ("n", "3")]
    assert _rows(run, "SHOW TBLPROPERTIES c.d.v ('k1')") == [("k1", "v1")]
    assert _rows(run, "SELECT txt, id FROM v") == [("a", 1), ("b", 2)]
    assert [row[0] for row in run("DESCRIBE c.d.t").collect()][:2] == ["k", "v"]
    assert "CREATE TABLE" in run("SHOW CREATE TABLE c.d.t").collect()[0][0]


def test_views_are_altered(run: Run) -> None:
    run("CREATE VIEW c.d.v TBLPROPERTIES ('a' = '1') AS SELECT k FROM t")
    run("ALTER VIEW c.d.v AS SELECT v, k + 1 AS more FROM t")
    assert _rows(run, "SELECT * FROM v") == [("a", 2), ("b", 3)]
    run("ALTER VIEW v SET TBLPROPERTIES ('b' = '2')")
    run("ALTER VIEW v UNSET TBLPROPERTIES ('a')")
    assert _rows(run, "SHOW TBLPROPERTIES v") == [("b", "2")]
    with pytest.raises(Exception, match="UNSET_NONEXISTENT_PROPERTIES"):
        run("ALTER VIEW v UNSET TBLPROPERTIES ('a')")
    run("ALTER VIEW v UNSET TBLPROPERTIES IF EXISTS ('a')")
    run("ALTER VIEW v RENAME TO w")
    assert _rows(run, "SHOW VIEWS") == [("d", "w", False)]
    with pytest.raises(Exception, match="already exists"):
        run("ALTER VIEW c.d.w RENAME TO c.d.t")
    run("CALL c.sys.alter_view_dialect(`view` => 'd.w', action => 'add', engine => 'flink', query => 'SELECT 1')")
    run("CALL c.sys.alter_view_dialect(`view` => 'd.w', action => 'update', query => 'SELECT v, 7 AS more FROM t')")
    assert _rows(run, "SELECT more FROM w") == [(7,), (7,)]
    with pytest.raises(Exception, match="query is required for update"):
        run("CALL c.sys.alter_view_dialect(`view` => 'd.w', action => 'update')")


def test_views_of_views_and_versions(run: Run) -> None:
    run("CREATE VIEW c.d.old AS SELECT * FROM t VERSION AS OF 1")
    run("INSERT INTO c.d.t VALUES (3, 'c')")
    run(
        "CREATE VIEW c.d.both AS WITH x AS (SELECT k FROM old) SELECT k, 'old' AS w FROM x UNION ALL SELECT k, v FROM t"
    )
    assert _rows(run, "SELECT k FROM c.d.old") == [(1,), (2,)]
    assert _rows(run, "SELECT count(*), sum(k) FROM c.d.both WHERE w = 'old'") == [(2, 3)]
    assert _rows(run, "SELECT * FROM both b WHERE k IN (SELECT max(k) FROM both)") == [(3, "c")]
    with pytest.raises(Exception, match="is a view"):
        run("SELECT * FROM c.d.old VERSION AS OF 1")
    with pytest.raises(Exception, match="is a view"):
        run("INSERT INTO c.d.old VALUES (9, 'x')")
    run("CREATE TABLE c.d.copy AS SELECT * FROM both")
    assert _rows(run, "SELECT count(*) FROM copy") == [(5,)]


def test_names_in_a_query_mean_those_of_the_time(run: Run, options: dict[str, str]) -> None:
    """Names without a database are those that were current when the view was made, wherever it is read."""
    run("CREATE DATABASE c.e")
    run("CREATE TABLE c.e.t AS SELECT 9 AS k")
    run("CREATE VIEW c.d.own AS SELECT k FROM t")
    run("CREATE VIEW c.e.far AS SELECT k FROM t")
    run("USE c.e")
    assert _rows(run, "SELECT * FROM c.d.own") == _rows(run, "SELECT * FROM far") == [(1,), (2,)]
    assert "view." not in str(_rows(run, "SHOW TBLPROPERTIES c.e.far"))
    catalog = open_catalog(options["warehouse"], options)
    found = find_view(catalog, "e", "far"), find_view(catalog, "d", "own")
    assert [len(view.options) if view else None for view in found] == [3, 0]
    run("USE c.d")
    run("DROP DATABASE c.e CASCADE")


def test_columns_that_come_and_go(run: Run, options: dict[str, str]) -> None:
    run("CREATE TABLE c.d.w (a INT, b INT, c INT)")
    run("INSERT INTO c.d.w VALUES (1, 2, 3)")
    run("CREATE VIEW c.d.all AS SELECT * FROM w")
    run("CREATE VIEW c.d.renamed (x, y, z) AS SELECT * FROM w")
    catalog = open_catalog(options["warehouse"], options)
    fields = (DataField(0, "p", IntType(), None), DataField(1, "q", VarCharType(VarCharType.MAX), None))
    create_view(catalog, "d", "of_java", View(fields, "SELECT a, b FROM w", {"flink": "nothing"}))
    run("ALTER TABLE c.d.w ADD COLUMN n INT FIRST")
    assert _rows(run, "SELECT * FROM c.d.all") == _rows(run, "SELECT * FROM c.d.renamed") == [(1, 2, 3)]
    assert _rows(run, "SELECT p, q FROM c.d.of_java") == [(1, "2")]
    run("ALTER TABLE c.d.w DROP COLUMN b")
    for view in ("all", "renamed"):
        with pytest.raises(Exception, match="CREATE OR REPLACE VIEW"):
            run(f"SELECT * FROM c.d.{view}").collect()


def test_what_cannot_be_a_view(run: Run, session: SparkSession) -> None:
    session.range(2).createOrReplaceTempView("tmp")
    with pytest.raises(Exception, match="INVALID_TEMP_OBJ_REFERENCE"):
        run("CREATE VIEW c.d.v AS SELECT * FROM tmp")
    with pytest.raises(Exception, match="COLUMN_ALREADY_EXISTS"):
        run("CREATE VIEW c.d.v AS SELECT k, k FROM t")
    with pytest.raises(Exception, match="CREATE_VIEW_COLUMN_ARITY_MISMATCH"):
        run("CREATE VIEW c.d.v (a, b, c) AS SELECT * FROM t")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("CREATE VIEW c.d.v AS SELECT * FROM nowhere")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        run("CREATE OR REPLACE VIEW c.d.t AS SELECT 1 AS x")
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        run("CREATE VIEW c.nowhere.v AS SELECT 1 AS x")
    run("CREATE VIEW c.d.v AS SELECT 1 AS x")
    run("DROP TABLE c.d.t")
    with pytest.raises(Exception, match="SCHEMA_NOT_EMPTY"):
        run("DROP DATABASE c.d")
    session.catalog.dropTempView("tmp")


def test_a_directory_keeps_no_views(session: SparkSession, tmp_path: Path) -> None:
    paimon_spark.register_catalog(session, "plain", warehouse=str(tmp_path))
    with pytest.raises(Exception, match="keeps no views"):
        session.sql("CREATE VIEW plain.default.v AS SELECT 1 AS x")
    assert session.sql("SHOW VIEWS IN plain.default").collect() == []
