"""Iceberg metadata of tables on stores: pyiceberg reads what was written there, over the same protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import load_table
from tests.support.iceberg import SCHEMA, row, rows, store_properties
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server

STORAGES = ("table-location", "hadoop-catalog")
WIDE = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}


@pytest.fixture(
    params=["s3", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("azure", "gcs", "hdfs"))],
    scope="module",
)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


def new_table(server: StoreServer, name: str, storage: str, **options: Any) -> ArrowTable:
    given = {"metadata.iceberg.storage": storage, **server.options, **options}
    return paimon_spark.create_table(f"d.{name}", SCHEMA, catalog=server.root, **given)


def iceberg(server: StoreServer, table: ArrowTable, storage: str) -> StaticTable:
    """The table as the hint in its directory, or in that of the catalog, says."""
    name = table.path.rpartition("/")[2]
    root = table.path if storage == "table-location" else f"{server.root}/iceberg/d/{name}"
    latest = FileIO.for_path(root, server.options).read_bytes(f"{root}/metadata/version-hint.text").decode()
    return StaticTable.from_metadata(f"{root}/metadata/v{latest}.metadata.json", store_properties(server))


def assert_same(server: StoreServer, table: ArrowTable, storage: str) -> list[tuple[Any, ...]]:
    ours = rows(table.scan().to_arrow())
    theirs = iceberg(server, table, storage)
    assert rows(theirs.scan().to_arrow()) == ours
    assert theirs.location() == table.path, "locations are spelled as the warehouse is, which is what Java does"
    named = {each.manifest_list for each in theirs.snapshots()}
    named |= {entry.data_file.file_path for entry in entries(theirs)}
    assert all(path.startswith(f"{server.root}/") for path in named)
    return ours


def entries(table: StaticTable) -> list[Any]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [each for m in snapshot.manifests(table.io) for each in m.fetch_manifest_entry(table.io)]


@pytest.mark.parametrize("storage", STORAGES)
def test_rows_without_keys_are_read_after_each_kind_of_commit(server: StoreServer, storage: str) -> None:
    table = new_table(server, f"plain-{storage}", storage, partition_keys="p")
    for number in range(3):
        table.append([row(number, f"v{number}", "ab"[number % 2])])
        assert len(assert_same(server, table, storage)) == number + 1
    table.delete("k = 1")
    assert assert_same(server, table, storage) == [(0, "v0", "a"), (2, "v2", "a")]
    rollback_to_snapshot(load_table(table.path, options=server.options), 2)
    assert len(assert_same(server, table, storage)) == 2
    table.append([row(9, "other", "b")])
    assert len(assert_same(server, table, storage)) == 3
    expire_snapshots(load_table(table.path, options=server.options), retain_latest_only())
    assert [each.snapshot_id for each in iceberg(server, table, storage).snapshots()] == [3]
    assert len(assert_same(server, table, storage)) == 3


@pytest.mark.parametrize("storage", STORAGES)
def test_keys_are_read_after_a_full_compaction(server: StoreServer, storage: str) -> None:
    table = new_table(server, f"keyed-{storage}", storage, primary_keys="k", bucket=1, write_only=True)
    table.append([row(1, "a"), row(2, "b")])
    table.append([row(2, "new"), row(3, "c")])
    assert rows(iceberg(server, table, storage).scan().to_arrow()) != rows(table.scan().to_arrow())
    table.compact()
    assert assert_same(server, table, storage) == [(1, "a", "x"), (2, "new", "x"), (3, "c", "x")]


def test_deletion_vectors_name_their_files_and_positions(server: StoreServer) -> None:
    table = new_table(server, "vectors", "table-location", **WIDE)
    table.append([row(number, "a") for number in range(10)])
    table.delete("k in (3, 4)")
    found = iceberg(server, table, "table-location")
    by_content = {each.data_file.content.value: each.data_file for each in entries(found)}
    vector, data = by_content[1], by_content[0]
    assert (vector.record_count, vector.file_format.value) == (2, "PUFFIN")
    stored = FileIO.for_path(table.path, server.options)
    assert stored.exists(vector.file_path)
    assert stored.exists(data.file_path)


def test_a_table_that_is_named_by_another_scheme_goes_on() -> None:
    with store_server("s3") as server:
        table = new_table(server, "t", "table-location")
        table.append([row(1, "a")])
        other = paimon_spark.open_table(table.path.replace("s3a://", "s3://"), **server.options)
        other.append([row(2, "b")])
        table.append([row(3, "c")])
        found = iceberg(server, table, "table-location")
        assert [each.snapshot_id for each in found.snapshots()] == [1, 2, 3], "the metadata is not made anew"
        assert len(assert_same(server, table, "table-location")) == 3
