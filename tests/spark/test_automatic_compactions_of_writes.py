"""Each way of writing on a classic session is followed by the compaction that it makes due, as a Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from paimon_spark.spark.jobs import compact_job
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.catalog("automatic", database="d")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON = {
    "keyed": "'primary-key' = 'id', 'bucket' = '1', 'compaction.total-size-threshold' = '1 mb'",
    "append": "'compaction.min.file-num' = '2'",
}


@pytest.mark.parametrize("kind", SOON)
def test_every_entry_point(
    spark: SparkSession, warehouse: Path, oracle: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name, path = f"automatic.d.{kind}", f"{warehouse}/d.db/{kind}"
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) TBLPROPERTIES ({SOON[kind]})")
    jobs = []
    in_tasks = compact_job.rewrite_in_tasks
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)
    monkeypatch.setattr(compact_job, "rewrite_in_tasks", lambda *given: jobs.append(given) or in_tasks(*given))
    frame = spark.createDataFrame([(3, "c")], "id INT, v STRING").coalesce(1)
    table = paimon_spark.PaimonTable.for_path(spark, path)
    entry_points = {
        "insert": lambda: spark.sql(f"INSERT INTO {name} VALUES (2, 'b')"),
        "save": lambda: frame.write.format("paimon").mode("append").save(path),
        "writeTo": lambda: frame.writeTo(name).append(),
        "saveAsTable": lambda: frame.write.mode("append").saveAsTable(name),
        "append": lambda: table.append(frame),
        "sql": lambda: paimon_spark.sql(
            spark, f"INSERT INTO paimon.d.{kind} VALUES (4, 'd')", warehouse=str(warehouse)
        ),
        "update": lambda: spark.sql(f"UPDATE {name} SET v = 'u' WHERE id = 2"),
        "delete": lambda: spark.sql(f"DELETE FROM {name} WHERE id = 1"),
        "sql update": lambda: paimon_spark.sql(
            spark, f"UPDATE paimon.d.{kind} SET v = 'w' WHERE id = 4", warehouse=str(warehouse)
        ),
    }
    rewritten = {"update", "delete", "sql update"} if kind == "append" else set()  # the one file is written anew
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    for entry_point, write in entry_points.items():
        before = len(jobs)
        write()
        snapshots = load_table(path).snapshots
        latest = snapshots.latest()
        assert latest is not None
        live = load_table(path).manifests.live_entries(latest)
        assert len(live) == 1, entry_point
        if entry_point not in rewritten:
            assert latest.commit_kind is CommitKind.COMPACT, entry_point
            assert latest.commit_user == snapshots.get(latest.id - 1).commit_user
            assert len(jobs) == before + 1, entry_point
    threes = 4 if kind == "append" else 1
    expected = [(2, "u"), *[(3, "c")] * threes, (4, "w")]
    assert sorted(map(tuple, spark.table(name).collect())) == expected
    assert sorted(map(tuple, oracle.rows(path))) == expected


def test_an_overwrite_with_many_files(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE automatic.d.many (id INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ('compaction.min.file-num' = "
        "'3', 'partition.sink-strategy' = 'none')"
    )
    rows = spark.range(40).selectExpr("cast(id as int) id", "1 p").repartition(4)
    rows.writeTo("automatic.d.many").overwritePartitions()
    files = spark.sql("SELECT record_count FROM automatic.d.`many$files`").collect()
    assert sum(row[0] for row in files) == 40
    assert len(files) == 1


def test_a_session_leaves_append_tables_alone(spark: SparkSession, warehouse: Path) -> None:
    name, path = "automatic.d.alone", f"{warehouse}/d.db/alone"
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) TBLPROPERTIES ('compaction.min.file-num' = '2')")
    frame = spark.createDataFrame([(3, "c")], "id INT, v STRING").coalesce(1)
    entry_points = (
        lambda: spark.sql(f"INSERT INTO {name} VALUES (2, 'b')"),
        lambda: frame.write.format("paimon").mode("append").save(path),
        lambda: frame.writeTo(name).append(),
        lambda: paimon_spark.PaimonTable.for_path(spark, path).append(frame),
        lambda: paimon_spark.sql(spark, "INSERT INTO paimon.d.alone VALUES (4, 'd')", warehouse=str(warehouse)),
    )
    spark.conf.set("spark.paimon.write.compact-append-tables", "false")
    try:
        for write in entry_points:
            write()
    finally:
        spark.conf.unset("spark.paimon.write.compact-append-tables")
    table = load_table(path)
    assert [table.snapshots.get(number).commit_kind for number in table.snapshots.ids()] == [CommitKind.APPEND] * 5
    spark.sql("CALL automatic.sys.compact('d.alone')")  # a compaction that is asked for takes place
    latest = load_table(path).snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
