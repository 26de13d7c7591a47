"""Joins, aggregates and windows by the bucket key have no shuffle, and the same rows as with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.catalog.bucketed_scan import buckets_of
from paimon_spark.spark.catalog.scan_plan import ScanPlan
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import features
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark

BUCKETING = "spark.sql.sources.v2.bucketing.enabled"
SETTINGS = {
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
ROWS = ", ".join(f"({key}, 'n{key % 5}')" for key in (-7, -1, *range(40)))


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in given}
    try:
        for key, value in given.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@pytest.fixture(scope="module")
def buckets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    if features.spark_version(gateway_of(spark)) < (4, 3):
        pytest.skip("Spark 4.3 is the first that groups partitions by bucket only where a query wants it")
    paimon_spark.register_catalog(spark, "buckets", warehouse=str(tmp_path_factory.mktemp("wh")))
    spark.sql("CREATE DATABASE buckets.db")
    tables = {
        "keyed": ("id INT, name STRING", "", "'primary-key' = 'id', 'bucket' = '4'"),
        "other": ("key INT, name STRING", "", "'primary-key' = 'key', 'bucket' = '4'"),
        "plain": ("id INT, name STRING", "", "'bucket-key' = 'id', 'bucket' = '4'"),
        "three": ("id INT, name STRING", "", "'bucket-key' = 'id', 'bucket' = '3'"),
        "long": ("id BIGINT, name STRING", "", "'bucket-key' = 'id', 'bucket' = '4'"),
        "deleted": ("id INT, name STRING", "", "'primary-key'='id', 'bucket'='4', 'deletion-vectors.enabled'='true'"),
        "parted": ("id INT, name STRING", "PARTITIONED BY (name)", "'primary-key' = 'id,name', 'bucket' = '4'"),
        "two": ("id INT, name STRING", "", "'bucket-key' = 'id,name', 'bucket' = '4'"),
        "summed": (
            "id INT, n INT",
            "",
            "'primary-key' = 'id', 'bucket' = '4', 'merge-engine' = 'aggregation', "
            "'fields.n.aggregate-function' = 'sum'",
        ),
    }
    for name, (columns, parted, options) in tables.items():
        spark.sql(f"CREATE TABLE buckets.db.{name} ({columns}) {parted} TBLPROPERTIES ({options})")
        if name != "summed":
            spark.sql(f"INSERT INTO buckets.db.{name} VALUES {ROWS}")
    for start in (0, 1_000, 500):
        spark.sql(f"INSERT INTO buckets.db.summed SELECT CAST(id AS INT), 1 FROM range({start}, {start + 1_000})")
    for name in ("keyed", "deleted"):
        spark.sql(f"INSERT INTO buckets.db.{name} VALUES (3, 'again'), (99, 'more')")
    return spark


JOIN = "SELECT a.id, a.name, b.name FROM buckets.db.keyed a JOIN buckets.db."
SORTED = "SELECT a.id, a.n, b.name FROM buckets.db.summed a JOIN buckets.db.other b ON a.id = b.key"
QUERIES = {
    SORTED: 0,
    JOIN + "other b ON a.id = b.key": 0,
    JOIN + "plain b ON a.id = b.id": 0,
    JOIN + "deleted b ON a.id = b.id": 0,
    JOIN + "parted b ON a.id = b.id": 0,
    JOIN + "plain b ON a.id = b.id JOIN buckets.db.other c ON a.id = c.key": 0,
    "SELECT a.k, b.n FROM (SELECT id AS k FROM buckets.db.keyed) a "
    "JOIN (SELECT id, count(*) AS n FROM buckets.db.plain GROUP BY id) b ON a.k = b.id": 0,
    "SELECT id, max(name), count(*) FROM buckets.db.parted GROUP BY id": 0,
    "SELECT id, max(name) OVER (PARTITION BY id ORDER BY name) FROM buckets.db.plain": 0,
    JOIN + "three b ON a.id = b.id": 2,
    JOIN + "long b ON a.id = b.id": 2,
    JOIN + "two b ON a.id = b.id": 2,
    "SELECT name, count(*) FROM buckets.db.keyed GROUP BY name": 1,
}


@pytest.mark.parametrize("query", QUERIES)
def test_rows_meet_in_their_bucket(buckets: SparkSession, query: str) -> None:
    with settings(buckets, {**SETTINGS, BUCKETING: "false"}):
        wanted = sorted(buckets.sql(query).collect())
    with settings(buckets, {**SETTINGS, BUCKETING: "true"}):
        found = buckets.sql(query)
        assert sorted(found.collect()) == wanted
        plan = found._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")[0]
    assert plan.count("Exchange") == QUERIES[query], plan
    assert "SortMergeJoin" not in plan or (" Sort [" in plan) == (query != SORTED), plan


def test_a_bucket_alone_does_not_hold_back_tasks(buckets: SparkSession) -> None:
    """Where the session has not asked for it, a scan reads by bucket only if that gives about as many tasks."""
    table = load_table(PaimonTable.for_name(buckets, "buckets.db.plain").path)
    plan = ScanPlan(table, to_spark_struct(table.schema.fields))
    splits = [(split,) for split in plan.plan.splits]

    def found(tasks: int, cores: int, *, wanted: bool) -> bool:
        plain = (splits * tasks)[:tasks]
        return buckets_of(plan, plain, cores=cores, wanted=wanted, filtered=False) is not None

    assert [found(1, 16, wanted=False), found(4, 16, wanted=False), found(100, 4, wanted=False)] == [True] * 3
    assert not found(100, 16, wanted=False)
    assert found(100, 16, wanted=True)
