"""A statement opens only files that can hold its rows, and asks the JVM as often for many partitions as for few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from paimon_spark import PaimonTable, sql
from paimon_spark.read import snapshot_reader
from paimon_spark.spark.catalog import driver_read
from paimon_spark.spark.session import rows_at_hand

pytestmark = [pytest.mark.spark, pytest.mark.catalog("many_files", current=True)]

Change = Callable[[SparkSession, str, str], object]
FRONTS: dict[str, Change] = {
    "catalog": lambda spark, _, text: spark.sql(text.format(t="changed")).collect(),
    "text": lambda spark, path, text: sql(
        spark,
        text.format(t="paimon.db.changed").replace("p = 2", "changed.p = 2"),
        warehouse=path.removesuffix("/db.db/changed"),
    ).collect(),
    "update": lambda spark, path, text: (
        PaimonTable.for_path(spark, path).update({"v": "'new'"}, text.partition(" WHERE ")[2])
        if text.startswith("UPDATE")
        else PaimonTable.for_path(spark, path).delete(text.partition(" WHERE ")[2])
    ),
    "column": lambda spark, path, text: (
        PaimonTable.for_path(spark, path).update(
            {"v": "'new'"}, (sf.col("p") == 2) & (sf.upper("v") < "W") & sf.col("k").isin(21, 99)
        )
        if text.startswith("UPDATE")
        else PaimonTable.for_path(spark, path).delete((sf.col("p") == 2) & (sf.col("v") != "x") & sf.expr("k = 22"))
    ),
}
"""Run one statement, given the path of its table."""
KINDS = ["", "PARTITIONED BY (p)"]


@pytest.fixture(params=[False, True], ids=["tasks", "driver"])
def in_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds the rows."""
    if not request.param:
        monkeypatch.setattr(rows_at_hand, "FINDERS", {})
        monkeypatch.setattr(driver_read, "is_changed_here", lambda *_: False)


@pytest.mark.usefixtures("in_driver")
@pytest.mark.parametrize("kind", KINDS, ids=["whole", "partitioned"])
@pytest.mark.parametrize("front", FRONTS)
def test_only_files_that_may_hold_rows_are_opened(spark: SparkSession, warehouse: Path, front: str, kind: str) -> None:
    """All files but one are lost: a statement about its rows does not notice."""
    spark.sql("DROP TABLE IF EXISTS changed")
    spark.sql(f"CREATE TABLE changed (k INT, v STRING, p INT) {kind}")
    path = warehouse / "db.db" / "changed"
    files: list[set[Path]] = [set()]
    for number in range(4):
        rows = f"range({number * 10}, {number * 10 + 10})"
        spark.sql(f"INSERT INTO changed SELECT id, concat('v', id), {number} FROM {rows}")
        files.append(set(path.rglob("*.parquet")))
    for file in files[4] - (files[3] - files[2]):
        file.unlink()
    run = FRONTS[front]
    run(spark, str(path), "UPDATE {t} SET v = 'new' WHERE p = 2 AND k = 21 AND upper(v) < 'W'")
    run(spark, str(path), 'DELETE FROM {t} WHERE p = 2 AND k = 22 AND v <> "x"')
    found = spark.sql("SELECT k, v FROM changed WHERE p = 2 AND k BETWEEN 20 AND 29 ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(k, "new" if k == 21 else f"v{k}") for k in range(20, 30) if k != 22]


@pytest.mark.parametrize(
    "values",
    ["id", "IF(id = 1, NULL, concat('é', id))", "date_add(DATE '1969-12-30', id)", "CAST(id / 4 AS DECIMAL(5, 2))"],
)
def test_many_partitions_cost_no_more_calls(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, values: str
) -> None:
    from py4j.clientserver import ClientServerConnection

    send, sent = ClientServerConnection.send_command, []

    def counting(self: object, command: str) -> object:
        if not command.startswith("m\n"):  # what Python's collector lets go of
            sent.append(command)
        return send(self, command)

    def calls(text: str) -> tuple[int, list[str]]:
        spark.sql(text).collect()
        sent.clear()
        found = [str(row[0]) for row in spark.sql(text).collect()]
        return len(sent), found

    monkeypatch.setattr(ClientServerConnection, "send_command", counting)
    counts = {}
    for partitions in (3, 90):
        query = f"SELECT id, {values.replace('id', 'CAST(id AS INT)')} p FROM range({partitions})"
        spark.sql("DROP TABLE IF EXISTS many")
        spark.sql(f"CREATE TABLE many PARTITIONED BY (p) AS {query}")
        shown, names = calls("SHOW PARTITIONS many")
        assert len(set(names)) == partitions
        counts[partitions] = shown, calls("DELETE FROM many WHERE length(p) > 50")[0]
    assert counts[90][0] - counts[3][0] < 20
    assert counts[90][1] - counts[3][1] < 20


@pytest.mark.parametrize("keys", ["'bucket' = '-1'", "'primary-key' = 'k, p', 'bucket' = '1'"], ids=["append", "keyed"])
def test_sizes_that_are_shown_need_no_splits(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    spark.sql("DROP TABLE IF EXISTS sized")
    spark.sql(f"CREATE TABLE sized (k INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({keys})")
    spark.sql("INSERT INTO sized SELECT id, id % 7 FROM range(70)")

    def refused(*_: object, **__: object) -> object:
        raise AssertionError

    monkeypatch.setattr(snapshot_reader, "generate_splits", refused)
    shown = {row.col_name: row.data_type for row in spark.sql("DESCRIBE EXTENDED sized").collect()}
    assert shown["Statistics"] == f"{70 * 16} bytes, 70 rows"
    assert spark.sql("SELECT count(DISTINCT p), max(p), count(*) FROM sized").head() == (7, 6, 70)
