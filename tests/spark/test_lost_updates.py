"""DELETE and UPDATE alongside other commits: what came between read and commit is read anew, by every entry point."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.snapshot_builder import SnapshotBuilder
from paimon_spark.spark.sql import row_changes
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.table import load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

_numbers = itertools.count()
Statement = Callable[[str, str], None]
"""Runs an UPDATE or DELETE: its verb and what stands behind SET (or WHERE)."""


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("lost_updates")
    paimon_spark.register_catalog(spark, "rivals", warehouse=str(path))
    spark.sql("CREATE DATABASE rivals.db")
    yield path
    paimon_spark.sql(spark, "SELECT 1", warehouse=str(path), catalog="rivals")


@pytest.fixture
def create(spark: SparkSession, warehouse: Path) -> Callable[[str], PaimonTable]:
    """Makes a table with the rows (1, 10), (2, 20), (3, 30)."""

    def create(properties: str) -> PaimonTable:
        name = f"t{next(_numbers)}"
        spark.sql(f"CREATE TABLE rivals.db.{name} (k INT NOT NULL, n INT) {properties}")
        spark.sql(f"INSERT INTO rivals.db.{name} VALUES (1, 10), (2, 20), (3, 30)")
        return PaimonTable.for_path(spark, str(warehouse / "db.db" / name))

    return create


@pytest.fixture(params=["catalog", "statement", "method"])
def change(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Callable[..., None]:
    """Changes a table: `set` gives the new value of n, None deletes."""

    def by_method(table: PaimonTable, value: str | None, where: str) -> None:
        if value is None:
            table.delete(where)
        else:
            table.update({"n": value}, where)

    def by_sql(table: PaimonTable, value: str | None, where: str) -> None:
        name = f"rivals.db.{Path(table.path).name}"
        text = f"DELETE FROM {name} WHERE {where}" if value is None else f"UPDATE {name} SET n = {value} WHERE {where}"
        if request.param == "catalog":
            spark.sql(text).collect()
        else:
            paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="rivals").collect()

    return by_method if request.param == "method" else by_sql


def write(path: str, rows: dict[int, int]) -> None:
    """Commit rows as another process does."""
    table = load_table(path)
    columns = {"k": pa.array(list(rows), pa.int32()), "n": pa.array(list(rows.values()), pa.int32())}
    batch = pa.RecordBatch.from_pydict(columns)
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def contents(table: PaimonTable) -> dict[int, int]:
    return {row.k: row.n for row in table.to_df().collect()}


KEYED = "TBLPROPERTIES ('primary-key'='k', 'bucket'='{}')"


def between(monkeypatch: pytest.MonkeyPatch, location: str, rival: Callable[[], object]) -> list[int]:
    """Let a rival commit in the first attempt, once its snapshot is chosen; the list says how often it was tried."""
    original, calls = getattr(row_changes, location), []

    def late(*args: object, **more: object) -> object:
        calls.append(len(calls))
        if len(calls) == 1:
            rival()
        return original(*args, **more)

    monkeypatch.setattr(row_changes, location, late)
    return calls


def test_an_update_counts_what_came_between(
    change: Callable[..., None],
    create: Callable[[str], PaimonTable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = create(KEYED.format("1"))
    calls = between(monkeypatch, "_write_changes", lambda: write(table.path, {1: 100, 4: 40}))
    change(table, "n + 1", "k <= 2")
    assert contents(table) == {1: 101, 2: 21, 3: 30, 4: 40}
    assert len(calls) == 2


VECTORS = "TBLPROPERTIES ('primary-key'='k', 'bucket'='1', 'deletion-vectors.enabled'='true'{})"


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_rows_that_are_not_compacted_yet_are_changed(
    change: Callable[..., None], create: Callable[[str], PaimonTable], engine: str
) -> None:
    """Queries leave out level 0 of tables with deletion vectors; statements that make new rows of old ones do not."""
    table = create(VECTORS.format(f", 'merge-engine'='{engine}'"))
    write(table.path, {1: 100, 4: 40})
    assert contents(table) == {1: 10, 2: 20, 3: 30}  # as in Java, until the next compaction
    change(table, "n + 1", "k = 1 OR n = 40")
    assert contents(table) == {1: 101, 2: 20, 3: 30, 4: 41}
    if engine == "deduplicate":
        write(table.path, {2: 200, 3: 300})
        change(table, None, "n = 300")
        assert contents(table) == {1: 101, 2: 200, 4: 41}


@pytest.mark.parametrize("clause", ["UPDATE SET n = t.n + s.n", "UPDATE SET t.n = t.n + 1 + s.n - s.n"])
def test_merge_sees_rows_that_are_not_compacted_yet(
    spark: SparkSession, create: Callable[[str], PaimonTable], warehouse: Path, clause: str
) -> None:
    for by_catalog in (True, False):
        table = create(VECTORS.format(""))
        write(table.path, {1: 100})
        name = f"rivals.db.{Path(table.path).name}"
        text = (
            f"MERGE INTO {name} t USING (SELECT 1 AS k, 1 AS n) s ON t.k = s.k "
            f"WHEN MATCHED THEN {clause} WHEN NOT MATCHED THEN INSERT *"
        )
        if by_catalog:
            spark.sql(text).collect()
        else:
            paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="rivals").collect()
        assert contents(table) == {1: 101, 2: 20, 3: 30}


@pytest.mark.oracle
@pytest.mark.parametrize(
    "properties",
    [
        VECTORS.format(""),
        VECTORS.format(", 'merge-engine'='partial-update'"),
        KEYED.format("1")[:-1] + ", 'merge-engine'='first-row')",
    ],
)
def test_a_rescale_keeps_rows_that_are_not_compacted_yet(
    create: Callable[[str], PaimonTable], oracle: Any, properties: str
) -> None:
    table = create(properties)
    write(table.path, {4: 40})
    table.rescale(bucket_num=2)
    table.compact()
    assert contents(table) == dict(oracle.rows(table.path)) == {1: 10, 2: 20, 3: 30, 4: 40}


def test_a_rival_that_compacts_after_the_read_loses_nothing(
    change: Callable[..., None], create: Callable[[str], PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(VECTORS.format(""))
    write(table.path, {1: 100})
    calls = between(monkeypatch, "_write_changes", table.compact)
    change(table, "n + 1", "k = 1")
    table.compact()
    assert contents(table) == {1: 101, 2: 20, 3: 30}
    assert len(calls) == 1  # a compaction changes no rows


def test_a_delete_looks_again_at_what_came_between(
    change: Callable[..., None], create: Callable[[str], PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(KEYED.format("1"))
    between(monkeypatch, "_write_changes", lambda: write(table.path, {1: 100}))
    change(table, None, "n < 25")
    assert contents(table) == {1: 100, 3: 30}


def test_files_that_another_commit_took_out_are_read_anew(
    change: Callable[..., None], create: Callable[[str], PaimonTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create("")

    def rival() -> None:
        monkeypatch.undo()
        table.update({"n": "n * 2"})

    between(monkeypatch, "rewrite_rows", rival)
    change(table, "n + 1", "k <= 2")
    assert contents(table) == {1: 21, 2: 41, 3: 60}


@pytest.mark.parametrize("properties", ["", KEYED.format("1")])
def test_a_column_that_no_snapshot_has_is_updated(
    spark: SparkSession, create: Callable[[str], PaimonTable], properties: str
) -> None:
    table = create(properties)
    name = f"rivals.db.{Path(table.path).name}"
    spark.sql(f"ALTER TABLE {name} ADD COLUMN x INT")
    table.update({"x": "k + 1"}, "k = 1")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN y INT")
    spark.sql(f"UPDATE {name} SET y = 7 WHERE k = 1").collect()
    assert sorted(tuple(row) for row in table.to_df().where("k < 3").collect()) == [(1, 10, 2, 7), (2, 20, None, None)]


@pytest.mark.parametrize("properties", ["", ", 'deletion-vectors.enabled'='true'", ", 'changelog-producer'='lookup'"])
def test_counters_of_threads_count_every_success(
    spark: SparkSession, create: Callable[[str], PaimonTable], properties: str
) -> None:
    table = create(f"TBLPROPERTIES ('primary-key'='k', 'bucket'='-1', 'commit.max-retries'='50'{properties})")
    name = f"rivals.db.{Path(table.path).name}"

    def count(thread: int) -> None:
        for _ in range(2):
            spark.sql(f"UPDATE {name} SET n = n + 1 WHERE k = 1").collect()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, range(3)))
    assert contents(table) == {1: 16, 2: 20, 3: 30}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_two_merges_of_one_table_at_once(
    spark: SparkSession, create: Callable[[str], PaimonTable], vectors: str
) -> None:
    """The official project's case "concurrent two merge", where each of them may fail; here none does."""
    table = create(f"TBLPROPERTIES ('deletion-vectors.enabled'='{vectors}', 'commit.max-retries'='50')")
    target, source = f"rivals.db.{Path(table.path).name}", f"rivals.db.{Path(create('').path).name}"

    def merge(_thread: int) -> None:
        for key in (1, 2, 3):
            spark.sql(
                f"MERGE INTO {target} USING (SELECT * FROM {source} WHERE k = {key}) ON {target}.k = {source}.k "
                f"WHEN MATCHED THEN UPDATE SET {target}.k = {source}.k, {target}.n = {source}.n + {target}.n"
            )
            assert spark.sql(f"SELECT count(*) FROM {target}").first()[0] == 3

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(merge, range(2)))
    assert contents(table) == {1: 30, 2: 60, 3: 90}


KEYLESS = {
    "append": "",
    "vectors": "'deletion-vectors.enabled'='true', ",
    "tracking": "'row-tracking.enabled'='true', ",
    "evolution": "'row-tracking.enabled'='true', 'data-evolution.enabled'='true', ",
}


@pytest.mark.parametrize("kind", KEYLESS)
def test_a_compaction_of_the_same_files_lets_no_statement_fail(
    spark: SparkSession, create: Callable[[str], PaimonTable], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It comes between the read of the statement and its commit; both are in, and rows keep their ids."""
    table = create(f"TBLPROPERTIES ({KEYLESS[kind]}'compaction.min.file-num'='2', 'write-only'='true')")
    name = f"rivals.db.{Path(table.path).name}"
    original = SnapshotBuilder.next_snapshot
    tracked = "row-tracking" in KEYLESS[kind]
    compacted: list[int | None] = []

    def late(builder: SnapshotBuilder, latest: Snapshot | None) -> Snapshot:
        if len(compacted) == waiting:
            compacted.append(None)
            compacted[-1] = table.compact()
        return original(builder, latest)

    def ids() -> dict[int, int]:
        return {row.k: row.i for row in spark.sql(f"SELECT k, _ROW_ID AS i FROM {name}").collect()} if tracked else {}

    statements = [
        f"UPDATE {name} SET n = n + 1 WHERE k <= 2",
        f"MERGE INTO {name} t USING (SELECT 3 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = t.n + 5",
        *([f"DELETE FROM {name} WHERE k = 2"] if kind != "evolution" else []),
    ]
    monkeypatch.setattr(SnapshotBuilder, "next_snapshot", late)
    for turn, statement in enumerate(statements):
        waiting = len(statements)  # no compaction beside the write of one more file
        write(table.path, {10 + turn: turn})
        before, waiting = ids(), turn
        spark.sql(statement).collect()
        assert ids() == {key: row_id for key, row_id in before.items() if key != 2 or turn < 2}
    assert len(compacted) == len(statements)
    assert None not in compacted
    rows = {1: 11, 2: 21, 3: 35, **{10 + turn: turn for turn in range(len(statements))}}
    assert contents(table) == (rows if kind == "evolution" else {key: n for key, n in rows.items() if key != 2})
