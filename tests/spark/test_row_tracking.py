"""Row ids and sequence numbers of tables with row tracking: columns that a query may name, by every entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.table.table import load_table
from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.message import CommitMessage
from paimon_spark.write.rolling import RollingFiles
from paimon_spark.write.routing import NO_PARTITION

pytestmark = pytest.mark.spark

_numbers = count()
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a table that was written twice."""
    path = tmp_path_factory.mktemp("tracked")
    paimon_spark.register_catalog(spark, "tracked", warehouse=str(path))
    spark.sql("CREATE DATABASE tracked.db")
    spark.sql("CREATE TABLE tracked.db.t (k INT, v STRING) TBLPROPERTIES ('row-tracking.enabled'='true')")
    spark.sql("INSERT INTO tracked.db.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO tracked.db.t VALUES (3, 'c')")
    return path


@pytest.fixture(params=["catalog", "statement"])
def query(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Callable[[str], Rows]:
    """Rows of a query, by the catalog or as a session without one runs it."""

    def run(text: str) -> Rows:
        if request.param == "catalog":
            return sorted(tuple(row) for row in spark.sql(text).collect())
        found = paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="tracked")
        return sorted(tuple(row) for row in found.collect())

    return run


def test_a_query_may_name_ids_and_sequence_numbers(query: Callable[[str], Rows]) -> None:
    found = query("SELECT k, _ROW_ID, _SEQUENCE_NUMBER FROM tracked.db.t")
    assert [row[0] for row in found] == [1, 2, 3]
    assert sorted(row[1] for row in found) == [0, 1, 2]
    assert [row[2] for row in found] == [1, 1, 2]
    assert query("SELECT _row_id, v, __paimon_bucket FROM tracked.db.t WHERE _row_id = 2") == [(2, "c", 0)]
    assert query("SELECT k, _ROW_ID FROM tracked.db.t WHERE k > 2") == [(3, 2)]
    assert query("SELECT * FROM tracked.db.t WHERE k = 3") == [(3, "c")]


def test_rows_without_their_ids_are_left_to_sparks_reader(spark: SparkSession, warehouse: Path) -> None:
    plan = spark.sql("EXPLAIN SELECT * FROM tracked.db.t").collect()[0][0]
    assert "reader=spark-parquet" in plan
    assert "reader=spark-parquet" not in spark.sql("EXPLAIN SELECT _ROW_ID FROM tracked.db.t").collect()[0][0]


def test_a_load_may_name_them(spark: SparkSession, warehouse: Path) -> None:
    rows = spark.read.format("paimon").load(str(warehouse / "db.db" / "t"))
    assert rows.columns == ["k", "v"]
    assert max(map(tuple, rows.select("k", "_ROW_ID", "__paimon_row_index").collect())) == (3, 2, 0)
    plain = spark.read.format("paimon").option("columns", "k, _SEQUENCE_NUMBER").load(str(warehouse / "db.db" / "t"))
    assert sorted(map(tuple, plain.collect())) == [(1, 1), (2, 1), (3, 2)]


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("entry_point", ["catalog", "statement", "methods"])
def test_rows_that_are_changed_keep_their_ids(
    spark: SparkSession, warehouse: Path, entry_point: str, vectors: bool
) -> None:
    name = f"tracked.db.changed_{entry_point}_{vectors}"
    options = f"'row-tracking.enabled'='true', 'deletion-vectors.enabled'='{str(vectors).lower()}'"
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES ({options})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    table = paimon_spark.PaimonTable.for_path(spark, str(warehouse / "db.db" / name.rpartition(".")[2]))

    def run(text: str) -> None:
        if entry_point == "catalog":
            spark.sql(text.format(name))
        else:
            paimon_spark.sql(spark, text.format(name), warehouse=str(warehouse), catalog="tracked")

    def found() -> dict[int, tuple[str, int, int]]:
        rows = table.row_tracking().collect()
        return {row.k: (row.v, row._ROW_ID, row._SEQUENCE_NUMBER) for row in rows}

    before = {k: (v, row_id) for k, (v, row_id, _) in found().items()}
    if entry_point == "methods":
        table.update({"v": "'new'"}, "k = 2")
        table.delete("k = 3")
    else:
        run("UPDATE {} SET v = 'new' WHERE k = 2")
        run("DELETE FROM {} WHERE k = 3")
    spark.sql(f"INSERT INTO {name} VALUES (5, 'e')")
    ids = {k: row_id for k, (_, row_id) in before.items()}
    assert found() == {
        1: ("a", ids[1], 1), 2: ("new", ids[2], 2), 4: ("d", ids[4], 1), 5: ("e", 4, 4)
    }  # fmt: skip
    table.compact()
    assert found() == {
        1: ("a", ids[1], 1), 2: ("new", ids[2], 2), 4: ("d", ids[4], 1), 5: ("e", 4, 4)
    }  # fmt: skip


def test_a_query_for_ids_reads_no_file_and_no_manifest_without_them(spark: SparkSession, warehouse: Path) -> None:
    options = "'row-tracking.enabled'='true', 'data-evolution.enabled'='true', 'write-only'='true'"
    spark.sql(f"CREATE TABLE tracked.db.ids (k INT) TBLPROPERTIES ({options})")
    for k in (0, 1, 2):
        spark.sql(f"INSERT INTO tracked.db.ids VALUES ({k})")
    entries = load_table(str(warehouse / "db.db/ids")).manifests
    latest = load_table(str(warehouse / "db.db/ids")).snapshots.latest()
    assert latest is not None
    (gone,) = (entry.file.file_name for entry in entries.live_entries(latest) if entry.file.first_row_id == 1)
    next(warehouse.rglob(gone)).unlink()
    (manifest,) = (meta.file_name for meta in entries.data_manifests(latest) if meta.min_row_id == 1)
    next(warehouse.rglob(manifest)).unlink()
    for condition, found in (("= 2", [2]), ("IN (0, 2)", [0, 2]), ("= 0 OR _ROW_ID > 1", [0, 2]), ("> 7", [])):
        rows = spark.sql(f"SELECT k FROM tracked.db.ids WHERE _ROW_ID {condition}").collect()
        assert sorted(row.k for row in rows) == found


def test_nobody_writes_ids_of_his_own(spark: SparkSession, warehouse: Path) -> None:
    rows = spark.createDataFrame([(9, "z", 0)], "k INT, v STRING, _ROW_ID BIGINT")
    with pytest.raises(Exception, match="_ROW_ID"):
        rows.write.format("paimon").mode("append").save(str(warehouse / "db.db" / "t"))


def write_column(path: str, name: str, values: list[str]) -> None:
    """Write one column of the first rows of a table with data evolution again."""
    table = load_table(path)
    spec = data_file_spec(table.schema, columns=(table.schema.field(name),))
    files = RollingFiles(table.file_io, spec, f"{table.path}/bucket-0", spec.file_names())
    files.write(pa.table({name: values}))
    (file,) = files.close()
    commit(table, [CommitMessage(NO_PARTITION, 0, -1, (replace(file, first_row_id=0),))])


def test_rows_of_data_evolution_are_deleted_by_vectors(
    spark: SparkSession, warehouse: Path, query: Callable[[str], Rows]
) -> None:
    name = f"evo{next(_numbers)}"
    options = ("row-tracking.enabled", "data-evolution.enabled", "deletion-vectors.enabled")
    spark.sql(
        f"CREATE TABLE tracked.db.{name} (k INT, v STRING) TBLPROPERTIES ("
        + ", ".join(f"'{key}'='true'" for key in options)
        + ")"
    )
    spark.sql(f"INSERT INTO tracked.db.{name} SELECT /*+ COALESCE(1) */ id, 'old' FROM range(10)")
    path = str(warehouse / "db.db" / name)
    write_column(path, "v", [f"new{i}" for i in range(10)])  # Java 1.4.2 knows no vectors of such tables, later ones do
    query(f"DELETE FROM tracked.db.{name} WHERE k IN (2, 5) OR v = 'new7'")
    query(f"DELETE FROM tracked.db.{name} WHERE k = 9")
    wanted = [(k, f"new{k}") for k in (0, 1, 3, 4, 6, 8)]
    assert query(f"SELECT * FROM tracked.db.{name}") == wanted
    assert query(f"SELECT count(*) FROM tracked.db.{name}") == [(6,)]
    assert query(f"SELECT _ROW_ID, k FROM tracked.db.{name}") == [(k, k) for k, _ in wanted]
    query(f"UPDATE tracked.db.{name} SET v = concat(v, '!'), k = k + 100 WHERE k = 1 OR v = 'new3'")
    wanted = [(0, "new0"), (4, "new4"), (6, "new6"), (8, "new8"), (101, "new1!"), (103, "new3!")]
    assert query(f"SELECT * FROM tracked.db.{name}") == wanted
    assert query(f"SELECT _ROW_ID, k FROM tracked.db.{name}") == [
        (k % 100, k) for k, _ in sorted(wanted, key=lambda row: row[0] % 100)
    ]


def test_rows_of_data_evolution_are_updated_by_every_entry_point(
    spark: SparkSession, warehouse: Path, query: Callable[[str], Rows]
) -> None:
    name = f"evo{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE tracked.db.{name} (k INT, v INT, s STRUCT<x: INT, y: CHAR(3)>, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('row-tracking.enabled'='true', 'data-evolution.enabled'='true')"
    )
    spark.sql(f"INSERT INTO tracked.db.{name} SELECT id, id, struct(id, 'abc'), id % 2 FROM range(6)")
    ids = dict(query(f"SELECT k, _ROW_ID FROM tracked.db.{name}"))
    query(f"UPDATE tracked.db.{name} SET v = v * 10 WHERE p = 1 AND k > 1")
    query(f"UPDATE tracked.db.{name} SET s.x = v + 1 WHERE s.y = 'abc' AND k <= 3")
    paimon_spark.PaimonTable.for_path(spark, str(warehouse / "db.db" / name)).update({"v": "v + k"}, "k = 4")
    assert query(f"SELECT k, v, s.x, s.y FROM tracked.db.{name}") == [
        (0, 0, 1, "abc"), (1, 1, 2, "abc"), (2, 2, 3, "abc"), (3, 30, 31, "abc"), (4, 8, 4, "abc"), (5, 50, 5, "abc")
    ]  # fmt: skip
    assert dict(query(f"SELECT k, _ROW_ID FROM tracked.db.{name}")) == ids
    written = query(f"SELECT DISTINCT write_cols FROM tracked.db.`{name}$files` WHERE write_cols IS NOT NULL")
    assert written == [(["s"],), (["v"],)]
    with pytest.raises(Exception, match="partition columns is not supported for data evolution"):
        query(f"UPDATE tracked.db.{name} SET p = 3")
    with pytest.raises(Exception, match="Can only perform deletion operation on data evolution"):
        query(f"DELETE FROM tracked.db.{name} WHERE k = 1")
    query(f"DELETE FROM tracked.db.{name} WHERE p = 1")
    assert query(f"SELECT k FROM tracked.db.{name}") == [(0,), (2,), (4,)]


@pytest.mark.parametrize("front", ["sql", "text", "method"])
def test_a_merge_may_assign_a_partition_column_the_value_by_which_rows_match(
    spark: SparkSession, warehouse: Path, front: str
) -> None:
    name = f"evo{next(_numbers)}"

    def query(text: str) -> Rows:
        return sorted(tuple(row) for row in spark.sql(text).collect())

    spark.sql(
        f"CREATE TABLE tracked.db.{name} (k INT, v STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('row-tracking.enabled'='true', 'data-evolution.enabled'='true')"
    )
    spark.sql(f"INSERT INTO tracked.db.{name} VALUES (1, 'a', 0), (2, 'b', 1), (3, 'c', 1)")
    ids = dict(query(f"SELECT k, _ROW_ID FROM tracked.db.{name}"))
    source = spark.sql("SELECT * FROM VALUES (2, 'B', 1), (3, 'C', 0), (4, 'D', 0) AS s(k, v, p)")
    source.createOrReplaceTempView("partition_source")

    def merge(on: str) -> None:
        if front == "method":
            target = paimon_spark.PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
            target.merge(source, on.replace("t.", "target.").replace("s.", "source.")).when_matched_update().execute()
        else:
            text = f"MERGE INTO tracked.db.{name} t USING partition_source s ON {on} WHEN MATCHED THEN UPDATE SET *"
            if front == "sql":
                spark.sql(text)
            else:
                paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="tracked")

    merge("t.k = s.k AND s.p = t.p")
    assert query(f"SELECT k, v, p FROM tracked.db.{name}") == [(1, "a", 0), (2, "B", 1), (3, "c", 1)]
    assert dict(query(f"SELECT k, _ROW_ID FROM tracked.db.{name}")) == ids
    with pytest.raises(Exception, match="partition columns is not supported for data evolution"):
        merge("t.k = s.k")
