"""Writing through ``df.write.format("paimon")``: every kind of table, created, appended to, overwritten."""

import datetime
import decimal
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonTable
from paimon_spark.errors import SchemaMismatchError, UnsupportedError
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.table import load_table
from tests.support.plain_source import plain_session

pytestmark = pytest.mark.spark

Rows = list[tuple[object, ...]]
_numbers = itertools.count()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "wh" / "db.db" / f"t{next(_numbers)}")


@pytest.fixture
def save(spark: SparkSession, path: str) -> Callable[..., None]:
    def save(rows: Rows, columns: str, *, mode: str = "append", **options: str) -> None:
        frame = spark.createDataFrame(rows, columns)
        frame.write.format("paimon").options(**options).mode(mode).save(path)

    return save


@pytest.fixture
def load(spark: SparkSession, path: str) -> Callable[..., Rows]:
    def load(**options: str) -> Rows:
        return sorted((tuple(row) for row in read(spark, path, **options).collect()), key=repr)

    return load


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("paimon").options(**options).load(path)


KEYED = {"primary-key": "id", "bucket": "2"}
KINDS = {
    "append": {},
    "append with buckets": {"bucket": "3", "bucket-key": "id"},
    "append with partitions": {"partition": "dt"},
    "primary key": KEYED,
    "primary key with partitions": {"primary-key": "dt,id", "partition": "dt", "bucket": "2"},
    "dynamic buckets": {"primary-key": "id"},
    "dynamic buckets with partitions": {
        "primary-key": "id,dt",
        "partition": "dt",
        "dynamic-bucket.target-row-num": "2",
    },
    "partial-update": {**KEYED, "merge-engine": "partial-update"},
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table(save: Callable[..., None], load: Callable[..., Rows], kind: str, file_format: str) -> None:
    columns = "id int, dt string, v string"
    first = [(i, f"d{i % 3}", f"v{i}") for i in range(20)]
    second = [(i, f"d{i % 3}", f"w{i}") for i in range(15, 25)]
    save(first, columns, **KINDS[kind], **{"file.format": file_format})
    assert load() == sorted(first, key=repr)
    save(second, columns)
    keyed = "primary-key" in KINDS[kind]
    expected = list({row[0]: row for row in first + second}.values()) if keyed else first + second
    assert load() == sorted(expected, key=repr)
    assert load(**{"scan.snapshot-id": "1"}) == sorted(first, key=repr)
    save(first[:3], columns, mode="overwrite")
    assert load() == sorted(first[:3], key=repr)


def test_every_type_comes_back(spark: SparkSession, path: str) -> None:
    columns = (
        "t tinyint, s smallint, i int, l bigint, f float, d double, o boolean, n decimal(38,18), c string, b binary, "
        "da date, ts timestamp, tn timestamp_ntz, a array<int>, m map<string,array<date>>, "
        "r struct<x:int,y:struct<z:string>>"
    )
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    day = datetime.date(1582, 10, 15)
    full = (
        *(-128, -32768, -(2**31), -(2**63), 1.5, -0.0, True),
        *(decimal.Decimal("-99999999999999999999.999999999999999999"), "é\u0000😀", b"\x00\xff", day, moment, moment),
        *([1, None], {"k": [day, None]}, (1, ("z",))),
    )
    frame = spark.createDataFrame([full, (None,) * 16], columns)
    frame.write.format("paimon").mode("append").save(path)
    loaded = read(spark, path)
    assert loaded.schema == frame.schema
    assert sorted(loaded.collect(), key=repr) == sorted(frame.collect(), key=repr)
    assert [f.type.sql() for f in load_table(path).schema.fields][10:13] == [
        "DATE",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "TIMESTAMP(6)",
    ]


def test_a_variant_comes_back(spark: SparkSession, path: str) -> None:
    spark.sql("""SELECT 1 AS id, parse_json('{"a": [1, "x"]}') AS v""").write.format("paimon").mode("append").save(path)
    row = read(spark, path).selectExpr("variant_get(v, '$.a[1]', 'string') AS x", "typeof(v) AS t").first()
    assert row is not None
    assert tuple(row) == ("x", "variant")


def test_creation_keeps_comments_nullability_keys_and_options(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame([(1, "d", "x")], "id int not null comment 'the key', Dt string, V string")
    options = {"primary-key": "ID, dt", "partition": "dt", "bucket": "2", "Merge-Engine": "partial-update"}
    options |= {"fields.v.stats-mode": "full", "write-only": "true", "write.merge-schema": "true"}
    frame.write.format("paimon").options(**options).mode("append").save(path)
    schema = load_table(path).schema
    assert schema.primary_keys == ("id", "Dt")
    assert schema.partition_keys == ("Dt",)
    assert [field.type.nullable for field in schema.fields] == [False, False, True]
    assert schema.fields[0].description == "the key"
    expected = {"bucket": "2", "merge-engine": "partial-update", "fields.V.stats-mode": "full"}
    assert schema.options == {**expected, "write-only": "true"}
    assert read(spark, path).schema["id"].metadata == {"comment": "the key"}


def test_a_save_creates_nullable_columns_whatever_its_rows_hold(spark: SparkSession, path: str) -> None:
    spark.range(2).selectExpr("id", "1 AS a", "array(1) AS l", "struct(1 AS x) AS s").write.format("paimon").mode(
        "append"
    ).option("primary-key", "id").save(path)
    frame = spark.createDataFrame([(5, None, [None], (None,))], "id long, a int, l array<int>, s struct<x:int>")
    frame.write.format("paimon").mode("append").save(path)
    assert [field.type.nullable for field in load_table(path).schema.fields] == [False, True, True, True]
    assert read(spark, path).where("id = 5").collect() == [(5, None, [None], (None,))]


def test_columns_are_matched_by_name_and_cast_safely(save: Callable[..., None], load: Callable[..., Rows]) -> None:
    save([(1, "a", 1.5)], "id long, name string, amount double")
    save([("b", 2)], "NAME string, id int")
    assert load() == [(1, "a", 1.5), (2, "b", None)]


def test_a_partial_update_writes_some_columns(save: Callable[..., None], load: Callable[..., Rows]) -> None:
    options = {**KEYED, "merge-engine": "partial-update", "fields.g.sequence-group": "b"}
    save([(1, "a", 5, "b5")], "id int, a string, g int, b string", **options)
    save([(1, 3, "b3"), (2, 1, "b1")], "id int, g int, b string")
    save([(1, "A")], "id int, a string")
    assert load() == [(1, "A", 5, "b5"), (2, None, 1, "b1")]


def test_row_kinds_of_a_column(save: Callable[..., None], load: Callable[..., Rows]) -> None:
    columns = "id int, v string, op string"
    save([(1, "a", "+I"), (2, "b", "+I")], columns, **KEYED, **{"rowkind.field": "op"})
    save([(1, "a", "-D"), (2, "c", "+U")], columns)
    assert load() == [(2, "c", "+U")]


@pytest.mark.thorough
def test_overwrite_of_the_table_of_partitions_and_of_one(save: Callable[..., None], load: Callable[..., Rows]) -> None:
    columns = "dt string, n int"
    save([("a", 1), ("b", 1), (None, 1)], columns, partition="dt")
    save([("b", 2), ("c", 2)], columns, mode="overwrite", partitionOverwriteMode="dynamic")
    assert load() == [("a", 1), ("b", 2), ("c", 2), (None, 1)]
    save([("a", 3), ("a", 3)], columns, mode="overwrite", replaceWhere="dt = 'a'")
    assert load() == [("a", 3), ("a", 3), ("b", 2), ("c", 2), (None, 1)]
    save([], columns, mode="overwrite", replaceWhere="dt IS NULL")
    assert load() == [("a", 3), ("a", 3), ("b", 2), ("c", 2)]
    save([("b", 4)], columns, mode="overwrite", replaceWhere="dt > 'a'")
    assert load() == [("a", 3), ("a", 3), ("b", 4)]
    save([("a", 3), ("c", 2)], columns, mode="overwrite", replaceWhere="dt IN ('a', 'c')")
    assert load() == [("a", 3), ("b", 4), ("c", 2)]
    save([], columns, mode="overwrite", partitionOverwriteMode="dynamic")
    assert len(load()) == 3
    save([("z", 9)], columns, mode="overwrite")
    assert load() == [("z", 9)]
    save([], columns, mode="overwrite")
    assert load() == []
    assert load(**{"scan.snapshot-id": "1"}) == [("a", 1), ("b", 1), (None, 1)]


def test_a_table_without_snapshots_reads_as_empty(spark: SparkSession, path: str, load: Callable[..., Rows]) -> None:
    spark.createDataFrame([], "id int, v string").write.format("paimon").mode("append").save(path)
    assert read(spark, path).schema.simpleString() == "struct<id:int,v:string>"
    assert load() == []
    assert read(spark, path).count() == 0


def test_the_same_options_may_be_given_again(save: Callable[..., None], load: Callable[..., Rows]) -> None:
    for i in range(2):
        save([(i, "x")], "id int, v string", **KEYED)
    assert len(load()) == 2


def test_a_user_schema_prunes_and_reorders(spark: SparkSession, save: Callable[..., None], path: str) -> None:
    save([(1, "a", 2.0)], "id int, v string, d double")
    loaded = spark.read.format("paimon").schema("D double, id int").load(path)
    assert loaded.columns == ["D", "id"]
    assert [tuple(row) for row in loaded.collect()] == [(2.0, 1)]


@pytest.mark.thorough
def test_a_loaded_frame_stays_on_its_snapshot_and_filters_do_not_mix(
    spark: SparkSession, save: Callable[..., None], path: str
) -> None:
    save([(i, i % 2) for i in range(10)], "id int, odd int")
    frame = read(spark, path)
    assert frame.where("odd = 1").union(frame.where("odd = 0")).count() == 10
    save([(10, 0)], "id int, odd int")
    assert frame.count() == 10
    assert read(spark, path).count() == 11


@pytest.mark.thorough
def test_many_partitions_and_tasks(spark: SparkSession, path: str) -> None:
    frame = spark.range(0, 5000, 1, 7).selectExpr("id", "id % 50 AS p", "cast(id AS string) AS s")
    frame.write.format("paimon").option("partition", "p").mode("append").save(path)
    loaded = read(spark, path)
    assert loaded.selectExpr("count(*)", "sum(id)", "count(distinct p)").first() == (5000, 12497500, 50)
    assert (
        loaded.rdd.getNumPartitions() < 16
    )  # 350 tiny files (4 MB each, by source.split.open-file-cost) are not 350 tasks


def test_tasks_of_one_write_never_share_sequence_numbers(spark: SparkSession, path: str) -> None:
    rows = plain_session(spark).range(0, 4000, 1, 4).selectExpr("id % 1000 AS id", "id AS v")
    rows.write.format("paimon").options(**{"primary-key": "id", "bucket": "1"}).mode("append").save(path)
    assert read(spark, path).selectExpr("count(*)", "sum(v - id)").first() == (1000, 3_000_000)
    files = load_table(path).manifests.live_entries(load_table(path).snapshots.get(1))
    ranges = sorted((entry.file.min_sequence_number, entry.file.max_sequence_number) for entry in files)
    assert len(ranges) == 4
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


def test_merge_schema_adds_columns(save: Callable[..., None], load: Callable[..., Rows], path: str) -> None:
    save([(1, "a")], "id int, v string", **KEYED, **{"merge-engine": "partial-update"})
    save([(2, {"x": 1}, 5)], "id int, r struct<x:int>, N int", **{"write.merge-schema": "true"})
    save([(1, 7)], "ID int, n int", **{"write.merge-schema": "true"})
    assert load() == [(1, "a", None, 7), (2, None, (1,), 5)]
    schema = load_table(path).schema
    assert (schema.id, schema.highest_field_id) == (1, 4)
    assert [(f.id, f.name, f.type.nullable) for f in schema.fields] == [
        (0, "id", False),
        (1, "v", True),
        (3, "r", True),
        (4, "N", True),
    ]
    assert load(**{"scan.snapshot-id": "1"}) == [(1, "a")]


def test_merge_schema_adds_nothing_when_the_rows_do_not_fit(save: Callable[..., None], path: str) -> None:
    save([(1, 1)], "id int, v int")
    with pytest.raises(SchemaMismatchError):
        save([(b"x", 1)], "v binary, n int", **{"write.merge-schema": "true"})
    assert load_table(path).schema.field_names == ("id", "v")


@pytest.mark.thorough
def test_the_database_of_the_system_tables_is_not_written(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "wh" / "sys.db" / "tables"
    for written in (str(target), f"{target}/", f"{target}$branch_b", f"file://{target}"):
        with pytest.raises(PySparkException, match="sys has the system tables of the warehouse"):
            spark.range(1).write.format("paimon").mode("append").save(written)
    with pytest.raises(UnsupportedError, match="sys has the system tables of the warehouse"):
        PaimonTable.create(spark, str(target), "id int")
    assert not target.exists()


def test_snapshots_name_what_made_them(save: Callable[..., None], path: str) -> None:
    save([(1, "a")], "id int, v string")
    save([(2, "b")], "id int, v string", mode="overwrite")
    table = load_table(path)
    assert [table.snapshots.get(n).operation for n in (1, 2)] == [Operation.WRITE, Operation.OVERWRITE]
