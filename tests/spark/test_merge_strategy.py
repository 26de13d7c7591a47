"""Which way a MERGE goes, and why: asked before anything is written, and shown by EXPLAIN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.merge_frames import equal_names
from paimon_spark.spark.sql.merge_strategy import (
    Action,
    ClauseShape,
    Comparison,
    MergeShape,
    MergeWay,
    strategy_of,
)
from paimon_spark.spark.statements.sure_values import casts_surely, sure_type
from tests.support.commits import make_table

pytestmark = pytest.mark.catalog("explained", current=True)

UPSERT = MergeShape(
    compared=[Comparison("k", "s.k", True)],
    compares_only=True,
    matched=[ClauseShape(Action.UPDATE, values={"k": "s.k", "v": "s.v"})],
    not_matched=[ClauseShape(Action.INSERT, values={"k": "s.k", "v": "s.v"})],
    not_matched_by_source=[],
    reads_target=lambda: (),
    may_fail=lambda columns: False,
)
UPDATE = replace(UPSERT, not_matched=[])
SHAPES = {
    "upsert": (UPSERT, MergeWay.UPSERT),
    "update": (UPDATE, MergeWay.KEY_LOOKUP),
    "conditional": (
        replace(UPSERT, matched=[replace(UPSERT.matched[0], conditional=True)]), MergeWay.KEY_LOOKUP
    ),
    "other values": (
        replace(UPSERT, matched=[ClauseShape(Action.UPDATE, values={"v": "s.w"})]), MergeWay.KEY_LOOKUP
    ),
    "delete": (replace(UPSERT, matched=[ClauseShape(Action.DELETE)]), MergeWay.KEY_LOOKUP),
    "reads the target": (
        replace(UPDATE, reads_target=lambda: ["v"], joins_itself=lambda: True), MergeWay.LOOKUP_JOIN
    ),
    "reads the target, and is no statement of Spark's": (
        replace(UPDATE, reads_target=lambda: ["v"]), MergeWay.KEY_JOIN
    ),
    "reads metadata of the target": (
        replace(UPDATE, reads_target=lambda: None, joins_itself=lambda: True), MergeWay.KEY_JOIN
    ),
    "an error, where the target is known": (
        replace(UPDATE, may_fail=lambda columns: "v" in columns, joins_itself=lambda: True), MergeWay.LOOKUP_JOIN
    ),
    "more in ON": (replace(UPSERT, compares_only=False), MergeWay.KEY_JOIN),
    "a cast in ON": (replace(UPSERT, compared=[Comparison("k", "s.k", False)]), MergeWay.KEY_JOIN),
    "no key in ON": (replace(UPSERT, compared=[Comparison("v", "s.v", True)]), MergeWay.KEY_JOIN),
    "another key": (
        replace(UPSERT, not_matched=[ClauseShape(Action.INSERT, values={"k": "s.x", "v": "s.v"})]), MergeWay.KEY_JOIN
    ),
    "a value that may be an error": (replace(UPDATE, may_fail=lambda columns: "v" in columns), MergeWay.KEY_JOIN),
    "such a value that each row gets": (
        replace(
            UPSERT,
            matched=[ClauseShape(Action.UPDATE, values={"v": "s.v"}), ClauseShape(Action.UPDATE, values={"v": "s.v"})],
            may_fail=lambda columns: "v" in columns,
        ),
        MergeWay.KEY_LOOKUP,
    ),
    "such a condition": (
        replace(UPSERT, matched=[replace(UPSERT.matched[0], conditional=True)], may_fail=lambda columns: True),
        MergeWay.KEY_JOIN,
    ),
    "by source": (replace(UPSERT, not_matched_by_source=[ClauseShape(Action.DELETE)]), MergeWay.KEY_JOIN),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_table_with_fixed_buckets(tmp_path: Path, name: str) -> None:
    shape, way = SHAPES[name]
    assert strategy_of(make_table(tmp_path / "t", primary_key=["k"], bucket="2"), shape).way is way


def test_other_tables(tmp_path: Path) -> None:
    dynamic = make_table(tmp_path / "dynamic", primary_key=["k"], bucket="-1")
    assert strategy_of(dynamic, UPSERT).way is MergeWay.UPSERT
    assert strategy_of(dynamic, UPDATE).way is MergeWay.KEY_JOIN, "rows that match nothing must get no bucket"
    postponed = make_table(tmp_path / "postponed", primary_key=["k"], bucket="-2")
    assert strategy_of(postponed, UPSERT).way is MergeWay.KEY_JOIN
    changelog = make_table(tmp_path / "changelog", primary_key=["k"], bucket="1", changelog_producer="input")
    assert strategy_of(changelog, UPSERT).way is MergeWay.KEY_LOOKUP
    assert strategy_of(changelog, replace(UPSERT, may_fail=lambda columns: "v" in columns)).way is MergeWay.KEY_LOOKUP
    append = make_table(tmp_path / "append")
    assert strategy_of(append, UPSERT).way is MergeWay.FILE_REWRITE
    assert strategy_of(append, replace(UPSERT, matched=[])).way is MergeWay.APPEND


EXPLAINED = {
    "upsert": ("USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", "upsert ("),
    "columns": (
        "USING s ON s.k = t.k WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n "
        "WHEN NOT MATCHED THEN INSERT (n, v, k) VALUES (s.n, s.v, s.k)",
        "upsert (",
    ),
    "update": ("USING s ON t.k = s.k WHEN MATCHED AND s.n > 1 THEN UPDATE SET v = upper(s.v)", "key lookup ("),
    "another key": ("USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.n, s.v)", "key join (a clause"),
    "counter": (
        "USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = t.n + s.n",
        "lookup join (ON compares the primary key alone, and a condition or a value of a clause reads the target",
    ),
    "a remainder": ("USING s ON t.k = s.k WHEN MATCHED AND s.n % 5 > 0 THEN UPDATE SET v = s.v", "key lookup ("),
    "a sum": (
        "USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n + 1",
        "lookup join (ON compares the primary key alone, and a condition or a value may be an error, maybe for a row "
        "of the source that no clause writes",
    ),
    "a quotient": (
        "USING s ON t.k = s.k WHEN MATCHED AND 10 / s.n > 1 THEN UPDATE SET v = s.v",
        "lookup join (ON compares the primary key alone, and a condition or a value may be an error",
    ),
    "a sum that each row gets": (
        "USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n, v = concat(s.v, 'u') "
        "WHEN NOT MATCHED THEN INSERT (k, n, v) VALUES (s.k, s.n, 'i')",
        "key lookup (",
    ),
    "other ON": ("USING s ON t.k = s.k AND t.n < s.n WHEN MATCHED THEN DELETE", "key join (ON is not"),
}


@pytest.mark.spark
def test_explain(spark: SparkSession, warehouse: Path) -> None:
    """The catalog and the statements by text give one answer, and nothing is written."""
    spark.sql("CREATE TABLE t (k INT, v STRING, n INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='2')")
    spark.sql("CREATE TABLE plain (k INT, v STRING, n INT)")
    spark.sql("INSERT INTO t VALUES (1, 'a', 1)")
    spark.createDataFrame([(1, "b", 2)], "k INT, v STRING, n INT").createOrReplaceTempView("s")
    path = warehouse / "db.db" / "t"
    for clauses, said in EXPLAINED.values():
        by_catalog = spark.sql(f"EXPLAIN MERGE INTO t {clauses}").collect()[0][0]
        by_text = paimon_spark.sql(spark, f"EXPLAIN MERGE INTO paimon.`{path}` t {clauses}").collect()[0][0]
        assert [said in by_catalog, said in by_text] == [True, True], (clauses, by_catalog, by_text)
    rewrite = spark.sql("EXPLAIN MERGE INTO plain t USING s ON t.k = s.k WHEN MATCHED THEN DELETE").collect()[0][0]
    assert "file rewrite (" in rewrite
    data_evolution = (
        f"EXPLAIN MERGE WITH SCHEMA EVOLUTION INTO paimon.`{path}` t USING (SELECT 1 k, 2 x) s ON t.k = s.k "
    )
    assert "key lookup (" in paimon_spark.sql(spark, data_evolution + "WHEN MATCHED THEN UPDATE SET *").collect()[0][0]
    refused = "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)"
    assert "MERGE INTO db.t ON" in spark.sql(f"EXPLAIN {refused}").collect()[0][0]
    with pytest.raises(PySparkException, match="No assignment for 'k'"):
        spark.sql(refused)
    assert [tuple(row) for row in spark.table("t").collect()] == [(1, "a", 1)]


CHANGES = {
    "DELETE FROM changed": ("DELETE", "the whole table is dropped (no condition)"),
    "DELETE FROM changed WHERE p = 1": ("DELETE", "whole partitions are dropped (the condition is about partition"),
    "DELETE FROM changed WHERE k = 1": ("DELETE", "row kinds (the table has a primary key), in the driver"),
    "UPDATE changed SET v = 'x'": ("UPDATE", "row kinds (the table has a primary key), in the driver"),
    "MERGE INTO changed t USING s ON t.k = s.k WHEN MATCHED THEN DELETE": ("MERGE", "key join (ON is not"),
}


@pytest.mark.spark
def test_plans_name_the_statement(spark: SparkSession, warehouse: Path) -> None:
    """EXPLAIN in each mode, and the plan of a statement that has run: what Spark's UI shows."""
    spark.sql("CREATE TABLE changed (k INT, p INT, v STRING) PARTITIONED BY (p) "
              "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='1')")  # fmt: skip
    spark.sql("INSERT INTO changed VALUES (1, 1, 'a'), (2, 2, 'b')")
    spark.sql("SELECT 1 AS k").createOrReplaceTempView("s")
    for statement, (name, strategy) in CHANGES.items():
        for mode in ("", "EXTENDED ", "FORMATTED "):
            plan = spark.sql(f"EXPLAIN {mode}{statement}").collect()[0][0]
            assert f"Execute {name}" in plan, plan
            assert f"strategy: {strategy}" in plan, plan
            assert "Truncate" not in plan
    assert spark.table("changed").count() == 2
    ran = spark.sql("MERGE INTO changed t USING s ON t.k = s.k WHEN MATCHED THEN DELETE")
    execution = ran._jdf.queryExecution()
    assert execution.analyzed().nodeName() == "MERGE"
    assert "Execute MERGE" in execution.executedPlan().toString()
    assert "key join (" in execution.executedPlan().toString()
    assert ran.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert tuple(ran.head()) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("on", "names", "is_whole"),
    [
        ("t.k = s.k", [("k", "k")], True),
        ("S.`a b` == `t`.`c``d` and t.x=s.y", [("c`d", "a b"), ("x", "y")], True),
        ("t.k = /* the key */ s.k", [("k", "k")], True),
        ("t.k = s.k AND s.n > 5", [("k", "k")], False),
        ("t.k = s.k AND t.n = t.m", [("k", "k")], False),
        ("t.k = s.k OR t.n = s.n", [], False),
        ("t.k = s.k AND NOT t.n = s.n", [("k", "k")], False),
        ("t.k = s.k AND t.n = 'x AND t.a = s.b'", [("k", "k")], False),
        ("t.k <=> s.k", [], False),
        ("t.k = s.k.x", [], False),
        ("t.k = s.k = s.b", [], False),
        ("(t.k = s.k) AND (s.n = (t.n))", [("k", "k"), ("n", "n")], True),
        ("t.k = s.k AND (t.n > 1 OR s.n = t.m)", [("k", "k")], False),
        ("t.k = s.k AND t.n BETWEEN 1 AND 2", [("k", "k")], False),
        ("NOT t.k = s.k", [], False),
        ("t.k = s.k + 1", [], False),
        ("t.k = s.k IS NULL", [], False),
        ("t.k = 's.k'", [], False),
        ("t.k = s.k AND", [], False),
        ("t.k = s.k; t.n = s.n", [], False),
    ],
)
def test_what_a_condition_compares(on: str, names: object, is_whole: bool) -> None:
    assert equal_names(on, ("t", "s")) == (names, is_whole)


COLUMNS = {
    ("n",): "int", ("s", "n"): "int", ("b",): "bigint", ("v",): "string", ("s", "v"): "string", ("f",): "double",
    ("d",): "decimal(10,2)", ("wide",): "decimal(38,0)", ("day",): "date", ("ok",): "boolean", ("x",): "array<int>",
}  # fmt: skip
SURE = {
    "s.n": "int", "N": "int", "`n`": "int", "x": "array<int>", "-1": "int", "1.5": "decimal(2,1)",
    "3000000000": "bigint", "NULL": "void", "true": "boolean", "1L": "bigint", "2.5D": "double",
    "n % 10 = 0": "boolean", "b % 10": "bigint", "n / 4 > 1": "boolean", "f * 2 + n": "double", "f > 1.5": "boolean",
    "d > 5": "boolean", "day > DATE '2020-01-31'": "boolean", "v IN ('a', NULL)": "boolean",
    "n BETWEEN 1 AND 2 OR NOT ok": "boolean", "v IS NOT NULL AND (n <=> b)": "boolean",
    "concat(v, 'x')": "string", "v || upper(trim(v))": "string", "length(v)": "int", "CAST(n AS BIGINT)": "bigint",
    "CAST(n AS STRING)": "string", "CAST(day AS STRING)": "string", "CAST(NULL AS BOOLEAN)": "boolean",
    "coalesce(n, 0)": "int", "if(ok, v, 'x')": "string", "CASE WHEN n > 1 THEN v ELSE NULL END": "string",
}  # fmt: skip
NOT_SURE = (
    "n + 1", "-n", "b * 2", "10 / n", "n % 0", "n / 0.0", "10 % n", "n = v", "v > 5", "wide > 1.5",
    "day > '2020-01-01'", "CAST(v AS INT)",
    "CAST(b AS INT)", "CAST(f AS INT)", "CAST(wide AS DECIMAL(10,0))", "CAST('x' AS DATE)",
    "t.n",
    "other", "s.x.n", "raise_error(v)", "n IN (SELECT 1)", "if(ok, v, n)", "CASE n WHEN 1 THEN 2 END", "x = x", "n > ",
    "coalesce(n, 1 / 0)", "ok AND n", "v LIKE 'a'", "DATE 'x'", "x[5]", "d + d", "element_at(x, 0)", "n; v",
    "trim(BOTH n FROM v)", "concat(v, n + 1)",
)  # fmt: skip


@pytest.mark.parametrize("text", [*SURE, *NOT_SURE])
def test_which_expressions_have_a_value_for_every_row(text: str) -> None:
    assert sure_type(text, COLUMNS) == SURE.get(text)


@pytest.mark.parametrize(
    ("source", "target", "sure"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "decimal(12,2)", True),
        ("int", "decimal(11,2)", False),
        ("decimal(10,2)", "decimal(12,3)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(38,0)", "float", True),
        ("double", "float", False),
        ("void", "array<int>", True),
        ("date", "timestamp", False),
        ("boolean", "string", True),
        ("array<int>", "string", False),
    ],
)
def test_which_casts_have_a_value_for_every_row(source: str, target: str, *, sure: bool) -> None:
    assert casts_surely(source, target) is sure


REFUSED = {
    "UPDATE summed SET v = 1": "Merge engine aggregation does not support Update",
    "UPDATE summed SET k = 1": "Can't update the primary key column",
    "MERGE INTO summed t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 1": "does not support MERGE INTO with",
    "MERGE INTO summed t USING s ON t.k = s.k WHEN MATCHED THEN DELETE": "Merge engine aggregation doesn't support",
    "DELETE FROM evolving WHERE v = 1": "DELETE is not supported without",
}


@pytest.mark.spark
@pytest.mark.parametrize("statement", REFUSED)
def test_a_plan_says_that_a_statement_is_refused(spark: SparkSession, warehouse: Path, statement: str) -> None:
    """EXPLAIN says it in the words of the error that comes when the statement runs; nothing is written."""
    spark.sql("CREATE TABLE IF NOT EXISTS summed (k INT, v INT) "
              "TBLPROPERTIES ('primary-key'='k', 'bucket'='1', 'merge-engine'='aggregation', "
              "'fields.v.aggregate-function'='sum')")  # fmt: skip
    spark.sql("CREATE TABLE IF NOT EXISTS evolving (k INT, v INT) "
              "TBLPROPERTIES ('row-tracking.enabled'='true', 'data-evolution.enabled'='true')")  # fmt: skip
    table = statement.split()[2 if statement.startswith(("MERGE", "DELETE")) else 1]
    spark.sql(f"INSERT OVERWRITE {table} VALUES (1, 1)")
    spark.sql("SELECT 1 AS k").createOrReplaceTempView("s")
    plan = spark.sql(f"EXPLAIN {statement}").collect()[0][0]
    assert "strategy" not in plan
    (line,) = [line for line in plan.splitlines() if "refused: " in line]
    assert REFUSED[statement] in line
    with pytest.raises(UnsupportedError) as raised:
        spark.sql(statement)
    assert str(raised.value).partition("\n")[0] in line
    if statement.startswith("MERGE"):
        text = statement.replace("summed", "paimon.db.summed", 1)
        path = str(warehouse / "db.db" / "summed")
        with pytest.raises(UnsupportedError) as raised:
            paimon_spark.sql(spark, f"EXPLAIN {text.replace('paimon.db.summed', f'paimon.`{path}`')}")
        assert str(raised.value).partition("\n")[0] in line
    assert [tuple(row) for row in spark.table(table).collect()] == [(1, 1)]
