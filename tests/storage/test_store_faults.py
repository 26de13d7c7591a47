"""S3, GCS and Azure fail while a commit is made: it is there once, or it is not and an error says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import FileStoreTable
from tests.support.faulty_server import Fault, Faults, faulty
from tests.support.racing import PATIENT
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, insert, rows_of


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[tuple[StoreServer, StoreServer, Faults]]:
    """The server, and the one in front of it."""
    with store_server(request.param) as server, faulty(server) as (front, faults):
        yield server, front, faults


@pytest.fixture
def faults(store: tuple[StoreServer, StoreServer, Faults]) -> Iterator[Faults]:
    yield store[2]
    store[2].rule = None


@pytest.fixture
def table(store: tuple[StoreServer, StoreServer, Faults], faults: Faults) -> Iterator[FileStoreTable]:
    """A table with one row behind the faulty server."""
    _, front, _ = store
    catalog = FilesystemCatalog(front.root, {**front.options, **PATIENT})
    catalog.create_database("d")
    catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "1"}))
    table = catalog.load_table("d", "t")
    insert(table, {0: 0})
    yield table
    faults.rule = None
    catalog.drop_database("d", cascade=True)


def truth(store: tuple[StoreServer, StoreServer, Faults]) -> FileStoreTable:
    """The table as it is behind the faults."""
    return FilesystemCatalog(store[0].root, store[0].options).load_table("d", "t")


@pytest.mark.parametrize(
    ("store", "fault"),
    [
        *((name, fault) for name in ("gcs", "oss", "s3") for fault in (500, 503, 429, "reset", "lost")),
        *(("azure", fault) for fault in (503, "lost")),  # Azure's package waits 15 seconds after an answer
    ],
    indirect=["store"],
)
def test_a_snapshot_is_published_once(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable, fault: Fault
) -> None:
    faults.once(fault, "PUT|POST", "snapshot-2")
    assert insert(table, {1: 1}) == 2
    assert [met[2] for met in faults.met] == [fault]
    found = truth(store)
    assert found.snapshots.ids() == [1, 2]
    assert rows_of(found) == {0: 0, 1: 1}


@pytest.mark.parametrize(("store", "fault"), [("gcs", "reset"), ("s3", 503)], indirect=["store"])
def test_faults_all_the_time_are_waited_out(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable, fault: Fault
) -> None:
    faults.every(4, fault)
    for key in range(1, 4):
        assert insert(table, {key: key}) == key + 1
    assert rows_of(table) == {key: key for key in range(4)}
    assert len(faults.met) > 5
    found = truth(store)
    assert found.snapshots.ids() == [1, 2, 3, 4]
    assert rows_of(found) == {key: key for key in range(4)}


@pytest.mark.parametrize("store", sorted({*SERVERS} - {"hdfs"}), indirect=True)  # HDFS has no HTTP
def test_a_denied_snapshot_is_a_clear_error(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable
) -> None:
    faults.always(403, "PUT|POST", "snapshot-2")
    with pytest.raises(PaimonError, match=r"could not be written: .* may not be read or written"):
        insert(table, {1: 1})
    assert truth(store).snapshots.ids() == [1]
    faults.rule = None
    assert insert(table, {1: 1}) == 2
    assert rows_of(truth(store)) == {0: 0, 1: 1}
