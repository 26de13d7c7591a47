"""HDFS on a NameNode and a DataNode of this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.maintain.refs.branches import create_branch, rename_branch
from paimon_spark.maintain.refs.tags import create_tag, replace_tag
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import load_table
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server
from tests.support.store_tables import FIELDS, insert, rows_of

pytestmark = pytest.mark.thorough  # HDFS has a JVM of its own


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    with store_server("hdfs") as running:
        yield running


@pytest.fixture
def file_io(server: StoreServer) -> Iterator[FileIO]:
    file_io = FileIO.for_path(server.root, server.options)
    yield file_io
    file_io.delete_quietly(server.root, recursive=True)
    assert not file_io.exists(server.root)


@pytest.fixture
def catalog(server: StoreServer, file_io: FileIO) -> FilesystemCatalog:
    """A database `d`."""
    catalog = FilesystemCatalog(server.root, server.options)
    catalog.create_database("d")
    return catalog


def test_files(server: StoreServer, file_io: FileIO) -> None:
    path = f"{server.root}/a/one"
    file_io.write_bytes(path, b"0123456789")
    assert file_io.read_bytes(path) == b"0123456789"
    with pytest.raises(FileExistsError):
        file_io.write_bytes(path, b"2")
    file_io.write_bytes(path, b"abcdefghij", overwrite=True)
    with file_io.open_input(path) as file:
        file.seek(3)
        assert file.read(4) == b"defg"
        assert file.size() == 10
    with file_io.open_output(f"{server.root}/a/two") as file:
        file.write(b"x" * 3_000_000)
    assert file_io.size(f"{server.root}/a/two") == 3_000_000
    listed = {entry.name: entry for entry in file_io.list_names(f"{server.root}/a")}
    assert {name: entry.size for name, entry in listed.items()} == {"one": 10, "two": 3_000_000}
    assert all(entry.mtime_millis > 1.7e12 for entry in listed.values())
    assert file_io.list_names(f"{server.root}/nothing") == []
    with pytest.raises(FileNotFoundError):
        file_io.read_bytes(f"{server.root}/nothing")
    assert file_io.delete_quietly(path)
    assert file_io.delete_quietly(path)
    assert not file_io.exists(path)


@pytest.mark.parametrize("name", ["a?b", "a#b", "a;b", "a%3Fb", "a b", "ä*[x]", "a:b//c"])
def test_names_are_taken_as_they_are(server: StoreServer, file_io: FileIO, name: str) -> None:
    name = name.replace("//", "-").replace(":", "=")  # which HDFS has in no name
    for other in ("a", "a?", "a%3F"):
        file_io.write_bytes(f"{server.root}/names/{other}", b"another", overwrite=True)
    assert file_io.create_exclusive(f"{server.root}/names/{name}", b"1")
    assert not file_io.create_exclusive(f"{server.root}/names/{name}", b"2")
    assert file_io.read_bytes(f"{server.root}/names/{name}") == b"1"
    assert {entry.name for entry in file_io.list_names(f"{server.root}/names")} == {"a", "a?", "a%3F", name}
    assert file_io.delete_quietly(f"{server.root}/names/{name}")
    assert {entry.name for entry in file_io.list_names(f"{server.root}/names")} == {"a", "a?", "a%3F"}


def _create(root: str, number: int) -> list[int]:
    file_io = FileIO.for_path(root, {})
    return [at for at in range(10) if file_io.create_exclusive(f"{root}/race/{at}", str(number).encode())]


def test_of_several_processes_one_creates_a_file(server: StoreServer, file_io: FileIO) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.map(partial(_create, server.root), range(4), chunksize=1)
    assert sorted(at for one in won for at in one) == list(range(10))
    for number, one in enumerate(won):
        assert {file_io.read_bytes(f"{server.root}/race/{at}") for at in one} <= {str(number).encode()}
    assert {entry.name for entry in file_io.list_names(f"{server.root}/race")} == set(map(str, range(10)))


def test_the_life_of_a_table(server: StoreServer, catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "2"}))
    for number in range(4):
        insert(table, {number: number, 9: number})
    create_tag(table, "one", snapshot_id=1)
    replace_tag(table, "one", snapshot_id=2)
    create_branch(table, "b", tag="one")
    rename_branch(table, "b", "c")
    assert compact(table, full=True)
    expire_snapshots(table, Retention.of_snapshots(table.options).with_arguments(retain_max=1, retain_min=1))
    assert rows_of(table) == {0: 0, 1: 1, 2: 2, 3: 3, 9: 3}
    assert rows_of(load_table(table.path, options={"scan.tag-name": "one"})) == {0: 0, 1: 1, 9: 1}
    assert rows_of(load_table(table.path, branch="c")) == {0: 0, 1: 1, 9: 1}
    assert remove_orphan_files(table).file_count == 0
    catalog.rename_table("d", "t", "d", "u")
    assert catalog.tables("d") == ["u"]
    assert rows_of(catalog.load_table("d", "u")) == {0: 0, 1: 1, 2: 2, 3: 3, 9: 3}
    catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "2"}))
    with pytest.raises(PaimonError, match="already exists"):
        catalog.rename_table("d", "t", "d", "u")
    catalog.drop_table("d", "u")
    catalog.drop_table("d", "t")
    catalog.drop_database("d")
    assert catalog.databases() == ["default"]


def test_a_write_that_dies_leaves_no_half_of_a_file(
    server: StoreServer, file_io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{server.root}/hint/LATEST"
    file_io.write_bytes(path, b"7")
    store = file_io.filesystem(path)  # type: ignore[attr-defined]

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "client", _Client(store.client, fail))
    with pytest.raises(KeyboardInterrupt):
        file_io.write_bytes(path, b"8", overwrite=True)
    monkeypatch.undo()
    assert file_io.read_bytes(path) == b"7"
    assert [entry.name for entry in file_io.list_names(f"{server.root}/hint")] == ["LATEST"]


class _Client:
    """A client whose renames fail."""

    def __init__(self, client: Any, rename: Any) -> None:
        self._client = client
        self.rename = rename

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_an_answer_that_is_lost_is_asked_for(
    server: StoreServer, file_io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name that only this process uses is gone: so its file is there."""
    path = f"{server.root}/lost/snapshot-1"
    store = file_io.filesystem(path)  # type: ignore[attr-defined]
    real, calls = store.client, 0

    def rename(*given: Any) -> None:
        nonlocal calls
        calls += 1
        real.rename(*given)
        if calls == 1:
            raise OSError("Connection reset")

    monkeypatch.setattr(store, "client", _Client(real, rename))
    assert file_io.create_exclusive(path, b"mine")
    assert calls == 2
    assert not file_io.create_exclusive(path, b"another's")
    monkeypatch.undo()
    assert file_io.read_bytes(path) == b"mine"
    assert [entry.name for entry in file_io.list_names(f"{server.root}/lost")] == ["snapshot-1"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("hdfs://127.0.0.1:1/wh/d.db/t", r"No NameNode answers at 127\.0\.0\.1:1 .*HADOOP_CONF_DIR"),
        ("hdfs:///wh/d.db/t", r"names no NameNode\. Write hdfs://host:port/…, or give 'hadoop\.fs\.defaultFS'"),
        ("hdfs://no.such.host.invalid:8020/t", "No NameNode answers at no.such.host.invalid:8020"),
        ("hdfs://127.0.0.1:x/t", "no number as its port"),
    ],
)
def test_a_store_that_is_not_there(path: str, words: str) -> None:
    with pytest.raises(PaimonError, match=words):
        FileIO.for_path(path, {}).read_bytes(path)


def test_settings_are_hadoops(server: StoreServer) -> None:
    address = server.url.removeprefix("hdfs://")
    options = {
        "hadoop.dfs.nameservices": "shared",
        "hadoop.dfs.ha.namenodes.shared": "one",
        "hadoop.dfs.namenode.rpc-address.shared.one": address,
    }
    FileIO.for_path(server.root, {}).write_bytes(f"{server.root}/file", b"1", overwrite=True)
    path = "hdfs://shared/" + server.root.removeprefix("hdfs://").partition("/")[2] + "/file"
    assert FileIO.for_path(path, options).read_bytes(path) == b"1"
    with pytest.raises(OptionError, match=r"Unknown option 'fs\.anon'.*'hadoop\.dfs\.nameservices'"):
        FileIO.for_path(path, {"fs.anon": "true"}).read_bytes(path)
