"""PaimonTable's writes: shuffled by bucket first, so that each bucket has one writer."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark import (
    CommitConflictError,
    DataError,
    OptionError,
    PaimonError,
    PaimonTable,
    SchemaError,
    SnapshotNotFoundError,
)
from paimon_spark.commit import file_store_commit
from paimon_spark.spark.jobs.clustering import partition_keys, spark_hash
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    values = [0, 1, 42, 1000, -1, 2**31 - 1, -(2**31)]
    rows = spark.createDataFrame([(v,) for v in values], "v int").selectExpr("v", "hash(v) AS h").collect()
    assert [(row.v, spark_hash(row.v)) for row in rows] == [(row.v, row.h) for row in rows]


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_each_partition_has_a_key_of_its_own(spark: SparkSession, count: int) -> None:
    keys = partition_keys(count)
    assert len(set(keys)) == count
    rows = spark.createDataFrame([(key, i) for i, key in enumerate(keys)], "k int, i int").repartition(count, "k")
    assert all(row.i == row.p for row in rows.selectExpr("i", "spark_partition_id() AS p").collect())


KINDS = {
    "fixed": {"bucket": "4"},
    "fixed with partitions": {"bucket": "2", "partition": "p"},
    "dynamic": {"dynamic-bucket.target-row-num": "300"},
    "dynamic with partitions": {"partition": "p"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_bucket_has_one_writer(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    options = {**KINDS[kind], "primary-key": "id,p", "merge-engine": "partial-update"}
    schema = "id long not null, p int not null, a string, b string"
    table = PaimonTable.create(spark, str(tmp_path / "t"), schema, options=options)
    first = spark.range(0, 2000, 1, 5).selectExpr("id", "cast(id % 3 AS int) AS p", "concat('a', id) AS a")
    second = spark.range(1000, 3000, 1, 5).selectExpr("id", "cast(id % 3 AS int) AS p", "concat('b', id) AS b")
    table.append(first)
    table.append(second)
    read = table.to_df()
    assert read.selectExpr("count(*)", "sum(id)", "count(a)", "count(b)").first() == (3000, 4498500, 2000, 2000)
    store = load_table(table.path)
    files = store.manifests.live_entries(store.snapshots.get(1))
    if "dynamic" not in kind:
        assert max(Counter((entry.partition, entry.bucket) for entry in files).values()) == 1
    table.overwrite(first.where("p = 1"), partition_overwrite_mode="dynamic")
    assert read.count() == 3000  # a loaded frame stays on its snapshot
    # 667 of the ids below 2000 are of partition 1, as are 667 of those that have a b
    expected = (2000 + 667, 2000 - 667) if "partitions" in kind else (667, 0)
    assert table.to_df().selectExpr("count(*)", "count(b)").first() == expected


def test_rows_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    table = PaimonTable.create(spark, str(tmp_path / "t"), "id int not null, v string", primary_key="id")
    with pytest.raises(SchemaError):
        table.append(spark.createDataFrame([(1, 2)], "id int, w int"))
    with pytest.raises(DataError, match="Cannot write null"):
        table.append(spark.createDataFrame([(None, "x")], "id int, v string"))
    with pytest.raises(OptionError, match="Unknown option 'nonsense'"):
        table.append(spark.createDataFrame([(1, "x")], "id int, v string"), nonsense=1)
    assert table.to_df().count() == 0


def test_tags(spark: SparkSession, tmp_path: Path) -> None:
    table = PaimonTable.create(spark, str(tmp_path / "t"), "id int")
    with pytest.raises(SnapshotNotFoundError, match=r"has no snapshot yet\. Write rows first"):
        table.create_tag("early")
    for i in range(3):
        table.append(spark.createDataFrame([(i,)], "id int"))
    table.create_tag("a", snapshot_id=1)
    table.create_tag("b")
    table.rename_tag("a", "c")
    assert [(row.tag_name, row.snapshot_id, row.record_count) for row in table.tags().collect()] == [
        ("b", 3, 3),
        ("c", 1, 1),
    ]
    assert table.to_df(scan_tag_name="c").count() == 1
    assert table.to_df(**{"scan.version": "b"}).count() == 3
    assert [row.snapshot_id for row in table.snapshots().collect()] == [1, 2, 3]
    table.delete_tag("c")
    table.delete_tag("c")  # there is none any more: no error, as in the official connector
    with pytest.raises(PaimonError, match="already exists"):
        table.create_tag("b")
    table.create_tag("b", ignore_if_exists=True)


def test_creating(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert not PaimonTable.exists(path)
    PaimonTable.create(spark, path, "id int, dt string", partition_by="dt", comment="days")
    assert PaimonTable.exists(path)
    assert PaimonTable.exists(spark, path)
    assert not PaimonTable.exists(spark, "paimon.db.none")
    with pytest.raises(OptionError, match=r"exists\(spark, name\) takes the session first"):
        PaimonTable.exists(path, spark)  # type: ignore[arg-type]
    assert load_table(path).schema.comment == "days"
    with pytest.raises(SchemaError, match="is a table already"):
        PaimonTable.create(spark, path, "id int")
    same = PaimonTable.create(spark, path, "id int", ignore_if_exists=True)
    assert repr(same) == f"PaimonTable({path!r}: append table, 2 columns, partitioned by dt, no snapshot yet)"
    with pytest.raises(OptionError, match="Unknown option 'buckett'"):
        PaimonTable.create(spark, str(tmp_path / "u"), "id int", options={"buckett": "1"})


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_a_commit_error_has_its_own_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    def conflict(*_: object, **__: object) -> None:
        raise CommitConflictError("others were faster: nothing was committed")

    table = PaimonTable.create(
        spark, str(tmp_path / "t"), "id int not null", primary_key="id", options={"bucket": bucket}
    )
    monkeypatch.setattr(file_store_commit, "commit", conflict)
    with pytest.raises(CommitConflictError, match=r"^others were faster"):
        table.append(spark.range(3).selectExpr("int(id) AS id"))
