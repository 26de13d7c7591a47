"""Conditions that are Columns, told as SQL: the same on classic sessions and on Connect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as classic
from pyspark.sql.connect import functions as connect

from paimon_spark.spark.sql.column_conditions import as_sql, condition_parts

pytestmark = pytest.mark.spark

CONDITIONS: list[tuple[Callable[[Any], Any], list[str]]] = [
    (lambda f: f.col("k") == 5, ["`k` = 5"]),
    (lambda f: f.lit(True), ["TRUE"]),
    (lambda f: f.col("Bc"), ["`Bc`"]),
    (lambda f: f.col("t.k") + 1 < f.col("s.k"), ["(`t`.`k` + 1) < `s`.`k`"]),
    (lambda f: f.upper(f.col("v")) == "X", ["upper(`v`) = 'X'"]),
    (lambda f: f.coalesce(f.col("k"), f.lit(0)) * 2, ["coalesce(`k`, 0) * 2"]),
    (
        lambda f: (f.col("k") >= -5) & (f.col("k") < 7) & (f.col("v") > "a b"),
        ["`k` >= -5", "`k` < 7", "`v` > 'a b'"],
    ),
    (lambda f: f.col("k").between(1, 2), ["`k` >= 1", "`k` <= 2"]),
    (lambda f: (f.col("k") == 1) | f.col("v").isNull(), ["((`k` = 1) OR (`v` IS NULL))"]),
    (lambda f: ~f.col("b") & f.col("v").isNotNull(), ["(NOT `b`)", "(`v` IS NOT NULL)"]),
    (lambda f: f.col("k").eqNullSafe(None), ["`k` <=> NULL"]),
    (lambda f: f.col("k") != 3, ["(NOT (`k` = 3))"]),
    (lambda f: f.col("d").isin(date(2024, 2, 29), None), ["(`d` IN (DATE '2024-02-29', NULL))"]),
    (lambda f: f.expr("k = 1 AND v IN ('a', 'b')") & f.col("b"), ["k = 1", "v IN ('a', 'b')", "`b`"]),
    (lambda f: f.expr("k = 1 OR v = 'a'") | f.col("b"), ["((k = 1 OR v = 'a') OR `b`)"]),
]
"""A condition, and its parts."""
NOT_TOLD: list[Callable[[Any], Any]] = [
    lambda f: f.reverse(f.col("v")) == "X",
    lambda f: f.col("v") == "${v}",
    lambda f: f.col("k") == 1.5,
    lambda f: f.col("v") == "it's",
    lambda f: f.col("v") == 'a"b',
    lambda f: f.col("v") == "a\\b",
    lambda f: f.col("d") == date(1582, 10, 4),
    lambda f: f.col("t") == datetime(2024, 1, 1),
    lambda f: (f.col("k") == 1) | (f.col("k") / 1 == 2),
    lambda f: f.col("k").cast("string") == "1",
    lambda f: f.col("k").isin(*range(300)),
]
"""Conditions of which nothing is told."""


@pytest.mark.parametrize("functions", [classic, connect], ids=["classic", "connect"])
@pytest.mark.parametrize(("condition", "parts"), CONDITIONS, ids=[" & ".join(parts) for _, parts in CONDITIONS])
@pytest.mark.usefixtures("spark")
def test_parts_of_a_column(functions: ModuleType, condition: Callable[[ModuleType], Any], parts: list[str]) -> None:
    assert condition_parts(condition(functions)) == parts


@pytest.mark.parametrize("functions", [classic, connect], ids=["classic", "connect"])
@pytest.mark.parametrize("condition", NOT_TOLD)
@pytest.mark.usefixtures("spark")
def test_what_is_not_sure_is_not_told(functions: ModuleType, condition: Callable[[ModuleType], Any]) -> None:
    """The other part still is."""
    told = condition_parts(functions.col("other") == 1)
    assert condition_parts((functions.col("other") == 1) & condition(functions)) == told


@pytest.mark.parametrize("functions", [classic, connect], ids=["classic", "connect"])
@pytest.mark.usefixtures("spark")
def test_all_of_a_column_is_told_or_none(functions: ModuleType) -> None:
    f = functions
    either = f.expr("a = 1 OR b = 2")
    assert (
        as_sql((f.col("x") == 1) & either & (f.col("y") == f.col("z"))) == "`x` = 1 AND (a = 1 OR b = 2) AND `y` = `z`"
    )
    assert as_sql(either) == "a = 1 OR b = 2"
    assert as_sql("a = 1") == "a = 1"
    commented = (f.col("x") == 1) & f.expr("a = 1 -- one")
    assert as_sql(commented) is commented
    unsure = (f.col("x") == 1) & (f.reverse(f.col("v")) == "X")
    assert as_sql(unsure) is unsure


def test_a_name_in_quotes_is_told_where_it_is_known_as_one(spark: SparkSession) -> None:
    assert condition_parts(classic.col("`a.b`") == 1) == ["`a.b` = 1"]
    assert condition_parts(connect.col("`a.b`") == 1) == []  # a client has the text only


def test_a_column_of_a_dataframe_is_not_told(spark: SparkSession) -> None:
    rows = spark.range(3)
    assert condition_parts(rows["id"] == 1) == []
