"""Google Cloud Storage, Azure and OSS, each on a server of its protocol: tables live there as on a local disk."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.errors import CorruptTableError, PaimonError, TableNotFoundError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.refs.branches import create_branch, rename_branch
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage import tree_changes
from paimon_spark.storage.azure import AzureFiles
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import check_sizes
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.support.faulty_server import faulty
from tests.support.store_server import BUCKET, StoreServer
from tests.support.store_servers import store_server
from tests.support.store_tables import FIELDS, insert, rows_of


@pytest.fixture(scope="module", params=["gcs", "azure", "oss"])
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


@pytest.fixture
def file_io(server: StoreServer) -> Iterator[FileIO]:
    """The store; after the test nothing is left in it."""
    file_io = FileIO.for_path(server.root, server.options)
    yield file_io
    file_io.delete_quietly(server.root, recursive=True)
    assert objects(file_io, server) == {}


@pytest.fixture
def catalog(server: StoreServer, file_io: FileIO) -> FilesystemCatalog:
    """A database `d`."""
    catalog = FilesystemCatalog(server.root, server.options)
    catalog.create_database("d")
    return catalog


def objects(file_io: FileIO, server: StoreServer) -> dict[str, dict[str, Any]]:
    """What there is, the objects that stand for directories among it; names that only lead to others are not."""
    store = file_io.filesystem(server.root)  # type: ignore[attr-defined]
    found = store.find(BUCKET, detail=True, withdirs=True)
    there = {name: entry for name, entry in found.items() if {"etag", "ETag", "metadata"} & entry.keys()}
    return {name.removeprefix(f"{BUCKET}/"): entry for name, entry in there.items()}


def names(file_io: FileIO, path: str) -> list[str]:
    return sorted(status.name for status in file_io.list_names(path))


def test_few_requests(server: StoreServer, file_io: FileIO) -> None:
    asked: list[str] = []

    def rule(method: str, path: str) -> None:
        asked.append(f"{method} {path}")

    with faulty(server) as (front, faults):
        store = FileIO.for_path(front.root, front.options)
        store.write_bytes(f"{server.root}/first", b"1", overwrite=True)
        faults.rule = rule
        assert store.create_exclusive(f"{server.root}/snapshot-1", b"1")
        assert not store.create_exclusive(f"{server.root}/snapshot-1", b"2")
        puts = [request for request in asked if request.startswith(("PUT", "POST"))]
        assert len(puts) == 2
        keys = [
            f"{server.root}/data-[é] %{number}" if number == 5 else f"{server.root}/d é %{number}"
            for number in range(9)
        ]
        for key in keys[:-1]:
            file_io.write_bytes(key, b"1", overwrite=True)
        asked.clear()
        assert store.delete_files(keys[:5]) == store.delete_files(keys[5:]) == []
        assert names(file_io, server.root) == ["first", "snapshot-1"]
        if server.root.startswith("abfs"):
            assert [request.partition(" ")[0] for request in asked] == ["POST", *["DELETE"] * 4]
            asked.clear()
            assert store.delete_files([*keys[:5], *keys[6:]]) == []
            assert len(asked) == 1
        for name in ("b-1/x", "b-10/y", "b-1/a/z", "b-1b"):
            file_io.write_bytes(f"{server.root}/{name}", b"1")
        asked.clear()
        assert names(store, f"{server.root}/b-1") == ["a", "x"]
        assert len(asked) == 1


@pytest.mark.parametrize("statuses", [[202, 403, 404], [503]], ids=["a denial", "no answer of each"])
def test_azure_says_which_blobs_may_still_be_there(statuses: list[int]) -> None:
    class Answers:
        async def __aenter__(self) -> Answers:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def delete_blobs(self, *names: str, raise_on_any_failure: bool) -> Any:
            assert names == ("x", "y", "z")
            assert not raise_on_any_failure
            return self._each(statuses)

        async def _each(self, found: list[int]) -> AsyncIterator[Any]:
            for status in found:
                yield SimpleNamespace(status_code=status)

    files = AzureFiles()
    files.service_client = SimpleNamespace(get_container_client=lambda _: Answers())
    files.split_path = lambda key: (*key.split("/"), None)
    keys = ["c/x", "c/y", "c/z"]
    assert asyncio.run(files._delete_blobs(keys)) == [0, 1, 2]
    statuses[:] = [202, 202, 404]
    assert asyncio.run(files._delete_blobs(keys)) == []


def test_an_empty_database_is_there(server: StoreServer, catalog: FilesystemCatalog) -> None:
    assert catalog.databases() == ["d", "default"]
    assert catalog.is_empty("d")
    with pytest.raises(PaimonError, match="already exists"):
        catalog.create_database("d")
    catalog.drop_database("d")
    assert catalog.databases() == ["default"]
    assert not catalog.file_io.exists(catalog.database_path("d"))


def test_the_object_of_a_directory_is_that_of_hadoop(server: StoreServer, catalog: FilesystemCatalog) -> None:
    found = objects(catalog.file_io, server)
    if server.root.startswith(("gs", "oss")):
        assert list(found) == ["wh/d.db/"]
    else:
        assert [entry["metadata"]["hdi_isfolder"] for entry in found.values()] == ["true"]
        assert list(found) == ["wh/d.db"]


def test_a_table_lives(catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "2"}))
    for turn in range(3):
        insert(catalog.load_table("d", "t"), dict.fromkeys(range(turn, 10), turn))
    assert rows_of(table) == {0: 0, 1: 1, **dict.fromkeys(range(2, 10), 2)}
    create_tag(table, "one")
    assert compact(table, full=True) == 4
    insert(table, {9: 9})
    assert expire_snapshots(table, Retention(1, 1, timedelta(0), 10))
    assert table.snapshots.ids() == [5]
    assert rows_of(table) == {0: 0, 1: 1, **dict.fromkeys(range(2, 9), 2), 9: 9}
    assert rows_of(table.with_options({"scan.tag-name": "one"})) == {0: 0, 1: 1, **dict.fromkeys(range(2, 10), 2)}
    create_branch(table, "b", tag="one")
    rename_branch(table, "b", "c")
    assert table.branches.names() == ["c"]
    catalog.rename_table("d", "t", "d", "u")
    assert catalog.tables("d") == ["u"]
    assert rows_of(catalog.load_table("d", "u"))[9] == 9
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("d", "t", "d", "v")
    catalog.drop_table("d", "u")
    assert catalog.tables("d") == []
    assert catalog.databases() == ["d", "default"] or not catalog.database_exists("d")
    assert catalog.create_table("d", "t", create_schema(FIELDS)).snapshots.ids() == []


@pytest.mark.parametrize("name", ["p#", "p?", "p#x?y", "p?x#y", "p%#"])
def test_signs_of_addresses_are_parts_of_names(server: StoreServer, file_io: FileIO, name: str) -> None:
    """A directory of such a name is another one than that without the sign, to a delete above all."""
    file_io.write_bytes(f"{server.root}/p/kept", b"1")
    file_io.write_bytes(f"{server.root}/{name}/a/b", b"2")
    assert names(file_io, server.root) == sorted(["p", name])
    assert names(file_io, f"{server.root}/{name}") == ["a"]
    assert file_io.delete_quietly(f"{server.root}/{name}", recursive=True)
    assert not file_io.exists(f"{server.root}/{name}")
    assert file_io.read_bytes(f"{server.root}/p/kept") == b"1"


def test_objects_of_directories_go_with_a_move(server: StoreServer, file_io: FileIO) -> None:
    for name in ("schema/schema-0", "snapshot/snapshot-1", "bucket-0/data-[1]* é.parquet"):
        file_io.write_bytes(f"{server.root}/old/{name}", name.encode())
    for name in ("old", "old/bucket-0", "old/empty"):
        file_io.mkdirs(f"{server.root}/{name}")
    file_io.write_bytes(f"{server.root}/older/file", b"stays")
    file_io.rename(f"{server.root}/old", f"{server.root}/new")
    assert names(file_io, server.root) == ["new", "older"]
    assert names(file_io, f"{server.root}/new/bucket-0") == ["data-[1]* é.parquet"]
    with pytest.raises(PaimonError, match="holds files already, 'file' among them"):
        file_io.rename(f"{server.root}/new", f"{server.root}/older")
    assert len(objects(file_io, server)) >= 4


def test_a_commit_during_a_move_stops_it(server: StoreServer, file_io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        file_io.write_bytes(f"{server.root}/old/{name}", name.encode())
    copy = tree_changes.Move._copy

    def meanwhile(*given: Any) -> None:
        copy(*given)
        file_io.write_bytes(f"{server.root}/old/snapshot/snapshot-2", b"2", overwrite=True)

    monkeypatch.setattr(tree_changes.Move, "_copy", meanwhile)
    with pytest.raises(PaimonError, match="was changed by another job while it was copied"):
        file_io.rename(f"{server.root}/old", f"{server.root}/new")
    assert names(file_io, server.root) == ["old"]
    assert names(file_io, f"{server.root}/old/snapshot") == ["snapshot-1", "snapshot-2"]


def test_large_and_small_objects(server: StoreServer, file_io: FileIO) -> None:
    data = bytes(range(251)) * (1 << 15)
    with file_io.open_output(f"{server.root}/large") as file:
        for start in range(0, len(data), 1 << 20):
            file.write(data[start : start + (1 << 20)])
    with file_io.open_input(f"{server.root}/large", len(data)) as file:
        file.seek(len(data) - 10)
        assert file.read(20) == data[-10:]
        assert file.read_at(300, 1000) == data[1000:1300]
    assert file_io.size(f"{server.root}/large") == len(data)
    paths = [f"{server.root}/b/data-{n}.parquet" for n in range(5)]
    for path in paths:
        file_io.write_bytes(path, b"123")
    check_sizes(file_io, dict.fromkeys(paths, 3))
    with pytest.raises(CorruptTableError, match="has 3 bytes, but its manifest entry says 4"):
        check_sizes(file_io, dict.fromkeys(paths, 4))
    with pytest.raises(FileNotFoundError, match="There is no file"):
        file_io.read_bytes(f"{server.root}/none")
    assert file_io.delete_files([*paths, f"{server.root}/none"]) == []
    assert names(file_io, server.root) == ["large"]


def test_threads_share_the_connections_of_a_store(server: StoreServer, file_io: FileIO) -> None:
    """Many small files are read and written by threads, which come and go."""
    file_io.write_bytes(f"{server.root}/a", b"1")
    own = file_io.filesystem(server.root)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(file_io.read_bytes, [f"{server.root}/a"] * 20)) == [b"1"] * 20
        others = set(pool.map(lambda _: id(file_io.filesystem(server.root)), range(20)))  # type: ignore[attr-defined]
    assert others == {id(own)}


def test_a_bucket_that_is_missing_is_named(server: StoreServer) -> None:
    root = server.root.replace(BUCKET, "nosuchbucket", 1)
    catalog = FilesystemCatalog(root, server.options)
    for call in (catalog.databases, lambda: catalog.tables("default"), lambda: catalog.load_table("default", "t")):
        with pytest.raises(PaimonError, match=r"The bucket of .*nosuchbucket.* does not exist"):
            call()


def created(root: str, options: dict[str, str], worker: int) -> list[bool]:
    file_io = FileIO.for_path(root, options)
    return [file_io.create_exclusive(f"{root}/race/snapshot-{n}", str(worker).encode()) for n in range(10)]


def test_of_several_processes_one_creates_an_object(server: StoreServer, file_io: FileIO) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.map(partial(created, server.root, server.options), range(4))
    for n, results in enumerate(zip(*won, strict=True)):
        assert sum(results) == 1
        assert file_io.read_bytes(f"{server.root}/race/snapshot-{n}") == str(results.index(True)).encode()
