"""CALL sys.… on both fronts, and the methods of the same deeds: compacted databases and manifests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonError, PaimonTable
from paimon_spark.maintain import column_update
from paimon_spark.maintain.compact.compaction import materialize_deletion_vectors, rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.spark.sql.procedures.registry import REFUSED, procedure_names
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.warehouses import FRONTS, Run, run_by, session_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession, warehouse: Path) -> SparkSession:
    """A session that knows the same warehouse under the same name by both fronts."""
    return session_of(spark, "pr", warehouse)


@pytest.fixture(params=FRONTS)
def run(session: SparkSession, request: pytest.FixtureRequest) -> Run:
    """Runs a statement by one of the two fronts."""
    return run_by(session, request.param)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


def levels(path: Path) -> list[int]:
    table = load_table(str(path))
    return [entry.file.level for entry in table.manifests.live_entries(table.snapshots.latest())]


def test_databases_are_compacted(session: SparkSession, run: Run, warehouse: Path) -> None:
    for database in ("one", "two"):
        session.sql(f"DROP DATABASE IF EXISTS pr.{database} CASCADE")
        session.sql(f"CREATE DATABASE pr.{database}")
        for table in ("kept", "small"):
            session.sql(
                f"CREATE TABLE pr.{database}.{table} (k INT) "
                "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'write-only' = 'true')"
            )
            for _ in range(2):
                session.sql(f"INSERT INTO pr.{database}.{table} VALUES (1)")
    (warehouse / "two.db" / "small" / "manifest").rename(warehouse / "gone")
    called = run(
        "CALL pr.sys.compact_database(including_databases => 'one|two', including_tables => '.*[.](kept|small)', "
        "excluding_tables => 'one.kept', options => 'num-levels=4')"
    )
    assert rows(called) == [("Compact database finished. Success: 2, Failed: 1",)]
    (warehouse / "gone").rename(warehouse / "two.db" / "small" / "manifest")
    found = {
        f"{db}.{name}": levels(warehouse / f"{db}.db" / name) for db in ("one", "two") for name in ("kept", "small")
    }
    assert found == {"one.kept": [0, 0], "one.small": [3], "two.kept": [3], "two.small": [0, 0]}
    with pytest.raises((PySparkException, PaimonError), match="is no regular expression"):
        run("CALL pr.sys.compact_database(including_databases => '(')").collect()


def test_manifests_are_compacted(session: SparkSession, run: Run, warehouse: Path) -> None:
    session.sql("CREATE OR REPLACE TABLE pr.db.m (k INT, p INT) PARTITIONED BY (p)")
    for value in range(3):
        session.sql(f"INSERT INTO pr.db.m VALUES ({value}, {value})")
    table = load_table(str(warehouse / "db.db" / "m"))
    before = table.snapshots.latest_id()
    assert rows(run("CALL pr.sys.compact_manifest(table => 'db.m', dry_run => true)")) == [(True,)]
    assert table.snapshots.latest_id() == before
    assert rows(run("CALL pr.sys.compact_manifest('db.m', options => 'manifest.target-file-size=1 mb')")) == [(True,)]
    latest = table.snapshots.latest()
    assert latest is not None
    assert len(table.manifests.data_manifests(latest)) == 1
    assert PaimonTable.for_path(session, table.path).compact_manifest() is None
    assert sorted(rows(session.table("pr.db.m"))) == [(0, 0), (1, 1), (2, 2)]


OFFICIAL = """
rollback rollback_to_timestamp rollback_to_watermark purge_files create_tag replace_tag rename_tag
create_tag_from_timestamp delete_tag expire_tags create_branch create_global_index drop_global_index delete_branch
rename_branch compact materialize_deletion_vectors compact_database compact_chain_table rescale migrate_database
migrate_table remove_orphan_files remove_unexisting_files expire_snapshots expire_partitions repair
repair_earliest_snapshot fast_forward merge_branch reset_consumer mark_partition_done compact_manifest clear_consumers
alter_view_dialect create_function alter_function drop_function trigger_tag_automatic_creation rewrite_file_index copy
reassign_row_id
"""
"""The names in Java's ``SparkProcedures``."""


def test_every_official_procedure_is_there_or_refused_by_name() -> None:
    assert set(OFFICIAL.split()) <= set(procedure_names()) | set(REFUSED)
    assert not set(procedure_names()) & set(REFUSED)


@pytest.mark.parametrize("name", ["create_function", "CREATE_GLOBAL_INDEX", "compact_chain_table", "not_there"])
def test_what_is_not_there_is_reported(run: Run, name: str) -> None:
    words = "There is no procedure sys.not_there.*compact_manifest" if name == "not_there" else "is not supported: "
    with pytest.raises((PySparkException, PaimonError), match=words):
        run(f"CALL pr.sys.{name}()").collect()


def test_partitions_are_marked_and_files_taken_out(session: SparkSession, run: Run, warehouse: Path) -> None:
    session.sql("DROP TABLE IF EXISTS pr.db.r")
    session.sql("CREATE TABLE pr.db.r (k INT, p STRING) PARTITIONED BY (p)")
    for partition in ("a", "b/c"):
        session.sql(f"INSERT INTO pr.db.r VALUES (1, '{partition}')")
    path = warehouse / "db.db" / "r"
    assert rows(run("CALL pr.sys.mark_partition_done('db.r', 'p=a;p=b/c')")) == [(True,)]
    assert (path / "p=a" / "_SUCCESS").exists()
    assert (path / "p=b%2Fc" / "_SUCCESS").exists()
    (gone,) = (path / "p=a" / "bucket-0").glob("*.parquet")
    gone.unlink()
    reported = [(str(gone),)]
    assert [
        (str(row[0]).removeprefix("file:"),)
        for row in rows(run("CALL pr.sys.remove_unexisting_files(table => 'db.r', dry_run => true)"))
    ] == reported
    assert len(rows(run("CALL pr.sys.remove_unexisting_files(table => 'db.r', parallelism => 2)"))) == 1
    assert rows(run("CALL pr.sys.remove_unexisting_files('db.r')")) == []
    assert rows(session.table("pr.db.r")) == [(1, "b/c")]
    (path / "snapshot" / "snapshot-2").unlink()
    assert rows(run("CALL pr.sys.repair_earliest_snapshot('db.r', 3)")) == [(1, 3)]
    with pytest.raises((PySparkException, PaimonError), match="has no metastore"):
        run("CALL pr.sys.repair('db.r')").collect()


def test_tables_are_copied_and_row_ids_reassigned(session: SparkSession, run: Run, warehouse: Path) -> None:
    for name in ("evolves", "source"):
        session.sql(f"DROP TABLE IF EXISTS pr.db.{name}")
    session.sql("DROP DATABASE IF EXISTS pr.other CASCADE")
    session.sql(
        "CREATE TABLE pr.db.evolves (k INT, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    for k in range(3):
        session.sql(f"INSERT INTO pr.db.evolves VALUES ({k}, {k % 2})")
    (reported,) = rows(run("CALL pr.sys.reassign_row_id('db.evolves', partitions => 'p=0')"))
    assert str(reported[0]).startswith("Success. Reassigned row IDs for table 'db.evolves': snapshot 3 -> 4")
    found = rows(session.sql("SELECT k, _ROW_ID FROM pr.db.evolves ORDER BY k"))
    assert found == [(0, 3), (1, 1), (2, 4)]
    session.sql("CREATE TABLE pr.db.source (k INT, p INT) PARTITIONED BY (p)")
    session.sql("INSERT INTO pr.db.source SELECT id, id % 2 FROM range(4)")
    assert rows(run("CALL pr.sys.copy(source_table => 'db.source', target_table => 'other.t')")) == [(True,)]
    assert sorted(rows(session.table("pr.other.t"))) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    session.sql("DELETE FROM pr.other.t WHERE p = 0")
    run("CALL pr.sys.copy('db.source', 'other.t', 'p = 0')").collect()
    assert sorted(rows(session.table("pr.other.t"))) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    path = PaimonTable.for_path(session, str(warehouse / "db.db" / "source")).copy(str(warehouse / "other.db" / "u"))
    assert PaimonTable.for_path(session, path).to_df().count() == 4


def test_words_of_other_formats(session: SparkSession, warehouse: Path) -> None:
    session.sql(
        "CREATE TABLE pr.db.words (k INT, p INT) PARTITIONED BY (p) COMMENT 'said' "
        "TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '1', 'write-only' = 'true')"
    )
    table = PaimonTable.for_path(session, str(warehouse / "db.db" / "words"))
    assert tuple(table.detail().first() or ())[8:12] == (0, 0, 0, None)
    for _ in range(2):
        session.sql("INSERT INTO pr.db.words SELECT id, id % 2 FROM range(10)")
    assert table.optimize(where="p = 0") == 3
    (row,) = table.detail().collect()
    assert (row.format, row.name, row.description, row.location) == ("paimon", "words", "said", table.path)
    assert (row.partitionColumns, row.primaryKeys, row.snapshotId, row.schemaId) == (["p"], ["k", "p"], 3, 0)
    assert (row.numFiles, row.numRecords) == (3, 15)
    assert row.sizeInBytes > 0
    assert row.properties["bucket"] == "1"
    assert row.createdAt <= row.lastModified
    assert table.vacuum(0, dry_run=True).expired_snapshots == 0
    done = table.vacuum(0)
    assert (done.expired_snapshots, done.orphan_files.file_count) == (2, 0)
    assert table.vacuum().expired_snapshots == 0
    assert table.to_df().count() == 10


def test_deletion_vectors_are_materialized(session: SparkSession, run: Run, warehouse: Path) -> None:
    session.sql("DROP TABLE IF EXISTS pr.db.marked")
    session.sql(
        "CREATE TABLE pr.db.marked (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ("
        "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true')"
    )
    for first in (0, 10):
        session.sql(f"INSERT INTO pr.db.marked SELECT id + {first}, 'a', id % 2 FROM range(10)")
    session.sql("UPDATE pr.db.marked SET v = 'b' WHERE k < 4")
    session.sql("DELETE FROM pr.db.marked WHERE k IN (0, 1, 12) OR (k >= 10 AND p = 1)")
    before = sorted(rows(session.sql("SELECT k, v, p FROM pr.db.marked")))
    table = load_table(str(warehouse / "db.db" / "marked"))
    assert rows(run("CALL pr.sys.materialize_deletion_vectors('db.marked', where => 'p = 0')")) == [(True,)]
    assert sorted(rows(session.sql("SELECT k, v, p FROM pr.db.marked"))) == before
    latest = table.snapshots.latest()
    assert latest is not None
    marked = {entry.partition for entry in table.manifests.index_entries(latest)}
    assert {table.paths.partition_path(partition) for partition in marked} == {"p=1"}
    PaimonTable.for_path(session, table.path).materialize_deletion_vectors()
    latest = table.snapshots.latest()
    assert latest is not None
    assert not table.manifests.index_entries(latest)
    assert sorted(rows(session.sql("SELECT k, v, p FROM pr.db.marked"))) == before
    assert sum(entry.file.row_count for entry in table.manifests.live_entries(latest)) == len(before)
    ids = [row[0] for row in rows(session.sql("SELECT _ROW_ID FROM pr.db.marked"))]
    assert len(set(ids)) == len(before)
    assert min(ids) >= 20  # type: ignore[type-var, operator]
    assert latest.next_row_id is not None
    assert max(ids) < latest.next_row_id  # type: ignore[type-var, operator]
    assert PaimonTable.for_path(session, table.path).materialize_deletion_vectors() is None
    session.sql("UPDATE pr.db.marked SET v = 'c' WHERE k = 2")
    assert (2, "c", 0) in rows(session.sql("SELECT k, v, p FROM pr.db.marked"))
    session.sql("CREATE OR REPLACE TABLE pr.db.plain (k INT)")
    with pytest.raises((PySparkException, PaimonError), match="only supports unaware-bucket data evolution tables"):
        run("CALL pr.sys.materialize_deletion_vectors('db.plain')").collect()


def test_snapshots_expire_when_deletion_vectors_are_materialized(session: SparkSession, warehouse: Path) -> None:
    """Official: "materialize deletion vectors enables snapshot expiration"; the writes before it leave them all."""
    session.sql(
        "CREATE OR REPLACE TABLE pr.db.expiring (k INT) TBLPROPERTIES ('write-only' = 'true', "
        "'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1', 'snapshot.time-retained' = '0 ms', "
        "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true')"
    )
    session.sql("INSERT INTO pr.db.expiring VALUES (1), (2)")
    session.sql("DELETE FROM pr.db.expiring WHERE k = 1")
    snapshots = load_table(str(warehouse / "db.db" / "expiring")).snapshots
    assert snapshots.ids() == [1, 2]
    session.sql("CALL pr.sys.materialize_deletion_vectors('db.expiring')").collect()
    assert snapshots.ids() == [3]
    assert rows(session.table("pr.db.expiring")) == [(2,)]


def test_a_directory_has_no_views(run: Run) -> None:
    assert run("SHOW VIEWS IN pr.db").collect() == []


@pytest.mark.parametrize("statement", ["CREATE VIEW pr.db.v AS SELECT 1 AS x", "DROP VIEW pr.db.v"])
def test_views_that_stay_are_refused_by_name(run: Run, statement: str) -> None:
    with pytest.raises((PySparkException, PaimonError), match=r"(?i)\bviews?\b"):
        run(statement).collect()


def test_row_ids_that_change_meanwhile_lose_no_update(
    session: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("DROP TABLE IF EXISTS pr.db.raced")
    session.sql(
        "CREATE TABLE pr.db.raced (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ("
        "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true', "
        "'write-only' = 'true')"
    )
    session.sql("INSERT INTO pr.db.raced SELECT id, 'a', id % 2 FROM range(0, 4, 1, 1)")
    session.sql("DELETE FROM pr.db.raced WHERE k = 3")
    table = load_table(str(warehouse / "db.db" / "raced"))
    pending = ["UPDATE pr.db.raced SET v = 'meanwhile' WHERE k = 1", "DELETE FROM pr.db.raced WHERE k = 0"]

    def late(one: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        if pending:
            session.sql(pending.pop())
        return rewrite_here(one, rewrites)

    session.sql("DELETE FROM pr.db.raced WHERE k = 2")
    session.sql("INSERT INTO pr.db.raced VALUES (4, 'a', 0), (5, 'a', 1)")
    assert materialize_deletion_vectors(table, execute=late) is not None
    assert not pending
    found = {row.k: row.v for row in session.table("pr.db.raced").collect()}
    assert found == {1: "meanwhile", 4: "a", 5: "a"}
    changes = [True]
    put = column_update.commit

    def reassigned_first(*arguments: Any, **named: Any) -> Any:
        if changes:
            changes.pop()
            session.sql("INSERT INTO pr.db.raced VALUES (6, 'a', 0)")
            session.sql("INSERT INTO pr.db.raced VALUES (7, 'a', 1)")
            assert reassign_row_ids(table).new_snapshot_id is not None
        return put(*arguments, **named)

    monkeypatch.setattr(column_update, "commit", reassigned_first)
    session.sql("UPDATE pr.db.raced SET v = 'b' WHERE k IN (1, 5)")
    assert not changes
    found = {row.k: row.v for row in session.table("pr.db.raced").collect()}
    assert found == {1: "b", 4: "a", 5: "b", 6: "a", 7: "a"}
