"""A REST catalog: what requests are sent, what becomes of answers that fail, and that no commit is lost or doubled."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from paimon_spark.arrow.table import create_table, open_table
from paimon_spark.cli.main import main
from paimon_spark.commit.metastore_publish import partition_statistics
from paimon_spark.errors import (
    CatalogServerError,
    CommitError,
    CommitStateUnknownError,
    OptionError,
    PaimonError,
    SchemaChangeError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.refs.branches import create_branch, delete_branch, rename_branch
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot, rollback_to_tag
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.metastore import rest_client
from paimon_spark.options import reaching_options
from paimon_spark.spec.data_types import BigIntType, IntType, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table import catalog_cache
from paimon_spark.table.filesystem_catalog import FilesystemCatalog, check_catalog_options
from paimon_spark.table.metastore_catalog import ServedCatalog, open_catalog
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import create_table as create_by_path
from paimon_spark.table.table import load_table, table_exists
from tests.support.rest_server import TOKEN, RestProxy, RestServer, rest_proxy
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "5"})


@pytest.fixture
def proxy(rest: RestServer) -> Iterator[RestProxy]:
    """A proxy before the server."""
    with rest_proxy(rest) as found:
        yield found


@pytest.fixture
def options(rest: RestServer, proxy: RestProxy) -> dict[str, str]:
    return rest.options(proxy.uri)


@pytest.fixture
def catalog(options: dict[str, str], proxy: RestProxy) -> Iterator[FilesystemCatalog]:
    """A catalog with the database d and its table t."""
    check_catalog_options(options)
    found = open_catalog("wh", options)
    found.create_database("d")
    found.create_table("d", "t", SCHEMA)
    proxy.taken()
    yield found
    proxy.fault = None
    for name in found.tables("d"):  # the server forgets snapshots only with their table
        found.drop_table("d", name)
    found.drop_database("d")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which are not made."""
    pauses: list[float] = []
    own = SimpleNamespace(**{**vars(time), "sleep": pauses.append})  # other threads of the process sleep too
    monkeypatch.setattr(rest_client, "time", own)
    return pauses


def test_names_and_rows(catalog: FilesystemCatalog, options: dict[str, str], proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    assert table.address == "rest://wh/d.db/t"
    assert table.path.endswith("/d.db/t")
    assert proxy.taken() == ["GET databases/d/tables/t"]
    insert(table, {1: 10, 2: 20})
    insert(table, {2: 21})
    assert (
        proxy.taken()
        == [
            "GET databases/d/tables/t/snapshot",
            "GET databases/d/tables/t/snapshot",
            "POST databases/d/tables/t/commit",
        ]
        * 2
    )
    assert rows_of(catalog.load_table("d", "t")) == {1: 10, 2: 21}
    assert proxy.taken() == ["GET databases/d/tables/t", "GET databases/d/tables/t/snapshot"]
    assert rows_of(load_table("rest://wh/d.db/t", options=options)) == {1: 10, 2: 21}
    proxy.taken()
    catalog.rename_table("d", "t", "d", "u")
    assert proxy.taken() == ["POST tables/rename"]
    assert catalog.tables("d") == ["u"]  # this server leaves the snapshots of a renamed table behind
    assert table_exists("rest://wh/d.db/u", options=options)
    assert not table_exists("rest://wh/d.db/t", options=options)
    catalog.drop_table("d", "u")
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("d", "u")
    with pytest.raises(TableNotFoundError):
        catalog.load_table("d", "u")
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("d", "u", "d", "v")


def test_names_that_are_taken_or_missing(catalog: FilesystemCatalog) -> None:
    catalog.create_table("d", "u", SCHEMA)
    with pytest.raises(SchemaError, match=r"d\.t already exists"):
        catalog.create_table("d", "t", SCHEMA)
    with pytest.raises(SchemaError, match=r"d\.u already exists"):
        catalog.rename_table("d", "t", "d", "u")
    with pytest.raises(PaimonError, match="Database nowhere does not exist"):
        catalog.create_table("nowhere", "t", SCHEMA)
    with pytest.raises(PaimonError, match="Database d already exists"):
        catalog.create_database("d")
    with pytest.raises(PaimonError, match="not empty"):
        catalog.drop_database("d")
    assert catalog.tables_if_there("nowhere") is None
    assert not catalog.database_exists("nowhere")


def test_databases_have_properties(catalog: FilesystemCatalog) -> None:
    catalog.create_database("e", properties={"comment": "c", "a": "1"})
    catalog.alter_database("e", {"b": "2"}, ["a"])
    assert catalog.database_properties("e") == {"comment": "c", "b": "2", "location": "/tmp"}
    assert catalog.database_properties("nowhere") is None
    with pytest.raises(PaimonError, match="Database nowhere does not exist"):
        catalog.alter_database("nowhere", {"b": "2"}, [])
    catalog.drop_database("e")


def test_lists_have_pages(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    names = sorted(f"t{number:03}" for number in range(120))
    pages: dict[str, tuple[list[str], str | None]] = {"": (names[:100], "t099"), "t099": (names[100:], None)}

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        page, token = pages[path.partition("pageToken=")[2]]
        return 200, json.dumps({"tables": page, "nextPageToken": token}).encode()

    proxy.fault = fault
    assert catalog.tables("d") == names
    assert proxy.taken() == ["GET databases/d/tables", "GET databases/d/tables?pageToken=t099"]


@pytest.mark.parametrize("name", ["ünï çode", "a+b", "x%41", "q~'*"])
def test_names_are_encoded(catalog: FilesystemCatalog, name: str) -> None:
    catalog.create_table("d", name, SCHEMA)
    insert(catalog.load_table("d", name), {1: 10})
    assert rows_of(catalog.load_table("d", name)) == {1: 10}
    assert catalog.tables("d") == sorted(["t", name])
    catalog.drop_table("d", name)


CHANGES: list[SchemaChange] = [
    AddColumn(("s",), VarCharType(2**31 - 1), "text", Position("k")),
    AddColumn(("n",), IntType()),
    UpdateColumnType(("v",), BigIntType()),
    UpdateColumnComment(("v",), "value"),
    UpdateColumnDefault(("n",), "5"),
    UpdateColumnPosition(("n",), Position()),
    RenameColumn(("s",), "s2"),
    UpdateColumnNullability(("s2",), True),
    SetOption("snapshot.num-retained.min", "7"),
    RemoveOption("commit.max-retries"),
    UpdateComment("a table"),
]


def test_schemas_are_changed_by_the_server(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    insert(catalog.load_table("d", "t"), {1: 10})
    schema = alter_table(catalog.load_table("d", "t"), CHANGES).schema
    assert [(each.name, type(each.type).__name__) for each in schema.fields] == [
        ("n", "IntType"), ("k", "IntType"), ("s2", "VarCharType"), ("v", "BigIntType")
    ]  # fmt: skip
    assert (schema.field("v").description, schema.field("n").default_value) == ("value", "5")
    assert (schema.id, schema.comment) == (1, "a table")
    assert schema.options == {"bucket": "1", "snapshot.num-retained.min": "7"}
    assert sum(request == "POST databases/d/tables/t" for request in proxy.taken()) == 1
    table = alter_table(catalog.load_table("d", "t"), [DropColumn(("n",)), DropColumn(("s2",))])
    assert rows_of(table) == {1: 10}
    with pytest.raises(SchemaChangeError):
        alter_table(table, [DropColumn(("k",))])


def test_a_schema_that_java_would_refuse_is_not_sent(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    proxy.taken()
    with pytest.raises(SchemaChangeError):
        alter_table(table, [RenameColumn(("nothing",), "x")])
    assert not [request for request in proxy.taken() if request.startswith("POST")]


def test_a_catalog_keeps_tables_and_databases_where_it_is_asked_to(
    catalog: FilesystemCatalog, options: dict[str, str], proxy: RestProxy
) -> None:
    cached = open_catalog("wh", {**options, "cache-enabled": "true"})
    insert(catalog.load_table("d", "t"), {1: 10})
    assert rows_of(cached.load_table("d", "t")) == {1: 10}
    assert cached.database_exists("d")
    insert(catalog.load_table("d", "t"), {2: 20})
    proxy.taken()
    assert rows_of(cached.load_table("d", "t")) == {1: 10, 2: 20}
    assert proxy.taken() == ["GET databases/d/tables/t/snapshot"]
    assert cached.database_exists("d")
    assert cached.database_properties("d") is not None
    assert proxy.taken() == []
    alter_table(catalog.load_table("d", "t"), [AddColumn(("x",), IntType())])
    assert cached.load_table("d", "t").schema.field_names[-1] == "x"
    kept = dict(catalog_cache._entries)
    catalog.drop_table("d", "t")
    catalog.create_table("d", "t", SCHEMA)
    catalog_cache._entries.update(kept)  # as if another process had made the table anew
    with pytest.raises(PaimonError):
        insert(cached.load_table("d", "t"), {1: 10})
    assert rows_of(catalog.load_table("d", "t")) == {}


def test_a_name_that_a_server_lists_twice_is_one_table(catalog: FilesystemCatalog, rest: RestServer) -> None:
    """That of Java's tests lists a branch that was renamed by the name of its table."""
    twice = json.dumps({"tables": ["t", "t"]}).encode()
    with rest_proxy(rest) as proxy:
        proxy.fault = lambda _method, path, pass_on: (200, twice) if path.endswith("/tables") else pass_on()
        assert open_catalog("wh", rest.options(proxy.uri)).tables("d") == ["t"]
    assert catalog.tables("d") == ["t"]


def test_a_table_that_travels_keeps_its_server(catalog: FilesystemCatalog) -> None:
    table = pickle.loads(pickle.dumps(catalog.load_table("d", "t")))
    insert(table, {1: 10})
    assert rows_of(pickle.loads(pickle.dumps(catalog)).load_table("d", "t")) == {1: 10}
    assert TOKEN not in repr(table)
    assert TOKEN not in repr(catalog)


def test_arrow_tables_have_names(catalog: FilesystemCatalog, options: dict[str, str]) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int32())})
    given = {key: text for key, text in options.items() if key != "warehouse"}
    made = create_table("d.a", rows.schema, catalog="wh", **given)
    made.append(rows)
    assert catalog.tables("d") == ["a", "t"]
    assert open_table("d.a", catalog="wh", **given).scan().to_arrow() == rows
    assert open_table("rest://wh/d.db/a", **options).scan().to_arrow() == rows


def test_the_command_line_names_its_tables(
    catalog: FilesystemCatalog, options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    insert(catalog.load_table("d", "t"), {1: 10})
    given = [word for key, text in options.items() for word in ("-o", f"{key}={text}")]
    assert main(["read", "rest://wh/d.db/t", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out) == {"k": 1, "v": 10}
    assert main(["tags", "rest://wh/d.db/nothing", *given]) != 0
    assert TOKEN not in "".join(capsys.readouterr())


def answers(status: int, *, of: str = "", times: int = 10**9, after: bool = False) -> Callable[..., tuple[int, bytes]]:
    """Answers with an error, before or after the server has done what was asked."""
    left = [times]

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        if of not in f"{method} {path}" or left[0] <= 0:
            return pass_on()
        left[0] -= 1
        if after:
            pass_on()
        return status, json.dumps({"message": f"no, {TOKEN}", "code": status}).encode()

    return fault


@pytest.mark.parametrize(
    ("status", "words", "attempts"),
    [
        (400, "refuses the request (HTTP 400)", 1),
        (401, "does not accept the credentials of the catalog ('token.provider') (HTTP 401)", 1),
        (403, "does not allow it (HTTP 403)", 1),
        (429, "is asked too often (HTTP 429)", 6),
        (500, "failed (HTTP 500)", 1),
        (501, "cannot do it (HTTP 501)", 1),
        (503, "is not available (HTTP 503)", 6),
    ],
)
def test_a_refusal_is_one_sentence_without_the_token(
    catalog: FilesystemCatalog,
    proxy: RestProxy,
    no_pauses: list[float],
    caplog: pytest.LogCaptureFixture,
    status: int,
    words: str,
    attempts: int,
) -> None:
    proxy.fault = answers(status)
    with caplog.at_level(logging.DEBUG), pytest.raises(CatalogServerError) as caught:
        catalog.load_table("d", "t")
    assert str(caught.value) == f"The REST catalog at {proxy.uri} {words}: no, ***."
    assert (caught.value.status, len(proxy.taken())) == (status, attempts)
    assert len(no_pauses) == attempts - 1
    assert all(1 <= pause / 2**number <= 1.1 for number, pause in enumerate(no_pauses))
    assert TOKEN not in caplog.text
    assert pickle.loads(pickle.dumps(caught.value)).status == status


def test_a_busy_server_is_asked_again(catalog: FilesystemCatalog, proxy: RestProxy, no_pauses: list[float]) -> None:
    proxy.fault, proxy.headers = answers(429, times=2), {"Retry-After": "7"}
    insert(catalog.load_table("d", "t"), {1: 10})
    assert no_pauses == [7.0, 7.0]
    assert rows_of(catalog.load_table("d", "t")) == {1: 10}


def test_a_server_that_is_gone(catalog: FilesystemCatalog, proxy: RestProxy, no_pauses: list[float]) -> None:
    proxy.fault = lambda *_: None
    with pytest.raises(CatalogServerError, match=r"gives no answer: the connection broke\.$"):
        catalog.load_table("d", "t")
    assert len(proxy.taken()) == 6
    lost = {**catalog.options, "uri": "http://127.0.0.1:1"}
    with pytest.raises(CatalogServerError, match=r"127\.0\.0\.1:1 gives no answer: it cannot be reached"):
        open_catalog("wh", lost)


def test_a_commit_that_is_refused_changes_nothing(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    proxy.fault = answers(403, of="commit")
    with pytest.raises(CommitError, match=r"Snapshot 1 was not committed: The REST catalog .* Nothing was changed\."):
        insert(table, {1: 10})
    proxy.fault = None
    assert rows_of(table) == {}
    manifests = Path(table.path.removeprefix("file:")) / "manifest"
    assert not list(manifests.glob("*"))


@pytest.mark.parametrize("status", [500, 502, 0])
def test_a_commit_whose_answer_is_lost_is_not_doubled(
    catalog: FilesystemCatalog, proxy: RestProxy, status: int
) -> None:
    table = catalog.load_table("d", "t")
    insert(table, {1: 10})
    left = [1]

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes] | None:
        answer = pass_on()
        if path.endswith("commit") and left:
            left.clear()
            return (status, b"") if status else None
        return answer

    proxy.fault = fault
    proxy.taken()
    assert insert(table, {2: 20}) == 2
    assert sum(request.endswith("commit") for request in proxy.taken()) == 1
    assert rows_of(table) == {1: 10, 2: 20}
    assert table.snapshots.ids() == [1, 2]


def test_javas_own_error_after_a_commit_is_settled(catalog: FilesystemCatalog, rest: RestServer) -> None:
    table = catalog.load_table("d", "t")
    rest.answer_next_commit_with_an_error()
    assert insert(table, {1: 10}) == 1
    assert (rows_of(table), table.snapshots.ids()) == ({1: 10}, [1])


def test_a_commit_that_did_not_arrive_is_sent_again(
    catalog: FilesystemCatalog, proxy: RestProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.load_table("d", "t")
    proxy.fault = answers(500, of="commit", times=2)
    assert insert(table, {1: 10}) == 1
    assert (rows_of(table), table.snapshots.ids()) == ({1: 10}, [1])


def test_a_commit_that_stays_unclear_deletes_nothing(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t").with_options({"commit.max-retries": "1"})
    proxy.fault = answers(500, of="commit")
    with pytest.raises(CommitStateUnknownError, match=r"It is unknown whether snapshot 1 of table rest://wh/d\.db/t"):
        insert(table, {1: 10})
    assert list((Path(table.path.removeprefix("file:")) / "manifest").glob("*"))


@pytest.mark.parametrize("later", [(404, b""), (200, b"no JSON"), (403, b"{}")])
def test_a_commit_whose_outcome_cannot_be_asked_for_deletes_nothing(
    catalog: FilesystemCatalog, proxy: RestProxy, later: tuple[int, bytes]
) -> None:
    """The commit is made, its answer is lost, and from then on the server, or a gateway before it, tells nonsense."""
    table, done = catalog.load_table("d", "t").with_options({"commit.max-retries": "1"}), list[bool]()

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes] | None:
        if done:
            return later
        answer = pass_on()
        if path.endswith("commit"):
            done.append(True)
            return None
        return answer

    proxy.fault = fault
    with pytest.raises(CommitStateUnknownError):
        insert(table, {1: 10})
    proxy.fault = None
    assert rows_of(catalog.load_table("d", "t")) == {1: 10}


def test_a_commit_on_another_base_is_made_anew(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    """`success` = false: another writer was faster, or (newer servers) the uuid of the base is another one."""
    table, sent = catalog.load_table("d", "t"), []

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        if path.endswith("commit") and not sent:
            sent.append(path)
            return 200, b'{"success": false}'
        return pass_on()

    proxy.fault = fault
    assert insert(table, {1: 10}) == 1
    assert rows_of(table) == {1: 10}


def test_a_table_that_was_made_anew_gets_no_rows_of_the_old_one(catalog: FilesystemCatalog) -> None:
    table = catalog.load_table("d", "t")
    catalog.drop_table("d", "t")
    catalog.create_table("d", "t", SCHEMA)
    with pytest.raises(PaimonError):
        insert(table, {1: 10})
    assert rows_of(catalog.load_table("d", "t")) == {}


def test_writers_race(catalog: FilesystemCatalog) -> None:
    catalog.create_table("d", "r", SCHEMA.with_options({"bucket": "1", "commit.max-retries": "100"}))
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(5):
                insert(catalog.load_table("d", "r"), {100 * number + turn: turn})
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    table = catalog.load_table("d", "r")
    assert rows_of(table) == {100 * number + turn: turn for number in range(4) for turn in range(5)}
    assert table.snapshots.ids() == list(range(1, 21))


def test_the_server_is_reported_what_each_partition_gets(catalog: FilesystemCatalog) -> None:
    table = catalog.load_table("d", "t")
    insert(table, {1: 10, 2: 20})
    latest = table.snapshots.latest()
    assert latest is not None
    (entry,) = table.manifests.live_entries(latest)
    (reported,) = partition_statistics(table, [entry])
    assert reported["lastFileCreationTime"] > 1_700_000_000_000
    assert (reported["spec"], reported["recordCount"], reported["fileCount"], reported["totalBuckets"]) == ({}, 2, 1, 1)


def test_the_server_goes_back(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    for value in (10, 20, 30):
        insert(table, {1: value})
    create_tag(table, "two", snapshot_id=2)
    proxy.taken()
    assert rollback_to_snapshot(table, 2).current_snapshot_id == 2
    assert "POST databases/d/tables/t/rollback" in proxy.taken()
    assert rows_of(table) == {1: 20}
    insert(table, {1: 40})
    assert rows_of(table) == {1: 40}
    rollback_to_tag(table, "two")
    assert (rows_of(table), table.snapshots.ids()) == ({1: 20}, [1, 2])
    with pytest.raises(SnapshotNotFoundError):
        rollback_to_snapshot(table, 9)


def test_a_rollback_after_a_commit_of_somebody_else_is_refused(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    insert(table, {1: 10})
    insert(table, {1: 20})

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        if path.endswith("rollback"):
            proxy.fault = None
            insert(table, {1: 30})
        return pass_on()

    proxy.fault = fault
    with pytest.raises(CommitError, match=r"is not rolled back to snapshot 1: .* Latest snapshot 3"):
        rollback_to_snapshot(table, 1)
    assert rows_of(table) == {1: 30}


def test_branches_are_the_servers(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    table = catalog.load_table("d", "t")
    insert(table, {1: 10})
    create_tag(table, "one", snapshot_id=1)
    assert create_branch(table, "b", tag="one")
    assert not create_branch(table, "b", ignore_if_exists=True)
    branch = catalog.load_table("d", "t$branch_b")
    insert(branch, {2: 20})
    assert rows_of(branch) == rows_of(table.on_branch("b")) == {1: 10, 2: 20}
    assert rows_of(table) == {1: 10}
    assert fast_forward(table, "b") == 2
    assert rows_of(table) == {1: 10, 2: 20}
    create_branch(table, "e", tag="one")
    with pytest.raises(PaimonError, match="'e' already exists"):
        rename_branch(table, "b", "e")
    proxy.taken()
    rename_branch(table, "b", "c")
    assert proxy.taken() == ["POST databases/d/tables/t/branches/b/rename"]
    renamed = catalog.load_table("d", "t$branch_c")
    insert(renamed, {3: 30})
    assert rows_of(renamed) == {1: 10, 2: 20, 3: 30}
    for answer in ((501, b""), (200, b"")):  # no such request, as Java's newer servers have none
        proxy.fault = lambda method, path, pass_on, answer=answer: answer if path.endswith("rename") else pass_on()
        with pytest.raises(UnsupportedError, match="server of the REST catalog cannot do that"):
            rename_branch(table, "c", "b")
    assert table.branches.names() == ["c", "e"]
    proxy.fault = None
    create_branch(table, "b", tag="one")  # for the server keeps the old name of a renamed branch until it is deleted
    delete_branch(table, "b,c,e")
    with pytest.raises(TableNotFoundError):
        catalog.load_table("d", "t$branch_e")


def test_the_server_is_told_of_partitions_that_are_done(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    known = {"bucket": "-1", "metastore.partitioned-table": "true"}
    catalog.create_table("d", "p", create_schema(FIELDS, partition_keys=["k"], options=known))
    action = {"partition.mark-done-action": "success-file,mark-event"}
    (path,) = mark_partitions_done(catalog.load_table("d", "p").with_options(action), [{"k": "1"}])
    assert path.endswith("/k=1/_SUCCESS")
    assert (proxy.requests[-1], json.loads(proxy.bodies[-1])) == (
        ("POST", "databases/d/tables/p/partitions/mark"),
        {"specs": [{"k": "1"}]},
    )
    unable = catalog.load_table("d", "p").with_options({"partition.mark-done-action": "done-partition"})
    with pytest.raises(UnsupportedError, match="Cannot mark done partition"):
        mark_partitions_done(unable, [{"k": "1"}])


def test_the_base_of_a_commit_is_named(catalog: FilesystemCatalog, proxy: RestProxy) -> None:
    """This server forgets the uuids of snapshots; newer ones compare that of the base."""
    table, uuid = catalog.load_table("d", "t"), "11111111-2222-3333-4444-555555555555"
    insert(table, {1: 10})

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        status, content = pass_on()
        if path.endswith("/snapshot"):
            answer = json.loads(content)
            answer["snapshot"]["snapshot"]["uuid"] = uuid
            content = json.dumps(answer).encode()
        return status, content

    proxy.fault = fault
    insert(table, {2: 20})
    sent = json.loads(proxy.bodies[-1])
    assert (sent["baseSnapshotUuid"], sent["snapshot"]["id"]) == (uuid, 2)
    assert sent["statistics"][0]["recordCount"] == 1


def test_an_external_table_is_committed_to_by_files(
    catalog: FilesystemCatalog, proxy: RestProxy, tmp_path: Path
) -> None:
    assert isinstance(catalog, ServedCatalog)
    create_by_path(f"{tmp_path}/x", SCHEMA)
    external = SCHEMA.with_options({"bucket": "1", "path": f"file:{tmp_path}/x"})
    catalog.metastore.add_table("d", "x", external, "")
    table = catalog.load_table("d", "x")
    assert table.path == f"file:{tmp_path}/x"
    proxy.taken()
    insert(table, {1: 10})
    assert rows_of(catalog.load_table("d", "x")) == {1: 10}
    assert set(proxy.taken()) == {"GET databases/d/tables/x"}
    assert (tmp_path / "x/snapshot/snapshot-1").exists()
    proxy.fault = lambda method, _, pass_on: (200, b"") if method == "POST" else pass_on()  # Java's cannot
    alter_table(table, [SetOption("snapshot.num-retained.min", "7")])
    assert "POST databases/d/tables/x" in proxy.taken()


def test_defaults_of_tables_that_the_server_tells(rest: RestServer, proxy: RestProxy) -> None:
    told = {"defaults": {"prefix": "paimon", "table-default.bucket": "2", "table-default.file.format": "orc"}}

    def fault(_method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        return (200, json.dumps(told).encode()) if path.startswith("config") else pass_on()

    proxy.fault = fault
    found = open_catalog("wh", {**rest.options(proxy.uri), "table-default.bucket": "3"})
    assert found.defaults == {"bucket": "3", "file.format": "orc"}
    assert not any(key.startswith("table-default") for key in found.options)


@pytest.mark.parametrize("limits", [{"filter": ["{}"]}, {"columnMasking": {"v": "{}"}}, {}])
def test_governed_tables(catalog: FilesystemCatalog, proxy: RestProxy, limits: dict[str, object]) -> None:
    governed = SCHEMA.with_options({"bucket": "1", "query-auth.enabled": "true"})
    assert isinstance(catalog, ServedCatalog)
    catalog.metastore.add_table("d", "g", governed, "")
    told = dict(limits)

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        return (200, json.dumps(told).encode()) if path.endswith("/auth") else pass_on()

    proxy.fault = fault
    if not limits:
        opened = catalog.load_table("d", "g")
        insert(opened, {1: 10})
        assert rows_of(opened) == {1: 10}
        told["filter"] = ["{}"]  # by now
        with pytest.raises(UnsupportedError, match=r"d\.g is governed .* hides rows"):
            rows_of(opened)
        return
    hidden = "rows" if "filter" in limits else "values"
    with pytest.raises(UnsupportedError, match=rf"d\.g is governed \('query-auth\.enabled'\).* hides {hidden}"):
        catalog.load_table("d", "g").with_options({"query-auth.enabled": "false"})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"uri": ""}, "needs the option 'uri'"),
        ({"warehouse": ""}, "needs the option 'warehouse'"),
        ({"token.provider": ""}, "needs the option 'token.provider'"),
        ({"token.provider": "basic"}, "not 'basic'"),
        ({"token": ""}, "needs the option 'token'"),
        ({"token": "wrong"}, "does not accept the credentials"),
        ({"token.provider": "dlf"}, "'dlf.region'"),
        ({"token.provider": "dlf", "dlf.region": "r"}, "'dlf.access-key-id'"),
        ({"token.provider": "dlf", "dlf.region": "r", "dlf.token-loader": "x"}, "'dlf.token-loader' = 'x'"),
    ],
)
def test_options_that_lead_nowhere(rest: RestServer, more: dict[str, str], message: str) -> None:
    given = {**rest.options(), **more}
    with pytest.raises(PaimonError, match=message):
        open_catalog(given["warehouse"], given)


def test_options_of_other_catalogs(rest: RestServer) -> None:
    with pytest.raises(UnsupportedError, match=r"'lock\.enabled' is for catalogs of another kind"):
        check_catalog_options({**rest.options(), "lock.enabled": "true"})
    with pytest.raises(OptionError, match="give the options of that catalog"):
        load_table("rest://wh/d.db/t")
    given = {**rest.options(), "dlf.region": "r", "header.x": "y", "bucket": "1"}
    assert reaching_options(given) == {key: text for key, text in given.items() if key != "bucket"}
