"""`order_strategy` and clustering by the entry points, as Spark jobs; Java reads the files and goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from paimon_spark.maintain.compact import sorted_rewrite
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.jobs import compact_job
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.catalog("sorted", database="d")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def filled(spark: SparkSession, warehouse: Path, name: str, options: str, writes: int = 2) -> str:
    spark.sql(
        f"CREATE TABLE sorted.d.{name} (id INT, x INT, y STRING, p STRING) PARTITIONED BY (p) TBLPROPERTIES "
        f"('write-only' = 'true', 'target-file-size' = '12 kb', {options})"
    )
    for number in range(writes):
        spark.range(0, 3000, 1, 2).selectExpr(
            f"cast(id + {number} * 3000 AS INT) id",
            f"cast(pmod(hash(id, {number}), 1000) AS INT) x",
            f"cast(pmod(hash(id, {number}, 7), 1000) AS STRING) y",
            "if(id % 2 = 0, 'even', 'odd') p",
        ).writeTo(f"sorted.d.{name}").append()
    return f"{warehouse}/d.db/{name}"


def planned(path: str, column: str, low: Any, high: Any) -> tuple[int, int]:
    """How many files a filter needs, of all."""
    table = load_table(path)
    plan = TableScan.of(table, ROWS).select(predicate=Leaf("between", column, (low, high))).plan()
    live = table.manifests.live_entries(table.snapshots.latest())
    return sum(len(split.files) for split in plan.splits), len(live)


def test_rows_are_put_in_order(
    spark: SparkSession, warehouse: Path, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)  # in tasks
    monkeypatch.setattr(sorted_rewrite, "RANGE_BYTES", 6 << 10)
    path = filled(spark, warehouse, "ordered", "'bucket' = '-1'")
    rows = sorted(map(tuple, spark.table("sorted.d.ordered").collect()))
    assert planned(path, "x", 10, 20)[0] == planned(path, "x", 10, 20)[1]
    spark.sql("CALL sorted.sys.compact(table => 'd.ordered', order_strategy => 'order', order_by => 'x', "
              "partitions => 'p=even')")  # fmt: skip
    few, of = planned(path, "x", 10, 20)
    assert few < of
    done = paimon_spark.PaimonTable.for_path(spark, path).compact(order_strategy="zorder", order_by=["x", "y"])
    snapshot = load_table(path).snapshots.latest()
    assert snapshot is not None
    assert (snapshot.id, snapshot.commit_kind) == (done, CommitKind.COMPACT)
    for column, low, high in (("x", 10, 20), ("y", "10", "20")):
        few, of = planned(path, column, low, high)
        assert few < of, column
    assert sorted(map(tuple, spark.table("sorted.d.ordered").collect())) == rows
    assert sorted(map(tuple, oracle.rows(path))) == rows
    oracle.compact(path, options={"compaction.min.file-num": 2})
    assert sorted(map(tuple, spark.table("sorted.d.ordered").collect())) == rows
    with pytest.raises(Exception, match="Can't find column nobody"):
        spark.sql("CALL sorted.sys.compact(table => 'd.ordered', order_strategy => 'order', order_by => 'nobody')")


def test_a_clustered_table(spark: SparkSession, warehouse: Path, oracle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)
    monkeypatch.setattr(sorted_rewrite, "RANGE_BYTES", 6 << 10)
    options = "'clustering.incremental' = 'true', 'clustering.columns' = 'x', 'deletion-vectors.enabled' = 'true'"
    path = filled(spark, warehouse, "clustered", options)
    spark.sql("DELETE FROM sorted.d.clustered WHERE id % 3 = 0")
    rows = sorted(map(tuple, spark.table("sorted.d.clustered").collect()))
    spark.sql("CALL sorted.sys.compact(table => 'd.clustered', compact_strategy => 'full')")
    table = load_table(path)
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    assert {entry.file.level for entry in table.manifests.live_entries(latest)} == {5}
    assert table.manifests.index_entries(latest) == [], "no row is marked any more"
    few, of = planned(path, "x", 10, 20)
    assert few <= of // 2
    assert sorted(map(tuple, spark.table("sorted.d.clustered").collect())) == rows
    assert sorted(map(tuple, oracle.rows(path))) == rows
    assert paimon_spark.PaimonTable.for_path(spark, path).compact() is None
    oracle.write(path, [(-1, 1, "1", "odd")])
    assert spark.table("sorted.d.clustered").where("id = -1").count() == 1
