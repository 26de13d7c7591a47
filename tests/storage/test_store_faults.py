"""S3, GCS, Azure and OSS fail while a commit is made: it is there once, or it is not and an error says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, cast

import pytest

from paimon_spark.commit import publish
from paimon_spark.errors import CommitError, PaimonError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs.branches import create_branch, delete_branch
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag, delete_tag, replace_tag
from paimon_spark.options import OPTIONS
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage import azure, gcs, oss, silence
from paimon_spark.storage.store_options import S3_BOUNDS
from paimon_spark.storage.store_requests import KEPT
from paimon_spark.table.consumer_store import ConsumerStore, clear_consumers
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable
from tests.support.faulty_server import Answer, Fault, Faults, faulty
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


_ATTEMPTS = 2


@pytest.fixture(autouse=True, scope="module")
def short_waits() -> Iterator[None]:
    """A second is long on one machine, and a server that is asked again need not rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(silence, "ANSWER_SECONDS", 0.5)
        patch.setattr(publish, "LONGEST_UNCLEAR_SECONDS", 2)
        patch.setattr(gcs, "ANSWER_SECONDS", 1.5)
        patch.setattr(gcs, "LAST_ATTEMPT_SECONDS", 3)
        patch.setattr(gcs, "_LONGEST_PAUSE_SECONDS", 0.1)
        patch.setattr("azure.storage.blob._shared.policies_async.ExponentialRetry.get_backoff_time", lambda *_: 0.1)
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.1)
        patch.setattr(azure, "ANSWER_SECONDS", 1.5)
        patch.setattr(azure, "RETRIES", _ATTEMPTS - 1)
        patch.setattr(oss, "_WAITS_SECONDS", (1.5, 1.5))
        patch.setattr(oss, "_ATTEMPTS", _ATTEMPTS)
        patch.setitem(cast("dict[str, Any]", S3_BOUNDS), "read_timeout", 1.5)
        patch.setitem(S3_BOUNDS["retries"], "total_max_attempts", _ATTEMPTS)
        yield


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
        (name, fault)
        for name in ("azure", "gcs", "oss", "s3")
        for fault in (500, 503, 429, "reset", "lost", "silent")
        if (name, fault) != ("azure", 429)  # which Azure does not answer: it says 503
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


@pytest.mark.parametrize(("store", "fault"), [("gcs", "reset"), ("oss", "reset"), ("s3", 503)], indirect=["store"])
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


TOKENS: dict[str, Answer] = {
    "s3": Answer(400, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"),
    "gcs": Answer(401, '{"error": {"code": 401, "message": "Invalid Credentials"}}'),
    "azure": Answer(
        403,
        "<Error><Code>AuthenticationFailed</Code><Message>Signature not valid in the specified time frame</Message>"
        "</Error>",
        (("x-ms-error-code", "AuthenticationFailed"), ("Content-Type", "application/xml")),
    ),
    "oss": Answer(
        403,
        "<Error><Code>SecurityTokenExpired</Code><Message>The token has expired</Message><RequestId>1</RequestId>"
        "</Error>",
        (("x-oss-request-id", "1"),),
    ),
}
"""How each store says in the middle of a commit that a token has ended."""
OF_HTTP = sorted({*SERVERS} - {"hdfs"})


@pytest.mark.parametrize("fault", ["token", 403], ids=str)
@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_a_denial_in_the_middle_is_a_clear_error(
    store: tuple[StoreServer, StoreServer, Faults],
    faults: Faults,
    table: FileStoreTable,
    fault: Fault,
    request: pytest.FixtureRequest,
) -> None:
    answer = TOKENS[request.node.callspec.params["store"]] if fault == "token" else fault
    for part in ("bucket-0/data-", "manifest/manifest-", "snapshot-2"):
        faults.always(answer, "PUT|POST", part)
        with pytest.raises(PaimonError, match=r"may not be read or written|takes the token no more"):
            insert(table, {1: 1})
        assert faults.met
        faults.rule = None
        assert truth(store).snapshots.ids() == [1]
    faults.always(answer, "GET|HEAD", "")
    with pytest.raises(PaimonError, match=r"may not be read or written|takes the token no more"):
        rows_of(table)
    faults.rule = None
    assert insert(table, {1: 1}) == 2
    assert rows_of(truth(store)) == {0: 0, 1: 1}


@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_silence_is_a_clear_error(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable
) -> None:
    faults.always("silent", "PUT|POST|GET|HEAD", "")
    with pytest.raises(PaimonError, match="does not answer"):
        rows_of(table)
    faults.rule = None
    assert insert(table, {1: 1}) == 2
    assert rows_of(truth(store)) == {0: 0, 1: 1}


@pytest.mark.parametrize("fault", [503, 429], ids=str)
@pytest.mark.parametrize("store", ["gcs", "oss", "s3"], indirect=True)
def test_a_store_that_is_busy_is_asked_again(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable, fault: Fault
) -> None:
    for part in ("snapshot/snapshot-1", "manifest/manifest-", "bucket-0/data-"):
        KEPT.clear()
        faults.once(fault, "GET", part)
        assert rows_of(table) == {0: 0}
        assert len(faults.met) == 1


@pytest.mark.parametrize("fault", ["stalled", "cut"])
@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_an_answer_that_stops_in_its_middle_is_asked_for_again(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable, fault: Fault
) -> None:
    """Of a data file and of a manifest; where it stops each time, the error comes soon."""
    for part in ("bucket-0/data-", "manifest/manifest-")[: 2 if fault == "cut" else 1]:
        KEPT.clear()
        faults.once(fault, "GET", part)
        assert rows_of(table) == {0: 0}
        assert faults.met
    faults.always(fault, "GET", "bucket-0/data-")
    with pytest.raises(PaimonError, match=r"does not answer|bucket-0/data-"):
        rows_of(table)
    assert len(faults.met) <= 6
    faults.rule = None
    assert rows_of(table) == {0: 0}


@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_a_store_that_falls_silent_is_waited_for_once(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable
) -> None:
    """What goes on after a request that was given up asks once, and deletes nothing: minutes would add up.

    A manifest and two lists are written at once, and wait at the same time.
    """
    others = set(silence._SINCE)  # stores of other tests
    for part, at_once in (("manifest-list", 3), ("snapshot-2", 1)):
        faults.once("silent", "PUT|POST", part)
        begins = faults.rule
        assert begins is not None
        faults.rule = lambda *request, begins=begins: "silent" if faults.met else begins(*request)
        with pytest.raises(CommitError, match="does not answer"):
            insert(table, {1: 1})
        assert len(faults.met) <= at_once * _ATTEMPTS + 1
        faults.rule = None
        assert truth(store).snapshots.ids() == [1]
    assert insert(table, {1: 1}) == 2
    assert set(silence._SINCE) <= others
    assert rows_of(truth(store)) == {0: 0, 1: 1}


def _deletes(method: str, path: str) -> bool:
    return method == "DELETE" or (method == "POST" and ("delete" in path or "batch" in path))


class Upkeep:
    """A work of upkeep on a table of its own, behind a server of its own: its store's silence is no other one's."""

    def __init__(self, work: str, server: StoreServer, front: StoreServer, faults: Faults) -> None:
        self.work, self._faults = work, faults
        self._there = FilesystemCatalog(f"{server.root}/of-{work}", server.options)
        self._catalog = FilesystemCatalog(f"{front.root}/of-{work}", {**front.options, **PATIENT})

    def make(self) -> None:
        """A table of four snapshots, with a tag, a branch, a consumer, and two files that nobody needs."""
        self._catalog.create_database("d")
        self._catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "1"}))
        self._table = self._catalog.load_table("d", "t")
        for key in range(4):
            insert(self._table, {key: key})
        self._table.file_io.write_bytes(f"{self._table.path}/manifest/manifest-1", b"1")
        self._table.file_io.write_bytes(f"{self._table.path}/manifest/manifest-2", b"2")
        create_tag(self._table, "late", snapshot_id=4)
        create_branch(self._table, "b")
        ConsumerStore(self._table.file_io, self._table.paths).reset("c", 4)

    def _do(self) -> object:
        table = self._table
        deeds: dict[str, Callable[[], object]] = {
            "expire": lambda: expire_snapshots(table, retain_latest_only()),
            "orphans": lambda: remove_files_before(table, 2**53).file_count,
            "rollback": lambda: rollback_to_snapshot(table, 2).current_snapshot_id,
            "tag": lambda: delete_tag(table, "late"),
            "branch": lambda: delete_branch(table, "b"),
            "consumer": lambda: clear_consumers(table),
            "drop": lambda: self._catalog.drop_table("d", "t"),
        }
        return deeds[self.work]()

    def fail(self) -> None:
        """All but what deletes is answered: the requests that are given up are few, and nothing is called done."""
        self._faults.rule = lambda method, path: "silent" if _deletes(method, path) else None
        with pytest.raises(PaimonError, match=r"The store of '.*' does not answer .*\. Check the endpoint"):
            self._do()
        # those that are sent at once, or one several times
        assert 0 < len(self._faults.met) <= 16 + _ATTEMPTS, (self.work, self._faults.met)
        self._faults.rule = None

    def go_on(self) -> None:
        assert self.work == "drop" or rows_of(self._there.load_table("d", "t")) == {key: key for key in range(4)}
        done = self._do()
        assert done == {"expire": 3, "orphans": 2, "rollback": 2, "consumer": ["c"]}.get(self.work), self.work
        if self.work == "drop":
            self._catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], {"bucket": "1"}))
            return
        found = self._there.load_table("d", "t")
        assert found.snapshots.ids() == {"expire": [4], "rollback": [1, 2]}.get(self.work, [1, 2, 3, 4]), self.work
        assert rows_of(found) == {key: key for key in range(2 if self.work == "rollback" else 4)}, self.work


@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_upkeep_that_cannot_delete_says_why_and_goes_on(store: tuple[StoreServer, StoreServer, Faults]) -> None:
    """Each kind of work waits for answers, so all wait at the same time."""
    kinds = ("expire", "orphans", "rollback", "tag", "branch", "consumer", "drop")
    with ExitStack() as fronts, ThreadPoolExecutor(len(kinds)) as threads:
        works = [Upkeep(kind, store[0], *fronts.enter_context(faulty(store[0]))) for kind in kinds]
        for work in works:
            work.make()
        list(threads.map(Upkeep.fail, works))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(silence, "REST_SECONDS", 0)
            list(threads.map(Upkeep.go_on, works))


@pytest.mark.parametrize("times", ["once", "always"])
@pytest.mark.parametrize("store", OF_HTTP, indirect=True)
def test_what_is_there_although_its_answer_is_lost_is_taken_for_done(
    store: tuple[StoreServer, StoreServer, Faults], faults: Faults, table: FileStoreTable, times: str
) -> None:
    """Whatever is created or replaced; a second one of the name is refused all the same."""
    catalog = FilesystemCatalog(table.path.rpartition("/d.db/")[0], store[1].options)
    new = create_schema(FIELDS, ["k"], [], {"bucket": "1"})
    create_tag(table, "held")
    deeds: dict[str, Callable[[], object]] = {
        "tag/tag-new": lambda: create_tag(table, "new"),
        "tag/tag-held": lambda: replace_tag(table, "held", time_retained=timedelta(days=1)),
        "branch-b/schema/schema-0": lambda: create_branch(table, "b"),
        "u/schema/schema-0": lambda: catalog.create_table("d", "u", new),
        "t/schema/schema-1": lambda: alter_table(table, [SetOption("snapshot.num-retained.max", "90")]),
        "consumer/consumer-c": lambda: ConsumerStore(table.file_io, table.paths).reset("c", 1),
        "snapshot/EARLIEST": lambda: table.snapshots.write_earliest_hint(1),
        "snapshot-2": lambda: insert(table, {1: 1}),
        "bucket-0/data-": lambda: insert(table, {2: 2}),
    }
    for part, deed in deeds.items():
        getattr(faults, times)("lost", "PUT|POST", part)
        if part == "bucket-0/data-" and times == "always":
            with pytest.raises(PaimonError, match="data-"):
                deed()
        else:
            deed()
        assert faults.met, part
        faults.rule = None
    found = truth(store)
    assert (found.tags.names(), found.branches.names()) == (["held", "new"], ["b"])
    assert found.tags.get("held").time_retained == timedelta(days=1)
    assert found.options.get(OPTIONS["snapshot.num-retained.max"]) == 90
    assert ConsumerStore(found.file_io, found.paths).min_next_snapshot() == 1
    assert rows_of(found) == {key: key for key in range(2 if times == "always" else 3)}
    assert found.snapshots.ids() == ([1, 2] if times == "always" else [1, 2, 3])
    for deed, words in (
        (deeds["tag/tag-new"], "already exists"),
        (deeds["branch-b/schema/schema-0"], "already exists"),
        (deeds["u/schema/schema-0"], "is a table already"),
    ):
        with pytest.raises(PaimonError, match=words):
            deed()
