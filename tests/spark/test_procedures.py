"""CALL sys.… on both fronts, and the methods of the same deeds: compacted databases and manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonError, PaimonTable
from paimon_spark.spark.sql.procedures.registry import REFUSED, procedure_names
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark
Run = Callable[[str], DataFrame]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("procedures")


@pytest.fixture(scope="module")
def session(spark: SparkSession, warehouse: Path) -> SparkSession:
    """A session that knows the same warehouse under the same name by both fronts."""
    found = spark.newSession()
    paimon_spark.register_catalog(found, "pr", warehouse=str(warehouse))
    found.sql("CREATE DATABASE pr.db")
    paimon_spark.sql(found, "SELECT 1", warehouse=str(warehouse), catalog="pr", database="db")
    return found


@pytest.fixture(params=["catalog", "text"])
def run(session: SparkSession, request: pytest.FixtureRequest) -> Run:
    """Runs a statement by one of the two fronts."""
    return session.sql if request.param == "catalog" else lambda text: paimon_spark.sql(session, text)


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
NOT_YET = """
materialize_deletion_vectors migrate_database migrate_table copy reassign_row_id
"""


def test_every_official_procedure_is_there_or_refused_by_name() -> None:
    assert set(OFFICIAL.split()) - set(procedure_names()) - set(REFUSED) == set(NOT_YET.split())
    assert not set(procedure_names()) & set(REFUSED)


@pytest.mark.parametrize("name", ["create_function", "CREATE_GLOBAL_INDEX", "compact_chain_table", "not_there"])
def test_what_is_not_there_is_told(run: Run, name: str) -> None:
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
    told = [(str(gone),)]
    assert [
        (str(row[0]).removeprefix("file:"),)
        for row in rows(run("CALL pr.sys.remove_unexisting_files(table => 'db.r', dry_run => true)"))
    ] == told
    assert len(rows(run("CALL pr.sys.remove_unexisting_files(table => 'db.r', parallelism => 2)"))) == 1
    assert rows(run("CALL pr.sys.remove_unexisting_files('db.r')")) == []
    assert rows(session.table("pr.db.r")) == [(1, "b/c")]
    (path / "snapshot" / "snapshot-2").unlink()
    assert rows(run("CALL pr.sys.repair_earliest_snapshot('db.r', 3)")) == [(1, 3)]
    with pytest.raises((PySparkException, PaimonError), match="has no metastore"):
        run("CALL pr.sys.repair('db.r')").collect()
