"""Tables with postponed buckets: real buckets by the size of the rows, or postponed rows."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.table.table import load_table
from tests.support.calls import jobs_of

pytestmark = pytest.mark.spark

CATALOG = "postponed"
_numbers = itertools.count()
ROWS = "postpone.target-row-num-per-bucket"
WAITING = {"postpone.batch-write-fixed-bucket": "false"}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = str(tmp_path_factory.mktemp("postponed"))
    paimon_spark.register_catalog(spark, CATALOG, warehouse=root)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.d")
    yield root
    paimon_spark.sql(spark, "SELECT 1", warehouse=root, catalog=CATALOG)


Create = Callable[..., PaimonTable]


@pytest.fixture
def create(spark: SparkSession, warehouse: str) -> Create:
    def create(options: dict[str, str]) -> PaimonTable:
        given = {"bucket": "-2", "primary-key": "k,p", "partition": "p", **options}
        path = f"{warehouse}/d.db/t{next(_numbers)}"
        return PaimonTable.create(spark, path, "k int not null, p int not null, v string", options=given)

    return create


def rows_of(spark: SparkSession, start: int, end: int, value: str = "a") -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr("cast(id as int) k", "cast(id % 2 as int) p", f"'{value}' v")


def buckets_of(table: PaimonTable) -> dict[tuple[str, int], int]:
    """Number of buckets of each place."""
    store = load_table(table.path)
    entries = store.manifests.live_entries(store.snapshots.latest())
    return {(store.paths.partition_path(e.partition), e.bucket): e.total_buckets for e in entries}


def name_of(table: PaimonTable) -> str:
    return f"{CATALOG}.d.{Path(table.path).name}"


def insert(df: DataFrame, table: PaimonTable) -> None:
    df.createOrReplaceTempView("postponing")
    df.sparkSession.sql(f"INSERT INTO {name_of(table)} SELECT * FROM postponing")


ENTRY_POINTS: dict[str, Callable[[DataFrame, PaimonTable], object]] = {
    "append": lambda df, table: table.append(df),
    "format": lambda df, table: df.write.format("paimon").mode("append").save(table.path),
    "insert": insert,
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_a_partition_gets_its_buckets_once(spark: SparkSession, create: Create, entry_point: str) -> None:
    table = create({ROWS: "100"})
    ENTRY_POINTS[entry_point](rows_of(spark, 0, 600), table)  # 300 rows of each partition: 3, so 4 buckets
    locations = buckets_of(table)
    assert set(locations.values()) == {4}
    assert {bucket for _, bucket in locations} == {0, 1, 2, 3}
    ENTRY_POINTS[entry_point](rows_of(spark, 500, 5000, "b"), table)
    assert set(buckets_of(table).values()) == {4}
    assert table.to_df().selectExpr("count(*)", "count(DISTINCT k)", "count_if(v = 'b')").first() == (5000, 5000, 4500)
    assert not list(Path(table.path).rglob("bucket-postpone/*"))
    table.update({"v": "'u'"}, "k = 3")
    table.delete("k = 4")
    table.compact()
    assert table.to_df().selectExpr("count(*)", "count_if(v = 'u')").first() == (4999, 1)
    table.overwrite(rows_of(spark, 0, 100), **{"postpone.default-bucket-num": "3"})
    assert set(buckets_of(table).values()) == {3}
    assert table.to_df().count() == 100


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_rows_are_postponed_until_a_compaction(spark: SparkSession, create: Create, entry_point: str) -> None:
    table = create({**WAITING, ROWS: "200"})
    ENTRY_POINTS[entry_point](rows_of(spark, 0, 1000), table)
    ENTRY_POINTS[entry_point](rows_of(spark, 0, 10, "b").where("k < 10"), table)
    assert table.to_df().count() == 0
    assert set(buckets_of(table)) == {("p=0", -2), ("p=1", -2)}
    names = [path.name for path in Path(table.path).rglob("bucket-postpone/*")]
    assert all(re.fullmatch(r"data--u-[0-9a-f-]{36}-s-\d+-w-[0-9a-f-]{36}-\d+\.avro", name) for name in names)
    assert {row.bucket for row in table.buckets().collect()} == {-2}
    if entry_point == "insert":
        spark.sql(f"CALL {CATALOG}.sys.compact(table => 'd.{Path(table.path).name}')")
    else:
        table.compact()
    assert set(buckets_of(table).values()) == {3}  # 505 rows
    assert table.to_df().selectExpr("count(*)", "count_if(v = 'b')").first() == (1000, 10), "the newer INSERT wins"
    ENTRY_POINTS[entry_point](rows_of(spark, 990, 1100, "c"), table)
    table.compact()
    assert set(buckets_of(table).values()) == {3}
    assert table.to_df().selectExpr("count(*)", "count_if(v = 'c')").first() == (1100, 110)
    assert table.compact() is None


def test_rows_whose_buckets_an_option_says_are_written_once(spark: SparkSession, create: Create) -> None:
    """They go to their buckets at once, not through files that are measured; other partitions' rows wait on."""
    table = create({"postpone.default-bucket-num": "3", ROWS: "1", "write-only": "true"})
    table.append(rows_of(spark, 0, 4), **WAITING)
    with jobs_of(spark) as found:
        insert(rows_of(spark, 0, 100), table)
    assert len(found) <= 2  # AQE runs the shuffle as a job of its own; rows that are measured take one more
    assert {n for (_, bucket), n in buckets_of(table).items() if bucket >= 0} == {3}
    assert table.to_df().count() == 100
    table.append(rows_of(spark, 0, 4), **WAITING)
    table.set_options(**{"postpone.default-bucket-num": "5"})
    table.append(rows_of(spark, 50, 150, "b"))
    assert {n for (_, bucket), n in buckets_of(table).items() if bucket >= 0} == {3}
    assert table.to_df().selectExpr("count(*)", "count_if(v = 'b')").first() == (150, 100)
    with jobs_of(spark) as found:
        table.overwrite(rows_of(spark, 0, 50))
    assert len(found) <= 2
    assert {n for (_, bucket), n in buckets_of(table).items() if bucket >= 0} == {5}
    assert table.to_df().count() == 50


def test_the_order_of_one_writer_is_kept(spark: SparkSession, create: Create) -> None:
    table = create({**WAITING, "postpone.default-bucket-num": "2"})
    rows = [(1, 0, "a"), (2, 0, "a"), (1, 0, "b"), (3, 1, "a"), (1, 0, "c")]
    table.append(spark.createDataFrame(rows, "k int, p int, v string").coalesce(1))
    table.compact()
    assert sorted(map(tuple, table.to_df().collect())) == [(1, 0, "c"), (2, 0, "a"), (3, 1, "a")]


def test_partitions_with_other_numbers_of_buckets(spark: SparkSession, create: Create) -> None:
    table = create({ROWS: "10"})
    table.append(spark.createDataFrame([(k, 0, "a") for k in range(40)], "k int, p int, v string"))
    table.append(spark.createDataFrame([(k, 1, "a") for k in range(15)] + [(1, 0, "b")], "k int, p int, v string"))
    assert {(location, n) for (location, _), n in buckets_of(table).items()} == {("p=0", 4), ("p=1", 2)}
    assert table.to_df().selectExpr("count(*)", "count_if(v = 'b')").first() == (55, 1)


def test_a_much_larger_batch_rescales_its_partitions(spark: SparkSession, create: Create) -> None:
    """Official: "staged rescale supports per-partition layouts"; postponed rows stay, and count once."""
    sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "postpone.merge-on-read": "true"}
    options = {"bucket": "-2", "primary-key": "k,p", "partition": "p", ROWS: "1", **sums}
    options["postpone.batch-write-fixed-bucket.max-parallelism"] = "64"
    path = create({}).path + "s"
    table = PaimonTable.create(spark, path, "k int not null, p int not null, n int", options=options)

    def add(*parts: tuple[int, int]) -> None:
        parted = [spark.range(end).selectExpr("cast(id as int) k", f"{p} p", "1 n") for p, end in parts]
        table.append(functools.reduce(DataFrame.unionAll, parted))

    add((0, 1), (1, 8), (3, 1))
    waits = spark.createDataFrame([(0, 0, 10), (8888, 2, 10)], "k int, p int, n int")
    table.append(waits, **WAITING)
    add((0, 130), (1, 9), (3, 33))
    of = {(location, n) for (location, bucket), n in buckets_of(table).items() if bucket >= 0}
    assert of == {("p=0", 64), ("p=1", 8), ("p=3", 64)}
    kinds = [s.commit_kind.value for s in load_table(table.path).snapshots.newest_first()]
    assert kinds == ["APPEND", "OVERWRITE", "APPEND", "APPEND"]
    asked = "count(*)", "sum(n)", "max(n)"
    assert table.to_df().selectExpr(*asked).first() == (173, 202, 12)
    table.rescale(bucket_num=3, partitions="p = 0")
    assert table.to_df().selectExpr(*asked).first() == (173, 202, 12)


def test_postponed_rows_are_merged_when_read(spark: SparkSession, create: Create) -> None:
    table = create({ROWS: "10"})
    table.append(rows_of(spark, 0, 100))
    name = name_of(table)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('postpone.batch-write-fixed-bucket' = 'false')")
    table.append(rows_of(spark, 90, 120, "b"))
    assert spark.table(name).count() == 100
    key = "postpone.merge-on-read"
    merged = spark.read.format("paimon").option(key, "true").load(table.path)
    asked = "count(*)", "count_if(v = 'b')", "max(k)"
    assert merged.selectExpr(*asked).first() == (120, 30, 119)
    assert table.to_df(**{"postpone_merge_on_read": "true"}).selectExpr(*asked).first() == (120, 30, 119)
    spark.conf.set(f"spark.paimon.{key}", "true")
    try:
        assert spark.table(name).selectExpr(*asked).first() == (120, 30, 119)
        assert spark.sql(f"SELECT count(*) FROM {name} WHERE p = 1").first()[0] == 60
        assert [row.v for row in spark.sql(f"SELECT v FROM {name} WHERE k IN (5, 95, 119)").collect()].count("b") == 2
        assert paimon_spark.sql(spark, f"SELECT count(*) FROM {name}", warehouse=str(Path(table.path).parents[1]),
                                catalog=CATALOG).first()[0] == 120  # fmt: skip
        with pytest.raises(PySparkException, match="rows are postponed"):
            spark.sql(f"UPDATE {name} SET v = 'c' WHERE k = 95")
        with pytest.raises(PySparkException, match="only supported for batch reads"):
            spark.readStream.format("paimon").load(table.path)
        spark.sql(f"CALL {CATALOG}.sys.compact(table => 'd.{Path(table.path).name}')")
        spark.sql(f"UPDATE {name} SET v = 'c' WHERE k = 95")
        assert spark.table(name).selectExpr(*asked).first() == (120, 29, 119)
    finally:
        spark.conf.unset(f"spark.paimon.{key}")
