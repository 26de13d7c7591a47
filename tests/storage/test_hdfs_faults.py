"""HDFS fails while a commit is made: it is there once, or it is not and an error says so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from paimon_spark.commit import publish
from paimon_spark.errors import PaimonError
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage import hdfs
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.namenode_proxy import NameNodeFaults, namenode_behind_faults
from tests.support.racing import PATIENT
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server
from tests.support.store_tables import FIELDS, insert, rows_of

pytestmark = pytest.mark.thorough  # HDFS has a JVM of its own


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[StoreServer, StoreServer, NameNodeFaults]]:
    """HDFS, and the same behind a proxy."""
    with store_server("hdfs") as server, namenode_behind_faults(server) as (front, faults):
        yield server, front, faults


@pytest.fixture
def faults(store: tuple[StoreServer, StoreServer, NameNodeFaults]) -> Iterator[NameNodeFaults]:
    yield store[2]
    store[2].set(None)


@pytest.fixture
def table(store: tuple[StoreServer, StoreServer, NameNodeFaults], faults: NameNodeFaults) -> Iterator[FileStoreTable]:
    """A table with one row behind the proxy."""
    server, front, _ = store
    catalog = FilesystemCatalog(front.root, PATIENT)
    catalog.create_database("d")
    table = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "1"}))
    insert(table, {0: 0})
    yield table
    faults.set(None)
    FilesystemCatalog(server.root, {}).drop_database("d", cascade=True)


def truth(store: tuple[StoreServer, StoreServer, NameNodeFaults]) -> FileStoreTable:
    return FilesystemCatalog(store[0].root, {}).load_table("d", "t")


@pytest.mark.parametrize(
    ("call", "fault"),
    [("rename", "reset"), ("rename", "lost"), ("create", "reset"), ("create", "lost"), ("complete", "reset")],
)
def test_a_connection_that_ends_loses_and_doubles_nothing(
    store: tuple[StoreServer, StoreServer, NameNodeFaults],
    faults: NameNodeFaults,
    table: FileStoreTable,
    call: str,
    fault: str,
) -> None:
    for key, name in enumerate(("manifest-", "snapshot-"), 1):
        faults.set(fault, call, name)
        assert insert(table, {key: key}) == key + 1
        assert faults.met == 1
    found = truth(store)
    assert found.snapshots.ids() == [1, 2, 3]
    assert rows_of(found) == {0: 0, 1: 1, 2: 2}
    assert not [entry.name for entry in found.file_io.list_names(f"{found.path}/snapshot") if entry.name[0] == "."]


def test_a_file_that_was_not_finished_is_deleted_though_the_connection_ends_again(
    store: tuple[StoreServer, StoreServer, NameNodeFaults], faults: NameNodeFaults, table: FileStoreTable
) -> None:
    faults.set("reset", "complete", "snapshot-", then=("delete", "snapshot-"))
    assert insert(table, {1: 1}) == 2
    assert faults.met == 1
    found = truth(store)
    assert not [entry.name for entry in found.file_io.list_names(f"{found.path}/snapshot") if entry.name[0] == "."]


@pytest.mark.parametrize("name", ["manifest-", "snapshot-"])
def test_a_rename_without_an_answer_is_asked_again(
    store: tuple[StoreServer, StoreServer, NameNodeFaults],
    faults: NameNodeFaults,
    table: FileStoreTable,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdfs, "ANSWER_SECONDS", 2)
    faults.set("silent", "rename", name)
    assert insert(table, {1: 1}) == 2
    assert faults.met == 1
    assert rows_of(truth(store)) == {0: 0, 1: 1}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("mkdirs", "manifest"),
        ("getFileInfo", "snapshot-1"),
        ("getListing", "snapshot"),
        ("getBlockLocations", "schema-"),
    ],
)
@pytest.mark.parametrize("fault", ["silent", "reset", "lost"])
def test_a_call_that_may_be_sent_twice_is_sent_again(
    store: tuple[StoreServer, StoreServer, NameNodeFaults],
    faults: NameNodeFaults,
    table: FileStoreTable,
    call: str,
    name: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdfs, "ANSWER_SECONDS", 8)
    file_io = table.file_io
    path = f"{table.path}/{'schema/schema-0' if name == 'schema-' else 'snapshot/snapshot-1'}"
    calls = {
        "mkdirs": lambda: file_io.write_bytes(f"{table.path}/manifest/x-{fault}", b"x"),
        "getFileInfo": lambda: file_io.exists(path),
        "getListing": lambda: file_io.list_names(f"{table.path}/snapshot"),
        "getBlockLocations": lambda: file_io.read_bytes(path),
    }
    faults.set(fault, call, name)
    calls[call]()
    assert faults.met == 1


@pytest.mark.parametrize("fault", ["reset", "lost"])
def test_a_data_file_that_is_cut_is_an_error(
    store: tuple[StoreServer, StoreServer, NameNodeFaults], faults: NameNodeFaults, table: FileStoreTable, fault: str
) -> None:
    faults.set(fault, "create", "data-")
    with pytest.raises(PaimonError, match="RPC listener disconnected"):
        insert(table, {1: 1})
    assert insert(table, {1: 1}) == 2
    assert rows_of(truth(store)) == {0: 0, 1: 1}


def test_silence_is_a_clear_error(
    store: tuple[StoreServer, StoreServer, NameNodeFaults],
    faults: NameNodeFaults,
    table: FileStoreTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert hdfs.ANSWER_SECONDS < 60
    monkeypatch.setattr(hdfs, "ANSWER_SECONDS", 3)
    monkeypatch.setattr(publish, "LONGEST_UNCLEAR_SECONDS", 3)
    monkeypatch.setattr(hdfs, "NEXT_ANSWER_SECONDS", 1)
    faults.set("silent", "rename", "snapshot-", forever=True)
    with pytest.raises(PaimonError, match=r"does not answer|has not answered"):
        insert(table, {1: 1})
    assert truth(store).snapshots.ids() == [1]
    faults.set("silent", forever=True)
    with pytest.raises(PaimonError, match="does not answer"):
        load_table(table.path, options=PATIENT)
    faults.set(None)
    assert rows_of(truth(store)) == {0: 0}
    assert insert(load_table(table.path, options=PATIENT), {1: 1}) == 2


def test_a_right_that_is_missing(
    store: tuple[StoreServer, StoreServer, NameNodeFaults], table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    path = table.path.replace("127.0.0.1", "localhost")  # another client, which asks for the user anew
    other = load_table(path, options={})
    assert rows_of(other) == {0: 0}
    with pytest.raises(PaimonError, match=r"may not be read or written.*ermission denied"):
        insert(other, {1: 1})
    assert truth(store).snapshots.ids() == [1]
    assert os.environ["HADOOP_USER_NAME"] == "somebody-else"
