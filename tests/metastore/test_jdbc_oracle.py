"""Databases shared with Java's JDBC catalog: each sees what the other made, and both hold the same lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from conftest import absent
from paimon_spark.errors import SchemaError
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from tests.support.java_race import check_race
from tests.support.sql_servers import NAMES, SqlServer, sql_server
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "500"})


@pytest.fixture(scope="module", params=NAMES)
def server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    with ExitStack() as started:
        try:
            found = started.enter_context(sql_server(request.param))
        except (OSError, RuntimeError) as error:
            absent(f"{request.param} ({' '.join(str(error).split())[:300]})")
        yield found


@pytest.fixture(scope="module")
def options(server: SqlServer) -> dict[str, str]:
    locks = {"lock.enabled": "true", "lock-check-max-sleep": "100 ms"}
    return {"metastore": "jdbc", "cache-enabled": "false", **locks, **server.options}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory, server: SqlServer, options: dict[str, str]) -> Iterator[Any]:
    """Java's catalog over a warehouse; it makes the tables of the database."""
    from tests.oracle.paimon_oracle import PaimonOracle

    try:
        opened = PaimonOracle(str(tmp_path_factory.mktemp("warehouse")), jars=server.jars(), options=options)
    except (OSError, RuntimeError) as error:
        absent(f"Java's JDBC catalog ({' '.join(str(error).split())[:200]})")
    with opened:
        yield opened


@pytest.fixture(scope="module")
def ours(java: Any, options: dict[str, str]) -> FilesystemCatalog:
    return open_catalog(java.warehouse, options)


def test_java_reads_and_changes_what_we_make(java: Any, ours: FilesystemCatalog) -> None:
    ours.create_database("d")
    table = ours.create_table("d", "ours", SCHEMA)
    insert(table, {1: 10, 2: 20})
    assert java.rows("d.ours") == [(1, 10), (2, 20)]
    java.write("d.ours", [(2, 21), (3, 30)])
    assert rows_of(ours.load_table("d", "ours")) == {1: 10, 2: 21, 3: 30}
    alter_table(ours.load_table("d", "ours"), [SetOption("snapshot.num-retained.min", "7")])
    assert java.describe("d.ours")["options"]["snapshot.num-retained.min"] == "7"
    ours.rename_table("d", "ours", "d", "renamed")
    assert java.rows("d.renamed") == [(1, 10), (2, 21), (3, 30)]
    ours.drop_table("d", "renamed")
    with pytest.raises(Exception, match="does not exist"):
        java.rows("d.renamed")


def test_we_read_and_change_what_java_makes(java: Any, ours: FilesystemCatalog) -> None:
    java.create("e.theirs", [("k", "INT NOT NULL"), ("v", "INT")], pk=["k"], options={"bucket": "1"})
    java.write("e.theirs", [(1, 10)])
    assert "e" in ours.databases()
    assert ours.tables("e") == ["theirs"]
    insert(ours.load_table("e", "theirs"), {2: 20})
    assert java.rows("e.theirs") == [(1, 10), (2, 20)]
    with pytest.raises(SchemaError):
        ours.create_table("e", "theirs", SCHEMA)
    java.drop("e.theirs")
    assert ours.tables("e") == []


def test_ours_and_javas_commits_race_and_none_is_lost(java: Any, ours: FilesystemCatalog) -> None:
    ours.create_database("r", ignore_if_exists=True)
    ours.create_table("r", "t", SCHEMA)
    check_race(java, ours, "r", "t", turns=8)


def test_java_waits_for_the_lock_that_we_hold(java: Any, ours: FilesystemCatalog, options: dict[str, str]) -> None:
    """Also where our catalog is the directory, with the lock of Java's (`lock.type`)."""
    ours.create_database("r", ignore_if_exists=True)
    ours.create_table("r", "held", SCHEMA)
    directory = open_catalog(java.warehouse, {**options, "metastore": "filesystem", "lock.type": "jdbc"})
    table = directory.load_table("r", "held")
    publisher = table.file_io.publisher
    assert publisher is not None
    written = threading.Event()

    def write() -> None:
        java.write("r.held", [(1, 10)])
        written.set()

    thread = threading.Thread(target=write)
    with publisher.locked(""):
        thread.start()
        assert not written.wait(1.5)
        assert rows_of(table) == {}
    thread.join(60)
    assert written.is_set()
    insert(directory.load_table("r", "held"), {2: 20})
    assert rows_of(ours.load_table("r", "held")) == {1: 10, 2: 20}
