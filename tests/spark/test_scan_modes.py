"""Options that say which files of a table are read mean the same through every entry point of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import paimon_spark
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    warehouse: Path = tmp_path_factory.mktemp("scan_modes")
    paimon_spark.register_catalog(spark, "scan_modes", warehouse=str(warehouse))
    spark.sql("CREATE DATABASE scan_modes.d")
    spark.sql(
        "CREATE TABLE scan_modes.d.t (k INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ("
        "'write-only' = 'true', 'compaction.min.file-num' = '2')"
    )
    for number in range(3):
        spark.sql(f"INSERT INTO scan_modes.d.t VALUES ({number}, 'p{number % 2}')")
    assert paimon_spark.PaimonTable.for_path(spark, f"{warehouse}/d.db/t").compact() is not None
    spark.sql("INSERT INTO scan_modes.d.t VALUES (3, 'p0')")
    return f"{warehouse}/d.db/t"


def entry_points(spark: SparkSession, path: str, options: dict[str, str]) -> dict[str, DataFrame]:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    named = {key.replace(".", "_").replace("-", "_"): value for key, value in options.items()}
    return {
        "table": spark.read.options(**options).table("scan_modes.d.t"),
        "path": spark.read.format("paimon").options(**options).load(path),
        "statement": spark.sql(f"SELECT * FROM scan_modes.d.t WITH ({listed})"),
        "text": paimon_spark.sql(spark, f"SELECT * FROM scan_modes.d.t WITH ({listed})"),
        "method": paimon_spark.PaimonTable.for_path(spark, path).to_df(**named),
    }


def test_every_entry_point_reads_the_same_files(spark: SparkSession, path: str) -> None:
    table = load_table(path)
    commits = [table.snapshots.get(number).time_millis for number in table.snapshots.ids()]
    wanted = {
        ("scan.file-creation-time-millis", str(commits[-1] + 9_999)): [],
        ("scan.file-creation-time-millis", "1"): [0, 1, 2, 3],
        ("scan.creation-time-millis", str(commits[1])): [0, 1],
        ("scan.mode", "compacted-full"): [0, 1, 2],
    }
    for (key, value), keys in wanted.items():
        for entry_point, frame in entry_points(spark, path, {key: value}).items():
            assert sorted(row.k for row in frame.collect()) == keys, (entry_point, key, value)
            assert frame.count() == len(keys), (entry_point, key, value)
    with pytest.raises(Exception, match="Only one of the following parameters"):
        spark.read.options(**{"scan.snapshot-id": "1", "scan.creation-time-millis": "5"}).table(
            "scan_modes.d.t"
        ).count()


def test_a_session_can_forbid_reads_of_all_partitions(spark: SparkSession, path: str) -> None:
    key = "spark.paimon.read.allow.fullScan"
    spark.conf.set(key, "false")
    try:
        for entry_point, frame in entry_points(spark, path, {"scan.snapshot-id": "3"}).items():
            assert [row.k for row in frame.where("p = 'p1'").collect()] == [1], entry_point
            with pytest.raises(Exception, match=r"Full scan is not supported.*partitions \(p\)"):
                frame.collect()
    finally:
        spark.conf.unset(key)
