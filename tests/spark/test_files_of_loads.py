"""How many buckets and files a bulk load leaves, through each entry point: one file of one task in each bucket."""

import itertools
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DecimalType,
    DoubleType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    VarcharType,
)

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.catalog import distributed_rows
from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("loads")]

_numbers = itertools.count()
_SCHEMA = "k long not null, p int not null, name string not null, v string"
_ODD = StructType(
    [
        StructField("k", DoubleType(), False),
        StructField("p", VarcharType(4), False),
        StructField("name", DecimalType(30, 3), False),
        StructField("v", TimestampNTZType()),
    ]
)
"""Columns whose bytes Spark's functions do not give."""
KINDS = {
    "fixed": ({"primary-key": "k", "bucket": "8"}, 8),
    "fixed with partitions": ({"primary-key": "k,p", "bucket": "4", "partition": "p"}, 12),
    "dynamic": ({"primary-key": "k", "dynamic-bucket.target-row-num": "1000"}, 3),
    "dynamic with partitions": ({"primary-key": "k,p", "partition": "p", "dynamic-bucket.target-row-num": "600"}, 6),
    "append with bucket-key": ({"bucket": "8", "bucket-key": "name,k"}, 8),
    "odd fixed": ({"primary-key": "k", "bucket": "8"}, 8),
    "odd fixed with partitions": ({"primary-key": "name,p", "bucket": "4", "partition": "p"}, 12),
    "odd one bucket": ({"primary-key": "k,p", "bucket": "1", "partition": "p"}, 3),
    "odd dynamic": ({"primary-key": "k,p", "partition": "p", "dynamic-bucket.target-row-num": "600"}, 6),
    "odd append with bucket-key": ({"bucket": "8", "bucket-key": "v,name"}, 8),
}
"""Table options, and the number of buckets that 3000 rows fill."""


def _insert(spark: SparkSession, rows: DataFrame, name: str, _path: str) -> None:
    rows.createOrReplaceTempView("rows_of_load")
    spark.sql(f"INSERT INTO {name} SELECT * FROM rows_of_load")


def _insert_overwrite(spark: SparkSession, rows: DataFrame, name: str, _path: str) -> None:
    rows.createOrReplaceTempView("rows_of_load")
    spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM rows_of_load")


def _sql(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.createOrReplaceTempView("rows_of_load")
    warehouse = str(Path(path).parent.parent)
    statement = f"INSERT INTO {name} SELECT * FROM rows_of_load"
    paimon_spark.sql(spark, statement, warehouse=warehouse, catalog="loads")


ENTRY_POINTS: dict[str, Callable[[SparkSession, DataFrame, str, str], None]] = {
    "INSERT": _insert,
    "INSERT OVERWRITE": _insert_overwrite,
    "writeTo": lambda _, rows, name, __: rows.writeTo(name).append(),
    "insertInto": lambda _, rows, name, __: rows.write.insertInto(name),
    "saveAsTable": lambda _, rows, name, __: rows.write.mode("append").saveAsTable(name),
    "format": lambda _, rows, __, path: rows.write.format("paimon").mode("append").save(path),
    "PaimonTable": lambda spark, rows, _, path: PaimonTable.for_path(spark, path).append(rows),
    "paimon_spark.sql": _sql,
}


_FEW_ENTRY_POINTS = ("INSERT", "format", "PaimonTable")  # the others come to the same place: one kind each
_OTHERS = [entry_point for entry_point in ENTRY_POINTS if entry_point not in _FEW_ENTRY_POINTS]


@pytest.mark.parametrize(
    ("kind", "entry_point"),
    [
        *product(KINDS, _FEW_ENTRY_POINTS),
        *zip([kind for kind in KINDS if not kind.startswith("odd")], _OTHERS, strict=True),
    ],
)
def test_one_file_in_each_bucket(spark: SparkSession, warehouse: Path, kind: str, entry_point: str) -> None:
    options, buckets = KINDS[kind]
    name = f"t{next(_numbers)}"
    path = str(warehouse / "db.db" / name)
    PaimonTable.create(spark, path, _ODD if kind.startswith("odd") else _SCHEMA, options=options)
    rows = spark.range(0, 3000, 1, 6).selectExpr("id AS k", "int(id % 3) AS p", "concat('n', id) AS name", "'v' AS v")
    if kind.startswith("odd"):
        rows = rows.selectExpr(
            "double(k) AS k", "concat('p', p) AS p", "CAST(k AS decimal(30, 3)) AS name",
            "if(k % 50 = 0, NULL, timestamp_ntz'2024-01-01' + make_dt_interval(0, 0, k)) AS v"
        )  # fmt: skip
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")  # else few rows come to one task
    try:
        ENTRY_POINTS[entry_point](spark, rows, f"loads.db.{name}", path)
        ENTRY_POINTS[entry_point](spark, rows, f"loads.db.{name}", path)  # rows that are there: of the same buckets
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    table = load_table(path)
    for snapshot_id in (1, 2):
        entries = list(table.manifests.live_entries(table.snapshots.get(snapshot_id)))
        if snapshot_id == 2 and entry_point != "INSERT OVERWRITE":
            before = {entry.file.file_name for entry in table.manifests.live_entries(table.snapshots.get(1))}
            entries = [entry for entry in entries if entry.file.file_name not in before]
        files = Counter((entry.partition, entry.bucket) for entry in entries)
        assert (len(files), len(entries)) == (buckets, buckets)
        assert sum(entry.file.row_count for entry in entries) == 3000
        assert max(entry.file.max_sequence_number for entry in entries) < 3000 * snapshot_id  # one task, no gaps
    assert not list(Path(path).glob("index/placement-*"))
    rows_now = 6000 if "append" in kind and entry_point != "INSERT OVERWRITE" else 3000
    assert spark.table(f"loads.db.{name}").selectExpr("count(*)", "count(DISTINCT k)").first() == (rows_now, 3000)


def test_partitions_that_are_cut_when_stored(spark: SparkSession, tmp_path: Path) -> None:
    options = {"primary-key": "k,p", "partition": "p", "dynamic-bucket.target-row-num": "100"}
    struct = StructType([StructField("k", LongType(), False), StructField("p", VarcharType(1), False)])
    table = PaimonTable.create(spark, str(tmp_path / "t"), struct, options=options)
    table.append(spark.range(0, 300, 1, 4).selectExpr("id AS k", "if(id % 2 = 0, 'a', 'a   ') AS p"))
    store = load_table(table.path)
    entries = store.manifests.live_entries(store.snapshots.latest())
    assert [entry.bucket for entry in sorted(entries, key=lambda entry: entry.bucket)] == [0, 1, 2]
    assert table.to_df().count() == 300


@pytest.mark.parametrize(
    "options", [{"bucket": "2"}, {"dynamic-bucket.target-row-num": "25000"}], ids=["fixed", "dynamic"]
)
def test_a_large_bucket_is_shared_by_ranges_of_keys(
    spark: SparkSession, warehouse: Path, options: dict[str, str]
) -> None:
    name = f"t{next(_numbers)}"
    path = str(warehouse / "db.db" / name)
    PaimonTable.create(spark, path, _SCHEMA, primary_key="k", options={"write-buffer-size": "300 kb", **options})
    rows = spark.range(0, 50000, 1, 3).selectExpr(
        "id * 7919 % 50000 AS k", "0 AS p", "concat('n', id) AS name", "'v' AS v"
    )
    rows.cache().count()  # Spark knows how many bytes these are
    rows.writeTo(f"loads.db.{name}").append()
    rows.write.format("paimon").mode("append").save(path)
    rows.unpersist()
    table = load_table(path)
    first = list(table.manifests.live_entries(table.snapshots.get(1)))
    before = {entry.file.file_name for entry in first}
    second = [e for e in table.manifests.live_entries(table.snapshots.get(2)) if e.file.file_name not in before]
    for entries in (first, second):
        assert sum(entry.file.row_count for entry in entries) == 50000
        buckets = {entry.bucket for entry in entries}
        assert len(buckets) == 2
        assert 4 <= len(entries) / len(buckets) <= 10
        for bucket in buckets:
            keys = sorted((entry.file.min_key, entry.file.max_key) for entry in entries if entry.bucket == bucket)
            ends = sorted(
                (int.from_bytes(low[-8:], "little"), int.from_bytes(high[-8:], "little")) for low, high in keys
            )
            assert all(one[1] < other[0] for one, other in pairwise(ends))
            numbers = sorted(
                (e.file.min_sequence_number, e.file.max_sequence_number) for e in entries if e.bucket == bucket
            )
            assert all(one[1] < other[0] for one, other in pairwise(numbers))
    assert spark.table(f"loads.db.{name}").selectExpr("count(*)", "count(DISTINCT k)").first() == (50000, 50000)


def test_no_job_looks_for_ranges_where_a_task_holds_every_full_bucket(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(distributed_rows, "key_ranges", lambda *_: asked.append(1))
    rows = spark.range(0, 50000, 1, 3).selectExpr("id AS k", "0 AS p", "concat('n', id) AS name", "'v' AS v")
    rows.cache().count()
    for target, jobs in (("3000", 0), ("30000", 1)):  # 52 bytes a row, 300 KB a task
        path = str(warehouse / "db.db" / f"t{next(_numbers)}")
        options = {"write-buffer-size": "300 kb", "dynamic-bucket.target-row-num": target}
        PaimonTable.create(spark, path, _SCHEMA, primary_key="k", options=options)
        rows.write.format("paimon").mode("append").save(path)
        assert len(asked) == jobs
        assert spark.read.format("paimon").load(path).count() == 50000
    rows.unpersist()


def test_keys_in_other_types_than_the_table(spark: SparkSession, warehouse: Path) -> None:
    name = f"t{next(_numbers)}"
    path = str(warehouse / "db.db" / name)
    options = {"primary-key": "k,p", "partition": "p", "bucket": "2"}
    PaimonTable.create(spark, path, _SCHEMA, options=options)
    rows = spark.range(0, 3000, 1, 6).selectExpr("int(id) AS K", "smallint(id % 3) AS p", "'n' AS name", "'v' AS v")
    rows.write.format("paimon").mode("append").save(path)
    PaimonTable.for_path(spark, path).append(rows)
    store = load_table(path)
    for snapshot_id, files in ((1, 6), (2, 12)):
        assert len(list(store.manifests.live_entries(store.snapshots.get(snapshot_id)))) == files
    assert spark.table(f"loads.db.{name}").selectExpr("count(*)", "count(DISTINCT k)").first() == (3000, 3000)
