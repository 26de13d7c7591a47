"""DELETE and UPDATE of append tables with deletion vectors: rows are marked, UPDATE adds new rows, in one commit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.jobs import located_rows
from paimon_spark.spark.jobs.snapshot_rows import snapshot_rows
from paimon_spark.spark.sql import matched_frames
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support import seeds

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.catalog("marks", current=True, by_text=True)]

Rows = list[tuple[Any, ...]]
Run = Callable[..., object]
_numbers = itertools.count()
VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.fixture(params=["catalog", "statement"])
def run(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Run:
    """Runs SQL by the catalog, or as a session without one does."""
    if request.param == "catalog":
        return lambda text, **more: spark.sql(text, **more).collect()
    return lambda text, **more: paimon_spark.sql(spark, text, **more).collect()


def create(spark: SparkSession, columns: str, *inserts: str, by: str = "", **options: str) -> str:
    """Make a table with deletion vectors, a file for each of some INSERTs, and give its name."""
    name = f"t{next(_numbers)}"
    properties = ", ".join(f"'{option}'='{value}'" for option, value in {**VECTORS, **options}.items())
    parts = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {parts} TBLPROPERTIES ({properties})")
    for rows in inserts:
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    return name


def rows_of(spark: SparkSession, name: str) -> Rows:
    return sorted((tuple(row) for row in spark.table(name).collect()), key=repr)


def opened(warehouse: Path, name: str) -> FileStoreTable:
    return load_table(str(warehouse / "db.db" / name))


def files(table: FileStoreTable) -> dict[str, int]:
    return {e.file.file_name: e.file.row_count for e in table.manifests.live_entries(table.snapshots.latest())}


def vectors(table: FileStoreTable) -> dict[str, int | None]:
    return {key[2]: location.cardinality for key, location in vectors_of(table, table.snapshots.latest()).items()}


def test_rows_are_marked_and_no_file_is_rewritten(spark: SparkSession, run: Run, warehouse: Path) -> None:
    inserts = ("(1, 'a'), (2, 'b')", "(3, NULL), (4, 'a')", "(5, NULL), (6, 'c')")
    name = create(spark, "k INT, v STRING", *inserts, **{"write-only": "true"})
    table = opened(warehouse, name)
    before = files(table)
    run(f"DELETE FROM {name} WHERE v = 'a' AND k < 4")
    assert rows_of(spark, name) == [(2, "b"), (3, None), (4, "a"), (5, None), (6, "c")]
    assert files(table) == before
    run(f"UPDATE {name} SET v = upper(v), k = k + 10 WHERE v IN ('a', 'c')")
    assert rows_of(spark, name) == [(14, "A"), (16, "C"), (2, "b"), (3, None), (5, None)]
    assert before.items() < files(table).items()
    assert sorted(vectors(table).items()) == sorted(dict.fromkeys(before, 1).items())
    run(f"DELETE FROM {name} WHERE k IN (3, 14)")
    run(f"DELETE FROM {name} WHERE v = 'nothing'")
    run(f"UPDATE {name} SET v = 'x' WHERE k > 1000")
    assert rows_of(spark, name) == [(16, "C"), (2, "b"), (5, None)]
    found = [table.snapshots.get(i) for i in table.snapshots.ids()][3:]
    kinds = [(s.commit_kind.value, s.operation.value) for s in found]  # type: ignore[union-attr]
    assert kinds == [("OVERWRITE", "DELETE"), ("OVERWRITE", "UPDATE"), ("OVERWRITE", "DELETE")]
    assert [row[0] for row in spark.sql(f"SELECT k FROM {name} VERSION AS OF 3 ORDER BY k").collect()] == [*range(1, 7)]


def test_conditions_with_other_tables_and_values_of_the_row(spark: SparkSession, run: Run) -> None:
    name = create(spark, "k INT, s STRUCT<x: INT, y: STRING>, dt STRING", "(1, (1, 'a'), 'p'), (2, NULL, 'q')", by="dt")
    other = create(spark, "k INT", "(1), (NULL)")
    run(f"DELETE FROM {name} WHERE k NOT IN (SELECT k FROM {other})")
    assert len(rows_of(spark, name)) == 2
    run(f"UPDATE {name} AS t SET s.y = :y, dt = 'new' WHERE t.k IN (SELECT k FROM {other})", args={"y": "{y}"})
    assert rows_of(spark, name) == [(1, (1, "{y}"), "new"), (2, None, "q")]
    run(f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {other} o WHERE o.k = {name}.k)")
    assert rows_of(spark, name) == [(2, None, "q")]
    run(f"DELETE FROM {name} WHERE dt = 'q'")
    assert rows_of(spark, name) == []


def test_counts_limits_and_files(spark: SparkSession, warehouse: Path) -> None:
    """What is reported without reading rows counts no deleted ones."""
    rows = ", ".join(f"({k}, 'v{k:03}')" for k in range(100))
    name = create(spark, "k INT, v STRING", rows, "(100, 'b'), (101, 'c')")
    spark.sql(f"DELETE FROM {name} WHERE k < 90 OR k = 101")
    assert spark.sql(f"SELECT count(*), min(k), max(k), max(v) FROM {name}").first() == (11, 90, 100, "v099")
    assert len(spark.sql(f"SELECT * FROM {name} LIMIT 11").collect()) == 11
    assert spark.sql(f"SELECT count(*) FROM {name} WHERE k > 50").first() == (11,)
    assert spark.sql(f"SELECT k FROM {name} WHERE v = 'v095'").collect() == [(95,)]
    locations = spark.sql(f"SELECT __paimon_row_index, k FROM {name} WHERE k < 100 ORDER BY k").collect()
    assert [tuple(row) for row in locations] == [(k, k) for k in range(90, 100)]
    index = spark.sql(f"SELECT * FROM `{name}$table_indexes`").collect()
    assert sorted(vector["_CARDINALITY"] for row in index for vector in row.dv_ranges) == [1, 90]
    assert {row.index_type for row in index} == {"DELETION_VECTORS"}
    assert {row.record_count for row in spark.sql(f"SELECT * FROM `{name}$files`").collect()} == {100, 2}
    path = str(warehouse / "db.db" / name)
    assert spark.read.format("paimon").load(path).count() == 11


def test_methods(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b')", "(3, 'c')")
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    table.update({"v": "concat(v, k)", "k": col("k") * 10}, col("k") < 3)
    table.delete("v = 'c'")
    assert rows_of(spark, name) == [(10, "a1"), (20, "b2")]
    assert sum(n or 0 for n in vectors(opened(warehouse, name)).values()) == 3
    table.update({"v": "NULL"})
    table.compact()
    assert rows_of(spark, name) == [(10, None), (20, None)]
    assert vectors(opened(warehouse, name)) == {}
    assert table.to_df().count() == 2


def test_branches_tags_overwrites_and_truncates(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, dt STRING", "(1, 'x'), (2, 'x'), (3, 'y'), (4, 'y')", by="dt")
    spark.sql(f"DELETE FROM {name} WHERE k IN (1, 3)")
    spark.sql(f"CALL sys.create_tag(table => 'db.{name}', tag => 'one')")
    spark.sql(f"CALL sys.create_branch(table => 'db.{name}', branch => 'b', tag => 'one')")
    table = opened(warehouse, name)
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'x') VALUES (9)")
    assert rows_of(spark, name) == [(4, "y"), (9, "x")]
    assert list(vectors(table).values()) == [1]
    spark.sql(f"DELETE FROM `{name}$branch_b` WHERE k = 4")
    assert rows_of(spark, f"`{name}$branch_b`") == [(2, "x")]
    assert rows_of(spark, name) == [(4, "y"), (9, "x")]
    spark.sql(f"TRUNCATE TABLE {name}")
    assert vectors(table) == {}
    spark.sql(f"CALL sys.expire_snapshots(table => 'db.{name}', retain_max => 1, retain_min => 1)")
    assert [tuple(r) for r in spark.sql(f"SELECT k FROM {name} VERSION AS OF 'one' ORDER BY k").collect()] == [
        (2,),
        (4,),
    ]
    assert rows_of(spark, f"`{name}$branch_b`") == [(2, "x")]
    spark.sql(f"CALL sys.rollback(table => 'db.{name}', version => 'one')")
    assert rows_of(spark, name) == [(2, "x"), (4, "y")]
    spark.sql(f"CALL sys.fast_forward(table => 'db.{name}', branch => 'b')")
    assert rows_of(spark, name) == [(2, "x")]


def test_changes_between_snapshots(spark: SparkSession, warehouse: Path) -> None:
    """Incremental reads of an append table see appended rows only, whatever was deleted of them since."""
    name = create(spark, "k INT", "(1), (2)", "(3), (4)")
    spark.sql(f"DELETE FROM {name} WHERE k IN (1, 3)")
    spark.sql(f"INSERT INTO {name} VALUES (5)")
    path = str(warehouse / "db.db" / name)

    def between(first: int, last: int, **more: str) -> list[int]:
        reader = spark.read.format("paimon").option("incremental-between", f"{first},{last}")
        return sorted(row.k for row in reader.options(**more).load(path).collect())

    assert between(0, 4) == [1, 2, 3, 4, 5]
    assert between(2, 4) == [5]


def test_two_statements_on_one_file(
    spark: SparkSession, run: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b'), (3, 'c')")
    plain = located_rows.commit_deletions
    other = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    meanwhile = [lambda: other.delete("k = 2")]

    def late(*args: Any, **more: Any) -> int | None:
        if meanwhile:
            meanwhile.pop()()
        return plain(*args, **more)

    monkeypatch.setattr(located_rows, "commit_deletions", late)
    run(f"DELETE FROM {name} WHERE k = 1")
    assert rows_of(spark, name) == [(3, "c")]
    table = opened(warehouse, name)
    index = {path.name for path in (warehouse / "db.db" / name / "index").iterdir()}
    named = {e.file_name for i in table.snapshots.ids() for e in table.manifests.index_entries(table.snapshots.get(i))}
    assert index == named


def test_what_is_refused_by_name(spark: SparkSession, run: Run) -> None:
    name = create(spark, "k INT, __paimon_row_index BIGINT", "(1, 1)")
    with pytest.raises(Exception, match="its column __paimon_row_index has the name"):
        run(f"DELETE FROM {name} WHERE k = 1")


KINDS: list[dict[str, str]] = [
    {"file.format": "parquet"},
    {"bucket": "2", "bucket-key": "k", "file.format": "orc"},
    {"by": "p", "file.format": "avro", "deletion-vectors.bitmap64": "true"},
    {"by": "p", "bucket": "2", "bucket-key": "k", "deletion-vector.index-file.target-size": "10 b"},
]


@pytest.mark.peer
@pytest.mark.parametrize("options", KINDS, ids=["parquet", "buckets, orc", "partitions, avro, wide", "both"])
def test_random_statements_as_in_java(
    spark: SparkSession, oracle: Any, warehouse: Path, options: dict[str, str]
) -> None:
    """Java and we write, delete, update and compact by turns; both read the rows of a model after each step."""
    chance = seeds.chance("row marks", options)
    name = create(spark, "k INT, p STRING, v STRING", **options)
    path = str(warehouse / "db.db" / name)
    table = load_table(path)
    model: Counter[tuple[Any, ...]] = Counter()
    conditions: dict[str, Callable[[int, str, str | None], bool]] = {
        "k % 4 = 1": lambda k, p, v: k % 4 == 1,
        "v IS NULL AND k < 6": lambda k, p, v: v is None and k < 6,
        "v = 'a' OR p = 'x' AND k > 7": lambda k, p, v: v == "a" or (p == "x" and k > 7),
        "v <> 'a'": lambda k, p, v: v is not None and v != "a",
    }
    actions = ["insert", "java insert", "update", "delete", "delete", "java delete", "compact", "java compact"]
    for step in range(9):
        condition = chance.choice(list(conditions))
        hit = conditions[condition]
        action = ("insert", "java insert")[step] if step < 2 else chance.choice(actions)
        if action.endswith("insert"):
            new = [(chance.randrange(12), chance.choice("xy"), chance.choice([None, "a", "b"])) for _ in range(6)]
            if action == "insert":
                values = ", ".join(f"({k}, '{p}', {'NULL' if v is None else repr(v)})" for k, p, v in new)
                spark.sql(f"INSERT INTO {name} VALUES {values}")
            else:
                oracle.write(path, new)
            model.update(new)
        elif action.endswith("delete"):
            if action == "delete":
                spark.sql(f"DELETE FROM {name} WHERE {condition}")
            else:
                oracle.delete_where(path, lambda row: hit(*(row[c] for c in ("k", "p", "v"))))  # noqa: B023
            model = Counter({row: n for row, n in model.items() if not hit(*row)})
        elif action == "update":
            spark.sql(f"UPDATE {name} SET k = k + 1, v = p WHERE {condition}")
            old, model = model, Counter()
            for (k, p, v), n in old.items():
                model[(k + 1, p, p) if hit(k, p, v) else (k, p, v)] += n
        elif action == "compact":
            PaimonTable.for_path(spark, path).compact()
        else:
            oracle.compact(path, options={"compaction.min.file-num": 2})
        expected = sorted(model.elements(), key=repr)
        assert rows_of(spark, name) == expected, (step, action, condition)
        assert sorted(oracle.rows(path), key=repr) == expected, (step, action, condition)
        check_vectors(table)


def check_vectors(table: FileStoreTable) -> None:
    """No vector is of a file that is gone, none deletes more rows than there are."""
    counts = files(table)
    for name, deleted in vectors(table).items():
        assert deleted is not None
        assert 0 < deleted <= counts[name]


def without(warehouse: Path, name: str, key: int) -> None:
    """Take away the data file of a table whose only row has a key."""
    table = opened(warehouse, name)
    for entry in table.manifests.live_entries(table.snapshots.latest()):
        path = Path(table.paths.data_file_path(entry.partition, entry.bucket, entry.file))
        if pq.read_table(path)["k"].to_pylist() == [key]:
            path.unlink()


@pytest.mark.parametrize("entry_point", ["catalog", "statement", "method"])
@pytest.mark.parametrize("evolves", [False, True])
def test_files_that_cannot_hold_such_rows_are_not_read(
    spark: SparkSession, warehouse: Path, entry_point: str, evolves: bool
) -> None:
    more = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"} if evolves else {}
    rows = ("(1, 'a', 'x')", "(2, 'b', 'x'), (3, 'c', 'x')", "(9, 'd', 'x')")
    name = create(spark, "k INT, v STRING, w STRING", *rows, **more)
    without(warehouse, name, 9)
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    if entry_point == "method":
        table.delete("k = 2 OR k = 1 AND v = 'a'")
        table.update({"v": "concat(v, '!')"}, "k = 3")
    else:
        sql = spark.sql if entry_point == "catalog" else lambda text: paimon_spark.sql(spark, text)
        sql(f"DELETE FROM {name} WHERE k = 2 OR k = 1 AND v = 'a'").collect()
        sql(f"UPDATE {name} SET v = concat(v, '!') WHERE k = 3").collect()
    assert [tuple(row) for row in spark.table(name).where("k < 5").collect()] == [(3, "c!", "x")]


def test_a_delete_reads_the_columns_of_its_condition(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def note(session: SparkSession, options: dict[str, str], *args: Any, **more: Any) -> Any:
        asked.append((options.get("columns"), options.get("filter")))
        return snapshot_rows(session, options, *args, **more)

    monkeypatch.setattr(matched_frames, "snapshot_rows", note)
    name = create(spark, "k INT, `v,w` DOUBLE, code CHAR(4)", "(1, 0.5, 'a'), (2, 1.5, 'b')", "(3, double('nan'), 'c')")
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    table.delete("k = 2 AND `v,w` > 1")
    table.delete("code = 'a'")
    table.delete(col("k") == 7)
    table.delete("`v,w` > 1000 AND k IN (SELECT 3)")
    assert asked == [("`k`,`v,w`", "k = 2"), ("`code`", None), ("`k`", "`k` = 7"), ("`k`,`v,w`", None)]
    assert rows_of(spark, name) == []
