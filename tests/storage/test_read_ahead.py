"""What is asked of a store before it is read: in which requests, how many at once, how much waits in memory."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.asyn import AsyncFileSystem

from paimon_spark.errors import CorruptTableError, StorageDeniedError, StorageError
from paimon_spark.spec.data_types import BigIntType, DataField
from paimon_spark.storage.file_io import FileIO, LocalFileIO
from paimon_spark.storage.parquet_footer import chunks_in_order
from paimon_spark.storage.parquet_format import ParquetReader
from paimon_spark.storage.read_ahead import REQUESTS_AT_ONCE, FilesAhead, NamedFetch, RangesAhead
from paimon_spark.storage.store_requests import open_object
from tests.support.seeds import chance
from tests.support.store_servers import store_server

DATA = random.Random(7).randbytes(4 << 20)


class Asked(Future[bytes]):
    """A request whose answer comes when it is waited for."""

    def __init__(self, answer: bytes, store: Store) -> None:
        super().__init__()
        self._answer = answer
        self._store = store
        self.open = True

    def result(self, timeout: float | None = None) -> bytes:
        self._end()
        return self._answer

    def cancel(self) -> bool:
        self._end()
        return True

    def _end(self) -> None:
        if self.open:
            self.open = False
            self._store.under_way -= 1


@dataclass
class Store:
    """Notes what it is asked for."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def start(self, start: int, end: int) -> Asked:
        self.asked.append((start, end))
        return self.begin(DATA[start:end])

    def begin(self, answer: bytes) -> Asked:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return Asked(answer, self)


def test_near_ranges_are_one_request_and_long_ones_several() -> None:
    store = Store()
    ahead = RangesAhead(store.start, 4 << 20)
    ahead.expect([[(100, 200), (300, 400), (1_500_000, 2_700_000)]], piece_bytes=1 << 20)
    assert store.asked == [(100, 400), (1_500_000, 2_548_576), (2_548_576, 2_700_000)]
    assert ahead.read(100, 200) == DATA[100:200]
    assert ahead.read(300, 400) == DATA[300:400]
    assert ahead.read(1_500_000, 2_700_000) == DATA[1_500_000:2_700_000]
    assert len(store.asked) == 3
    assert ahead.read(100, 200) is None, "what was read is not kept"
    assert ahead.read(3_000_000, 3_000_001) is None
    assert ahead.read(0, 150) is None


def test_pending_data_is_bounded() -> None:
    store = Store()
    ahead = RangesAhead(store.start, 300_000)
    chunks = [(at, at + 100_000) for at in range(0, 4_000_000, 100_000)]
    ahead.expect([chunks], piece_bytes=100_000)
    assert len(store.asked) == 3
    for number, (start, end) in enumerate(chunks):
        for at in range(start, end, 25_000):
            assert ahead.read(at, at + 25_000) == DATA[at : at + 25_000]
        assert len(store.asked) == min(number + 4, len(chunks))
    ahead.expect([[(at, at + 10) for at in range(0, 4_000_000, 10_000)]], piece_bytes=10)
    assert store.under_way == REQUESTS_AT_ONCE


def test_columns_side_by_side_have_their_next_piece_each() -> None:
    store = Store()
    ahead = RangesAhead(store.start, 50_000)
    lanes = [[(at, at + 500_000)] for at in (0, 1_000_000, 2_000_000)]
    ahead.expect(lanes, piece_bytes=10_000)
    assert sorted(store.asked[:3]) == [(0, 10_000), (1_000_000, 1_010_000), (2_000_000, 2_010_000)]
    assert len(store.asked) == 5
    for at in range(0, 500_000, 10_000):
        for lane in lanes:
            start = lane[0][0] + at
            assert ahead.read(start, start + 10_000) == DATA[start : start + 10_000]
    assert len(store.asked) == len(set(store.asked)) == 150
    assert not store.under_way


@pytest.mark.parametrize("turn", range(20))
def test_whatever_is_read_is_what_is_there(turn: int) -> None:
    """Reads in any order and length, foretold or not."""
    dice = chance("read ahead", turn)
    store = Store()
    ahead = RangesAhead(store.start, dice.choice([1, 10_000, 1 << 20]))
    ends = sorted(dice.sample(range(1, 100_000), 12))
    ranges = [(start, end) for start, end in zip(ends[::2], ends[1::2], strict=True)]
    ahead.expect([ranges[:3], ranges[3:]], piece_bytes=dice.choice([7, 1000, 1 << 20]))
    for _ in range(200):
        start = dice.randrange(100_000)
        end = start + dice.randrange(1, 5000)
        assert ahead.read(start, end) in (None, DATA[start:end])
    assert ahead._held_bytes >= 0
    ahead.forget()
    assert not store.under_way


def test_ranges_of_a_damaged_footer_are_not_asked_for() -> None:
    store = Store()
    ahead = RangesAhead(store.start, 1 << 20)
    ahead.expect([[(0, 100), (50, 150)]])
    assert store.asked == []
    assert ahead.read(0, 100) is None


@pytest.mark.parametrize("side_by_side", [False, True])
def test_pyarrow_reads_the_chunks_that_are_foretold(side_by_side: bool) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({name: np.random.default_rng(3).integers(0, 1 << 60, 3_000) for name in "abc"})
    pq.write_table(table, sink, row_group_size=1_000)
    data = sink.getvalue().to_pybytes()
    footer = pq.read_metadata(pa.BufferReader(data))
    lanes = chunks_in_order(footer, [2, 0], ["c", "a"], side_by_side=side_by_side)
    found: list[tuple[int, int]] = []

    class Noting:
        closed = False
        at = 0

        def read(self, size: int) -> bytes:
            found.append((self.at, self.at + size))
            self.at += size
            return data[self.at - size : self.at]

        def seek(self, offset: int, whence: int = 0) -> int:
            self.at = offset + (0, self.at, len(data))[whence]
            return self.at

        def tell(self) -> int:
            return self.at

        def close(self) -> None:
            self.closed = True

    file = pq.ParquetFile(pa.PythonFile(Noting(), mode="r"), metadata=footer, pre_buffer=False)
    found.clear()
    assert sum(len(batch) for batch in file.iter_batches(500, [2, 0], ["c", "a"], use_threads=False)) == 2_000
    assert sorted(found) == sorted(location for lane in lanes for location in lane)
    assert side_by_side or found == lanes[0]


class Far(AsyncFileSystem):  # type: ignore[misc]
    """A store whose requests wait for each other only as far as its client waits for them."""

    cachable = False

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.sizes: list[int] = []
        self.under_way: list[int] = []
        self.most_at_once = self.most_bytes = 0

    async def _cat_file(self, path: str, start: int = 0, end: int | None = None, **_: object) -> bytes:
        found = self.data[start:end]
        self.sizes.append(len(found))
        self.under_way.append(len(found))
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        self.most_bytes = max(self.most_bytes, sum(self.under_way))
        await asyncio.sleep(0.01)
        self.under_way.remove(len(found))
        return found


class FarFiles:
    """A source of one file in it."""

    def __init__(self, store: Far) -> None:
        self.store = store

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_object(self.store, "gs", path, size, path, ())

    def read_bytes(self, path: str) -> bytes:
        return self.store.data


@pytest.mark.parametrize(
    ("batch_bytes", "requests", "at_once", "most_bytes"), [(32 << 20, 2, 1, 32 << 20), (1 << 19, 20, 3, 2 << 20)]
)
def test_column_chunks_come_in_few_requests_at_once_and_within_the_memory_of_a_batch(
    batch_bytes: int, requests: int, at_once: int, most_bytes: int
) -> None:
    rows, numbers = 120_000, np.random.default_rng(3)
    table = pa.table({name: numbers.integers(0, 1 << 60, rows) for name in "abcd"})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows // 2, use_dictionary=False)
    store = Far(sink.getvalue().to_pybytes())
    fields = [DataField(at, name, BigIntType()) for at, name in enumerate("abc")]
    with ParquetReader(FarFiles(store), "f", len(store.data)) as reader:
        found = pa.Table.from_batches(list(reader.read_batches(fields, batch_bytes=batch_bytes)))
    assert found.equals(table.select(["a", "b", "c"]))
    assert len(store.sizes) <= requests
    assert at_once <= store.most_at_once
    assert store.most_bytes <= most_bytes


class Remote(LocalFileIO):
    """A disk as a store far away, whose requests are counted."""

    store: Store

    def fetch(self, path: str) -> Asked:
        return self.store.begin(self.read_bytes(path))


def remote(store: Store) -> Remote:
    file_io = Remote()
    object.__setattr__(file_io, "store", store)
    return file_io


def test_small_files_are_asked_for_many_at_once(tmp_path: object) -> None:
    file_io = FileIO.for_path(str(tmp_path))
    sizes = {f"{tmp_path}/{n}": 1000 + n for n in range(40)}
    for path, size in sizes.items():
        file_io.write_bytes(path, bytes(size))
    file_io.write_bytes(f"{tmp_path}/large", bytes(2 << 20))
    store = Store()
    ahead = FilesAhead(remote(store), [(f"{tmp_path}/large", 2 << 20), *sizes.items()])
    assert store.under_way == REQUESTS_AT_ONCE
    with ahead.open_input(f"{tmp_path}/large", 2 << 20) as file:
        assert file.size() == 2 << 20
    for path, size in sizes.items():
        with ahead.open_input(path, size) as file:
            assert file.size() == size
    assert store.most_under_way == REQUESTS_AT_ONCE + 1
    with ahead.open_input(f"{tmp_path}/3", 1003) as again:
        assert again.read() == bytes(1003)
    torn = FilesAhead(remote(Store()), [(f"{tmp_path}/5", 1004)])
    with pytest.raises(CorruptTableError, match="has 1005 bytes, but its manifest entry says 1004"):
        torn.open_input(f"{tmp_path}/5", 1004)
    few = Store()
    bounded = FilesAhead(remote(few), sizes.items(), most_bytes=3500)
    assert few.under_way == 3
    assert bounded.read_bytes(f"{tmp_path}/20") == bytes(1020), "one that is opened out of turn waits for none"
    del bounded
    assert not few.under_way


def test_errors_come_to_the_reader_of_the_file() -> None:
    failed: Future[bytes] = Future()
    failed.set_exception(PermissionError("key hidden"))
    with pytest.raises(StorageDeniedError, match=r"s3://b/f.*key \*\*\*") as caught:
        NamedFetch(failed, None, "s3://b/f", ("hidden",)).result()
    assert isinstance(caught.value, StorageError)


class Noted:
    """Wraps the reads of a store far away; notes how many were under way at once.

    The first answers come when so many requests as are expected are under way, or after some seconds.
    """

    def __init__(self, read: Callable[..., bytes], expected: int) -> None:
        self._read = read
        self._expected, self._met = expected, threading.Event()
        self._lock = threading.Lock()
        self.calls = self._now = self.most = 0

    def __call__(self, *given: object, **named: object) -> bytes:
        with self._lock:
            self._now += 1
            self.calls += 1
            self.most = max(self.most, self._now)
            if self.most >= self._expected:
                self._met.set()
        self._met.wait(5)
        found = self._read(*given, **named)
        with self._lock:
            self._now -= 1
        return found


@pytest.mark.parametrize("store", ["oss", pytest.param("hdfs", marks=pytest.mark.thorough)])
def test_clients_that_can_only_wait_are_asked_by_threads(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_server(store) as server:
        file_io = FileIO.for_path(server.root, server.options)
        sizes = {f"{server.root}/few/{n}": 100 + n for n in range(20)}
        for path, size in sizes.items():
            file_io.write_bytes(path, bytes(size))
        noted = Noted(file_io.filesystem(server.root).cat_file, REQUESTS_AT_ONCE)  # type: ignore[attr-defined]
        monkeypatch.setattr(file_io.filesystem(server.root), "cat_file", noted)  # type: ignore[attr-defined]
        ahead = FilesAhead(file_io, sizes.items())
        for path, size in sizes.items():
            with ahead.open_input(path, size) as file:
                assert file.read() == bytes(size)
        assert (noted.calls, noted.most) == (20, REQUESTS_AT_ONCE)
        gone = FilesAhead(file_io, [(f"{server.root}/few/none", 3)])
        with pytest.raises(FileNotFoundError, match="few/none"):
            gone.open_input(f"{server.root}/few/none", 3)


def test_a_large_object_of_oss_is_read_in_ranges_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with store_server("oss") as server:
        file_io = FileIO.for_path(server.root, server.options)
        path = f"{server.root}/large"
        file_io.write_bytes(path, DATA)
        noted = Noted(file_io.filesystem(server.root).cat_file, 4)  # type: ignore[attr-defined]
        monkeypatch.setattr(file_io.filesystem(server.root), "cat_file", noted)  # type: ignore[attr-defined]
        monkeypatch.setattr(file_io.filesystem(server.root), "info", None)  # type: ignore[attr-defined]
        with file_io.open_input(path, len(DATA)) as file:
            file.expect([[(0, len(DATA))]], 4 << 20, 1 << 20)
            assert file.read() == DATA
        assert (noted.calls, noted.most) == (4, 4)
        cut = len(DATA) + 100
        with file_io.open_input(path, cut) as file:
            file.seek(len(DATA) + 10)
            with pytest.raises(StorageError):
                file.read(20)


class Holding(ThreadingHTTPServer):
    """A store that answers each read when so many are under way as it waits for, or after some seconds."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, expected: int) -> None:
        super().__init__(("127.0.0.1", 0), _Held)
        self.expected, self.met = expected, threading.Event()
        self.lock = threading.Lock()
        self.now = self.most = 0


class _Held(BaseHTTPRequestHandler):
    server: Holding

    def do_GET(self) -> None:
        store = self.server
        with store.lock:
            store.now += 1
            store.most = max(store.most, store.now)
            if store.most >= store.expected:
                store.met.set()
        store.met.wait(5)
        with store.lock:
            store.now -= 1
        self.send_response(200)
        for name, value in (("Content-Length", "100"), ("ETag", '"1"'), ("Content-Range", "bytes 0-99/100")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(bytes(100))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def holding(expected: int) -> Iterator[Holding]:
    server = Holding(expected)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.met.set()
        server.shutdown()
        server.server_close()
        thread.join()


def far_options(scheme: str, url: str) -> dict[str, str]:
    if scheme == "abfs":
        account = "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=aGlkZGVu"
        return {"fs.connection_string": f"{account};BlobEndpoint={url}/account;"}
    if scheme == "gs":
        return {"fs.endpoint_url": url, "fs.token": "anon"}
    return {"s3.endpoint": url, "fs.anon": "true", "s3.path-style-access": "true", "s3.region": "us-east-1"}


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
def test_the_client_of_a_store_sends_what_is_asked_for_at_once(scheme: str, readers: int) -> None:
    """One reader asks for 16 files, and the threads of a driver are several readers."""
    with holding(readers * REQUESTS_AT_ONCE) as server:
        root = f"{scheme}://b/few"
        file_io = FileIO.for_path(root, far_options(scheme, f"http://127.0.0.1:{server.server_port}"))
        files = [[(f"{root}/{reader}-{n}", 100) for n in range(REQUESTS_AT_ONCE)] for reader in range(readers)]
        ahead = [FilesAhead(file_io, mine) for mine in files]
        for mine, reader in zip(files, ahead, strict=True):
            for path, size in mine:
                with reader.open_input(path, size) as file:
                    assert file.read() == bytes(size)
        assert server.most == readers * REQUESTS_AT_ONCE


def test_connections_of_s3_are_as_many_as_are_given() -> None:
    with holding(5) as server:
        options = {**far_options("s3", f"http://127.0.0.1:{server.server_port}"), "s3.connection.maximum": "5"}
        files = [(f"s3://b/few/{n}", 100) for n in range(REQUESTS_AT_ONCE)]
        ahead = FilesAhead(FileIO.for_path("s3://b/few", options), files)
        for path, size in files:
            with ahead.open_input(path, size) as file:
                assert file.read() == bytes(size)
        assert server.most == 5
