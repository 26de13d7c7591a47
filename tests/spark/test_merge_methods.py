"""`PaimonTable.merge` and `upsert`: the same core as MERGE INTO, told by DataFrames, Columns and SQL."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from paimon_spark import PaimonTable
from paimon_spark.errors import DataError, OptionError, SchemaMismatchError, UnsupportedError
from paimon_spark.spark.sql import merge as core
from paimon_spark.spark.sql.merge_frames import FrameMerge
from paimon_spark.spark.table import rows as methods

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

_numbers = itertools.count()
COLUMNS = "k int, v string, n int"
KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "k", "options": {"bucket": "2"}},
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "tracked": {"options": {"row-tracking.enabled": "true"}},
}


def create(spark: SparkSession, tmp_path: Path, columns: str, **how: Any) -> PaimonTable:
    return PaimonTable.create(spark, f"{tmp_path}/db.db/t{next(_numbers)}", columns, **how)


def three(spark: SparkSession, tmp_path: Path, kind: str) -> PaimonTable:
    """A table with three rows."""
    table = create(spark, tmp_path, COLUMNS, **KINDS[kind])
    table.append(spark.createDataFrame([(1, "a", 1), (2, "b", 2), (3, "c", 3)], COLUMNS))
    return table


def source(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(2, "B", 20), (4, "D", 40)], "k long, v string, n int")


def rows(table: PaimonTable) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.to_df().collect()), key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_clauses(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = three(spark, tmp_path, kind)
    merge = table.merge(source(spark), "target.k = source.k").when_matched_update().when_not_matched_insert()
    merge.execute()
    assert rows(table) == [(1, "a", 1), (2, "B", 20), (3, "c", 3), (4, "D", 40)]
    (
        table.merge(source(spark), ["k"], alias="t", source_alias="s")
        .when_matched_delete(condition="t.n > 30")
        .when_matched_update({"n": "t.n + s.n", "v": col("s.v")})
        .when_not_matched_by_source_update({"v": "concat(t.v, '!')"}, condition=col("t.k") == 1)
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert rows(table) == [(1, "a!", 1), (2, "B", 40)]
    some = spark.createDataFrame([(7, 70), (8, 80)], "k int, n int")
    inserting = table.merge(some, "target.k = source.k")
    inserting.when_not_matched_insert({"k": "source.k", "n": "source.n"}, condition="source.n > 70").execute()
    assert rows(table) == [(1, "a!", 1), (2, "B", 40), (8, None, 80)]
    assert [row.operation for row in table.snapshots().collect()].count("MERGE") == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "sql"])
def test_columns_are_merged_as_sql_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by_columns: bool
) -> None:
    table = three(spark, tmp_path, kind)
    ways: list[str] = []

    def noted(merge: FrameMerge, rules: Any) -> None:
        ways.append(core.strategy_of_frame_merge(merge, rules).way.name)
        core.run_frame_merge(merge, rules)

    monkeypatch.setattr(methods, "run_frame_merge", noted)
    given = spark.createDataFrame([(2, "B", 20), (3, "C", 1), (4, "D", 40)], COLUMNS)

    def either(column: Column, text: str) -> Any:
        return column if by_columns else text

    same = either(col("t.k") == col("s.k"), "t.k = s.k")
    newer = either((col("t.n") < col("s.n")) & col("s.v").isNotNull(), "t.n < s.n AND s.v IS NOT NULL")
    added = either(col("t.n") + col("s.n"), "t.n + s.n")
    begun = table.merge(given, same, alias="t", source_alias="s")
    begun.when_matched_update({"n": added, "v": either(col("s.v"), "s.v")}, condition=newer).execute()
    begun.when_matched_update().when_not_matched_insert().execute()
    assert (
        ways
        == {
            "keyed": ["LOOKUP_JOIN", "UPSERT"],
            "append": ["FILE_REWRITE", "FILE_REWRITE"],
            "vectors": ["DELETION_VECTORS", "DELETION_VECTORS"],
            "tracked": ["FILE_REWRITE", "FILE_REWRITE"],
        }[kind]
    )
    assert rows(table) == [(1, "a", 1), (2, "B", 20), (3, "C", 1), (4, "D", 40)]


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table, by_key = three(spark, tmp_path, "append"), three(spark, tmp_path, "keyed")
    merge = table.merge(source(spark), "target.k = source.k")
    twice = source(spark).union(source(spark))
    for attempt, error, reason in (
        (merge, OptionError, "needs a clause"),
        (merge.when_matched_update().when_matched_delete(), OptionError, "not reached"),
        (merge.when_matched_delete(condition="rand() < 0.5"), UnsupportedError, "deterministic"),
        (merge.when_matched_update({"x": "1"}), SchemaMismatchError, "no column x"),
        (merge.when_matched_update({"n": "true"}), PySparkException, "CANNOT_SAFELY_CAST"),
        (merge.when_matched_update({"n": "source.nothing"}), PySparkException, "nothing"),
        (table.merge(source(spark).select("k"), ["k"]).when_matched_update(), SchemaMismatchError, "no column v, n"),
        (table.merge(twice, ["k"]).when_matched_update(), DataError, "MERGE_CARDINALITY_VIOLATION"),
        (by_key.merge(twice, ["k"]).when_matched_update(), DataError, "MERGE_CARDINALITY_VIOLATION"),
        (by_key.merge(source(spark), ["k"]).when_matched_update({"k": "9"}), UnsupportedError, "primary key column k"),
    ):
        with pytest.raises(error, match=reason):
            attempt.execute()
    for many, on, reason in ((table, None, "needs on="), (by_key, "v", "primary key k")):
        with pytest.raises(OptionError, match=reason):
            many.upsert(source(spark), on)
    assert len(table.snapshots().collect()) == len(by_key.snapshots().collect()) == 1, "nothing is written"


def test_upsert(spark: SparkSession, tmp_path: Path) -> None:
    for kind, on in (("keyed", None), ("append", "k"), ("vectors", ["k"])):
        table = three(spark, tmp_path, kind)
        given = source(spark).select(col("k").cast("int"), "v", "n")
        table.upsert(given, on)
        table.upsert(given.where("k = 4"), on=on)
        assert rows(table) == [(1, "a", 1), (2, "B", 20), (3, "c", 3), (4, "D", 40)]


def test_nested_fields_defaults_and_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    columns = "`k.x` int, s struct<a: int, `b.c`: string>, c char(4), d int"
    table = create(spark, tmp_path, columns)
    table.append(spark.sql("SELECT 1 AS `k.x`, named_struct('a', 1, 'b.c', 'x') AS s, 'ab' AS c, 1 AS d"))
    given = spark.sql("SELECT 1 AS `k.x`, 5L AS a UNION ALL SELECT 2, 6")
    merge = table.merge(given, "target.`k.x` = source.`k.x` AND target.c = 'ab'")
    merge = merge.when_matched_update({"s.a": "source.a", "d": "target.d + 1"})
    merge.when_not_matched_insert({"`k.x`": "source.`k.x`", "c": "'cd'"}).execute()
    found = [tuple(row) for row in table.to_df().orderBy("`k.x`").collect()]
    assert found == [(1, (5, "x"), "ab  ", 2), (2, None, "cd  ", None)]


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_source_of_the_target_reads_what_the_merge_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its frame is older than the last commit, and another commit comes while the merge runs: none is lost."""
    table = create(spark, tmp_path, "k int, n int", **KINDS[kind])
    table.append(spark.createDataFrame([(1, 10), (2, 20)], "k int, n int"))
    first = table.to_df(scan_snapshot_id=1).selectExpr("k", "n AS first")
    table.to_df().createOrReplaceTempView("target_of_a_merge")
    now = spark.sql("SELECT k AS key, max(n) + 1 AS n FROM target_of_a_merge WHERE k = 1 GROUP BY k")
    table.update({"n": "100"}, "k = 1")
    location = {"keyed": "write_shuffled", "append": "merge_rows"}[kind]
    original, rivals = getattr(core, location), [lambda: table.update({"n": "200"}, "k = 1")]

    def late(*args: object, **more: object) -> object:
        if rivals:
            rivals.pop()()
        return original(*args, **more)

    monkeypatch.setattr(core, location, late)
    joined = now.join(first, now.key == first.k)
    merged = table.merge(joined, "target.k = source.key AND source.n > target.n")
    merged.when_matched_update({"n": "source.n + source.first"}).execute()
    assert not rivals
    assert rows(table) == [(1, 211), (2, 20)]


def test_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    for kind in KINDS:
        table = create(spark, tmp_path, COLUMNS, **KINDS[kind])
        merge = table.merge(source(spark), ["k"]).when_matched_delete(condition="target.n > 0")
        merge.when_not_matched_insert().when_not_matched_by_source_delete().execute()
        assert rows(table) == [(2, "B", 20), (4, "D", 40)]
