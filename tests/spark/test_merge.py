"""MERGE INTO by the catalog: each clause, on each kind of table; one snapshot read, one commit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import PaimonError
from paimon_spark.spark.sql import merge
from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.catalog("merges", current=True)]

Rows = list[tuple[Any, ...]]
_numbers = itertools.count()
KINDS = {
    "keyed": {"primary-key": "k", "bucket": "2"},
    "dynamic": {"primary-key": "k"},
    "append": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "tracked": {"row-tracking.enabled": "true"},
    "tracked, vectors": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"},
    "data_evolution": {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    },
}
ABC = "(1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
SOURCE = "(SELECT 2 AS k, 'B' AS v, 20 AS n UNION ALL SELECT 4, 'D', 40) s"


def create(spark: SparkSession, columns: str, rows: str = "", **options: str) -> str:
    """Make a table and give its name."""
    name = f"t{next(_numbers)}"
    properties = ", ".join(f"'{option}'='{value}'" for option, value in options.items())
    spark.sql(f"CREATE TABLE {name} ({columns})" + (f" TBLPROPERTIES ({properties})" if properties else ""))
    if rows:
        spark.sql(f"INSERT INTO {name} VALUES {rows}")
    return name


def rows(spark: SparkSession, name: str) -> Rows:
    return sorted((tuple(row) for row in spark.table(name).collect()), key=str)


def path_of(warehouse: Path, name: str) -> str:
    return str(warehouse / "db.db" / name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_clause(spark: SparkSession, warehouse: Path, kind: str) -> None:
    table = create(spark, "k INT, v STRING, n INT", ABC, **KINDS[kind])
    spark.sql(f"MERGE INTO {table} t USING {SOURCE} ON t.k = s.k WHEN MATCHED THEN UPDATE SET * "
              "WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert rows(spark, table) == [(1, "a", 1), (2, "B", 20), (3, "c", 3), (4, "D", 40)]
    if "row-tracking.enabled" in KINDS[kind]:
        found = spark.sql(f"SELECT _ROW_ID, _SEQUENCE_NUMBER FROM {table} ORDER BY k").collect()
        assert [row[0] for row in found] == [0, 1, 2, 3], "row ids stay"
        if kind != "data_evolution":  # there, files of columns give all rows of their group a new number
            assert [row[1] for row in found] == [1, 2, 1, 2]
    # the source reads the target, at the same snapshot
    spark.sql(
        f"WITH s AS (SELECT k + 1 AS k, n FROM {table}) MERGE INTO {table} t USING s ON t.k = s.k "
        "WHEN MATCHED AND s.n = 3 THEN DELETE WHEN MATCHED AND s.n > 5 THEN UPDATE SET n = t.n + s.n, v = NULL "
        "WHEN MATCHED THEN UPDATE SET n = -t.n WHEN NOT MATCHED AND s.k > 9 THEN INSERT (k) VALUES (0) "
        "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.n + 1) "
        f"WHEN NOT MATCHED BY SOURCE AND t.k > (SELECT min(k) FROM {table}) THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'alone'"
    )
    assert rows(spark, table) == [(1, "alone", 1), (2, "B", -20), (3, None, 23), (5, None, 41)]
    if kind in ("dynamic", "tracked", "tracked, vectors"):
        return  # what follows is the same for all tables with, and for all without a key
    spark.sql(f"MERGE INTO {table} t USING {SOURCE} ON t.k = s.k WHEN NOT MATCHED THEN INSERT *")
    spark.sql(f"MERGE INTO {table} t USING {SOURCE} ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert rows(spark, table) == [(2, "B", -20), (4, "D", 40)]
    found = spark.sql(f"SELECT commit_kind, operation FROM `{table}$snapshots` WHERE operation <> 'WRITE'").collect()
    insert_only = ("APPEND", "MERGE")
    others = insert_only if "primary-key" in KINDS[kind] else ("OVERWRITE", "MERGE")
    if kind == "data_evolution":
        assert {row[1] for row in found} == {"MERGE"}
        return
    assert [tuple(row) for row in found] == [others, others, insert_only, others]


@pytest.mark.parametrize("kind", ["keyed", "append", "data_evolution"])
def test_a_row_that_is_matched_twice(spark: SparkSession, warehouse: Path, kind: str) -> None:
    table = create(spark, "k INT, v STRING, n INT", ABC, **KINDS[kind])
    twice = "(SELECT 2 AS k, id AS n FROM range(2)) s"
    before = load_table(path_of(warehouse, table)).snapshots.latest()
    for clauses in ("THEN UPDATE SET v = 'x'", "AND s.n >= 0 THEN DELETE"):
        with pytest.raises(PySparkException, match=r"MERGE_CARDINALITY_VIOLATION.*multiple rows of the source"):
            spark.sql(f"MERGE INTO {table} t USING {twice} ON t.k = s.k WHEN MATCHED {clauses}")
    assert load_table(path_of(warehouse, table)).snapshots.latest() == before
    # of both rows only one does something; and to be deleted twice is to be deleted
    spark.sql(f"MERGE INTO {table} t USING {twice} ON t.k = s.k WHEN MATCHED AND s.n = 1 THEN UPDATE SET v = 'one'")
    assert rows(spark, table)[1] == (2, "one", 2)
    spark.sql(f"MERGE INTO {table} t USING {twice} ON t.k = s.k WHEN MATCHED THEN DELETE")
    assert [row[0] for row in rows(spark, table)] == [1, 3]


def test_nulls_match_nothing(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, n INT", "(NULL, 1), (1, 2)")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT CAST(NULL AS INT) AS k UNION ALL SELECT 1) s ON t.k = s.k "
        "WHEN MATCHED AND CAST(NULL AS BOOLEAN) THEN DELETE WHEN MATCHED THEN UPDATE SET n = 5 "
        "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 9)"
    )
    assert rows(spark, name) == [(1, 5), (None, 1), (None, 9)]


def test_values_are_stored_as_by_an_insert(spark: SparkSession, warehouse: Path) -> None:
    columns = "k INT NOT NULL, s STRUCT<a INT, b STRING>, c CHAR(4), d INT DEFAULT 7, x INT NOT NULL, w VARCHAR(3)"
    name = create(
        spark, columns, "(1, named_struct('a', 1, 'b', 'x'), 'ab', 1, 1, 'w')",
        **{"primary-key": "k", "bucket": "1"},
    )  # fmt: skip
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 1 AS k, 5L AS a UNION ALL SELECT 2, 6) u ON t.k = u.k "
        "WHEN MATCHED THEN UPDATE SET t.s.a = u.a, d = DEFAULT, c = 'y' "
        "WHEN NOT MATCHED THEN INSERT (x, k) VALUES (u.a, u.k)"
    )
    assert rows(spark, name) == [(1, (5, "x"), "y   ", 7, 1, "w"), (2, None, None, 7, 6, None)]
    spark.sql(f"MERGE INTO {name} t USING (SELECT 1) u ON t.c = 'y' WHEN MATCHED THEN UPDATE SET d = 8")
    assert rows(spark, name)[0][3] == 8
    for value, reason in {"x = NULL": "NULL", "x = 'text'": "CAST", "w = 'long'": "EXCEED_LIMIT", "y = 1": "y"}.items():
        with pytest.raises(PySparkException, match=reason):
            spark.sql(f"MERGE INTO {name} t USING (SELECT 1) u ON true WHEN MATCHED THEN UPDATE SET {value}").collect()
    with pytest.raises(PySparkException, match="No assignment for 'x'"):
        spark.sql(f"MERGE INTO {name} t USING (SELECT 9 AS k) u ON t.k = u.k "
                  "WHEN NOT MATCHED THEN INSERT (k) VALUES (9)")  # fmt: skip


def test_a_primary_key_stays(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, v STRING, n INT", ABC, **KINDS["keyed"])
    with pytest.raises(PySparkException, match="Can't update the primary key column k"):
        spark.sql(f"MERGE INTO {name} t USING {SOURCE} ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = s.n")
    spark.sql(f"MERGE INTO {name} t USING (SELECT 2L AS k, 8 AS n) s ON t.k = s.k "
              "WHEN MATCHED THEN UPDATE SET k = s.k, n = s.n")  # fmt: skip
    assert rows(spark, name)[1] == (2, "b", 8)


def test_engines(spark: SparkSession, warehouse: Path) -> None:
    update = "WHEN MATCHED THEN UPDATE SET n = s.n"
    for engine, refused in {
        "aggregation": (update, "WHEN MATCHED THEN DELETE"),
        "first-row": (update, "WHEN MATCHED THEN DELETE"),
        "partial-update": ("WHEN MATCHED THEN DELETE",),
    }.items():
        name = create(spark, "k INT, v STRING, n INT", ABC, **KINDS["keyed"], **{"merge-engine": engine})
        for clause in refused:
            with pytest.raises(PySparkException, match=f"(?i)merge engine {engine} does"):
                spark.sql(f"MERGE INTO {name} t USING {SOURCE} ON t.k = s.k {clause}").collect()
        more = update if engine == "partial-update" else ""
        spark.sql(f"MERGE INTO {name} t USING {SOURCE} ON t.k = s.k {more} WHEN NOT MATCHED THEN INSERT *")
        assert rows(spark, name)[3] == (4, "D", 40)
        assert rows(spark, name)[1] == (2, "b", 20 if more else 2)


@pytest.mark.parametrize("grouped", [False, True])
def test_partial_update_writes_what_is_assigned(spark: SparkSession, warehouse: Path, grouped: bool) -> None:
    """Other columns keep their values without being read and written again, unless a sequence group looks at them."""
    options = {"merge-engine": "partial-update", **({"fields.n.sequence-group": "v"} if grouped else {})}
    name = create(spark, "k INT, v STRING, n INT, w INT NOT NULL, x INT", **KINDS["keyed"], **options)
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 1, 5, 6), (2, 'b', 2, 5, 6)")
    known = set((warehouse / "db.db" / name).glob("bucket-*/data-*"))
    statements = {
        "x": f"MERGE INTO {name} t USING (SELECT 2 AS k, 60 AS x) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET x = s.x",
        "v": f"MERGE INTO {name} t USING (SELECT 1 AS k, 'A' AS v) s ON t.k = s.k AND t.n = 1 WHEN MATCHED THEN "
        "UPDATE SET v = s.v",
        "w": f"UPDATE {name} SET w = 50 WHERE x = 60",
    }
    for column, statement in statements.items():
        spark.sql(statement)
        (made,) = set((warehouse / "db.db" / name).glob("bucket-*/data-*")) - known
        known.add(made)
        (row,) = pq.read_table(made, partitioning=None).select(["v", "n", "x"]).to_pylist()
        kept = {"v", "n", "x"} if grouped else {column} & row.keys()
        assert {other for other, value in row.items() if value is not None} == kept, column
    assert rows(spark, name) == [(1, "A", 1, 5, 6), (2, "b", 2, 50, 60)]


def test_only_touched_files_are_written_anew(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, n INT", **{"write-only": "true"})
    for low in range(0, 40, 10):
        spark.range(low, low + 10, 1, 1).selectExpr("CAST(id AS INT) k", "0 n").writeTo(name).append()
    before = set(spark.table(f"`{name}$files`").select("file_path").collect())
    spark.sql(f"MERGE INTO {name} t USING (SELECT 15 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 1")
    after = set(spark.table(f"`{name}$files`").select("file_path").collect())
    assert len(before - after) == 1
    assert len(after - before) == 2  # the rows that stay, and the row that is updated
    assert spark.sql(f"SELECT count(*), sum(n) FROM {name}").collect() == [(40, 1)]


def test_other_entry_points(spark: SparkSession, warehouse: Path) -> None:
    name = create(spark, "k INT, v STRING, n INT", ABC)
    source = spark.createDataFrame([(1, "m", 7), (9, "z", 9)], "k int, v string, n int")
    writer = source.alias("s").mergeInto(name, expr(f"{name}.k = s.k"))
    writer.whenMatched().updateAll().whenNotMatched().insertAll().whenNotMatchedBySource().delete().merge()
    assert rows(spark, name) == [(1, "m", 7), (9, "z", 9)]
    text = f"MERGE INTO {name} t USING (SELECT :k AS k) s ON t.k = s.k WHEN MATCHED AND n > 1 THEN UPDATE SET v = :v"
    plan = spark.sql(f"EXPLAIN {text}", args={"k": 1, "v": "arg"}).first()
    assert plan is not None
    assert f"MERGE INTO db.{name} ON" in plan[0]
    spark.sql(text, args={"k": 1, "v": "arg"})
    spark.sql(f"MERGE INTO merges.`{warehouse}/db.db/{name}` t USING (SELECT 9 AS k) s ON t.k = s.k "
              "WHEN MATCHED THEN UPDATE SET v = 'path'")  # fmt: skip
    assert rows(spark, name) == [(1, "arg", 7), (9, "path", 9)]
    with pytest.raises(PySparkException, match="system table"):
        spark.sql(f"MERGE INTO `{name}$snapshots` t USING (SELECT 2 AS k) s ON t.snapshot_id = s.k "
                  "WHEN MATCHED THEN DELETE")  # fmt: skip


@pytest.mark.parametrize("kind", ["keyed", "append", "vectors", "data_evolution"])
def test_what_came_between_is_counted(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A rival inserts one key and changes another between the read and the commit: the statement runs again."""
    name = create(spark, "k INT, n INT", "(1, 10)", **KINDS[kind])
    merged = (
        f"MERGE INTO {name} t USING (SELECT id AS k FROM range(1, 3)) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 1)"
    )
    location = {"keyed": "write_shuffled", "data_evolution": "merge_columns"}.get(kind, "merge_rows")
    original, calls = getattr(merge, location), []

    def late(*args: object, **more: object) -> object:
        calls.append(len(calls))
        if len(calls) == 1:
            spark.sql(merged)
        return original(*args, **more)

    monkeypatch.setattr(merge, location, late)
    spark.sql(merged)
    assert rows(spark, name) == [(1, 12), (2, 2)]
    assert len(calls) == 3  # the rival's, the one that was beaten, and the one that ran again


def test_columns_that_only_the_source_has(spark: SparkSession, warehouse: Path) -> None:
    source = "(SELECT 2 AS k, 20 AS n, 'new' AS x, 9L AS y UNION ALL SELECT 4, 40, 'other', 8) s"
    name = create(spark, "k INT, v STRING, n INT", ABC, **KINDS["keyed"])
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(PySparkException, match="v"):
        spark.sql(f"MERGE INTO {name} t USING {source} ON t.k = s.k {clauses}")
    spark.sql(f"EXPLAIN MERGE WITH SCHEMA EVOLUTION INTO {name} t USING {source} ON t.k = s.k {clauses}")
    assert spark.table(name).columns == ["k", "v", "n"]
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING {source} ON t.k = s.k {clauses}")
    assert spark.table(name).columns == ["k", "v", "n", "x", "y"]
    both = [(2, "b", 20, "new", 9), (3, "c", 3, None, None), (4, None, 40, "other", 8)]
    assert rows(spark, name) == [(1, "a", 1, None, None), *both]
    other = create(spark, "k INT, v STRING, n INT", ABC)
    spark.conf.set("spark.paimon.write.merge-schema", "true")
    try:  # only columns that a clause names; others of the source are none of the table's
        spark.sql(f"MERGE INTO {other} t USING {source} ON t.k = s.k WHEN MATCHED THEN UPDATE SET x = s.x "
                  "WHEN NOT MATCHED BY SOURCE THEN DELETE")  # fmt: skip
    finally:
        spark.conf.unset("spark.paimon.write.merge-schema")
    assert spark.table(other).columns == ["k", "v", "n", "x"]
    assert rows(spark, other) == [(2, "b", 2, "new")]


def test_an_upsert_reads_nothing(spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = create(spark, "k INT, v STRING, n INT", ABC, **KINDS["keyed"])
    upsert = "MERGE INTO {} t USING {} ON s.k = t.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    monkeypatch.setattr(merge._Changes, "keyed", None)  # what reads the table
    spark.sql(upsert.format(name, SOURCE))
    assert rows(spark, name) == [(1, "a", 1), (2, "B", 20), (3, "c", 3), (4, "D", 40)]
    monkeypatch.undo()
    files = sorted((warehouse / "db.db" / name).glob("bucket-*/*"))
    twice = "(SELECT 2 AS k, 'x' AS v, id AS n FROM range(2)) s"
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(upsert.format(name, twice.replace("id AS n", "CAST(id AS INT) AS n")))
    assert sorted((warehouse / "db.db" / name).glob("bucket-*/*")) == files, "what was written is gone"
    spark.sql(upsert.format(name, twice.replace("2 AS k", "7 AS k").replace("id AS n", "1 AS n")))
    assert rows(spark, name)[4:] == [(7, "x", 1)]


def test_a_source_larger_than_the_buffer_is_written_once(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a bucket overlap then: that no key came twice is seen by their keys, not by a join."""
    name = create(spark, "k INT, v STRING, n INT", **KINDS["keyed"], **{"write-buffer-size": "600 kb"})
    spark.sql(f"INSERT INTO {name} SELECT id, repeat('x', 90), 0 FROM range(0, 20000, 2)")
    made = "SELECT pmod(hash(id), 1000) AS o, id AS k, repeat(id, 20) AS v FROM range({})"
    source = f"(SELECT CAST(k AS INT) AS k, v, 1 AS n FROM ({made.format(20_000)}) ORDER BY o)"
    clauses = "WHEN MATCHED AND s.k % 10 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    statement = f"MERGE INTO {name} t USING {{}} s ON s.k = t.k {clauses}"
    monkeypatch.setattr(merge._Changes, "keyed", None)  # what joins
    spark.sql(statement.format(source))
    table = load_table(path_of(warehouse, name))
    manifests = table.manifests.delta_manifests(table.snapshots.get(2))
    assert sum(manifest.num_added_files for manifest in manifests) > 2, "several files in a bucket"
    found = spark.sql(f"SELECT count(*), sum(n), sum(k), count_if(k % 10 = 0) FROM {name}").head()
    assert tuple(found) == (18_000, 18_000, sum(k for k in range(20_000) if k % 10), 0)
    monkeypatch.undo()
    twice = f"({source} UNION ALL SELECT 5, 'again', 9)"
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(statement.format(twice))


def by_catalog(spark: SparkSession, path: str, source: str, clauses: str) -> None:
    spark.sql(f"MERGE INTO paimon.`{path}` t USING {source} s ON t.k = s.k AND s.p = t.p {clauses}")


def by_text(spark: SparkSession, path: str, source: str, clauses: str) -> None:
    paimon_spark.sql(spark, f"MERGE INTO paimon.`{path}` t USING {source} s ON t.k = s.k AND s.p = t.p {clauses}")


@pytest.mark.parametrize(
    ("kind", "entry_point"), [("fixed", by_text), ("dynamic", by_catalog), ("partitioned", by_catalog)]
)
def test_a_merge_by_the_key_joins_nothing(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, kind: str, entry_point: Callable[..., None]
) -> None:
    """Where conditions and values are over the source, tasks look up its keys; what is not assigned stays."""
    options = {"primary-key": "k,p", **({} if kind == "dynamic" else {"bucket": "2"})}
    name = create(spark, "k INT, p STRING, v STRING, n INT, o STRUCT<x: INT>", **options)
    if kind == "partitioned":
        spark.sql(f"DROP TABLE {name}")
        spark.sql(f"CREATE TABLE {name} (k INT, p STRING, v STRING, n INT, o STRUCT<x: INT>) PARTITIONED BY (p) "
                  "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='2')")  # fmt: skip
    spark.sql(f"INSERT INTO {name} SELECT id, id % 3, 'a', id, named_struct('x', id) FROM range(20)")
    spark.sql(f"INSERT INTO {name} SELECT id, id % 3, 'b', id, named_struct('x', -id) FROM range(5, 8)")
    path = path_of(warehouse, name)
    monkeypatch.setattr(merge._Changes, "keyed", None)  # what joins both sides
    source = (
        "(SELECT CAST(id AS INT) k, CAST(id % 3 AS STRING) p, CAST(id * 10 AS INT) n FROM range(4, 24, 2) "
        "UNION ALL SELECT 4, 'x', 1)"
    )
    entry_point(spark, path, source,
         "WHEN MATCHED AND s.n = 40 THEN DELETE WHEN MATCHED AND s.n < 100 THEN UPDATE SET n = s.n, v = 'u' "
         "WHEN MATCHED AND s.n > 150 THEN UPDATE SET v = upper(s.p) WHEN NOT MATCHED AND s.n = 200 THEN INSERT "
         "(k, p, v) VALUES (s.k, s.p, 'i') WHEN NOT MATCHED THEN INSERT (k, p, n) VALUES (s.k, s.p, s.n)")  # fmt: skip
    expected = {i: (i, str(i % 3), "b" if 5 <= i < 8 else "a", i, (-i if 5 <= i < 8 else i,)) for i in range(20)}
    del expected[4]
    for i in (6, 8):
        expected[i] = (i, str(i % 3), "u", i * 10, expected[i][4])
    for i in (16, 18):
        expected[i] = (i, str(i % 3), str(i % 3), i, (i,))
    expected[20] = (20, "2", "i", None, None)
    expected[22] = (22, "1", None, 220, None)
    expected[24] = (4, "x", None, 1, None)
    assert rows(spark, name) == sorted(expected.values(), key=str)
    if kind != "dynamic":  # there, keys have places before it is known whether they are there
        null = "(SELECT CAST(NULL AS INT) k, '1' p UNION ALL SELECT 3, '0' UNION ALL SELECT 100, '0')"
        entry_point(spark, path, null, "WHEN MATCHED THEN UPDATE SET n = -1")
        assert [row[0] for row in rows(spark, name) if row[3] == -1] == [3]
    monkeypatch.undo()
    with pytest.raises((PySparkException, PaimonError), match="MERGE_CARDINALITY_VIOLATION"):
        entry_point(spark, path, "(SELECT 3 k, '0' p, CAST(id AS INT) n FROM range(2))",
             "WHEN MATCHED AND s.n < 9 THEN UPDATE SET n = s.n "
             "WHEN NOT MATCHED THEN INSERT (k, p) VALUES (s.k, s.p)")  # fmt: skip


@pytest.mark.parametrize("entry_point", [by_catalog, by_text])
def test_a_value_of_two_clauses_is_shuffled_once(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, entry_point: Callable[..., None]
) -> None:
    name = create(
        spark, "k INT, p STRING, v STRING, n INT", "(1, 'a', 'x', 1)", **{"primary-key": "k,p", "bucket": "2"}
    )
    columns: list[int] = []
    plain = merge.keyed_merge

    def noting(*given: Any) -> Any:
        found = plain(*given)
        columns.append(len(found[0].columns) if found else 0)
        return found

    monkeypatch.setattr(merge, "keyed_merge", noting)
    source = "(SELECT CAST(id AS INT) k, 'a' p, 'y' v, CAST(id AS INT) n FROM range(1, 3))"
    entry_point(spark, path_of(warehouse, name), source,
         "WHEN MATCHED AND s.n > 0 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert columns == [4 + len(("matched", "not matched"))]
    assert rows(spark, name) == [(1, "a", "y", 1), (2, "a", "y", 2)]


def test_a_value_that_no_clause_writes_is_no_error(spark: SparkSession, warehouse: Path) -> None:
    """A value is wrong only of a row that gets it: here of none. It is evaluated beside the old row."""
    name = create(spark, "k INT, v STRING, n INT", ABC, **KINDS["keyed"])
    statement = (
        f"MERGE INTO {name} t USING (SELECT 2 k, '7' v UNION ALL SELECT 9, 'x') s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET n = CAST(s.v AS INT)"
    )
    said = "lookup join (ON compares the primary key alone, and a condition or a value may be an error"
    assert said in spark.sql(f"EXPLAIN {statement}").head()[0]
    spark.sql(statement)
    assert rows(spark, name)[1] == (2, "b", 7)


def test_in_a_micro_batch(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """The session of a batch is a clone, which has the catalog and its hooks."""
    name = create(spark, "k INT, n INT", "(1, 1)", **KINDS["keyed"])
    changed = PaimonTable.create(spark, str(tmp_path / "changes"), "k int, n int")
    changed.append(spark.createDataFrame([(1, 5), (2, 6)], "k int, n int"))

    def apply(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("changes_of_batch")
        batch.sparkSession.sql(
            f"MERGE INTO merges.db.{name} t USING changes_of_batch s ON t.k = s.k AND t.n < s.n "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    stream = spark.readStream.format("paimon").load(str(tmp_path / "changes")).writeStream.foreachBatch(apply)
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert rows(spark, name) == [(1, 5), (2, 6)]


def test_an_unknown_column_is_an_error_with_the_columns_of_both_sides(spark: SparkSession, warehouse: Path) -> None:
    """No column that a merge adds for itself is suggested, and none of the table's is missing."""
    name = create(spark, "k INT, v STRING", "(1, 'a')")
    source = spark.createDataFrame([(1, "b")], "k int, w string")
    merge = PaimonTable.for_path(spark, path_of(warehouse, name)).merge(source, "target.k = source.k")
    for condition in ("target.vv = 'a'", "vv = 'a'"):
        with pytest.raises(AnalysisException) as error:
            merge.when_matched_delete(condition=condition).execute()
        suggested = (error.value.getMessageParameters() or {})["proposal"].split(", ")
        assert {part.replace("`", "") for part in suggested} == {"target.k", "target.v", "source.k", "source.w"}
