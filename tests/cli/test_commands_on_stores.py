"""The command line on tables of stores: every command, with the store's options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paimon_spark.cli.main import main
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import FileStoreTable
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, insert

Run = Callable[..., list[Any]]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


@pytest.fixture
def table(server: StoreServer) -> Iterator[FileStoreTable]:
    """A table with three snapshots."""
    catalog = FilesystemCatalog(server.root, server.options)
    catalog.create_database("d")
    table = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "1"}))
    for turn in range(3):
        insert(table, {turn: turn, 9: turn})
    yield table
    catalog.drop_database("d", cascade=True)


@pytest.fixture
def run(server: StoreServer, table: FileStoreTable, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the table; give its lines."""
    options = [part for key, value in server.options.items() for part in ("-o", f"{key}={value}")]

    def call(command: str, *arguments: str) -> list[Any]:
        code = main([command, table.path, *arguments, *options, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        assert not any(value in out + err for key, value in server.options.items() if "key" in key and len(value) > 4)
        return [json.loads(line) for line in out.splitlines()]

    return call


def test_every_command(table: FileStoreTable, run: Run) -> None:
    [seen] = run("info")
    assert (seen["snapshot_id"], seen["file_count"]) == (3, 3)
    assert [row["snapshot_id"] for row in run("snapshots")] == [3, 2, 1]
    run("tag", "one", "--snapshot", "1")
    assert [row["tag_name"] for row in run("tags")] == ["one"]
    assert len(run("files", "--version", "one")) == 1
    assert run("read", "--where", "k = 9") == [{"k": 9, "v": 2}]
    assert run("read", "--version", "one", "--columns", "v") == [{"v": 0}, {"v": 0}]
    assert run("explain", "--where", "k > 100")
    run("compact")
    run("expire", "--retain-max", "1", "--retain-min", "1")
    assert table.snapshots.ids() == [4]
    assert run("orphans")[-1]["file_count"] == 0
    run("rollback", "--tag", "one", "--yes")
    assert run("read") == [{"k": 0, "v": 0}, {"k": 9, "v": 0}]
