"""A MERGE reads only what the source can match of its target: files that it must not need are gone here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.session.pyspark_members import SourceSize, source_size
from paimon_spark.spark.sql import merge as core
from paimon_spark.spark.sql import merge_strategy

pytestmark = pytest.mark.spark

KINDS = {
    "keyed": {"primary-key": "k", "bucket": "1"},
    "append": {},
    "vectors": {"deletion-vectors.enabled": "true"},
}


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_strategy, "_LEAST_ROWS", 0)


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pruned")
    paimon_spark.register_catalog(spark, "pruned", warehouse=str(path))
    return path


def by_sql(spark: SparkSession, path: Path, source: str, clauses: str) -> None:
    spark.sql(f"MERGE INTO pruned.`{path}` AS t USING ({source}) AS s ON t.k = s.k {clauses}")


def by_text(spark: SparkSession, path: Path, source: str, clauses: str) -> None:
    paimon_spark.sql(spark, f"MERGE INTO paimon.`{path}` AS t USING ({source}) AS s ON t.k = s.k {clauses}")


@pytest.mark.parametrize("entry_point", [by_sql, by_text])
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_cannot_match_are_not_read(
    spark: SparkSession, catalog: Path, tmp_path: Path, kind: str, entry_point: Callable[..., None]
) -> None:
    path = tmp_path / "t"
    files: list[set[Path]] = [set()]
    for low in (0, 10, 20):
        rows = spark.range(low, low + 10, 1, 1).selectExpr("CAST(id AS INT) k", "0 n")
        rows.write.format("paimon").mode("append").options(**KINDS[kind], **{"write-only": "true"}).save(str(path))
        files.append(set(path.glob("bucket-*/*")))
    (middle,) = files[2] - files[1]
    content = middle.read_bytes()
    middle.unlink()
    update = "WHEN MATCHED AND s.n > t.n THEN UPDATE SET n = s.n"
    entry_point(spark, path, "SELECT 5 AS k, 1 AS n UNION ALL SELECT 25, 2 UNION ALL SELECT 40, 3",
         f"{update} WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    many = "SELECT CAST(id AS INT) AS k, 7 AS n FROM range(22, 2000) WHERE id < 23 OR id > 35"
    entry_point(spark, path, many, f"{update} WHEN NOT MATCHED AND s.k = 50 THEN INSERT *")
    middle.write_bytes(content)
    found = spark.read.format("paimon").load(str(path)).where("n > 0").collect()
    assert sorted(map(tuple, found)) == [(5, 1), (22, 7), (25, 2), (40, 7), (50, 7)]
    assert spark.read.format("paimon").load(str(path)).count() == 32


def test_rows_that_the_source_does_not_match_are_all_read(
    spark: SparkSession, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    spark.range(4).selectExpr("id k").write.format("paimon").mode("append").save(str(path))
    monkeypatch.setattr(core, "matching_rows", None)
    by_sql(spark, path, "SELECT 2 AS k", "WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert [row.k for row in spark.read.format("paimon").load(str(path)).collect()] == [2]


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (lambda spark: spark.createDataFrame([(5, "x"), (25, "y")], "k INT, v STRING"), SourceSize.SMALL),
        (lambda spark: spark.createDataFrame([(5, "x")], "k INT, v STRING").where("k > 3"), SourceSize.SMALL),
        (lambda spark: spark.createDataFrame([(i, f"{i:099}") for i in range(20_000)], "k INT, v STRING"),
         SourceSize.UNKNOWN),
        (lambda spark: spark.createDataFrame(spark.sparkContext.parallelize([(5,)]).repartition(2), "k INT"),
         SourceSize.UNKNOWN),
        (lambda spark: spark.sql("SELECT 5 AS k"), SourceSize.AT_HAND),
    ],
)  # fmt: skip
def test_how_large_a_source_is(spark: SparkSession, rows: Callable[[SparkSession], Any], size: SourceSize) -> None:
    assert source_size(rows(spark), 1 << 20) is size


def test_a_list_prunes(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of ``createDataFrame(list)``, by a method: files that they do not meet are gone."""
    path = tmp_path / "t"
    files: list[set[Path]] = [set()]
    for low in (0, 10):
        rows = spark.range(low, low + 10, 1, 1).selectExpr("CAST(id AS INT) k", "0 n")
        rows.write.format("paimon").mode("append").option("write-only", "true").save(str(path))
        files.append(set(path.glob("bucket-*/*")))
    (last,) = files[2] - files[1]
    content = last.read_bytes()
    last.unlink()
    source = spark.createDataFrame([(5, 1), (7, 2)], "k INT, n INT")
    PaimonTable.for_path(spark, str(path)).merge(source, ["k"]).when_matched_update().execute()
    last.write_bytes(content)
    found = spark.read.format("paimon").load(str(path)).where("n > 0").collect()
    assert sorted(map(tuple, found)) == [(5, 1), (7, 2)]
    assert not source.is_cached


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_rival_adds_is_read_though_it_was_pruned(
    spark: SparkSession, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Between the pruned read and the commit a rival adds rows that match, and counts in one that does: all is kept."""
    path = tmp_path / "t"
    for low in (0, 10):
        rows = spark.range(low, low + 10, 1, 1).selectExpr("CAST(id AS INT) k", "0 n")
        rows.write.format("paimon").mode("append").options(**KINDS[kind], **{"write-only": "true"}).save(str(path))
    location = "write_shuffled" if kind == "keyed" else "merge_rows"
    original, reads = getattr(core, location), []

    def late(changes: Any, *args: Any, **more: Any) -> Any:
        reads.append(len(reads))
        if len(reads) == 1:
            spark.sql("SELECT CAST(40 AS INT) k, 100 n").write.format("paimon").mode("append").save(str(path))
            spark.sql(f"UPDATE pruned.`{path}` SET n = n + 1000 WHERE k = 5")
        return original(changes, *args, **more)

    monkeypatch.setattr(core, location, late)
    by_sql(spark, path, "SELECT 5 AS k, 1 AS n UNION ALL SELECT 40, 2 UNION ALL SELECT 41, 3",
           "WHEN MATCHED AND t.n >= 0 THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    found = spark.read.format("paimon").load(str(path)).where("n > 0").collect()
    assert sorted(map(tuple, found)) == [(5, 1001), (40, 102), (41, 3)]
    assert spark.read.format("paimon").load(str(path)).count() == 22
    assert len(reads) == 2
