"""A few keys of a merged table are read in the driver: the rows that tasks give, without a Python worker."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spark.catalog import scan
from tests.support.plan_texts import explained

pytestmark = pytest.mark.spark

HERE = "reader=driver"


@pytest.fixture(scope="module")
def keyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session in a database with `t` of four runs: keys 0 to 9 without 7, even ones changed, 3 deleted."""
    path: Path = tmp_path_factory.mktemp("few_keys")
    paimon_spark.register_catalog(spark, "few", warehouse=str(path))
    spark.sql("CREATE DATABASE few.db")
    spark.sql("USE few.db")
    spark.sql(
        "CREATE TABLE t (id BIGINT, part STRING, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, f FLOAT, d DOUBLE, "
        "dec DECIMAL(38, 10), s STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, c CHAR(4), "
        "m MAP<STRING, INT>) TBLPROPERTIES ('primary-key' = 'id,part', 'bucket' = '1', 'write-only' = 'true')"
    )
    columns = (
        "cast(id as tinyint), cast(-id as smallint), cast(id as int), cast(id / 3 as float), "
        "CASE WHEN id = 2 THEN double('NaN') ELSE id / 7 END, cast(id as decimal(38, 10)) / 3, concat('ä', id), "
        "cast(concat('x', id) as binary), date_add(DATE'0001-01-01', cast(id * 1000 as int)), "
        "timestamp_micros(id * -1000000001), cast(timestamp_micros(id) as timestamp_ntz), 'ab', "
        "map('k', cast(id as int))"
    )
    spark.sql(f"INSERT INTO t SELECT id, 'p', id % 2 = 0, {columns} FROM range(1, 10) WHERE id <> 7")
    changed = columns.replace("-id", "-2 * id")
    spark.sql(f"INSERT INTO t SELECT id, 'p', id % 2 = 0, {changed} FROM range(0, 10, 2)")
    spark.sql("INSERT INTO t (id, part) VALUES (6, 'p')")
    spark.sql("DELETE FROM t WHERE id = 3")
    yield spark
    spark.sql("USE spark_catalog.default")


ATOMIC = "id, part, b, i1, i2, i4, f, d, dec, s, raw, day, at, wall, c"


@pytest.mark.parametrize("key", [1, 2, 3, 6, 7])
def test_a_row_by_its_key_is_the_same_as_from_a_task(
    keyed: SparkSession, monkeypatch: pytest.MonkeyPatch, key: int
) -> None:
    """Each type, old dates, NaN, null, a deleted key, a key that is not there."""
    query = f"SELECT {ATOMIC} FROM t WHERE id = {key} AND part = 'p'"
    here = keyed.sql(query)
    assert HERE in explained(here)
    found = [str(row) for row in here.collect()]
    monkeypatch.setattr(scan, "is_small", lambda *_: False)
    in_task = keyed.sql(query)
    assert HERE not in explained(in_task)
    assert found == [str(row) for row in in_task.collect()]
    assert len(found) == (key in (1, 2, 6))


def test_queries_over_such_rows(keyed: SparkSession) -> None:
    """Counts, joins, limits and columns of the file; the newest row of a key counts."""
    one = "FROM t WHERE id = 2 AND part = 'p'"
    assert keyed.sql(f"SELECT i2, dec {one}").collect() == [(-4, Decimal("0.6666666667"))]
    assert keyed.sql(f"SELECT count(*) {one}").collect() == [(1,)]
    assert keyed.sql("SELECT count(*) FROM t WHERE id = 3 AND part = 'p'").collect() == [(0,)]
    assert keyed.sql("SELECT i4 FROM t WHERE id IN (1, 2, 3, 5) AND part = 'p' ORDER BY 1").collect() == [
        (1,), (2,), (5,),
    ]  # fmt: skip
    joined = keyed.sql(f"SELECT a.id FROM (SELECT * {one}) a JOIN t b ON a.id + 2 = b.id LIMIT 3")
    assert joined.collect() == [(2,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE id = 2",
        "SELECT id FROM t WHERE id > 2 AND part = 'p'",
        "SELECT m FROM t WHERE id = 2 AND part = 'p'",
        f"SELECT id FROM t WHERE id IN ({', '.join(map(str, range(100)))}) AND part = 'p'",
        "SELECT id FROM t WHERE (id = 2 OR d = 1) AND part = 'p'",
    ],
    ids=["part of a key", "a range", "a map", "many keys", "perhaps another key"],
)
def test_what_may_be_large_is_read_by_tasks(keyed: SparkSession, query: str) -> None:
    """Rows of a part of the key, many keys, and nested columns."""
    frame = keyed.sql(query)
    assert HERE not in explained(frame)
    assert frame.collect()


def test_the_rows_are_of_the_snapshot_of_the_plan(keyed: SparkSession) -> None:
    """A planned frame keeps its rows while others write."""
    keyed.sql("CREATE TABLE one (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'write-only' = 'true')")
    keyed.sql("INSERT INTO one VALUES (1, 1)")
    keyed.sql("INSERT INTO one VALUES (1, 2)")
    frame = keyed.sql("SELECT v FROM one WHERE id = 1")
    assert HERE in explained(frame)
    keyed.sql("INSERT INTO one VALUES (1, 3)")
    values: list[Any] = frame.collect()
    assert values == [(2,)]
    assert keyed.sql("SELECT v FROM one WHERE id = 1").collect() == [(3,)]
