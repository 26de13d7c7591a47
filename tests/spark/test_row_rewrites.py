"""DELETE and UPDATE of tables without primary key: only files with such rows are written anew, in one commit."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

import paimon_spark
from paimon_spark import CommitConflictError, PaimonTable
from paimon_spark.maintain.row_level import replaced_files
from paimon_spark.spark.jobs import located_rows
from paimon_spark.table.table import load_table
from tests.support import seeds
from tests.support.plain_source import write_plain

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.catalog("rewrites", current=True, by_text=True)]

Rows = list[tuple[Any, ...]]
Run = Callable[..., object]
_numbers = itertools.count()


@pytest.fixture(params=["catalog", "statement"])
def run(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Run:
    """Runs SQL by the catalog, or as a session without one does."""
    if request.param == "catalog":
        return lambda text, **more: spark.sql(text, **more).collect()
    return lambda text, **more: paimon_spark.sql(spark, text, **more).collect()


def create(spark: SparkSession, columns: str, *inserts: str, by: str = "", **options: str) -> str:
    """Make a table with a file or more for each of some INSERTs, and give its name."""
    name = f"t{next(_numbers)}"
    properties = ", ".join(f"'{option}'='{value}'" for option, value in options.items())
    parts = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {parts} {f'TBLPROPERTIES ({properties})' if options else ''}")
    for rows in inserts:
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    return name


def rows_of(spark: SparkSession, name: str) -> Rows:
    return sorted((tuple(row) for row in spark.table(name).collect()), key=repr)


def files(warehouse: Path, name: str) -> set[str]:
    table = load_table(str(warehouse / "db.db" / name))
    return {entry.file.file_name for entry in table.manifests.live_entries(table.snapshots.latest())}


def test_only_files_with_such_rows_are_written(spark: SparkSession, run: Run, warehouse: Path) -> None:
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b')", "(3, NULL), (4, 'a')", "(5, NULL), (6, 'c')")
    before = files(warehouse, name)
    run(f"DELETE FROM {name} WHERE v = 'a' AND k < 4")
    assert rows_of(spark, name) == [(2, "b"), (3, None), (4, "a"), (5, None), (6, "c")]
    assert len(files(warehouse, name) & before) == 2
    run(f"UPDATE {name} SET v = upper(v), k = k + 10 WHERE v IN ('a', 'c')")
    assert rows_of(spark, name) == [(14, "A"), (16, "C"), (2, "b"), (3, None), (5, None)]
    run(f"DELETE FROM {name} WHERE k IN (3, 14)")
    assert len(files(warehouse, name)) == 2, "a file without rows is not written"
    run(f"DELETE FROM {name} WHERE v = 'nothing'")
    run(f"UPDATE {name} SET v = 'x' WHERE k > 1000")
    table = load_table(str(warehouse / "db.db" / name))
    found = [table.snapshots.get(i) for i in table.snapshots.ids()][3:]
    kinds = [(s.commit_kind.value, s.operation.value) for s in found]  # type: ignore[union-attr]
    assert kinds == [("OVERWRITE", "DELETE"), ("OVERWRITE", "UPDATE"), ("OVERWRITE", "DELETE")]
    assert [s.total_record_count for s in found] == [5, 5, 3]
    assert [row.k for row in spark.sql(f"SELECT k FROM {name} VERSION AS OF 3 ORDER BY k").collect()] == [*range(1, 7)]


def test_null_is_not_equal(spark: SparkSession, run: Run) -> None:
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b'), (3, NULL), (4, 'a')")
    other = create(spark, "k INT", "(1), (NULL)")
    run(f"DELETE FROM {name} WHERE k NOT IN (SELECT k FROM {other})")
    assert len(rows_of(spark, name)) == 4
    run(f"DELETE FROM {name} WHERE v <> 'a'")
    assert rows_of(spark, name) == [(1, "a"), (3, None), (4, "a")]
    run(f"UPDATE {name} SET v = 'in' WHERE NOT (k IN (SELECT k FROM {other} WHERE k IS NOT NULL) OR v IS NULL)")
    assert rows_of(spark, name) == [(1, "a"), (3, None), (4, "in")]
    run(f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {other} o WHERE o.k = {name}.k) OR v IS NULL")
    assert rows_of(spark, name) == [(4, "in")]


def test_values_are_for_the_rows_that_are_hit(spark: SparkSession, run: Run, warehouse: Path) -> None:
    columns = "k INT NOT NULL, v INT, s STRUCT<x: INT, y: STRING>, dt STRING"
    values = "(0, 1, named_struct('x', 1, 'y', 'a'), 'p'), (2, 1, NULL, 'p'), (3, NULL, NULL, 'q')"
    name = create(spark, columns, values, by="dt")
    run(f"UPDATE {name} AS t SET v = 10 / t.k, s.y = :y, dt = 'new' WHERE t.k > 0 AND v = 1", args={"y": "{y}"})
    assert rows_of(spark, name) == [(0, 1, (1, "a"), "p"), (2, 5, (None, "{y}"), "new"), (3, None, None, "q")]
    run(f"UPDATE {name} SET v = (SELECT max(k) FROM {name})")
    assert [row[1] for row in rows_of(spark, name)] == [3, 3, 3]
    before = files(warehouse, name)
    for refused in ("k = NULL", "v = 'text'", "v = 1 / 0"):
        with pytest.raises((PySparkException, paimon_spark.PaimonError)):
            run(f"UPDATE {name} SET {refused} WHERE k = 2")
    assert files(warehouse, name) == before


def test_char_stays_as_it_is_in_the_file(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, c CHAR(4), w VARCHAR(3)")
    plain = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    rows = {"k": pa.array([1, 2, 3], pa.int32()), "c": ["ab", "cd", "ab"], "w": ["x", "y", "z"]}
    write_plain(plain.path, pa.record_batch(rows))
    spark.sql(f"UPDATE {name} SET w = 'ab' WHERE c = 'ab' AND k = 1")
    spark.sql(f"DELETE FROM {name} WHERE c = 'ab' AND k = 3")
    assert sorted(tuple(row) for row in plain.to_df().collect()) == [(1, "ab  ", "ab"), (2, "cd  ", "y")]
    bare = spark.read.format("paimon").schema("k INT, c STRING").load(str(warehouse / "db.db" / name))
    assert sorted(tuple(row) for row in bare.collect()) == [(1, "ab"), (2, "cd")]
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(f"UPDATE {name} SET w = 'long'")


def test_methods(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b')", "(3, 'c')")
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    table.update({"v": "concat(v, k)", "k": col("k") * 10}, col("k") < 3)
    table.delete("v = 'c'")
    assert rows_of(spark, name) == [(10, "a1"), (20, "b2")]
    table.update({"v": "NULL"})
    assert rows_of(spark, name) == [(10, None), (20, None)]


def test_what_others_did_meanwhile(
    spark: SparkSession, run: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were appended stay; where a file was taken out the statement is run again."""
    name = create(spark, "k INT, v STRING", "(1, 'a'), (2, 'b')")
    plain = located_rows.select_stored
    meanwhile: list[Callable[[], object]] = []

    def between_the_passes(rows: DataFrame, names: Sequence[str], *more: Column) -> DataFrame:
        if meanwhile:
            meanwhile.pop()()
        return plain(rows, names, *more)

    monkeypatch.setattr(located_rows, "select_stored", between_the_passes)
    other = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    late = spark.createDataFrame([(1, "late")], "k int, v string")
    meanwhile.append(lambda: other.append(late))
    run(f"DELETE FROM {name} WHERE k = 1")
    assert not meanwhile
    assert rows_of(spark, name) == [(1, "late"), (2, "b")]
    meanwhile.append(lambda: other.delete("k = 2"))
    run(f"UPDATE {name} SET v = 'x'")
    assert rows_of(spark, name) == [(1, "x")]


def test_files_that_are_replaced(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, p INT", "(1, 1), (2, 2)", by="p")
    table = load_table(str(warehouse / "db.db" / name))
    first, second = sorted(files(warehouse, name))
    found = replaced_files(table, 1, [f"/elsewhere/{first}", second])
    assert sorted(f.file_name for m in found for f in m.deleted_files) == [first, second]
    assert len({m.partition for m in found}) == 2
    with pytest.raises(CommitConflictError, match=r"Snapshot 1 .* has no file other\.parquet"):
        replaced_files(table, 1, [first, "other.parquet"])


@pytest.mark.peer
@pytest.mark.parametrize(
    "options",
    [{"file.format": "orc"}, {"bucket": "2", "bucket-key": "k", "file.format": "avro"}, {"by": "p"}],
    ids=["orc", "buckets, avro", "partitioned"],
)
def test_random_statements(spark: SparkSession, oracle: Any, warehouse: Path, options: dict[str, str]) -> None:
    chance = seeds.chance("row rewrites", options)
    name = create(spark, "k INT, p STRING, v STRING", **options)
    model: Rows = []
    conditions: dict[str, Callable[[int, str, str | None], bool]] = {
        "k % 4 = 1": lambda k, p, v: k % 4 == 1,
        "v IS NULL AND k < 6": lambda k, p, v: v is None and k < 6,
        "v = 'a' OR p = 'x' AND k > 7": lambda k, p, v: v == "a" or (p == "x" and k > 7),
        "v <> 'a'": lambda k, p, v: v is not None and v != "a",
    }
    for step in range(5):
        condition = chance.choice(list(conditions))
        hit = conditions[condition]
        action = "insert" if step < 2 else chance.choice(["insert", "update", "delete"])
        if action == "insert":
            new = [(chance.randrange(12), chance.choice("xy"), chance.choice([None, "a", "b"])) for _ in range(6)]
            values = ", ".join(f"({k}, '{p}', {'NULL' if v is None else repr(v)})" for k, p, v in new)
            spark.sql(f"INSERT INTO {name} VALUES {values}")
            model += new
        elif action == "delete":
            spark.sql(f"DELETE FROM {name} WHERE {condition}")
            model = [row for row in model if not hit(*row)]
        else:
            spark.sql(f"UPDATE {name} SET k = k + 1, v = p WHERE {condition}")
            model = [(k + 1, p, p) if hit(k, p, v) else (k, p, v) for k, p, v in model]
        assert rows_of(spark, name) == sorted(model, key=repr), (step, action, condition)
    assert sorted(oracle.rows(str(warehouse / "db.db" / name)), key=repr) == sorted(model, key=repr)
