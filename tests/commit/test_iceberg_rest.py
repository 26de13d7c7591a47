"""Tables of an Iceberg REST catalog: what pyiceberg reads by it, what it is sent, and commits while it is down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import delete_tag
from paimon_spark.metastore import rest_client
from paimon_spark.spec.data_types import BigIntType
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.schema_change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from tests.support.iceberg import SCHEMA, row, rows, store_table
from tests.support.iceberg_rest_server import IcebergRestServer
from tests.support.rest_server import RestProxy, rest_proxy

STORAGE = {"metadata.iceberg.storage": "rest-catalog"}
WIDE = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}
MANY = {"metadata.iceberg.previous-versions-max": 10}


@pytest.fixture
def proxy(iceberg_rest: IcebergRestServer) -> Iterator[RestProxy]:
    with rest_proxy(iceberg_rest) as found:
        yield found


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    own = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})  # other threads of the process sleep too
    monkeypatch.setattr(rest_client, "time", own)


def new_table(tmp_path: Path, server: IcebergRestServer | RestProxy, **options: Any) -> ArrowTable:
    """A table whose name in the catalog is that of the test's folder, which no other test has."""
    given = {**STORAGE, "metadata.iceberg.rest.uri": server.uri, **options}
    return paimon_spark.create_table(f"ice.{tmp_path.name}", SCHEMA, catalog=str(tmp_path / "wh"), **given)


def assert_same(server: IcebergRestServer, table: ArrowTable) -> list[tuple[Any, ...]]:
    """Check that readers of the catalog see the rows and the snapshots of the table."""
    ours = rows(paimon_spark.open_table(table.path).scan().to_arrow())
    theirs = server.table(table.path.rpartition("/")[2])
    assert rows(theirs.scan().to_arrow()) == ours
    assert theirs.current_snapshot().snapshot_id == table.snapshots()["snapshot_id"][-1].as_py()
    for each in theirs.snapshots():
        assert each.manifests(theirs.io) is not None, "the files of each snapshot are there"
    return ours


def seen(server: IcebergRestServer, table: ArrowTable) -> Any:
    return server.table(table.path.rpartition("/")[2])


def ids(server: IcebergRestServer, table: ArrowTable) -> list[int]:
    return [each.snapshot_id for each in seen(server, table).snapshots()]


@pytest.mark.parametrize("partition", ["", "p", "k", "p,k"])
def test_each_kind_of_commit_is_read(tmp_path: Path, iceberg_rest: IcebergRestServer, partition: str) -> None:
    table = new_table(tmp_path, iceberg_rest, partition_keys=partition, **MANY)
    for number in range(3):
        table.append([row(number, f"v{number}", "ab"[number % 2])])
        assert len(assert_same(iceberg_rest, table)) == number + 1
    uuid = seen(iceberg_rest, table).metadata.table_uuid
    table.delete("k = 1")
    assert assert_same(iceberg_rest, table) == [(0, "v0", "a"), (2, "v2", "a")]
    table.overwrite([row(3, "new", "b")])
    assert assert_same(iceberg_rest, table) == [(3, "new", "b")]
    assert ids(iceberg_rest, table) == [1, 2, 3, 4, 5]
    assert seen(iceberg_rest, table).metadata.table_uuid == uuid, "it was not made anew"
    assert rows(seen(iceberg_rest, table).scan(snapshot_id=2).to_arrow()) == [(0, "v0", "a"), (1, "v1", "b")]
    rollback_to_snapshot(store_table(table), 2)
    assert assert_same(iceberg_rest, table) == [(0, "v0", "a"), (1, "v1", "b")]
    table.append([row(9, "other", "b")])
    assert len(assert_same(iceberg_rest, table)) == 3
    fields = [field.name for field in seen(iceberg_rest, table).spec().fields]
    assert fields == (["p"] if partition == "p" else []), "the first column cannot be one, as with Java"


def test_schema_changes_are_read(tmp_path: Path, iceberg_rest: IcebergRestServer) -> None:
    table = new_table(tmp_path, iceberg_rest)
    table.append([row(1, "a")])
    changes = [
        SetOption("snapshot.num-retained.max", "100"),
        AddColumn(("extra",), BigIntType()),
        RenameColumn(("v",), "text"),
        UpdateColumnType(("k",), BigIntType(nullable=False)),
        SetOption("snapshot.num-retained.max", "101"),
    ]
    for change in changes:
        alter_table(store_table(table), [change])
    again = paimon_spark.open_table(table.path)
    again.append([{"k": 2**40, "text": "b", "p": "x", "extra": 5}])
    assert assert_same(iceberg_rest, table) == [(1, "a", "x", None), (2**40, "b", "x", 5)]
    found = seen(iceberg_rest, table)
    assert [each.schema_id for each in found.metadata.schemas] == [0, 1, 2, 3, 4], "changes of options are no schema"
    assert found.schema().schema_id == 4
    assert [each.schema_id for each in found.snapshots()] == [1, 4]
    alter_table(store_table(table), [DropColumn(("extra",))])
    again = paimon_spark.open_table(table.path)
    again.append([{"k": 3, "text": "c", "p": "y"}])
    assert len(assert_same(iceberg_rest, table)) == 3


def test_keys_are_read_after_a_compaction(tmp_path: Path, iceberg_rest: IcebergRestServer) -> None:
    table = new_table(tmp_path, iceberg_rest, primary_keys="k", bucket=1, write_only=True)
    table.append([row(1, "a"), row(2, "b")])
    table.append([row(2, "new"), row(3, "c")])
    assert rows(seen(iceberg_rest, table).scan().to_arrow()) != rows(table.scan().to_arrow())
    table.compact()
    assert assert_same(iceberg_rest, table) == [(1, "a", "x"), (2, "new", "x"), (3, "c", "x")]


def test_deletion_vectors_and_row_ids_of_version_3(tmp_path: Path, iceberg_rest: IcebergRestServer) -> None:
    table = new_table(tmp_path, iceberg_rest, **WIDE, **MANY)
    table.append([row(number, "a") for number in range(10)])
    table.delete("k in (3, 4)")
    table.append([row(20, "b")])
    found = seen(iceberg_rest, table)
    assert (found.metadata.format_version, found.metadata.next_row_id) == (3, next_row_id(table))
    assert deleted_rows(found) == 2
    assert ids(iceberg_rest, table) == [1, 2, 3]
    rollback_to_snapshot(store_table(table), 2)
    found = seen(iceberg_rest, table)
    assert found.current_snapshot().snapshot_id == 2
    table.append([row(30, "c")])
    found = seen(iceberg_rest, table)
    assert (found.current_snapshot().snapshot_id, deleted_rows(found)) == (3, 2)
    assert found.metadata.next_row_id == next_row_id(table), "no row id is given twice"


def deleted_rows(found: Any) -> int:
    manifests = found.current_snapshot().manifests(found.io)
    entries = [entry for each in manifests for entry in each.fetch_manifest_entry(found.io)]
    return sum(each.data_file.record_count for each in entries if each.data_file.content.value == 1)


def local_metadata(table: ArrowTable) -> dict[str, Any]:
    directory = Path(table.path).parents[1] / "iceberg" / "ice" / Path(table.path).name / "metadata"
    latest = (directory / "version-hint.text").read_text()
    found: dict[str, Any] = json.loads((directory / f"v{latest}.metadata.json").read_text())
    return found


def next_row_id(table: ArrowTable) -> int:
    return int(local_metadata(table)["next-row-id"])


def test_tags_and_expiry_are_seen_at_once(tmp_path: Path, iceberg_rest: IcebergRestServer) -> None:
    table = new_table(tmp_path, iceberg_rest)
    for number in range(4):
        table.append([row(number, "a")])
    table.tag("one", snapshot=1)
    table.tag("three", snapshot=3)
    refs = seen(iceberg_rest, table).metadata.refs
    assert {name: ref.snapshot_id for name, ref in refs.items()} == {"main": 4, "one": 1, "three": 3}
    delete_tag(store_table(table), "three")
    assert set(seen(iceberg_rest, table).metadata.refs) == {"main", "one"}
    expire_snapshots(store_table(table), retain_latest_only())
    assert ids(iceberg_rest, table) == [4]
    assert set(seen(iceberg_rest, table).metadata.refs) == {"main"}
    assert len(assert_same(iceberg_rest, table)) == 4
    table.append([row(9, "b")])
    assert len(assert_same(iceberg_rest, table)) == 5


@pytest.mark.usefixtures("no_pauses")
def test_commits_stand_while_the_catalog_is_down_and_the_next_one_brings_them(
    tmp_path: Path, iceberg_rest: IcebergRestServer, proxy: RestProxy, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path, proxy)
    table.append([row(1, "a")])
    uuid = seen(iceberg_rest, table).metadata.table_uuid
    proxy.fault = lambda *_: None
    for number in (2, 3):
        assert table.append([row(number, "b")]).snapshot_id == number
        assert f"snapshot {number} is committed, but readers of Iceberg do not see it before" in caplog.text
    assert "The Iceberg REST catalog at http://127.0.0.1:" in caplog.text
    assert len(rows(table.scan().to_arrow())) == 3
    assert rows(seen(iceberg_rest, table).scan().to_arrow()) == [(1, "a", "x")], "what it names is still there"
    proxy.fault = None
    table.append([row(4, "c")])
    assert len(assert_same(iceberg_rest, table)) == 4
    assert ids(iceberg_rest, table) == [1, 2, 3, 4]
    assert seen(iceberg_rest, table).metadata.table_uuid == uuid, "it was not made anew"


Answer = Callable[[], tuple[int, bytes]]


@pytest.mark.parametrize("lost", ["namespaces", "tables", "commit"])
@pytest.mark.parametrize("is_error", [False, True])
def test_an_answer_that_is_lost_after_success_is_made_good_by_the_next_commit(
    tmp_path: Path, iceberg_rest: IcebergRestServer, proxy: RestProxy, lost: str, is_error: bool
) -> None:
    table = new_table(tmp_path, proxy, **{"metadata.iceberg.database": f"db_{tmp_path.name}"})
    ends = {"namespaces": "namespaces", "tables": "/tables", "commit": f"/{Path(table.path).name}"}[lost]

    def fault(method: str, path: str, pass_on: Answer) -> tuple[int, bytes] | None:
        answer = pass_on()
        if method != "POST" or not path.endswith(ends):
            return answer
        return (500, b'{"error": {"message": "no", "code": 500}}') if is_error else None

    proxy.fault = fault
    assert table.append([row(1, "a")]).snapshot_id == 1
    proxy.fault = None
    table.append([row(2, "b")])
    found = iceberg_rest.table(Path(table.path).name, f"db_{tmp_path.name}")
    assert rows(found.scan().to_arrow()) == [(1, "a", "x"), (2, "b", "x")]
    assert [each.snapshot_id for each in found.snapshots()] == [1, 2]


def test_requests_of_a_commit(tmp_path: Path, proxy: RestProxy) -> None:
    table = new_table(tmp_path, proxy)
    name = Path(table.path).name
    proxy.taken()
    table.append([row(1, "a")])
    first = [each for each in proxy.taken() if each != "POST namespaces"]
    own = f"namespaces/ice/tables/{name}"
    assert first == ["GET config", f"GET {own}", "GET namespaces/ice", "POST namespaces/ice/tables", f"POST {own}"]
    table.append([row(2, "b")])
    assert proxy.taken() == ["GET config", f"GET {own}", f"POST {own}"]


def test_a_table_that_another_engine_made_is_left_as_it_is(
    tmp_path: Path, iceberg_rest: IcebergRestServer, caplog: pytest.LogCaptureFixture
) -> None:
    reader = iceberg_rest.reader()
    reader.create_namespace_if_not_exists("ice")
    theirs = reader.create_table(("ice", tmp_path.name), SCHEMA)
    assert new_table(tmp_path, iceberg_rest).append([row(1, "a")]).snapshot_id == 1
    assert f"has another table ice.{tmp_path.name}, which this one would replace" in caplog.text
    assert iceberg_rest.table(tmp_path.name).metadata.table_uuid == theirs.metadata.table_uuid
    assert iceberg_rest.table(tmp_path.name).current_snapshot() is None


@pytest.mark.parametrize("wide", [{}, WIDE])
def test_a_table_whose_metadata_was_lost_is_made_anew(
    tmp_path: Path, iceberg_rest: IcebergRestServer, wide: dict[str, str]
) -> None:
    table = new_table(tmp_path, iceberg_rest, **wide)
    for number in range(2):
        table.append([row(number, "a")])
    directory = Path(table.path).parents[1] / "iceberg" / "ice" / tmp_path.name / "metadata"
    (directory / "v2.metadata.json").write_text("{")
    table.append([row(3, "c")])
    assert ids(iceberg_rest, table) == [3]
    assert len(assert_same(iceberg_rest, table)) == 3
    table.append([row(4, "d")])
    assert ids(iceberg_rest, table) == [3, 4]
    assert len(assert_same(iceberg_rest, table)) == 4


def test_a_catalog_that_registers_no_tables_keeps_the_one_that_it_has(
    tmp_path: Path, iceberg_rest: IcebergRestServer, proxy: RestProxy, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path, proxy, **WIDE, **MANY)
    for number in range(3):
        table.append([row(number, "a")])
    uuid = seen(iceberg_rest, table).metadata.table_uuid

    def silent(method: str, path: str, pass_on: Answer) -> tuple[int, bytes] | None:
        status, content = pass_on()
        if path.startswith("config"):
            found = json.loads(content)
            found["endpoints"] = [each for each in found["endpoints"] if not each.endswith("/register")]
            content = json.dumps(found).encode()
        return status, content

    def unable(method: str, path: str, pass_on: Answer) -> tuple[int, bytes] | None:
        status, content = pass_on() if not path.endswith("/register") else (406, b"")
        return status, json.dumps({"defaults": {}, "overrides": {}}).encode() if path == "config" else content

    for fault in (silent, unable):
        proxy.fault = fault
        rollback_to_snapshot(store_table(table), 2)
        assert "cannot register tables, which the row ids of" in caplog.text
        caplog.clear()
        found = seen(iceberg_rest, table)
        assert (found.metadata.table_uuid, found.current_snapshot().snapshot_id) == (uuid, 3)
        proxy.fault = None
        table.append([row(9, "b")])
        assert seen(iceberg_rest, table).current_snapshot().snapshot_id == 3
        uuid = seen(iceberg_rest, table).metadata.table_uuid


def test_a_later_table_of_the_name_takes_the_place_of_one_that_was_dropped(
    tmp_path: Path, iceberg_rest: IcebergRestServer
) -> None:
    table = new_table(tmp_path, iceberg_rest)
    table.append([row(1, "a")])
    table.append([row(2, "a")])
    open_catalog(str(tmp_path / "wh"), {}).drop_table("ice", tmp_path.name)
    again = new_table(tmp_path, iceberg_rest)
    again.append([row(5, "new")])
    assert assert_same(iceberg_rest, again) == [(5, "new", "x")]
    assert ids(iceberg_rest, again) == [1]


def test_names_properties_and_who_asks_are_options(
    tmp_path: Path, iceberg_rest: IcebergRestServer, proxy: RestProxy
) -> None:
    shown: list[str] = []
    proxy.sees = lambda headers: shown.append(f"{headers.get('Authorization')} {headers.get('X-Own')}")
    options = {
        "metadata.iceberg.rest.header.X-Own": "mine",
        "metadata.iceberg.rest.token": "a-secret",
        "metadata.iceberg.database": "elsewhere",
        "metadata.iceberg.table": tmp_path.name,
        "metadata.iceberg.storage-location": "table-location",
        "metadata.iceberg.table-properties.owner": "me",
        "metadata.iceberg.table-properties.format-version": "1",
        "metadata.iceberg.previous-versions-max": "7",
        "metadata.iceberg.delete-after-commit.enabled": "false",
    }
    table = new_table(tmp_path, proxy, **options)
    table.append([row(1, "a")])
    found = iceberg_rest.table(tmp_path.name, "elsewhere")
    assert rows(found.scan().to_arrow()) == [(1, "a", "x")]
    assert found.current_snapshot().manifest_list.startswith(f"{table.path}/metadata/")
    assert found.metadata.format_version == 2
    assert {key: found.properties[key] for key in sorted(found.properties) if "compression" not in key} == {
        "owner": "me",
        "write.metadata.delete-after-commit.enabled": "false",
        "write.metadata.previous-versions-max": "7",
    }
    assert set(shown) == {"Bearer a-secret mine"}
    assert "a-secret" not in repr(table)
    with pytest.raises(NoSuchTableError):
        seen(iceberg_rest, table)
    shown.clear()
    alter_table(store_table(table), [SetOption("metadata.iceberg.table-properties.owner", "you")])
    paimon_spark.open_table(table.path).append([row(2, "b")])
    assert iceberg_rest.table(tmp_path.name, "elsewhere").properties["owner"] == "you"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"credential": "me:secret", "scope": "all"}, "Bearer client-credentials-token:sub=me"),
        (
            {"rest.auth.type": "basic", "rest.auth.basic.username": "me", "rest.auth.basic.password": "pw"},
            "Basic bWU6cHc=",
        ),
        ({"rest.auth.type": "none", "token": "unused"}, "None"),
    ],
)
def test_who_asks(
    tmp_path: Path, iceberg_rest: IcebergRestServer, proxy: RestProxy, options: dict[str, str], shown: str
) -> None:
    seen_headers: list[str] = []
    proxy.sees = lambda headers: seen_headers.append(str(headers.get("Authorization")))
    table = new_table(tmp_path, proxy, **{f"metadata.iceberg.rest.{key}": value for key, value in options.items()})
    table.append([row(1, "a")])
    assert len(assert_same(iceberg_rest, table)) == 1
    if "credential" in options:
        assert seen_headers.pop(0) == "None"
        assert proxy.requests[0] == ("POST", "oauth/tokens")
        assert proxy.bodies[0] == b"grant_type=client_credentials&scope=all&client_id=me&client_secret=secret"
    assert set(seen_headers) == {shown}


def test_what_the_catalog_says_of_itself_counts(
    tmp_path: Path, proxy: RestProxy, caplog: pytest.LogCaptureFixture
) -> None:
    paths: list[str] = []

    def fault(method: str, path: str, pass_on: Answer) -> tuple[int, bytes] | None:
        if path.startswith("config"):
            overrides = {"prefix": "a/b c", "token": "from-there"}
            return 200, json.dumps({"defaults": {"header.X-Own": "theirs"}, "overrides": overrides}).encode()
        paths.append(path)
        return 403, b'{"error": {"message": "not with from-there", "code": 403}}'

    shown: list[tuple[Any, Any]] = []
    proxy.fault, proxy.sees = fault, lambda headers: shown.append((headers.get("Authorization"), headers.get("X-Own")))
    table = new_table(
        tmp_path, proxy, **{"metadata.iceberg.rest.warehouse": "wh 1", "metadata.iceberg.rest.token": "x"}
    )
    table.append([row(1, "a")])
    assert proxy.requests[0] == ("GET", "config?warehouse=wh+1")
    assert paths == [f"a/b+c/namespaces/ice/tables/{tmp_path.name}"]
    assert shown == [("Bearer x", None), ("Bearer from-there", "theirs")]
    assert "refuses the request (HTTP 403): not with ***." in caplog.text
    assert "from-there" not in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, OptionError, "needs the option 'metadata.iceberg.rest.uri'"),
        (
            {"rest.uri": "u", "rest.rest.sigv4-enabled": "true"},
            UnsupportedError,
            "'metadata.iceberg.rest.rest.sigv4-enabled'",
        ),
        ({"rest.uri": "u", "rest.rest.auth.type": "google"}, UnsupportedError, "'google' is not supported"),
        ({"rest.uri": "u", "database": "a;b"}, UnsupportedError, "in one database"),
    ],
)
def test_a_table_without_a_catalog_is_refused_before_a_file_is_written(
    tmp_path: Path, options: dict[str, str], error: type[Exception], words: str
) -> None:
    given = {**STORAGE, **{f"metadata.iceberg.{key}": value for key, value in options.items()}}
    table = paimon_spark.create_table("ice.t", SCHEMA, catalog=str(tmp_path / "wh"), **given)
    with pytest.raises(error, match=words):
        table.append([row(1, "a")])
    assert not list(Path(table.path).glob("bucket-*"))
