"""Tables with deletion vectors, first-row and lookup changelogs: a write by any entry point is compacted on return."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from paimon_spark.spark.jobs import compact_job
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.catalog("lookups", database="d")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {
    "both": "'deletion-vectors.enabled' = 'true', 'changelog-producer' = 'lookup'",
    "first_row": "'merge-engine' = 'first-row', 'changelog-producer' = 'lookup'",
}


def made(spark: SparkSession, warehouse: Path, name: str, options: str) -> str:
    spark.sql(
        f"CREATE TABLE lookups.d.{name} (id INT NOT NULL, v STRING) TBLPROPERTIES "
        f"('primary-key' = 'id', 'bucket' = '2', {options})"
    )
    return f"{warehouse}/d.db/{name}"


def rows_of(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.format("paimon").load(path).collect())


def kinds_of(path: str) -> list[CommitKind]:
    snapshots = load_table(path).snapshots
    return [snapshots.get(number).commit_kind for number in snapshots.ids()]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_visible_when_a_write_returns(
    spark: SparkSession, warehouse: Path, oracle: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = made(spark, warehouse, kind, KINDS[kind])
    monkeypatch.setattr(compact_job, "_DRIVER_BYTES", 0)  # compactions are jobs
    first_row = kind == "first_row"
    spark.sql(f"INSERT INTO lookups.d.{kind} VALUES (1, 'a'), (2, 'b')")
    new = spark.createDataFrame([(2, "B"), (3, "c")], "id INT, v STRING")
    new.write.format("paimon").mode("append").save(path)
    paimon_spark.PaimonTable.for_path(spark, path).append(spark.createDataFrame([(3, "C"), (4, "d")], new.schema))
    paimon_spark.sql(
        spark, f"INSERT INTO paimon.d.{kind} VALUES (4, 'D'), (5, 'e')", warehouse=str(warehouse)
    ).collect()
    monkeypatch.undo()
    texts = ("a", "b", "c", "d", "e") if first_row else ("a", "B", "C", "D", "e")
    expected = list(enumerate(texts, 1))
    assert rows_of(spark, path) == expected
    if not first_row:
        spark.sql(f"DELETE FROM lookups.d.{kind} WHERE id = 1")
        spark.sql(f"UPDATE lookups.d.{kind} SET v = 'u' WHERE id = 2")
        expected = [(2, "u"), *expected[2:]]
        assert rows_of(spark, path) == expected
    assert sorted(tuple(row.values()) for row in oracle.read(path).to_pylist()) == expected
    kinds = kinds_of(path)
    assert kinds == [CommitKind.APPEND, CommitKind.COMPACT] * (len(kinds) // 2)
    users = [load_table(path).snapshots.get(number).commit_user for number in (1, 2)]
    assert users[0] == users[1]
    log = oracle.read(f"{path}$audit_log", options={"incremental-between": f"0,{len(kinds)}"})
    found = sorted(tuple(row.values()) for row in log.to_pylist())
    assert [row for row in found if row[0] in ("-D", "+I")] == sorted(
        [
            *(("+I", key, text) for key, text in zip(range(1, 6), "abcde", strict=True)),
            *([] if first_row else [("-D", 1, "a")]),
        ]
    )
    assert len([row for row in found if row[0] == "-U"]) == (0 if first_row else 4)


def test_the_plain_source_compacts_as_well(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without hooks, a process that has no session plans and commits the write."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.spark.source.data_source import PaimonDataSource
    from paimon_spark.spark.source.writer import PaimonCommitMessage, PaimonWriter

    path = made(spark, warehouse, "plain", KINDS["both"])
    write = PaimonDataSource({"path": path}).planned_write(StructType.fromDDL("id INT, v STRING"), overwrite=False)
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1], pa.int32()), "v": ["a"]})
    PaimonWriter(write).commit([PaimonCommitMessage(write.write_task([batch], 0))])
    assert rows_of(spark, path) == [(1, "a")]


def test_a_write_only_table_and_overwrites(spark: SparkSession, warehouse: Path, caplog: Any) -> None:
    path = made(spark, warehouse, "pending", f"{KINDS['both']}, 'write-only' = 'true'")
    spark.sql("INSERT INTO lookups.d.pending VALUES (1, 'a')")
    assert rows_of(spark, path) == []
    spark.sql("CALL lookups.sys.compact(table => 'd.pending', compact_strategy => 'minor')")
    assert rows_of(spark, path) == [(1, "a")]
    with caplog.at_level(logging.WARNING):
        spark.sql("ALTER TABLE lookups.d.pending UNSET TBLPROPERTIES ('write-only')")
        spark.sql("INSERT OVERWRITE lookups.d.pending VALUES (2, 'b')")
        spark.sql("INSERT INTO lookups.d.pending VALUES (2, 'c')")
    assert rows_of(spark, path) == [(2, "c")]
    assert "not compacted" not in caplog.text
    assert Path(path).is_dir()
