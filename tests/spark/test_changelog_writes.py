"""Every entry point writes the changelog of ``changelog-producer`` input: +I of inserts, +U of UPDATE, -D of DELETE.

As in the official connector an UPDATE writes the new row alone: a -U with the old row is given by the producers that
look it up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from paimon_spark import PaimonTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


CATALOG = "changelog_writes"
pytestmark = [pytest.mark.spark, pytest.mark.catalog(CATALOG, current=True)]
Run = Callable[[str], "DataFrame"]


def listed(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in df.collect()), key=repr)


CHANGED = [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c"), ("+U", 2, "B"), ("-D", 3, "c")]


@pytest.mark.parametrize("text", [False, True], ids=["catalog", "text"])
def test_statements(spark: SparkSession, warehouse: Path, text: bool) -> None:
    own = partial(paimon_spark.sql, spark, warehouse=str(warehouse), catalog=CATALOG, database="db")
    run: Run = own if text else spark.sql
    name = "of_text" if text else "of_catalog"
    run(
        f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES "
        "('primary-key' = 'k', 'bucket' = '2', 'changelog-producer' = 'input')"
    )
    run(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run(f"UPDATE {name} SET v = upper(v) WHERE k = 2")
    run(f"DELETE FROM {name} WHERE k = 3")
    assert listed(run(f"SELECT * FROM `{name}$audit_log` WITH ('incremental-between' = '0,3')")) == sorted(
        CHANGED, key=repr
    )
    run(f"INSERT OVERWRITE {name} VALUES (9, 'z')")
    last = PaimonTable.for_path(spark, f"{warehouse}/db.db/{name}").snapshots().orderBy("snapshot_id").collect()[-1]
    assert (last.commit_kind, last.changelog_record_count) == ("OVERWRITE", None)
    names = sorted(path.name.split("-")[0] for path in Path(f"{warehouse}/db.db/{name}").glob("bucket-*/*"))
    assert names == ["changelog"] * (len(names) // 2) + ["data"] * (len(names) - len(names) // 2), "none is an orphan"
    if not text:
        found = (
            spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1 TO VERSION 3") if spark.version >= "4.3" else None
        )
        assert found is None or found.count() == len(CHANGED)


def test_frames_and_methods(spark: SparkSession, warehouse: Path) -> None:
    path = f"{warehouse}/db.db/of_frames"
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "k int, v string")
    given = {"primary-key": "k", "bucket": "2", "changelog-producer": "input", "file.format": "avro"}
    rows.write.format("paimon").options(**given).mode("append").save(path)
    table = PaimonTable.for_path(spark, path)
    table.update({"v": "upper(v)"}, "k = 2")
    table.delete("k = 3")
    assert listed(table.changes(0, 3, with_kinds=True)) == sorted(CHANGED, key=repr)
    table.append(spark.createDataFrame([(1, "x"), (1, "y")], "k int, v string").coalesce(1))
    assert listed(table.changes(3, 4, with_kinds=True)) == [("+I", 1, "x"), ("+I", 1, "y")], "nothing is merged"
    assert listed(table.to_df()) == [(1, "y"), (2, "B")]


def test_full_compactions_show_both_rows(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE full (k INT, v STRING) TBLPROPERTIES "
        "('primary-key' = 'k', 'bucket' = '2', 'changelog-producer' = 'full-compaction', 'merge-engine' = "
        "'partial-update', 'partial-update.remove-record-on-delete' = 'true')"
    )
    spark.sql("INSERT INTO full VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql("CALL sys.compact(table => 'db.full')")
    spark.sql("INSERT INTO full VALUES (1, NULL), (4, 'd')")
    spark.sql("UPDATE full SET v = 'B' WHERE k = 2")
    spark.sql("DELETE FROM full WHERE k = 3")
    spark.sql("CALL sys.compact(table => 'db.full')")
    table = PaimonTable.for_path(spark, f"{warehouse}/db.db/full")
    assert listed(table.changes(0, 2, with_kinds=True)) == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")]
    assert listed(table.changes(2, 6, with_kinds=True)) == [
        *(("+I", 4, "d"), ("+U", 1, "a"), ("+U", 2, "B")),
        *(("-D", 3, "c"), ("-U", 1, "a"), ("-U", 2, "b")),
    ]
    binlog = spark.sql("SELECT * FROM `full$binlog` WITH ('incremental-between' = '2,6')")
    assert ("+U", [2, 2], ["b", "B"]) in [tuple(row) for row in binlog.collect()]
