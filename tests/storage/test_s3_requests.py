"""How many requests a store is sent: each one is a user's wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.superseded_rows import has_key_twice
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.jobs.keyed_merges import overlapping_files
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import check_sizes
from paimon_spark.storage.store_requests import KEPT, KeptFiles
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.s3_server import BUCKET, requests_of, s3_server

ROOT = f"s3a://{BUCKET}/wh"
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])


@pytest.fixture(scope="module")
def catalog() -> Iterator[FilesystemCatalog]:
    """A database `d` with a table `t` of four buckets, into which rows were written twice."""
    with s3_server() as server:
        catalog = FilesystemCatalog(ROOT, server.options)
        catalog.create_database("d")
        fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", IntType())]
        catalog.create_table("d", "t", create_schema(fields, ["k"], [], {"bucket": "4"}))
        insert(catalog, range(8))
        insert(catalog, range(8))
        yield catalog


def insert(catalog: FilesystemCatalog, keys: range) -> None:
    table = catalog.load_table("d", "t")
    plan = plan_write(table, data_schema=SCHEMA)
    rows = pa.RecordBatch.from_pydict({"k": list(keys), "v": list(keys)}, schema=SCHEMA)
    commit(table, [write_batches(plan, iter([rows]), 0)])


def read(catalog: FilesystemCatalog) -> tuple[Any, list[pa.RecordBatch]]:
    plan = TableScan.of(catalog.load_table("d", "t"), ROWS).select().plan()
    return plan, [batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields)]


@pytest.fixture
def seen(catalog: FilesystemCatalog) -> Iterator[list[str]]:
    """The requests of this test; what a table holds is known to the process."""
    read(catalog)
    with requests_of(catalog.file_io.filesystem(ROOT)) as seen:  # type: ignore[attr-defined]
        yield seen


def kinds(seen: list[str]) -> dict[str, int]:
    found = [request.split()[0] for request in seen]
    return {kind: found.count(kind) for kind in sorted(set(found))}


def test_a_table_is_planned_with_what_can_have_changed(catalog: FilesystemCatalog, seen: list[str]) -> None:
    TableScan.of(catalog.load_table("d", "t"), ROWS).select().plan()
    assert seen == ["LIST wh/d.db/t/schema/", "LIST wh/d.db/t/snapshot/"]


def test_the_latest_snapshot_is_asked_for_with_one_request(catalog: FilesystemCatalog, seen: list[str]) -> None:
    """A stream asks several times in each batch."""
    snapshots = catalog.load_table("d", "t").snapshots
    seen.clear()
    assert snapshots.latest_id() == snapshots.ids()[-1]
    assert seen == ["LIST wh/d.db/t/snapshot/"] * 2


def test_a_small_file_is_read_with_one_request(catalog: FilesystemCatalog, seen: list[str]) -> None:
    plan, batches = read(catalog)
    files = [file for split in plan.splits for file in split.files]
    assert sum(batch.num_rows for batch in batches) == 8
    assert len([request for request in seen if "/bucket-" in request]) == len(files)
    assert len(seen) == 2 + len(files)


def test_a_write_into_four_buckets(catalog: FilesystemCatalog, seen: list[str]) -> None:
    insert(catalog, range(8))
    # four data files, a manifest, two lists, the snapshot, the hint
    assert kinds(seen) == {"GET": 2, "HEAD": 1, "LIST": 4, "PUT": 9}


def test_tags_and_names(catalog: FilesystemCatalog, seen: list[str]) -> None:
    assert catalog.tables("d") == ["t"]
    assert kinds(seen) == {"LIST": 2}
    seen.clear()
    create_tag(catalog.load_table("d", "t"), "one")
    assert kinds(seen) == {"LIST": 3, "PUT": 1}


def test_a_process_that_knows_nothing_reads_each_file_once(catalog: FilesystemCatalog, seen: list[str]) -> None:
    read(catalog)
    seen.clear()
    KEPT.clear()
    TableScan.of(catalog.load_table("d", "t"), ROWS).select().plan()
    changing = [request for request in seen if "/manifest/" not in request]
    latest = catalog.load_table("d", "t").snapshots.ids()[-1]
    assert changing == [
        "LIST wh/d.db/t/schema/",
        "GET wh/d.db/t/schema/schema-0",
        "LIST wh/d.db/t/snapshot/",
        "GET wh/d.db/t/snapshot/LATEST",
        f"GET wh/d.db/t/snapshot/snapshot-{latest}",
    ]


def test_what_another_process_commits_is_seen(catalog: FilesystemCatalog) -> None:
    """Nothing that can change is kept."""
    before = len(read(catalog)[0].splits[0].files)
    insert(catalog, range(8))
    assert len(read(catalog)[0].splits[0].files) == before + 1


def test_a_small_file_of_another_size_is_refused(catalog: FilesystemCatalog) -> None:
    file_io = FileIO.for_path(ROOT, catalog.options)
    path = f"{ROOT}/data.parquet"
    file_io.write_bytes(path, b"123")
    with file_io.open_input(path, 4) as file, pytest.raises(CorruptTableError, match="has 3 bytes, but its manifest"):
        file.read(2)


def test_a_large_file_is_read_in_ranges(catalog: FilesystemCatalog, seen: list[str]) -> None:
    file_io = FileIO.for_path(ROOT, catalog.options)
    data = bytes(range(256)) * (1 << 13)
    file_io.write_bytes(f"{ROOT}/large", data, overwrite=True)
    seen.clear()
    with file_io.open_input(f"{ROOT}/large", len(data)) as file:
        file.seek(len(data) - 10)
        assert file.read(20) == data[-10:]
        assert file.read_at(300, 1000) == data[1000:1300]
    assert seen == ["GET wh/large"] * 2


def test_directories_are_listed_with_one_request(catalog: FilesystemCatalog, seen: list[str]) -> None:
    file_io = FileIO.for_path(ROOT, catalog.options)
    for name in ("e", "e-1", "e.x", "f/a", "f/b/c", "f-1/a"):
        file_io.write_bytes(f"{ROOT}/listed/{name}", b"12", overwrite=True)
    seen.clear()
    found = sorted((entry.name, entry.size, entry.is_dir) for entry in file_io.list_names(f"{ROOT}/listed/f"))
    assert found == [("a", 2, False), ("b", 0, True)]
    assert all(entry.mtime_millis > 1 << 40 for entry in file_io.list_names(f"{ROOT}/listed") if not entry.is_dir)
    assert file_io.list_names(f"{ROOT}/listed/none") == []
    assert [name for name in ("e", "f", "f/b", "e.x", "g", "e-", "f-") if file_io.exists(f"{ROOT}/listed/{name}")] == [
        "e", "f", "f/b", "e.x"
    ]  # fmt: skip
    assert kinds(seen) == {"LIST": 3 + 7}
    assert not file_io.exists("s3a://no-such-bucket/wh")


def test_long_directories_come_in_pages(catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    file_io = FileIO.for_path(ROOT, catalog.options)
    for name in range(5):
        file_io.write_bytes(f"{ROOT}/paged/{name}-{'x' * name}/a", b"1", overwrite=True)
    store = file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    monkeypatch.setattr(store, "req_kw", {"MaxKeys": 2})
    assert len(file_io.list_names(f"{ROOT}/paged")) == 5
    assert file_io.exists(f"{ROOT}/paged/4-xxxx")
    assert not file_io.exists(f"{ROOT}/paged/4")


NAMES = [f"b/manifest/manifest-0aa0a0a0-0000-0000-0000-00000000000{n}-0" for n in range(5)]


def test_kept_files_have_a_budget_and_end_with_their_deletion() -> None:
    kept = KeptFiles(most_bytes=10)
    for name in NAMES:
        kept.put("store", "s3", name, b"1234")
    assert [kept.get("store", name) is not None for name in NAMES] == [False, False, False, True, True]
    assert kept.get("another store", NAMES[4]) is None
    kept.drop("store", NAMES[4:])
    assert kept.get("store", NAMES[4]) is None
    kept.drop_below("store", "b/manifest")
    assert kept.get("store", NAMES[3]) is None
    kept.put("store", "s3", NAMES[0], b"1234567890")
    assert kept.get("store", NAMES[0]) == b"1234567890"
    kept.put("store", "file", NAMES[1], b"1")
    kept.put("store", "s3", "b/snapshot/snapshot-1", b"1")
    kept.put("store", "s3", "b/schema/schema-0", b"1")
    assert [kept.get("store", name) for name in (NAMES[1], "b/snapshot/snapshot-1", "b/schema/schema-0")] == [None] * 3


def test_a_large_directory_is_listed_as_a_whole_once(catalog: FilesystemCatalog) -> None:
    catalog.create_database("large")
    store = catalog.file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    for name, folder in (("a", "schema"), ("b", "schema"), ("none", "other")):
        store.pipe_file(f"{BUCKET}/wh/large.db/{name}/{folder}/schema-0", b"{}")
    with requests_of(store) as seen:
        assert catalog.tables("large") == ["a", "b"]
    assert seen == ["LIST wh/large.db/"] * 2
    store.pipe({f"{BUCKET}/wh/large.db/b/bucket-0/{n}": b"" for n in range(301)})
    for requests in (5, 4):
        with requests_of(store) as seen:
            assert catalog.tables("large") == ["a", "b"]
        assert len(seen) == requests


def test_keys_of_many_buckets_are_asked_for_at_once(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyed MERGE asks whether a key came twice: each file is one request, and no bucket waits for another one."""
    buckets = 16
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", IntType())]
    catalog.create_table("d", "many", create_schema(fields, ["k"], [], {"bucket": str(buckets)}))
    table = catalog.load_table("d", "many")
    messages = []
    for task in range(2):
        rows = pa.RecordBatch.from_pydict({"k": range(task, 1000, 2), "v": range(task, 1000, 2)}, schema=SCHEMA)
        messages.append(write_batches(plan_write(table, data_schema=SCHEMA), iter([rows]), task))
    files = overlapping_files(table.schema, messages)
    assert [len(found) for found in files.values()] == [2] * buckets
    store = catalog.file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    held = Held(store._cat_file, 2 * buckets)
    monkeypatch.setattr(store, "_cat_file", held)
    with requests_of(store) as seen:
        assert not has_key_twice(table, files)
    assert kinds(seen) == {"GET": 2 * buckets}
    assert held.most == 2 * buckets


def test_sizes_of_files_in_many_directories_are_few_requests(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's reader is given files whose sizes were looked at: a scan of many partitions lists no directory alone."""
    file_io = FileIO.for_path(ROOT, catalog.options)
    store = file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    names = [f"{BUCKET}/wh/sized/p=ä {n}/bucket-{b}/data-{n}.parquet" for n in range(40) for b in range(3)]
    store.pipe({name: b"x" * (1 + at % 7) for at, name in enumerate(names)})
    wanted = {f"s3a://{name}": 1 + at % 7 for at, name in enumerate(names) if at % 2}
    gone = f"{ROOT}/sized/p=ä 1/bucket-1/none.parquet"
    with requests_of(store) as seen:
        assert file_io.sizes([*wanted, gone]) == wanted
    assert len(seen) <= file_io.threads
    with requests_of(store) as seen:
        assert file_io.sizes(list(wanted)[:2]) == dict(list(wanted.items())[:2])
    assert len(seen) <= 2
    monkeypatch.setattr(store, "req_kw", {"MaxKeys": 3})
    assert file_io.sizes([*wanted, gone]) == wanted
    assert file_io.sizes([gone]) == {}
    check_sizes(file_io, wanted)
    with pytest.raises(CorruptTableError, match="bytes, but its manifest entry says 100"):
        check_sizes(file_io, {**wanted, next(iter(wanted)): 100})


def new_table(catalog: FilesystemCatalog, name: str) -> tuple[FileStoreTable, list[TaskMessage]]:
    """A table without a snapshot, and rows that are written and not committed."""
    fields = [DataField(0, "k", IntType()), DataField(1, "v", IntType())]
    catalog.create_table("d", name, create_schema(fields, [], [], {}))
    table = catalog.load_table("d", name)
    rows = pa.RecordBatch.from_pydict({"k": [1], "v": [1]}, schema=SCHEMA)
    return table, [write_batches(plan_write(table, data_schema=SCHEMA), iter([rows]), 0)]


def test_the_first_commit_of_a_table(catalog: FilesystemCatalog) -> None:
    """No snapshot is looked for where a listing shows that there is none, and EARLIEST is written without a search."""
    table, messages = new_table(catalog, "first")
    with requests_of(catalog.file_io.filesystem(ROOT)) as seen:  # type: ignore[attr-defined]
        commit(table, messages, after_commit=maintenance(table))
    assert kinds(seen) == {"GET": 1, "HEAD": 1, "LIST": 5, "PUT": 6}
    with requests_of(catalog.file_io.filesystem(ROOT)) as seen:  # type: ignore[attr-defined]
        assert table.snapshots.latest_id() == table.snapshots.earliest_id() == 1
    assert kinds(seen) == {"GET": 1, "HEAD": 1, "LIST": 1}


def test_the_metadata_files_of_a_commit_are_written_at_once(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, messages = new_table(catalog, "at_once")
    store = catalog.file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    own, held = store._call_s3, Held(store._call_s3, 3)

    async def hold(method: str, *given: Any, **named: Any) -> Any:
        is_metadata = method == "put_object" and "/manifest/" in named["Key"]
        return await (held if is_metadata else own)(method, *given, **named)

    monkeypatch.setattr(store, "_call_s3", hold)
    commit(table, messages)
    assert held.most == 3  # a manifest, and two lists


def test_a_metadata_file_that_cannot_be_written_ends_the_commit_and_the_others(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, messages = new_table(catalog, "not_written")
    store = catalog.file_io.filesystem(ROOT)  # type: ignore[attr-defined]
    own = store._call_s3

    async def refuse_lists(method: str, *given: Any, **named: Any) -> Any:
        if method == "put_object" and "manifest-list" in named["Key"]:
            raise PermissionError("Access Denied")
        return await own(method, *given, **named)

    monkeypatch.setattr(store, "_call_s3", refuse_lists)
    with pytest.raises(PaimonError, match="Access Denied"):
        commit(table, messages)
    monkeypatch.undo()
    assert table.file_io.list_names(f"{table.path}/manifest") == []
    assert table.snapshots.latest_id() is None


class Held:
    """Requests to a store, which are answered when so many are under way as are expected, or after some seconds."""

    def __init__(self, read: Callable[..., Awaitable[Any]], expected: int) -> None:
        self._read, self._expected = read, expected
        self._met = asyncio.Event()
        self._now = self.most = 0

    async def __call__(self, *given: Any, **named: Any) -> Any:
        self._now += 1
        self.most = max(self.most, self._now)
        if self.most >= self._expected:
            self._met.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._met.wait(), 5)
        self._now -= 1
        return await self._read(*given, **named)
