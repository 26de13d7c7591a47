"""`paimon_spark.sql`: statements with Paimon names on a session without our catalog (a classic one, it is faster)."""

import datetime as dt
import getpass
import os
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.errors import SchemaChangeError

pytestmark = pytest.mark.spark

Sql = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, so that what `paimon_spark.sql` remembers of it is this module's."""
    return spark.newSession()


@pytest.fixture(scope="module")
def filled(session: SparkSession, warehouse: Path) -> Path:
    """Tables with some history: db.t (two versions, a tag, a branch), db.days (partitioned), other.t."""

    def sql(statement: str) -> None:
        paimon_spark.sql(session, statement, warehouse=str(warehouse), catalog="paimon")

    sql("CREATE DATABASE paimon.db")
    sql("CREATE DATABASE paimon.other")
    sql(
        "CREATE TABLE paimon.db.t (id BIGINT NOT NULL, name STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    sql("INSERT INTO paimon.db.t VALUES (1, 'a'), (2, 'b')")
    sql("ALTER TABLE paimon.db.t CREATE TAG first")
    sql("CALL paimon.sys.create_branch(table => 'db.t', branch => 'b1', tag => 'first')")
    sql("INSERT INTO paimon.db.t VALUES (2, 'B'), (3, 'c')")
    sql("CREATE TABLE paimon.other.t (id INT, label STRING)")
    sql("INSERT INTO paimon.other.t VALUES (1, 'one'), (3, 'three')")
    sql(
        "CREATE TABLE paimon.db.days (dt STRING, day DATE, n INT, price DECIMAL(10, 2), ok BOOLEAN, at TIMESTAMP, "
        "f FLOAT, s STRUCT<x: INT>) PARTITIONED BY (dt)"
    )
    sql(
        "INSERT INTO paimon.db.days VALUES "
        "('a', DATE '2024-01-01', 1, 1.50, true, TIMESTAMP '2024-01-01 00:00:00', 0.1, named_struct('x', 1)), "
        "('a', DATE '2024-01-02', 2, 2.25, false, NULL, 2.5, NULL), "
        "('it''s', NULL, NULL, NULL, NULL, TIMESTAMP '1969-01-01 00:00:00', double('nan'), named_struct('x', 3)), "
        "('c', DATE '2023-12-31', -3, 0, true, NULL, NULL, NULL)"
    )
    return warehouse


@pytest.fixture
def run(session: SparkSession, filled: Path) -> Sql:
    """Runs statements over the filled warehouse, current database `db`."""
    paimon_spark.sql(session, "SELECT 1", warehouse=str(filled), catalog="paimon", database="db")
    return lambda statement, **more: paimon_spark.sql(session, statement, **more)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


T = [(1, "a"), (2, "B"), (3, "c")]
FIRST = [(1, "a"), (2, "b")]

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT * FROM paimon.db.t": T,
    "select * from db.t": T,
    "SELECT * FROM t": T,
    "SELECT * FROM `paimon`.`db`.`t` AS x WHERE x.id = 1": [(1, "a")],
    "TABLE t": T,
    "FROM t SELECT name WHERE id > 1": [("B",), ("c",)],
    "FROM t |> WHERE id > 1 |> SELECT id": [(2,), (3,)],
    "SELECT * FROM t VERSION AS OF 'first'": FIRST,
    "SELECT * FROM t FOR SYSTEM_VERSION AS OF 1 old WHERE old.id < 2": [(1, "a")],
    "SELECT * FROM t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 HOUR": T,
    "SELECT * FROM t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 HOUR AS now ORDER BY id": T,
    "SELECT * FROM t WITH ('scan.tag-name' = 'first')": FIRST,
    "SELECT * FROM t WITH ('SCAN.TAG-NAME' = 'first') AS old JOIN t ON old.id = t.id": [
        (1, "a", 1, "a"),
        (2, "b", 2, "B"),
    ],
    "SELECT old.name, new.name FROM t VERSION AS OF 1 AS old, t VERSION AS OF 2 AS new WHERE old.id = new.id": [
        ("a", "a"),
        ("b", "B"),
    ],
    "SELECT name FROM t EXCEPT SELECT name FROM t VERSION AS OF 1": [("B",), ("c",)],
    "SELECT * FROM `t$branch_b1`": FIRST,
    "SELECT snapshot_id FROM `t$snapshots`": [(1,), (2,)],
    "SELECT tag_name, s.snapshot_id FROM db.`t$tags` g JOIN `t$snapshots` s USING (snapshot_id)": [("first", 1)],
    "SELECT count(*) FROM `t$files` VERSION AS OF 1": [(1,)],
    "SELECT t.id, paimon.db.t.name, db.t.name FROM paimon.db.t": [(1, "a", "a"), (2, "B", "B"), (3, "c", "c")],
    "SELECT u.label FROM paimon.other.t u JOIN db.t ON u.id = db.t.id": [("one",), ("three",)],
    "SELECT (SELECT max(id) FROM other.t), count(*) FROM t": [(3, 3)],
    "SELECT name FROM t WHERE EXISTS (SELECT 1 FROM other.t o WHERE o.id = t.id AND o.label = 'one')": [("a",)],
    "SELECT name FROM t WHERE id IN (SELECT id FROM other.t WHERE id > 1)": [("c",)],
    "WITH t AS (SELECT id + 10 AS id FROM t) SELECT * FROM t": [(11,), (12,), (13,)],
    "WITH a AS (SELECT * FROM t), b AS (SELECT id FROM a WHERE id = 1) SELECT * FROM a JOIN b USING (id)": [(1, "a")],
    "SELECT * FROM (WITH t AS (SELECT 7 AS x) SELECT * FROM t) JOIN t ON t.id = 1": [(7, 1, "a")],
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n FROM t": [(1,), (2,), (3,)],
    "SELECT a.id FROM t a LEFT JOIN other.t b ON a.id = b.id WHERE b.label IS NULL": [(2,)],
    "SELECT b.label FROM t a RIGHT JOIN other.t b ON a.id = b.id AND a.id = 1 WHERE a.id IS NULL": [("three",)],
    "SELECT count(*) FROM t a FULL JOIN other.t b ON a.id = b.id + 2 WHERE a.id = 1 OR b.id = 3": [(2,)],
    "SELECT * FROM t NATURAL JOIN other.t": [(1, "a", "one"), (3, "c", "three")],
    "SELECT t.* FROM t LEFT ANTI JOIN other.t o ON t.id = o.id": [(2, "B")],
    "SELECT id FROM t UNION ALL (SELECT id FROM other.t ORDER BY id DESC LIMIT 1)": [(1,), (2,), (3,), (3,)],
    "SELECT * FROM t TABLESAMPLE (100 PERCENT) WHERE id = 1": [(1, "a")],
    "SELECT x.a FROM t AS x(a, b) WHERE x.b = 'c'": [(3,)],
    "SELECT * FROM t PIVOT (max(name) FOR id IN (1, 2))": [("a", "B")],
    "SELECT id, e FROM t LATERAL VIEW explode(array(1, 2)) x AS e WHERE e = 2 AND id = 1": [(1, 2)],
    "SELECT id, y.v FROM t, LATERAL (SELECT t.id * 2 AS v) y WHERE id = 3": [(3, 6)],
    "SELECT '{x} {{y}} VERSION AS OF 3', name FROM t WHERE id = 1 -- FROM db.nix": [("{x} {{y}} VERSION AS OF 3", "a")],
    "SELECT /*+ BROADCAST(t) */ name FROM t WHERE id = 1;": [("a",)],
    "SELECT count(*) FROM t": [(3,)],
    "SELECT 1 FROM t": [(1,), (1,), (1,)],
    "SELECT count(DISTINCT *) FROM t": [(3,)],
    "SELECT other.t.label, db.t.*, paimon.db.t.name FROM t, other.t WHERE db.t.id = other.t.id": [
        ("one", 1, "a", "a"),
        ("three", 3, "c", "c"),
    ],
    "SELECT struct(*).name FROM t WHERE id = 1": [("a",)],
    "SELECT version FROM (SELECT 1 AS version)": [(1,)],
    "SELECT s.x FROM days WHERE s.x = 3": [(3,)],
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries(run: Sql, session: SparkSession, query: str) -> None:
    assert rows(run(query)) == sorted(QUERIES[query], key=repr)
    assert not [t.name for t in session.catalog.listTables() if t.isTemporary], "nothing stays behind"


CONDITIONS = [
    "dt = 'a'",
    'dt = "it\'s"',
    "dt = 'it''s' OR n = 1",
    "dt <> 'a'",
    "'b' < dt",
    "dt IN ('a', 'c') AND n BETWEEN -5 AND 1",
    "dt BETWEEN 'a' AND 'b' AND NOT n IS NULL",
    "n = 1.0",
    "n > 1.5",
    "n < -2",
    "n = '1'",
    "n IS NULL",
    "n IS NOT NULL AND n <> 2",
    "n <=> NULL",
    "day = DATE '2024-01-01'",
    "day = '2024-01-01'",
    "day >= '2024-1-1'",
    "day < CAST('2024-01-01' AS DATE)",
    "price = 1.5",
    "price IN (0, 2.250)",
    "price > 99999999999999999999",
    "ok = true",
    "ok = false",
    "ok",
    "NOT ok",
    "at = TIMESTAMP '2024-01-01 00:00:00'",
    "at < '1970-01-01'",
    "f = 0.1",
    "f = CAST(0.1 AS FLOAT)",
    "f > 1",
    "s.x = 1",
    "s IS NOT NULL AND s.x > 0",
    "n + 0 = 1 AND dt = 'a'",
    "(dt = 'a' AND (n = 1))",
    "days.n = 1 AND days.dt = 'a'",
    "dt LIKE 'a%'",
    "dt = 'a' AND 1 = 1 AND rand() >= 0",
    "n NOT IN (1, 2)",
    "n NOT BETWEEN 0 AND 1",
    "dt IN (SELECT max(dt) FROM days)",
]


@pytest.mark.thorough
def test_filters_and_columns_left_to_the_reader_change_no_row(run: Sql, session: SparkSession) -> None:
    path = f"{paimon_spark.spark.sql.warehouses.warehouses_of(session).catalogs['paimon'].warehouse}/db.db/days"
    session.read.format("paimon").load(path).createOrReplaceTempView("whole")
    try:
        for condition in CONDITIONS:
            query = f"SELECT n, f FROM days WHERE {condition}"
            assert repr(rows(run(query))) == repr(rows(session.sql(query.replace("days", "whole")))), query
    finally:
        session.catalog.dropTempView("whole")


@pytest.mark.thorough
def test_partitions_that_a_where_leaves_out_are_not_read(run: Sql, session: SparkSession, tmp_path: Path) -> None:
    run("CREATE DATABASE IF NOT EXISTS paimon.pruned")
    run("CREATE TABLE pruned.t (dt STRING, n INT, big STRING) PARTITIONED BY (dt)")
    run("INSERT INTO pruned.t VALUES ('a', 1, 'x'), ('b', 2, 'y')")
    path = Path(rows(run("DESCRIBE EXTENDED pruned.t").where("col_name = 'Location'"))[0][1])
    for file in (path / "dt=b").glob("bucket-0/*"):
        file.unlink()
    assert rows(run("SELECT n FROM pruned.t WHERE dt = 'a'")) == [(1,)]
    assert rows(run("SELECT x.n FROM pruned.t x JOIN t ON t.id = x.n WHERE x.dt IN ('a') AND t.id > 0")) == [(1,)]
    with pytest.raises(Exception, match="dt=b"):
        run("SELECT n FROM pruned.t").collect()
    plan = run("EXPLAIN SELECT n FROM pruned.t WHERE dt = 'a'").collect()[0][0]
    assert "big" not in plan
    assert "big" in run("EXPLAIN SELECT * FROM pruned.t WHERE dt = 'a'").collect()[0][0]


@pytest.mark.thorough
def test_temporary_views_and_tables_of_sparks_own(run: Sql, session: SparkSession) -> None:
    session.range(1).selectExpr("'view' AS name").createOrReplaceTempView("t")
    try:
        assert rows(run("SELECT * FROM t")) == [("view",)]
        assert rows(run("SELECT * FROM db.t")) == T
        assert rows(run("SELECT t.name, x.name FROM t JOIN paimon.db.t x ON x.id = 1")) == [("view", "a")]
    finally:
        session.catalog.dropTempView("t")
    session.sql("CREATE TABLE spark_catalog.default.plain USING parquet AS SELECT 1L AS id, 'p' AS label")
    try:
        assert rows(run("SELECT label, name FROM default.plain JOIN t USING (id)")) == [("p", "a")]
        run("INSERT INTO spark_catalog.default.plain SELECT id, name FROM t WHERE id = 3")
        run("CREATE TABLE spark_catalog.default.made USING parquet AS SELECT name FROM db.t WHERE id = 2")
        assert rows(run("SELECT * FROM spark_catalog.default.plain")) == [(1, "p"), (3, "c")]
        assert rows(session.table("default.made")) == [("B",)]
    finally:
        session.sql("DROP TABLE IF EXISTS spark_catalog.default.plain")
        session.sql("DROP TABLE IF EXISTS spark_catalog.default.made")


@pytest.mark.thorough
def test_a_temporary_view_over_our_tables(run: Sql, session: SparkSession) -> None:
    run("CREATE OR REPLACE TEMPORARY VIEW v (key) AS SELECT id FROM t WHERE id < 3")
    try:
        assert rows(session.sql("SELECT key FROM v")) == [(1,), (2,)]
        assert rows(run("SELECT name FROM v JOIN t ON key = id")) == [("B",), ("a",)]
        with pytest.raises(AnalysisException, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
            run("CREATE TEMPORARY VIEW v AS SELECT id FROM t")
        with pytest.raises(paimon_spark.UnsupportedError, match="CREATE TEMPORARY VIEW w"):
            run("CREATE VIEW w AS SELECT * FROM t")
    finally:
        session.catalog.dropTempView("v")


def test_statements_without_our_names_go_as_they_are(
    run: Sql, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    plain = session.sql

    def record(text: str, *args: Any, **more: Any) -> DataFrame:
        seen.append(text)
        return plain(text, *args, **more)

    monkeypatch.setattr(session, "sql", record)
    statements = [
        "SELECT  1 -- one",
        "VALUES ('{}')",
        "SHOW TABLES IN spark_catalog.default",
        "SET spark.sql.shuffle.partitions",
        "SELECT * FROM range(3)",
        "WITH t AS (SELECT 1) SELECT * FROM t",
        "DESCRIBE FUNCTION abs",
        "EXPLAIN SELECT 1",
        "SHOW FUNCTIONS LIKE 'abs'",
        "CREATE TABLE IF NOT EXISTS spark_catalog.default.plain2 (a INT) USING parquet",
        "INSERT INTO spark_catalog.default.plain2 VALUES (1)",
        "DESCRIBE spark_catalog.default.plain2",
        "DROP TABLE spark_catalog.default.plain2",
    ]
    for statement in statements:
        run(statement).collect()
    assert seen == statements


def test_parameters(run: Sql) -> None:
    assert rows(run("SELECT name FROM t WHERE id = :id", args={"id": 2})) == [("B",)]
    assert rows(run("SELECT name FROM t WHERE id IN (?, ?)", args=[1, 3])) == [("a",), ("c",)]
    query = "SELECT count(*) FROM t TIMESTAMP AS OF :time WHERE id > :id"
    assert rows(run(query, args={"time": "2999-01-01", "id": 1})) == [(2,)]


ERRORS: list[tuple[str, type[Exception], str]] = [
    ("SELECT * FROM paimon.db.nix", AnalysisException, r"TABLE_OR_VIEW_NOT_FOUND.*`paimon`.`db`.`nix`"),
    ("SELECT * FROM nix.t", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT * FROM paimon.t", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT * FROM `t$nix`", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
    ("SELECT * FROM t VERSION AS OF 'nix'", paimon_spark.SnapshotNotFoundError, "Tag 'nix' doesn't exist.*first"),
    ("SELECT * FROM t WITH ('scan.snapshott-id' = '1')", paimon_spark.OptionError, "scan.snapshot-id"),
    ("SELECT nix FROM t", AnalysisException, "UNRESOLVED_COLUMN"),
    ("SELECT 1 AS a, MATCH t WHAT EVER", ParseException, "PARSE_SYNTAX_ERROR"),
    ("SELEC * FROM t", ParseException, "PARSE_SYNTAX_ERROR"),
    ("SELECT * FROM t WHERE name = 'a", ParseException, "PARSE_SYNTAX_ERROR"),
    (
        "SELECT * FROM t UNION ALL TABLE t",
        paimon_spark.UnsupportedError,
        "cannot read this statement.*createOrReplaceTempView",
    ),
    ("INSERT INTO paimon.db.nix VALUES (1)", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
    ("INSERT INTO t VALUES (1)", AnalysisException, "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"),
    ("INSERT INTO t VALUES (1, 'x', 2)", AnalysisException, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
    ("INSERT INTO t VALUES ('x', 'x')", AnalysisException, "CANNOT_SAFELY_CAST.*STRING.*BIGINT"),
    ("INSERT INTO t (id, nix) VALUES (1, 'x')", AnalysisException, "UNRESOLVED_COLUMN.*`nix`"),
    ("INSERT INTO t (id, id) VALUES (1, 2)", AnalysisException, "COLUMN_ALREADY_EXISTS"),
    ("INSERT INTO t PARTITION (id = 1) VALUES ('x')", AnalysisException, "NON_PARTITION_COLUMN"),
    ("INSERT INTO `t$files` SELECT 1", paimon_spark.UnsupportedError, "system tables"),
    ("DELETE FROM `t$files`", paimon_spark.UnsupportedError, "system tables"),
    ("UPDATE t SET id = 1", paimon_spark.UnsupportedError, r"primary key column\. id"),
    ("UPDATE t SET name 'x'", ParseException, "PARSE_SYNTAX_ERROR"),
    ("DELETE FROM t WHERE", ParseException, "PARSE_SYNTAX_ERROR"),
    ("MERGE INTO t USING other.t o ON t.id = o.id", paimon_spark.OptionError, "needs a clause"),
    ("MERGE INTO t USING other.t o WHEN MATCHED THEN DELETE", ParseException, "'ON' is expected"),
    ("MERGE INTO t USING other.t o ON t.id = o.id WHEN MATCHED THEN INSERT *", ParseException, "'UPDATE SET' is expec"),
    (
        "MERGE INTO t USING other.t o ON t.id = o.id WHEN MATCHED THEN UPDATE SET nix = 1",
        paimon_spark.PaimonError,
        "nix",
    ),
    (
        "MERGE INTO `t$files` f USING other.t o ON f.level = o.id WHEN MATCHED THEN DELETE",
        paimon_spark.UnsupportedError,
        "system tables",
    ),
    ("FROM t INSERT INTO other.t SELECT id, name", paimon_spark.UnsupportedError, "FROM … INSERT"),
    ("CACHE TABLE t", paimon_spark.UnsupportedError, r"\.cache\(\)"),
    ("CALL sys.nix()", paimon_spark.UnsupportedError, "There is no procedure sys.nix.*create_tag"),
    ("CALL sys.create_tag(tag => 'x')", AnalysisException, "REQUIRED_PARAMETER_NOT_FOUND.*table"),
    ("CALL sys.create_tag(nix => 'x')", AnalysisException, "UNRECOGNIZED_PARAMETER_NAME.*nix.*time_retained"),
    ("CALL sys.create_tag('db.t', table => 'x')", AnalysisException, "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT"),
    ("CALL sys.create_tag(table => 'db.nix', tag => 'x')", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND.*nix"),
    ("CREATE TABLE t (a INT)", AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS"),
    ("CREATE TABLE nix.t (a INT)", AnalysisException, "SCHEMA_NOT_FOUND"),
    ("CREATE TABLE u (a INT) USING parquet", paimon_spark.UnsupportedError, "spark_catalog.<database>.<table>"),
    ("CREATE TABLE u (a INT) LOCATION '/x'", paimon_spark.UnsupportedError, "LOCATION.*by its path"),
    ("CREATE TABLE u (a INT, UNIQUE (a))", paimon_spark.UnsupportedError, "no other constraints"),
    ("CREATE TABLE u (a INT DEFAULT rand())", paimon_spark.UnsupportedError, "must be a literal"),
    ("CREATE TABLE u (a INT) PARTITIONED BY (bucket(4, a))", paimon_spark.UnsupportedError, "columns as they are"),
    ("CREATE TABLE u (a INT) WHATEVER", ParseException, "PARSE_SYNTAX_ERROR.*WHATEVER"),
    ("CREATE TABLE u (a NOTYPE)", ParseException, "NOTYPE"),
    ("ALTER TABLE t ADD COLUMN z INT NOT NULL", paimon_spark.SchemaChangeError, "z"),
    ("ALTER TABLE t SET LOCATION '/x'", paimon_spark.UnsupportedError, "SET LOCATION.*It knows RENAME TO"),
    ("ALTER TABLE t REPLACE COLUMNS (a INT)", paimon_spark.SchemaChangeError, "REPLACE COLUMNS"),
    ("ALTER TABLE `t$files` ADD COLUMN z INT", paimon_spark.UnsupportedError, "system tables"),
    ("DROP TABLE paimon.db.nix", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
    ("DROP TABLE `t$branch_b1`", paimon_spark.UnsupportedError, "branch"),
    ("DROP DATABASE db", AnalysisException, "SCHEMA_NOT_EMPTY"),
    ("DROP DATABASE nix", AnalysisException, "SCHEMA_NOT_FOUND"),
    ("CREATE DATABASE db", AnalysisException, "SCHEMA_ALREADY_EXISTS"),
    ("USE paimon.nix", AnalysisException, "SCHEMA_NOT_FOUND"),
    ("SHOW PARTITIONS t", AnalysisException, "not partitioned"),
]


@pytest.mark.parametrize(("statement", "kind", "pattern"), ERRORS, ids=[error[0] for error in ERRORS])
def test_errors(run: Sql, statement: str, kind: type[Exception], pattern: str) -> None:
    with pytest.raises(kind, match=f"(?s){pattern}"):
        run(statement).collect()


@pytest.fixture
def own(session: SparkSession, tmp_path: Path) -> Sql:
    """Runs statements over a warehouse of its own."""
    paimon_spark.sql(session, "SELECT 1", warehouse=str(tmp_path), catalog="w")
    paimon_spark.sql(session, "CREATE DATABASE db").collect()
    paimon_spark.sql(session, "USE db")
    return lambda statement, **more: paimon_spark.sql(session, statement, **more)


def test_inserts(own: Sql) -> None:
    own("CREATE TABLE t (id INT, price DOUBLE DEFAULT 1.5, name VARCHAR(5) DEFAULT 'no''ne', day DATE)")
    assert own("INSERT INTO t VALUES (1, 2.5, 'a', '2024-01-01' :: DATE), (2L, DEFAULT, DEFAULT, NULL)").columns == [
        "num_affected_rows",
        "num_inserted_rows",
    ]
    own("INSERT INTO TABLE w.db.t (name, id) SELECT 'b', 3")
    own("INSERT INTO t BY NAME SELECT 'c' AS name, 4 AS ID")
    own("WITH q AS (SELECT max(id) + 1 AS m FROM t) INSERT INTO t SELECT m, m, m, DATE '2024-01-02' FROM q")
    own("INSERT INTO t (id) (SELECT 6)")
    own("INSERT INTO t TABLE t VERSION AS OF 1")
    got = sorted((row.id, row.price, row.name, str(row.day)) for row in own("SELECT * FROM t").collect())
    first = [(1, 2.5, "a", "2024-01-01"), (2, 1.5, "no'ne", "None")]
    others = [(3, 1.5, "b", "None"), (4, 1.5, "c", "None"), (5, 5.0, "5", "2024-01-02"), (6, 1.5, "no'ne", "None")]
    assert got == sorted([*first, *first, *others])
    with pytest.raises(Exception, match=r"OVERFLOW"):
        own("INSERT INTO t (id) VALUES (3000000000)")
    with pytest.raises(Exception, match=r"(?i)char|length"):
        own("INSERT INTO t (name) VALUES ('too long')")
    assert own("SELECT * FROM t").count() == 8


def test_an_overflow_is_an_error_without_ansi_too(own: Sql, session: SparkSession) -> None:
    own("CREATE TABLE t (id TINYINT)")
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        own("INSERT INTO t VALUES (1), (NULL)")
        with pytest.raises(Exception, match="CAST_OVERFLOW_IN_TABLE_INSERT"):
            own("INSERT INTO t VALUES (300)")
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
    assert rows(own("SELECT * FROM t")) == [(1,), (None,)]


@pytest.mark.thorough
def test_overwrites(own: Sql, session: SparkSession) -> None:
    own("CREATE TABLE t (id INT, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    own("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, 'it''s', 1)")
    own("INSERT OVERWRITE t PARTITION (dt = 'a', hh = 1) SELECT 10")
    own("INSERT OVERWRITE TABLE t PARTITION (DT = 'it''s', hh) VALUES (40, 7)")
    assert rows(own("SELECT * FROM t")) == [(10, "a", 1), (2, "a", 2), (3, "b", 1), (40, "it's", 7)]
    own("INSERT INTO t PARTITION (dt = 'n', hh = '5') VALUES (50)")
    own("INSERT INTO t REPLACE WHERE dt = 'b' SELECT 30, 'b', 3")
    own("INSERT OVERWRITE t WITH ('partitionOverwriteMode' = 'dynamic') SELECT id + 1, dt, hh FROM t WHERE dt = 'a'")
    expected = [(11, "a", 1), (3, "a", 2), (30, "b", 3), (40, "it's", 7), (50, "n", 5)]
    assert rows(own("SELECT * FROM t")) == sorted(expected, key=repr)
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        own("INSERT OVERWRITE t VALUES (31, 'b', 3)")
        assert own("SELECT * FROM t").count() == 5
    finally:
        session.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(own("SHOW PARTITIONS t PARTITION (dt = 'a')")) == [("dt=a/hh=1",), ("dt=a/hh=2",)]
    own("ALTER TABLE t DROP PARTITION (dt = 'a'), PARTITION (dt = 'n', hh = 5)")
    own("ALTER TABLE t DROP IF EXISTS PARTITION (dt = 'nix', hh = 1)")
    own("ALTER TABLE t ADD PARTITION (dt = 'nix', hh = 1)")
    own("ALTER TABLE t ADD IF NOT EXISTS PARTITION (dt = 'b', hh = 1) PARTITION (dt = 'nix', hh = 1)")
    for clause, words in (
        ("(dt = 'nix')", "must match the partition spec"),
        ("(dt = 'nix', hh = 1) LOCATION '/tmp/x'", "have their directories in that of the table"),
    ):
        with pytest.raises((AnalysisException, paimon_spark.errors.UnsupportedError), match=words):
            own(f"ALTER TABLE t ADD PARTITION {clause}")
    own("ALTER TABLE t DROP PARTITION (dt = 'nix')")  # a clause that leaves out columns may match nothing
    with pytest.raises(AnalysisException, match="PARTITIONS_NOT_FOUND"):
        own("ALTER TABLE t DROP PARTITION (dt = 'nix', hh = 1), PARTITION (dt = 'b')")
    own("TRUNCATE TABLE t PARTITION (dt = 'nix')")
    own("TRUNCATE TABLE t PARTITION (hh = 7)")
    assert rows(own("SHOW PARTITIONS t")) == [("dt=b/hh=3",)]
    own("INSERT OVERWRITE t SELECT 1, 'z', 1")
    assert rows(own("SELECT * FROM t")) == [(1, "z", 1)]
    own("TRUNCATE TABLE t")
    assert own("SELECT * FROM t").count() == 0


def test_tables(own: Sql, tmp_path: Path) -> None:
    own(
        "CREATE TABLE IF NOT EXISTS w.db.t (`a b` INT NOT NULL COMMENT 'it''s, (x)', c CHAR(3) DEFAULT 'x', "
        "m MAP<STRING, ARRAY<DECIMAL(10, 2)>>, dt DATE) USING paimon PARTITIONED BY (dt) COMMENT 'a table' "
        "TBLPROPERTIES ('primary-key' = 'a b,dt', bucket = 1)"
    )
    own("CREATE TABLE IF NOT EXISTS t (other INT)")
    shown = own("SHOW CREATE TABLE t").collect()[0][0]
    own("CREATE TABLE u LIKE t TBLPROPERTIES ('bucket' = '2')")
    own("DROP TABLE t")
    own(shown)
    assert own("SHOW CREATE TABLE t").collect()[0][0] == shown
    assert "COMMENT 'it\\'s, (x)'" in shown
    assert rows(own("DESCRIBE t"))[:2] == [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
    described = {row.col_name: row.data_type for row in own("DESC TABLE EXTENDED u").collect()}
    assert described["m"] == "map<string,array<decimal(10,2)>>"
    assert described["Location"] == f"{tmp_path}/db.db/u"
    assert (described["Owner"], f"LOCATION '{tmp_path}/db.db/t'" in shown) == (getpass.getuser(), False)
    assert rows(own("SHOW TBLPROPERTIES u ('bucket')")) == [("bucket", "2")]
    assert ("primary-key", "a b,dt") in rows(own("SHOW TBLPROPERTIES t"))
    assert rows(own("SHOW COLUMNS IN t")) == [("a b",), ("c",), ("dt",), ("m",)]
    own("ALTER TABLE u RENAME TO w.db.v")
    assert rows(own("SHOW TABLES LIKE 't*|V'")) == [("db", "t", False), ("db", "v", False)]
    assert rows(own("SHOW TABLES IN w.db 'x*'")) == []
    own("DROP TABLE IF EXISTS w.db.u")
    own("DROP TABLE v PURGE")
    own(f"CREATE TABLE paimon.`{tmp_path}/elsewhere` AS SELECT 1 AS one")
    own(f"INSERT INTO paimon.`{tmp_path}/elsewhere` VALUES (2)")
    assert rows(own(f"SELECT x.one FROM paimon.`{tmp_path}/elsewhere` x")) == [(1,), (2,)]
    assert rows(own(f"SELECT snapshot_id FROM paimon.`{tmp_path}/elsewhere$snapshots` VERSION AS OF 1")) != []


def test_a_new_name_is_of_the_catalog_of_the_table(own: Sql, tmp_path: Path) -> None:
    """As Spark reads ALTER TABLE … RENAME TO, whichever catalog is the current one."""
    own("CREATE TABLE t (a INT)")
    own("CREATE DATABASE second")
    own("SELECT 1", warehouse=str(tmp_path / "v"), catalog="v")
    own("CREATE DATABASE v.db")
    own("ALTER TABLE w.db.t RENAME TO second.u")
    own("ALTER TABLE w.second.u RENAME TO `x y`")
    assert rows(own("SHOW TABLES IN w.second")) == [("second", "x y", False)]
    assert own("SHOW CREATE TABLE w.second.`x y`").collect()[0][0].startswith("CREATE TABLE w.second.`x y` (")
    with pytest.raises(paimon_spark.UnsupportedError, match="within the same catalog"):
        own("ALTER TABLE w.second.`x y` RENAME TO v.db.t")


@pytest.mark.thorough
def test_create_and_replace_from_queries(own: Sql) -> None:
    own("CREATE TABLE t PARTITIONED BY (b) TBLPROPERTIES ('file.format' = 'orc') AS SELECT 1 AS a, 'x' AS b")
    own("CREATE OR REPLACE TABLE t PARTITIONED BY (b) AS SELECT a + 1 AS a, b, true AS c FROM t")
    assert rows(own("SELECT * FROM t")) == [(2, "x", True)]
    assert rows(own("SELECT * FROM t VERSION AS OF 1")) == [(1, "x")]
    own("REPLACE TABLE t (z INT) PARTITIONED BY (b STRING)")
    assert own("SELECT * FROM t").columns == ["z", "b"]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        own("CREATE OR REPLACE TABLE t PARTITIONED BY (b) AS SELECT nix AS a, b FROM t")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        own("CREATE TABLE broken AS SELECT 1 / id AS a FROM range(1)")
    assert rows(own("SHOW TABLES")) == [("db", "t", False)]


def test_alters(own: Sql) -> None:
    own("CREATE TABLE t (id INT, s STRUCT<x: INT>)")
    own("INSERT INTO t VALUES (1, named_struct('x', 2))")
    own("ALTER TABLE t ADD COLUMNS (a STRING COMMENT 'an a' FIRST, b DECIMAL(5, 1) AFTER a)")
    own("ALTER TABLE t ADD COLUMN s.y STRING")
    own("ALTER TABLE t ALTER COLUMN id TYPE BIGINT")
    own("ALTER TABLE t RENAME COLUMN b TO `b b`")
    own("ALTER TABLE t CHANGE COLUMN `b b` COMMENT 'a b'")
    own("ALTER TABLE t ALTER a SET DEFAULT 'x'")
    own("ALTER TABLE t ALTER COLUMN id FIRST")
    own("INSERT INTO t (id) VALUES (2)")
    assert rows(own("DESC t")) == [
        ("a", "string", "an a"),
        ("b b", "decimal(5,1)", "a b"),
        ("id", "bigint", None),
        ("s", "struct<x:int,y:string>", None),
    ]
    assert rows(own("SELECT id, a, s.x FROM t")) == [(1, None, 2), (2, "x", None)]
    own("ALTER TABLE t DROP COLUMNS (`b b`, a)")
    own("ALTER TABLE t DROP COLUMN IF EXISTS nix")
    own("ALTER TABLE t SET TBLPROPERTIES ('snapshot.num-retained.max' = '20', 'write-only' = true)")
    own("ALTER TABLE t UNSET TBLPROPERTIES ('write-only')")
    own("COMMENT ON TABLE t IS 'said'")
    kept = dict(rows(own("SHOW TBLPROPERTIES t")))
    assert (kept.pop("path")[-8:], kept) == ("/db.db/t", {"snapshot.num-retained.max": "20"})
    assert "COMMENT 'said'" in own("SHOW CREATE TABLE t").collect()[0][0]
    assert own("SELECT * FROM t").columns == ["id", "s"]


def test_columns_are_named_by_any_case(own: Sql) -> None:
    own("CREATE TABLE t (Id INT, s STRUCT<Xx: INT>, l ARRAY<STRUCT<Aa: INT>>, c INT)")
    own("ALTER TABLE t RENAME COLUMN ID TO number")
    own("ALTER TABLE t RENAME COLUMN S.XX TO y")
    own("ALTER TABLE t ADD COLUMN L.element.b INT")
    own("ALTER TABLE t ALTER COLUMN C AFTER NUMBER")
    own("ALTER TABLE t ALTER COLUMN C TYPE BIGINT")
    assert rows(own("DESC t")) == [
        ("c", "bigint", None),
        ("l", "array<struct<Aa:int,b:int>>", None),
        ("number", "int", None),
        ("s", "struct<y:int>", None),
    ]
    assert own("SELECT * FROM t").columns == ["number", "c", "s", "l"]
    for statement in ("ADD COLUMN NUMBER INT", "RENAME COLUMN c TO Number", "ADD COLUMN s.Y INT"):
        with pytest.raises(SchemaChangeError, match="exists"):
            own(f"ALTER TABLE t {statement}")
    own("ALTER TABLE t RENAME COLUMN c TO C")
    own("ALTER TABLE t DROP COLUMN NUMBER")
    assert own("SELECT * FROM t").columns == ["C", "s", "l"]


def test_rows_are_copied_into_no_table_that_is_not_there(own: Sql) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own("COPY INTO nothing FROM '/nowhere' FILE_FORMAT = (TYPE = CSV)")


def test_tags_and_procedures(own: Sql) -> None:
    own("CREATE TABLE t AS SELECT 1 AS a")
    own("ALTER TABLE t CREATE TAG one RETAIN 2 DAYS")
    own("INSERT INTO t VALUES (2)")
    own("ALTER TABLE w.db.t CREATE OR REPLACE TAG `two` AS OF VERSION 2")
    assert rows(own("SHOW TAGS t")) == [("one",), ("two",)]
    assert rows(own("CALL w.sys.rename_tag('db.t', 'two', target_tag => concat('th', 'ree'))")) == [(True,)]
    assert rows(own("CALL sys.create_tag(table => 't', tag => :tag, snapshot => 1)", args={"tag": "four"})) == [(True,)]
    done = own("CALL sys.rollback(table => 'w.db.t', snapshot => 1)")
    assert (done.columns, rows(done)) == (["previous_snapshot_id", "current_snapshot_id"], [(2, 1)])
    assert rows(own("SHOW TAGS t")) == [("four",), ("one",)]
    own("ALTER TABLE t DELETE TAG one")
    assert rows(own("SELECT tag_name FROM `t$tags`")) == [("four",)]
    stray = own("SELECT file_path FROM `t$files`").collect()[0][0].rpartition("/")[0] + "/data-stray.parquet"
    Path(stray).write_bytes(b"12345")
    os.utime(stray, (86400, 86400))
    for name, found in (("db.*", (1, 5)), ("w.db.*", (0, 0))):
        assert rows(own(f"CALL sys.remove_orphan_files(table => '{name}', mode => 'local')")) == [found]


@pytest.mark.thorough
def test_where_a_session_stands(session: SparkSession, tmp_path: Path) -> None:
    def sql(statement: str, **more: Any) -> list[tuple[Any, ...]]:
        return rows(paimon_spark.sql(other, statement, **more))

    other = SparkSession.newSession(session)  # Spark's own: with no catalog that another test has registered
    with pytest.raises(paimon_spark.PaimonError, match=r"catalog paimon is not known.*warehouse=.*paimon.`/data/wh"):
        sql("SELECT * FROM paimon.db.t")
    with pytest.raises(paimon_spark.PaimonError, match="is not known"):
        sql("USE paimon")
    with pytest.raises(paimon_spark.UnsupportedError, match=r"s3\.endpoint.*come with the warehouse"):
        sql("SELECT 1", **{"s3.endpoint": "http://x"})
    sql("CREATE DATABASE one", warehouse=str(tmp_path / "first"))
    sql("CREATE TABLE one.t AS SELECT 1 AS a")
    sql("CREATE DATABASE two", warehouse=str(tmp_path / "second"), catalog="second")
    sql("CREATE TABLE t AS SELECT 2 AS a", database="two")
    assert sql("SHOW CURRENT NAMESPACE") == [("second", "two")]
    assert sql("SELECT paimon.one.t.a, second.two.t.a FROM t, paimon.one.t") == [(1, 2)]
    assert sql("SHOW DATABASES") == [("default",), ("two",)]
    assert sql("SHOW DATABASES IN paimon LIKE 'O*'") == [("one",)]
    sql("USE paimon.one")
    assert sql("SELECT * FROM t") == [(1,)]
    sql("USE DATABASE second.two")
    assert sql("SELECT * FROM t") == [(2,)]
    assert [row[0] for row in sql("DESCRIBE DATABASE two")] == ["Catalog Name", "Location", "Namespace Name"]
    sql("USE spark_catalog")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM t")
    sql("SET CATALOG 'second'")
    sql("CREATE SCHEMA IF NOT EXISTS two COMMENT 'x'")
    sql("DROP DATABASE IF EXISTS nix")
    sql("DROP DATABASE two CASCADE")
    assert sql("SHOW SCHEMAS") == [("default",)]


def test_options_of_the_session(run: Sql, session: SparkSession) -> None:
    session.conf.set("spark.paimon.scan.tag-name", "first")
    session.conf.set("spark.paimon.paimon.other.*.scan.snapshot-id", "1")
    try:
        assert rows(run("SELECT * FROM t")) == FIRST
        assert rows(run("SELECT * FROM t VERSION AS OF 2")) == T
        assert run("SELECT * FROM other.t").count() == 2
    finally:
        session.conf.unset("spark.paimon.scan.tag-name")
        session.conf.unset("spark.paimon.paimon.other.*.scan.snapshot-id")


def test_metadata_columns_and_views_of_rows(run: Sql) -> None:
    found = rows(run("SELECT id, __paimon_bucket FROM t WHERE id > 1"))
    assert found == [(2, 0), (3, 0)]
    assert rows(run("SELECT DISTINCT __paimon_partition.dt FROM days WHERE n = 1")) == [("a",)]
    with pytest.raises(paimon_spark.UnsupportedError, match=r"column __paimon_bucket of .* name each column"):
        run("SELECT *, __paimon_bucket FROM t")
    assert [row[0] for row in run("DESCRIBE `t$audit_log`").collect()] == ["rowkind", "id", "name"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("DESCRIBE `t$snapshotz`")


@pytest.mark.parametrize("statement", ["DELETE FROM t WHERE id = 1", "UPDATE t SET name = 'x'"])
def test_an_earlier_version_is_not_changed(run: Sql, session: SparkSession, statement: str) -> None:
    session.conf.set("spark.paimon.scan.snapshot-id", "1")
    try:
        with pytest.raises(paimon_spark.UnsupportedError, match=r"earlier version .* RESET it"):
            run(statement)
    finally:
        session.conf.unset("spark.paimon.scan.snapshot-id")
    assert rows(run("SELECT * FROM t")) == T


def test_defaults_of_nested_columns(session: SparkSession, tmp_path: Path) -> None:
    paimon_spark.sql(session, "CREATE DATABASE IF NOT EXISTS w.d", warehouse=str(tmp_path), catalog="w", database="d")
    run = partial(paimon_spark.sql, session)
    run("CREATE TABLE n (id INT, a ARRAY<INT> DEFAULT array(1, 2), s STRUCT<x: INT, y: STRING>)")
    run("ALTER TABLE n ALTER COLUMN s SET DEFAULT struct(7, 'q')")
    run("INSERT INTO n (id) VALUES (1)")
    assert [tuple(row) for row in run("SELECT id, a, s.x, s.y FROM n").collect()] == [(1, [1, 2], 7, "q")]
    with pytest.raises(paimon_spark.UnsupportedError, match="must be an array"):
        run("CREATE TABLE m (a ARRAY<DATE> DEFAULT array(current_date()))")
    with pytest.raises(paimon_spark.SchemaChangeError, match="Only columns of the table"):
        run("ALTER TABLE n ALTER COLUMN s.x SET DEFAULT 3")


@pytest.mark.parametrize("options", ["'primary-key' = 'id', 'bucket' = '1'", "'deletion-vectors.enabled' = 'true'", ""])
def test_merge_into(run: Sql, options: str) -> None:
    table = f"merged{len(options)}"
    properties = f" TBLPROPERTIES ({options})" if options else ""
    run(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING, n INT DEFAULT 7, s STRUCT<x: INT, y: INT>){properties}"
    )
    run(f"INSERT INTO {table} VALUES (1, 'a', 1, named_struct('x', 1, 'y', 1)), (2, 'b', 2, NULL), (3, 'c', 3, NULL)")
    run(
        "WITH more AS (SELECT id, label, id * 10 AS m FROM other.t UNION ALL SELECT 9, 'nine', 90) "
        f"MERGE INTO {table} AS t USING (SELECT * FROM more) AS `the source` "
        "ON t.id = `the source`.id AND CASE WHEN t.id > 0 THEN true ELSE false END "
        "WHEN MATCHED AND CASE WHEN t.n = 3 THEN true END THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.name = CASE WHEN t.n = 1 THEN concat(t.name, `the source`.label) ELSE 'x' END, "
        "N = m, s.y = CAST(m AS INT) "
        "WHEN NOT MATCHED THEN INSERT (id, name, n) VALUES (`the source`.id, label, DEFAULT) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = upper(t.name)"
    )  # fmt: skip
    assert rows(run(f"SELECT id, name, n, s.x, s.y FROM {table}")) == [
        (1, "aone", 10, 1, 10), (2, "B", 2, None, None), (9, "nine", 7, None, None),
    ]  # fmt: skip
    run(
        f"MERGE INTO {table} USING {table} VERSION AS OF 1 AS old ON {table}.id = old.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(run(f"SELECT id, name FROM {table}")) == [(1, "a"), (2, "b"), (9, "nine")]
    run(
        f"MERGE INTO {table} t USING (SELECT 9L AS id, 1 AS end, 2 AS when) s ON t.id = s.id AND s.when = 2 "
        "WHEN MATCHED AND s.end = 1 AND CASE WHEN s.end > 0 THEN s.when > 1 END THEN UPDATE SET n = s.end + s.when"
    )
    assert rows(run(f"SELECT n FROM {table} WHERE id = 9")) == [(3,)]
    with pytest.raises(paimon_spark.DataError, match="MERGE_CARDINALITY_VIOLATION"):
        run(
            f"MERGE INTO {table} t USING (SELECT 1L AS id, 'p' AS name UNION ALL SELECT 1L, 'q') s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = s.name"
        )
    assert rows(run(f"SELECT count(*) FROM {table}")) == [(3,)]


def test_subqueries_of_merge_into(run: Sql) -> None:
    """They read the snapshot that the statement reads; what is refused changes nothing."""
    run("CREATE TABLE subs (k INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    run("INSERT INTO subs VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    source = "(SELECT * FROM VALUES (1, 5), (2, 6), (8, 7), (9, 9) AS v(k, n)) s"
    run(
        f"MERGE INTO subs t USING {source} ON t.k = s.k "
        "WHEN MATCHED AND t.n < (SELECT max(n) FROM subs) - 1 AND EXISTS (SELECT 1 FROM subs x WHERE x.k = s.k) "
        "THEN UPDATE SET n = (SELECT count(*) FROM subs) + s.n "
        "WHEN MATCHED AND s.n IN (SELECT n + 4 FROM subs) THEN DELETE "
        "WHEN NOT MATCHED AND s.k > (SELECT avg(n) * 4 FROM subs) "
        "THEN INSERT (k, v) VALUES (s.k, (SELECT min(v) FROM subs))"
    )
    expected = [(1, "a", 8), (3, "c", 3), (9, "a", None)]
    assert rows(run("SELECT * FROM subs")) == expected
    for refused in (
        "WHEN MATCHED AND t.n IN (SELECT n FROM subs) THEN DELETE",
        "WHEN MATCHED AND s.n > (SELECT max(n) FROM subs x WHERE x.k = t.k) THEN DELETE",
        "WHEN NOT MATCHED BY SOURCE AND t.n > (SELECT min(n) FROM subs) THEN DELETE",
    ):
        with pytest.raises(paimon_spark.UnsupportedError, match=r"a subquery .* is not supported in MERGE INTO"):
            run(f"MERGE INTO subs t USING {source} ON t.k = s.k {refused}")
    assert rows(run("SELECT * FROM subs")) == expected


def test_arguments_of_merge_into(run: Sql) -> None:
    """Each is of the type that Spark gives it, wherever it stands."""
    run("CREATE TABLE args (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    given = {
        "text": "it's \\ 'q' :k ?",
        "half": 0.1,
        "nan": float("nan"),
        "big": 2**40,
        "number": Decimal("-12.50"),
        "day": dt.date(2024, 2, 29),
        "time": dt.datetime(2024, 3, 31, 1, 30, 0, 250000),
        "long": dt.timedelta(days=-1, microseconds=7),
        "bytes": b"\x00'\xff",
        "nothing": None,
    }
    values = ", ".join(f"'{name}', :{name}" for name in given)
    described = "concat_ws(';', " + ", ".join(f"typeof(:{name})" for name in given) + ")"
    expected = run(f"SELECT {described}, to_json(named_struct({values}))", args=given).collect()[0]
    run(
        "MERGE INTO args t USING (SELECT id FROM range(1, 3) WHERE id <= :big) s ON t.k = s.id AND :half < 1 "
        f"WHEN NOT MATCHED AND s.id = 1 THEN INSERT (k, v) VALUES (s.id, {described}) "
        f"WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.id, to_json(named_struct({values})))",
        args=given,
    )
    assert rows(run("SELECT k, v FROM args")) == [(1, expected[0]), (2, expected[1])]
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        run("MERGE INTO args t USING range(3) s ON t.k = s.id AND ? > ? WHEN MATCHED THEN DELETE", args=[1])
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        run("MERGE INTO args t USING range(3) s ON t.k = :nix WHEN MATCHED THEN DELETE", args={"k": 1})


def test_schema_evolution_of_merge_into(run: Sql, session: SparkSession) -> None:
    run("CREATE TABLE grown (id INT, v STRING)")
    run("INSERT INTO grown VALUES (1, 'a'), (2, 'b')")
    source = "(SELECT 2 AS id, 9L AS `new.x`, 'y' AS y UNION ALL SELECT 3, 8, 'z') s"
    stars = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(paimon_spark.SchemaMismatchError, match="no column v"):
        run(f"MERGE INTO grown t USING {source} ON t.id = s.id {stars}")
    for wrong in ("THEN UPDATE SET y = s.nix", "AND s.nix THEN UPDATE SET y = s.y", "THEN UPDATE SET nix = 1"):
        with pytest.raises((AnalysisException, paimon_spark.SchemaMismatchError), match="nix"):
            run(f"MERGE WITH SCHEMA EVOLUTION INTO grown t USING {source} ON t.id = s.id WHEN MATCHED {wrong}")
    assert run("SELECT * FROM grown").columns == ["id", "v"], "nothing is added by what is refused"
    session.conf.set("spark.paimon.write.merge-schema", "true")
    try:
        run(f"MERGE INTO grown t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET Y = concat(s.y, t.v)")
    finally:
        session.conf.unset("spark.paimon.write.merge-schema")
    assert run("SELECT * FROM grown").columns == ["id", "v", "y"]
    run(f"WITH e AS (SELECT 1) MERGE WITH SCHEMA EVOLUTION INTO grown t USING {source} ON t.id = s.id {stars}")
    assert rows(run("SELECT id, v, y, `new.x` FROM grown")) == [
        (1, "a", None, None), (2, "b", "y", 9), (3, None, "z", 8),
    ]  # fmt: skip


def test_copy_into(own: Sql, tmp_path: Path) -> None:
    own("CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    own("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    place = tmp_path / "out"
    out = f"COPY INTO '{place}' FROM (SELECT id, name FROM t WHERE id > 1) FILE_FORMAT = (TYPE = JSON)"
    assert [tuple(row)[2] for row in own(out).collect()] == [1]
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        own(out)
    assert [tuple(row)[2] for row in own(f"{out.replace(' WHERE id > 1', '')} OVERWRITE = TRUE").collect()] == [2]
    own("CREATE TABLE u (id INT, name STRING)")
    loaded = own(f"COPY INTO u FROM '{place}' FILE_FORMAT = (TYPE = JSON)").collect()
    assert {row.status for row in loaded} == {"LOADED"}
    assert sorted((row.id, row.name) for row in own("SELECT * FROM u").collect()) == [(1, "a"), (2, "b")]
