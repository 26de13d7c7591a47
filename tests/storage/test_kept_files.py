"""What a process keeps of a store is never stale: other processes commit, roll back, and make tables and tags anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag, replace_tag
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.directory_entries import FileStatus, status_of
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.store_requests import KEPT, KeptFiles
from paimon_spark.table import snapshot_store
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, ["k"], [], {"bucket": "1"})


@pytest.fixture(scope="module", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


@pytest.fixture
def ours(server: StoreServer) -> Iterator[FilesystemCatalog]:
    """A database `d` with a table `t` whose row this process has read."""
    catalog = FilesystemCatalog(server.root, server.options)
    catalog.create_database("d")
    table = catalog.create_table("d", "t", SCHEMA)
    insert(table, {1: 1})
    for _ in range(2):
        assert rows_of(catalog.load_table("d", "t")) == {1: 1}
    yield catalog
    catalog.drop_database("d", cascade=True)


@pytest.fixture
def theirs(server: StoreServer) -> FilesystemCatalog:
    """What another process would have: nothing that is kept for `ours` is its."""
    options = {**server.options, "commit.unsafe-rename": "true"}
    assert FileIO.for_path(server.root, options) != FileIO.for_path(server.root, server.options)
    return FilesystemCatalog(server.root, options)


def test_what_another_commits_is_seen(ours: FilesystemCatalog, theirs: FilesystemCatalog) -> None:
    opened = ours.load_table("d", "t")
    for turn in range(2, 5):
        insert(theirs.load_table("d", "t"), {1: turn})
        assert rows_of(opened) == rows_of(ours.load_table("d", "t")) == {1: turn}


def test_another_snapshot_of_the_same_number_is_seen(ours: FilesystemCatalog, theirs: FilesystemCatalog) -> None:
    table = ours.load_table("d", "t")
    insert(table, {1: 2})
    assert rows_of(table) == {1: 2}
    rollback_to_snapshot(theirs.load_table("d", "t"), 1)
    assert rows_of(table) == {1: 1}
    insert(theirs.load_table("d", "t"), {1: 3})
    assert rows_of(table) == {1: 3}
    assert insert(table, {2: 2}) == 3
    assert rows_of(theirs.load_table("d", "t")) == {1: 3, 2: 2}


def test_a_table_made_anew_is_another(ours: FilesystemCatalog, theirs: FilesystemCatalog) -> None:
    before = ours.load_table("d", "t").schema
    theirs.drop_table("d", "t")
    fields = [FIELDS[0], DataField(1, "w", IntType())]
    theirs.create_table("d", "t", create_schema(fields, ["k"], [], {"bucket": "1"}))
    found = ours.load_table("d", "t")
    assert [field.name for field in found.schema.fields] == ["k", "w"]
    assert found.schema != before
    assert found.snapshots.latest() is None
    theirs.drop_table("d", "t")
    assert not ours.table_exists("d", "t")


def test_a_tag_that_another_moves_is_seen(ours: FilesystemCatalog, theirs: FilesystemCatalog) -> None:
    table = ours.load_table("d", "t")
    create_tag(table, "one")
    insert(table, {1: 2})
    assert [tag.snapshot.id for tag in table.tags.list().values()] == [1]
    replace_tag(theirs.load_table("d", "t"), "one")
    assert [tag.snapshot.id for tag in table.tags.list().values()] == [2]


def test_long_directories_are_not_listed_for_the_latest_snapshot(
    ours: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "_MOST_LISTED", 2)
    monkeypatch.setattr(snapshot_store, "_LONG", set[str]())
    table = ours.load_table("d", "t")
    insert(table, {1: 2})
    assert rows_of(table) == {1: 2}  # its two snapshots and the hint make the directory long
    monkeypatch.setattr(type(table.file_io), "list_names", None)
    assert table.snapshots.latest() is not None


PATH = "b/t/schema/schema-0"


def entry(data: bytes, version: str) -> FileStatus:
    return FileStatus("schema-0", len(data), False, 0, version)


def test_only_the_version_that_was_listed_is_given() -> None:
    kept = KeptFiles()
    kept.put("store", "s3", PATH, b"1234", entry(b"1234", "etag 5"))
    assert kept.get("store", PATH) is None
    assert kept.get("store", PATH, entry(b"1234", "etag 5")) == b"1234"
    for other in (entry(b"1234", "etag 6"), entry(b"1234", ""), entry(b"12345", "etag 5"), entry(b"1234", "other 5")):
        assert kept.get("store", PATH, other) is None
    kept.put("store", "s3", PATH, b"5678", entry(b"12345", "etag 7"))  # it was replaced between listing and reading
    assert kept.get("store", PATH, entry(b"5678", "etag 7")) is None
    kept.put("store", "s3", PATH, b"5678", entry(b"5678", ""))  # a store that says nothing of versions
    assert kept.get("store", PATH, entry(b"5678", "")) is None
    kept.put("store", "s3", "b/t/bucket-0/data", b"1", entry(b"1", "etag 1"))
    assert kept.get("store", "b/t/bucket-0/data", entry(b"1", "etag 1")) is None


def test_what_a_process_wrote_is_known_by_its_md5() -> None:
    kept = KeptFiles()
    kept.put("store", "s3", PATH, b"1234")
    listed: dict[str, Any] = {"name": "schema-0", "type": "file", "size": 4, "LastModified": 7}
    own = "81dc9bdb52d04dc20036dbd8313ed055"
    assert kept.get("store", PATH, status_of({**listed, "ETag": f'"{own}"'})) == b"1234"
    assert kept.get("store", PATH, status_of({**listed, "ETag": f'"{own}-2"'})) is None
    assert kept.get("store", PATH, status_of({**listed, "etag": "x", "md5Hash": "gdyb21LQTcIANtvYMT7QVQ=="})) == b"1234"
    assert kept.get("store", PATH, status_of({**listed, "etag": "x"})) is None
    assert kept.get("store", PATH) is None
    assert isinstance(KEPT, KeptFiles)
