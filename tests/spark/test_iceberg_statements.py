"""Readers of Iceberg see what statements of SQL and the plain source do to a table, and its new name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalog("shared", database="d", current=True)]

SHARED = "'metadata.iceberg.storage' = 'table-location'"


def seen(path: Path) -> list[tuple[Any, ...]]:
    directory = path / "metadata"
    metadata = directory / f"v{(directory / 'version-hint.text').read_text()}.metadata.json"
    found = StaticTable.from_metadata(str(metadata)).scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_statements_are_seen(spark: SparkSession, warehouse: Path) -> None:
    path = Path(warehouse) / "d.db" / "t"

    def check() -> list[tuple[Any, ...]]:
        rows = sorted(tuple(row) for row in spark.table("t").collect())
        assert seen(path) == rows
        return rows

    spark.sql(f"CREATE TABLE t (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({SHARED})")
    spark.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    check()
    spark.sql("UPDATE t SET v = 'new' WHERE k = 2")
    check()
    spark.sql("DELETE FROM t WHERE k = 1")
    check()
    spark.sql("MERGE INTO t USING (SELECT 3 AS k, 'm' AS v, 2 AS p) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *")
    assert check() == [(2, "new", 1), (3, "m", 2)]
    spark.createDataFrame([(5, "e", 3)], "k int, v string, p int").write.format("paimon").mode("append").save(str(path))
    check()
    spark.sql("INSERT OVERWRITE t PARTITION (p = 1) VALUES (9, 'o')")
    check()
    spark.sql("CALL sys.rollback(table => 'd.t', version => '1')")
    assert len(check()) == 3
    spark.sql("ALTER TABLE t ADD COLUMN more INT")
    spark.sql("ALTER TABLE t RENAME TO u")
    assert len(seen(path.parent / "u")) == 3
    spark.sql("INSERT INTO u VALUES (7, 'u', 1, 5)")
    assert (7, "u", 1, 5) in seen(path.parent / "u")
    spark.sql("DROP TABLE u")
    assert not (path.parent / "u").exists()
