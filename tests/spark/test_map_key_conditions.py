"""Conditions on the values of keys of maps, by each entry point: indexes of the keys leave out files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable

pytestmark = pytest.mark.spark

PROPERTIES = """'file-index.bloom-filter.columns' = 'm[a],m[b c]', 'file-index.bloom-filter.m.items' = '100',
    'file-index.bitmap.columns' = 'n[a]', 'write-only' = 'true'"""


def files_of(df: DataFrame) -> int:
    """The files that a query reads."""
    text = df._jdf.queryExecution().executedPlan().toString()
    return int(re.findall(r"files?=(\d+)", text)[0])


def test_by_every_entry_point(spark: SparkSession, tmp_path: Path) -> None:
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "keyed", warehouse=str(tmp_path))
    spark.sql("CREATE DATABASE keyed.db")
    name, path = "keyed.db.t", str(tmp_path / "db.db" / "t")
    spark.sql(f"CREATE TABLE {name} (k INT, m MAP<STRING, STRING>, n MAP<STRING, INT>) TBLPROPERTIES ({PROPERTIES})")
    for at in range(4):
        values = f"({at}, map('a', 'v{at}', 'b c', 'same'), map('a', {at})), ({at + 10}, map(), NULL)"
        spark.sql(f"INSERT INTO {name} VALUES {values}")
    for condition, keys, files in (
        ("m['a'] = 'v2'", [2], 1),
        ("'v2' = element_at(m, 'a')", [2], 1),
        ("m['a'] IN ('v1', 'v3', 'other')", [1, 3], 2),
        ("n['a'] = 3 AND k < 9", [3], 1),
        ("m['b c'] = 'same'", [0, 1, 2, 3], 4),
        ("m['a'] = 'v1' OR k = 3", [1, 3], 4),
        (f"m['a'] IN ({', '.join(repr(f'w{i}') for i in range(20))}, 'v0')", [0], 1),
    ):
        query = spark.sql(f"SELECT k FROM {name} WHERE {condition}")
        assert files_of(query) == files, condition
        assert sorted(row.k for row in query.collect()) == keys, condition
        loaded = spark.read.format("paimon").load(path).where(condition).select("k")
        assert files_of(loaded) == files
        assert sorted(row.k for row in loaded.collect()) == keys
    both = f"SELECT k FROM {name} WHERE m['a'] = 'v1' UNION ALL SELECT k FROM {name} WHERE m['a'] = 'v2'"
    assert sorted(row.k for row in spark.sql(both).collect()) == [1, 2]
    condition = "m['a'] = 'v2'"
    by_option = spark.read.format("paimon").option("filter", condition).load(path)
    assert [row.k for row in by_option.collect()] == [2]
    assert [row.k for row in PaimonTable.for_path(spark, path).to_df(filter=condition).collect()] == [2]
    found = paimon_spark.sql(spark, f"SELECT k FROM {name} WHERE {condition}", warehouse=str(tmp_path), catalog="keyed")
    assert [row.k for row in found.collect()] == [2]
    spark.sql(f"DELETE FROM {name} WHERE m['a'] = 'v2'")
    assert sorted(row.k for row in spark.table(name).where("k < 10").collect()) == [0, 1, 3]
