"""CALL sys.rescale and PaimonTable.rescale: another number of buckets, and no commit of others is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark import OptionError, PaimonError, PaimonTable, UnsupportedError
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.spark.jobs import bucket_numbers as rescale_job
from paimon_spark.spark.jobs.bucket_shuffle import write_to_buckets
from paimon_spark.spark.jobs.snapshot_rows import table_rows
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("rescaled")]


def buckets(path: str) -> dict[str, set[tuple[int, int]]]:
    """The buckets of each partition, with the number of buckets that their files tell."""
    table = load_table(path)
    found: dict[str, set[tuple[int, int]]] = {}
    for entry in table.manifests.live_entries(table.snapshots.latest()):
        found.setdefault(table.paths.partition_path(entry.partition), set()).add((entry.bucket, entry.total_buckets))
    return found


def fix_buckets(spark: SparkSession, path: str, number: int, partitions: Predicate) -> None:
    """Give partitions a fixed number of buckets, whatever the table has, as the official `rescale` does."""
    table = load_table(path)
    rows = table_rows(spark, table, table.snapshots.latest_id(), partitions)
    write_to_buckets(RowsToWrite(rows, table.as_if({"bucket": str(number)}), OverwriteSpec.matching(partitions)))


def test_partitions_get_another_number_of_buckets(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE rescaled.db.t (k INT, v STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='2')"
    )
    spark.sql("INSERT INTO rescaled.db.t SELECT id, 'a', id % 2 FROM range(40)")
    spark.sql("DELETE FROM rescaled.db.t WHERE k < 4")
    path = str(warehouse / "db.db" / "t")
    before = sorted(map(tuple, spark.table("rescaled.db.t").collect()))
    assert list(map(tuple, spark.sql("CALL rescaled.sys.rescale('db.t', 3, where => 'p = 1')").collect())) == [(True,)]
    assert {p: {total for _, total in found} for p, found in buckets(path).items()} == {"p=0": {2}, "p=1": {3}}
    assert sorted(map(tuple, spark.table("rescaled.db.t").collect())) == before
    spark.sql("ALTER TABLE rescaled.db.t SET TBLPROPERTIES ('bucket'='3')")
    PaimonTable.for_path(spark, path).rescale(partitions="p=0")
    assert {p: {total for _, total in found} for p, found in buckets(path).items()} == {"p=0": {3}, "p=1": {3}}
    spark.sql("INSERT INTO rescaled.db.t VALUES (5, 'new', 1), (100, 'new', 0)")
    after = sorted(map(tuple, spark.table("rescaled.db.t").collect()))
    assert after == sorted([row for row in before if row[0] != 5] + [(5, "new", 1), (100, "new", 0)])


def test_what_others_commit_meanwhile_is_not_lost(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE TABLE rescaled.db.raced (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("INSERT INTO rescaled.db.raced SELECT id, 'a' FROM range(10)")
    write, pending = rescale_job.write_to_buckets, [100]

    def late(*arguments: Any) -> Any:
        if pending:
            spark.sql(f"INSERT INTO rescaled.db.raced VALUES ({pending.pop()}, 'late')")
        return write(*arguments)

    monkeypatch.setattr(rescale_job, "write_to_buckets", late)
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / "raced"))
    table.rescale(4)
    assert sorted(row.k for row in table.to_df().collect()) == [*range(10), 100]
    assert {total for _, total in buckets(table.path)[""]} == {4}


def test_what_cannot_be_rescaled_is_reported(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE rescaled.db.empty (k INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("CREATE TABLE rescaled.db.plain (k INT)")
    empty, plain = (PaimonTable.for_path(spark, str(warehouse / "db.db" / name)) for name in ("empty", "plain"))
    with pytest.raises(OptionError, match="no snapshot, no need to rescale"):
        empty.rescale(2)
    with pytest.raises(OptionError, match="bucket_num must be at least 1"):
        empty.rescale(0)
    with pytest.raises(UnsupportedError, match="Only tables with buckets can be rescaled"):
        plain.rescale(2)
    with pytest.raises((PySparkException, PaimonError), match="partitions and where cannot be used together"):
        spark.sql("CALL rescaled.sys.rescale('db.empty', 2, partitions => 'p=1', where => 'p = 1')").collect()


def test_partitions_are_written_with_their_own_number_of_buckets(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE rescaled.db.own (k INT, v STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='3')"
    )
    spark.sql("INSERT INTO rescaled.db.own SELECT id, 'a', id % 2 FROM range(60)")
    spark.sql("ALTER TABLE rescaled.db.own SET TBLPROPERTIES ('bucket'='2')")
    spark.sql("INSERT INTO rescaled.db.own SELECT id, 'b', id % 3 FROM range(60)")
    spark.sql("UPDATE rescaled.db.own SET v = 'c' WHERE k = 5")
    path = str(warehouse / "db.db" / "own")
    PaimonTable.for_path(spark, path).append(spark.createDataFrame([(7, "d", 1)], "k int, v string, p int"))
    assert {p: {total for _, total in found} for p, found in buckets(path).items()} == {
        "p=0": {3},
        "p=1": {3},
        "p=2": {2},
    }
    model = {(k, k % 2): "a" for k in range(60)} | {(k, k % 3): "b" for k in range(60)}
    model |= {location: "c" for location in model if location[0] == 5} | {(7, 1): "d"}
    found = spark.table("rescaled.db.own").collect()
    assert len(found) == len(model)
    assert {(row.k, row.p): row.v for row in found} == model
    # an overwrite makes the option true
    spark.sql("INSERT OVERWRITE rescaled.db.own SELECT * FROM rescaled.db.own")
    assert {total for found in buckets(path).values() for _, total in found} == {2}
    assert {(row.k, row.p): row.v for row in spark.table("rescaled.db.own").collect()} == model


@pytest.mark.parametrize("properties", ["'primary-key'='k,p', 'bucket'='1'", "'bucket-key'='k', 'bucket'='1'"])
def test_partitions_without_files_give_no_snapshot(spark: SparkSession, warehouse: Path, properties: str) -> None:
    name = f"t{len(properties)}"
    spark.sql(f"CREATE TABLE rescaled.db.{name} (k INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO rescaled.db.{name} VALUES (1, 1), (2, 2)")
    spark.sql(f"ALTER TABLE rescaled.db.{name} DROP PARTITION (p = 2)")
    path = str(warehouse / "db.db" / name)
    for partition in ("p=2", "p=7"):
        done = spark.sql(f"CALL rescaled.sys.rescale('db.{name}', 2, partitions => '{partition}')").collect()
        assert list(map(tuple, done)) == [(True,)]
        PaimonTable.for_path(spark, path).rescale(2, partitions=partition)
    assert load_table(path).snapshots.latest_id() == 2
    spark.sql(f"TRUNCATE TABLE rescaled.db.{name}")
    PaimonTable.for_path(spark, path).rescale(2)
    assert load_table(path).snapshots.latest_id() == 3


@pytest.mark.parametrize("call", ["", ", bucket_num => -1"], ids=["without a number", "-1"])
@pytest.mark.parametrize("keys", ["k,p", "k"], ids=["dynamic", "across"])
def test_dynamic_buckets_come_back_where_their_number_was_fixed(
    spark: SparkSession, warehouse: Path, keys: str, call: str
) -> None:
    """The official `rescale` fixes their number: then no index says where the keys of the partition are."""
    name = f"back{len(keys)}{len(call)}"
    spark.sql(
        f"CREATE TABLE rescaled.db.{name} (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES "
        f"('primary-key'='{keys}', 'bucket'='-1', 'dynamic-bucket.target-row-num'='5')"
    )
    spark.sql(f"INSERT INTO rescaled.db.{name} SELECT id, 'a', id % 2 FROM range(40)")
    path = str(warehouse / "db.db" / name)
    fix_buckets(spark, path, 3, Leaf("eq", "p", (1,)))
    assert {p: {total for _, total in found} for p, found in buckets(path).items()} == {"p=0": {-1}, "p=1": {3}}
    spark.sql(f"INSERT INTO rescaled.db.{name} VALUES (2, 'b', 0), (100, 'b', 0), (102, 'b', 2)")
    model = dict.fromkeys(range(40), "a") | {2: "b", 100: "b", 102: "b"}

    def found() -> dict[int, str]:
        rows = spark.table(f"rescaled.db.{name}").collect()
        assert len({row.k for row in rows}) == len(rows)
        return {row.k: row.v for row in rows}

    assert found() == model
    for statement in ("INSERT INTO {} VALUES (4, 'c', 0), (1, 'c', 1)", "UPDATE {} SET v = 'c' WHERE k = 1"):
        with pytest.raises(OptionError, match=r"write partition p=1 with a new bucket num -1, but .* is 3"):
            spark.sql(statement.format(f"rescaled.db.{name}"))
        assert found() == model
    with pytest.raises(UnsupportedError, match=r"are dynamic .* leave out bucket_num, or give -1"):
        spark.sql(f"CALL rescaled.sys.rescale(table => 'db.{name}', bucket_num => 5)")
    spark.sql(f"CALL rescaled.sys.rescale(table => 'db.{name}'{call})")
    assert {total for numbers in buckets(path).values() for _, total in numbers} == {-1}
    assert found() == model
    spark.sql(f"INSERT INTO rescaled.db.{name} VALUES (4, 'c', 0), (1, 'c', 1), (101, 'c', 1)")
    assert found() == model | {4: "c", 1: "c", 101: "c"}
