"""DELETE where the merge engine knows no deleted rows: files of compacted rows are written anew, as Java reads them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import CommitConflictError, PaimonTable, UnsupportedError
from paimon_spark.maintain.row_deletion import encode_positions, remove_rows
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.table import load_table
from tests.support import seeds

pytestmark = [pytest.mark.spark, pytest.mark.peer, pytest.mark.catalog("rewriting", current=True, by_text=True)]

Row = tuple[int, str, int | None, str | None]
STEPS = 8
FIRST = {"merge-engine": "first-row"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTIAL = {"merge-engine": "partial-update"}
SMALL = {"target-file-size": "1 b", "num-sorted-run.compaction-trigger": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: dict[str, dict[str, str]] = {
    "first-row": {"bucket": "2", **FIRST},
    "first-row, dynamic, partitioned, lookup changelog": {"by": "p", **FIRST, "changelog-producer": "lookup"},
    "aggregation, partitioned": {"bucket": "1", "by": "p", **SUM},
    "aggregation, vectors, orc": {"bucket": "2", **SUM, **VECTORS, "file.format": "orc"},
    "partial-update, dynamic": {**PARTIAL},
    "partial-update, vectors, partitioned": {"bucket": "1", "by": "p", **PARTIAL, **VECTORS},
    "partial-update, small files": {"bucket": "1", **PARTIAL, **SMALL},
}
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "k % 4 = 1": lambda row: row[0] % 4 == 1,
    "k IN (2, 3, 5, 7)": lambda row: row[0] in (2, 3, 5, 7),
    "p = 'x' AND k < 5": lambda row: row[1] == "x" and row[0] < 5,
    "v IS NULL": lambda row: row[2] is None,
    "v > 20": lambda row: row[2] is not None and row[2] > 20,
    "t = 'b' OR k = 6": lambda row: row[3] == "b" or row[0] == 6,
}


def create(spark: SparkSession, warehouse: Path, options: dict[str, str]) -> tuple[str, str]:
    """Make a table; return its name and path."""
    name = f"t{len(list((warehouse / 'db.db').glob('t*')))}"
    options = {"primary-key": "k,p", "bucket": "-1", **options}
    by = options.pop("by", None)
    properties = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    columns, parts = "k INT, p STRING, v INT, t STRING", f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {parts} TBLPROPERTIES ({properties})")
    return name, str(warehouse / "db.db" / name)


def insert(spark: SparkSession, name: str, rows: list[Row]) -> None:
    values = ("(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")" for row in rows)
    spark.sql(f"INSERT INTO {name} VALUES {', '.join(values)}")


def rows_of(spark: SparkSession, name: str) -> list[Row]:
    return sorted((tuple(row) for row in spark.table(name).collect()), key=repr)


def put(engine: str, old: Row | None, new: Row) -> Row:
    """What a merge engine makes of a row and one that comes later."""
    if old is None:
        return new
    if engine == "first-row":
        return old
    v = new[2] if new[2] is not None else old[2]
    if engine == "aggregation" and None not in (old[2], new[2]):
        v = old[2] + new[2]
    return (*new[:2], v, new[3] if new[3] is not None else old[3])


def deletes(spark: SparkSession, path: str) -> list[Callable[[str], object]]:
    """The ways to delete rows of a table by a condition."""
    name = Path(path).name
    return [
        lambda condition: spark.sql(f"DELETE FROM {name} AS a WHERE {condition}"),
        lambda condition: PaimonTable.for_path(spark, path).delete(condition),
        lambda condition: paimon_spark.sql(spark, f"DELETE FROM {name} WHERE {condition}"),
    ]


def is_refused(delete: Callable[[str], object], condition: str) -> bool:
    """Delete rows, unless the table has to be compacted before."""
    try:
        delete(condition)
    except (UnsupportedError, PySparkException) as error:
        if "please use 'COMPACT' procedure first" not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize("kind", TABLES)
def test_random_histories(spark: SparkSession, oracle: Any, warehouse: Path, kind: str) -> None:
    chance: random.Random = seeds.chance("deletes by rewriting", kind)
    options = TABLES[kind]
    engine = options["merge-engine"]
    name, path = create(spark, warehouse, options)
    model: dict[tuple[int, str], Row] = {}
    for step in range(STEPS):
        action = "insert" if not step else chance.choice(["insert", "insert", "delete", "delete", "compact", "update"])
        condition = chance.choice(list(CONDITIONS))
        hit = [key for key, row in model.items() if CONDITIONS[condition](row)]
        if action == "insert":
            keys = chance.sample(range(10), chance.randint(2, 6))
            rows = [(k, "xy"[k % 2], chance.choice([None, step + k]), chance.choice([None, "a", "b"])) for k in keys]
            insert(spark, name, rows)
            model |= {row[:2]: put(engine, model.get(row[:2]), row) for row in rows}
        elif action == "delete":
            delete = chance.choice(deletes(spark, path))
            if is_refused(delete, condition):
                spark.sql(f"CALL rewriting.sys.compact(table => 'db.{name}')")
                delete(condition)
            for key in hit:
                del model[key]
        elif action == "update" and engine == "partial-update":
            spark.sql(f"UPDATE {name} SET t = 'u{step}' WHERE {condition}")
            model |= {key: (*model[key][:3], f"u{step}") for key in hit}
        else:
            spark.sql(f"CALL rewriting.sys.compact(table => 'db.{name}')")
        expected = sorted(model.values(), key=repr)
        assert rows_of(spark, name) == expected, f"{step}: {action} {condition}"
        if action == "delete":
            assert sorted(oracle.rows(path), key=repr) == expected, f"{step}: {action} {condition}"
    oracle.compact(path)
    assert rows_of(spark, name) == sorted(oracle.rows(path), key=repr) == sorted(model.values(), key=repr)


@pytest.mark.parametrize("options", [{}, {"write-only": "true"}])
def test_rows_that_are_merged_are_compacted_first(
    spark: SparkSession, warehouse: Path, options: dict[str, str]
) -> None:
    """Only where the condition may be true: files that hold none of its keys are left out."""
    name, path = create(spark, warehouse, {"bucket": "1", **SUM, **options})
    insert(spark, name, [(1, "x", 1, "a"), (2, "x", 2, "b"), (9, "x", 9, "c")])
    insert(spark, name, [(2, "x", 5, "n"), (3, "x", 3, "d")])
    snapshots = load_table(path).snapshots
    before = snapshots.latest()
    assert before is not None
    for delete in deletes(spark, path):
        with pytest.raises((UnsupportedError, PySparkException), match="only a compacted table with merge engine"):
            delete("k = 2")
    latest = snapshots.latest()
    assert latest is not None
    assert latest.id == before.id
    spark.sql(f"DELETE FROM {name} WHERE k = 9")
    assert rows_of(spark, name) == [(1, "x", 1, "a"), (2, "x", 7, "n"), (3, "x", 3, "d")]


def test_levels_and_sequence_numbers_stay(spark: SparkSession, warehouse: Path) -> None:
    name, path = create(spark, warehouse, {"bucket": "1", **PARTIAL})
    insert(spark, name, [(k, "x", k, "a") for k in range(5)])
    spark.sql(f"CALL rewriting.sys.compact(table => 'db.{name}')")
    table = load_table(path)

    def live() -> list[tuple[int, int, int, int]]:
        entries = table.manifests.live_entries(table.snapshots.latest())
        files = (entry.file for entry in entries)
        return [(f.level, f.min_sequence_number, f.max_sequence_number, f.row_count) for f in files]

    (before,) = live()
    spark.sql(f"DELETE FROM {name} WHERE k = 2")
    assert live() == [(*before[:3], 4)]
    assert before[0] > 0
    insert(spark, name, [(9, "x", 9, None)])
    spark.sql(f"DELETE FROM {name} WHERE k < 9")
    assert rows_of(spark, name) == [(9, "x", 9, None)]


@pytest.mark.parametrize("options", [FIRST, {**SUM, **VECTORS}, PARTIAL])
def test_a_rival_that_changes_the_rows_is_a_conflict(
    spark: SparkSession, warehouse: Path, options: dict[str, str]
) -> None:
    """The statement then starts again; nothing that the first attempt wrote is left."""
    name, path = create(spark, warehouse, {"bucket": "1", **options})
    insert(spark, name, [(1, "x", 1, "a"), (2, "x", 2, "b"), (3, "x", 2, "b")])
    spark.sql(f"CALL rewriting.sys.compact(table => 'db.{name}')")
    table = load_table(path)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    (entry,) = table.manifests.live_entries(snapshot)
    insert(spark, name, [(2, "x", 5, "n"), (4, "x", 5, "n")])
    names = {file for file in Path(path).rglob("*") if file.parent.name in ("bucket-0", "index")}
    with pytest.raises(CommitConflictError, match="which this commit read in snapshot"):
        remove_rows(table, snapshot, [(entry.file.file_name, encode_positions(np.array([1])))], Operation.DELETE)
    assert {file for file in Path(path).rglob("*") if file.parent.name in ("bucket-0", "index")} == names
