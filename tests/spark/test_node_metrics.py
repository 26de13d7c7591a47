"""Spark's UI shows at the nodes of scans and writes what was read, skipped and committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("metrics")]

TABLES = {
    "plain": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2')",
    "dynamic": "TBLPROPERTIES ('primary-key' = 'id,p')",
}


def _last(store: Any) -> list[Any]:
    """The last executions; the store drops old ones."""
    count = store.executionsCount()
    found = store.executionsList(max(0, count - 50), 50)
    return [found.apply(at) for at in range(found.size())]


def shown(spark: SparkSession, node: str, run: Callable[[], object]) -> dict[str, str]:
    """Run a statement and return the metrics of its node, as the UI shows them."""
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    before = max((execution.executionId() for execution in _last(store)), default=-1)
    run()
    found: dict[str, str] = {}
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        for execution in _last(store):
            if execution.executionId() <= before or not execution.completionTime().isDefined():
                continue
            values = store.executionMetrics(execution.executionId())
            nodes = store.planGraph(execution.executionId()).allNodes()
            for at in range(nodes.size()):
                if nodes.apply(at).name().startswith(node):
                    metrics = nodes.apply(at).metrics()
                    for each in (metrics.apply(place) for place in range(metrics.size())):
                        value = values.get(each.accumulatorId())
                        found[each.name()] = value.get() if value.isDefined() else ""
        time.sleep(0.05)
    return found


@pytest.fixture(params=TABLES)
def name(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> str:
    kind: str = request.param
    name = f"{kind}_{request.function.__name__.removeprefix('test_the_')}"
    spark.sql(
        f"CREATE TABLE metrics.db.{name} (id INT NOT NULL, p INT NOT NULL, v STRING) PARTITIONED BY (p) {TABLES[kind]}"
    )
    return name


def test_the_node_of_a_write_and_of_a_read(spark: SparkSession, warehouse: Path, name: str) -> None:
    rows = f"INSERT INTO metrics.db.{name} SELECT id, id % 3, 'x' FROM range(30000)"
    written = shown(spark, "AppendData", lambda: spark.sql(rows))
    table = load_table(f"{warehouse}/db.db/{name}")
    files = table.manifests.live_entries(table.snapshots.latest())
    assert written["committed snapshot id"] == "1"
    assert written["number of added table files"] == str(len(files))
    assert written["number of records in added table files"] == "30,000"
    assert written["number of deleted table files"] == "0"
    assert written["number of partitions written"] == "3"
    assert written["number of buckets written"] == str(len({(entry.partition, entry.bucket) for entry in files}))
    assert written["commit duration"].endswith(("ms", "s"))

    few = shown(spark, "AppendData", lambda: spark.sql(f"INSERT INTO metrics.db.{name} VALUES (7, 1, 'y')"))
    assert few["committed snapshot id"] == "2"
    assert few["number of records in added table files"] == "1"

    query = spark.sql(f"SELECT * FROM metrics.db.{name} WHERE p = 1 AND v > 'a'")
    read = shown(spark, "BatchScan", query.collect)
    live = table.manifests.live_entries(table.snapshots.latest())
    left = [entry for entry in live if table.manifests.partition_batch([entry.partition])["p"].to_pylist() == [1]]
    assert read["scanned snapshot id"] == "2"
    assert read["number of table files read"] == str(len(left))
    assert read["number of table files skipped"] == str(len(live) - len(left))
    assert read["number of manifests"] == "2"
    assert read["number of partitions read"] == "1"
    assert int(read["number of splits read"]) >= 1
    assert (read["number of splits merged"] != "0") == (not name.startswith("plain"))
    assert "KiB" in read["size of table files read"]
    assert read["planning duration"].endswith(("ms", "s"))
    if not name.startswith("plain"):  # tasks aggregate merged rows
        greatest = shown(spark, "BatchScan", spark.sql(f"SELECT max(v) FROM metrics.db.{name} WHERE p = 1").collect)
        assert greatest["number of table files read"] == read["number of table files read"]


def test_the_nodes_of_statements_that_change_rows(spark: SparkSession, warehouse: Path, name: str) -> None:
    table = f"metrics.db.{name}"
    spark.sql(f"INSERT INTO {table} SELECT id, id % 3, 'x' FROM range(30)")
    updated = shown(spark, "Execute UPDATE", lambda: spark.sql(f"UPDATE {table} SET v = 'u' WHERE id < 4"))
    assert updated["number of updated rows"] == "4"
    assert updated["committed snapshot id"] == "2"
    assert updated["number of added table files"] != "0"
    deleted = shown(spark, "Execute DELETE", lambda: spark.sql(f"DELETE FROM {table} WHERE id IN (1, 7)"))
    assert deleted["number of deleted rows"] == "2"
    assert deleted["number of inserted rows"] == "0"
    merge = (
        f"MERGE INTO {table} t USING (SELECT id, 2 p FROM VALUES (2), (1000) AS s(id)) s ON t.id = s.id AND t.p = s.p "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, 'n')"
    )
    merged = shown(spark, "Execute MERGE", lambda: spark.sql(merge))
    assert merged["number of deleted rows"] == "1"
    assert merged["number of inserted rows"] == "1"
    assert merged["commit duration"].endswith(("ms", "s"))


def test_the_node_of_a_load_by_path_and_of_an_overwrite(spark: SparkSession, warehouse: Path) -> None:
    path = f"{warehouse}/loaded"
    frame = spark.range(100).selectExpr("cast(id AS int) id")
    frame.write.format("paimon").save(path)
    read = shown(spark, "BatchScan", spark.read.format("paimon").load(path).collect)
    assert read["scanned snapshot id"] == "1"
    spark.sql("CREATE TABLE metrics.db.replaced (id INT)")
    frame.writeTo("metrics.db.replaced").append()
    written = shown(
        spark, "OverwriteBy", lambda: spark.sql("INSERT OVERWRITE metrics.db.replaced SELECT id FROM range(7)")
    )
    assert written["committed snapshot id"] == "2"
    assert int(written["number of deleted table files"]) >= 1
    assert written["number of records in added table files"] == "7"
