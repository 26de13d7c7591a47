"""Many processes commit to one table of a store, and some of them die: each commit is there once, or not at all.

`PAIMON_SPARK_TESTS_STORE_COMMITS=10 python -m pytest tests/storage/test_store_races.py` lets each process commit that
often, and lets a process die at each request instead of at some.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.faults import FaultyFileIO
from tests.support.faulty_server import Fault, faulty
from tests.support.racing import PATIENT, Deed, race
from tests.support.seeds import chance
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, insert, rows_of

COMMITS = int(os.environ.get("PAIMON_SPARK_TESTS_STORE_COMMITS", "3"))
PROCESSES = 6
KILLS = 4 if COMMITS < 10 else 60
SUMS = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
"""Rows of a key are added up: a commit that is there twice shows."""
_KEEP = Retention(3, 3, timedelta(0), 10)
_TOTAL = 0


@pytest.fixture(scope="module", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with store_server(request.param) as running:
        yield running


@pytest.fixture
def table(server: StoreServer) -> Iterator[FileStoreTable]:
    """A table whose key 0 counts all commits, and whose other keys count one commit each."""
    catalog = FilesystemCatalog(server.root, server.options)
    catalog.create_database("d")
    yield catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], SUMS))
    catalog.drop_database("d", cascade=True)


def write_and_maintain(options: dict[str, str], path: str, number: int, commits: int) -> list[Deed]:
    """Commit a row; the first process compacts too, the second one expires snapshots."""
    table = load_table(path, options={**options, **PATIENT})
    deeds = []
    for turn in range(commits):
        key = number * 1000 + turn + 1
        deeds.append(Deed(insert(table, {_TOTAL: 1, key: 1}) or 0, "insert", {key: ""}))
        if number == 0:
            made = compact(table, full=True)
            deeds += [Deed(made, "compact", {})] if made is not None else []
        if number == 1:
            expire_snapshots(table, _KEEP)
    while number == 1 and table.snapshots.ids()[0] == 1:  # it was faster than the others
        expire_snapshots(table, _KEEP)
    return deeds


def test_each_commit_of_many_processes_is_there_once(server: StoreServer, table: FileStoreTable) -> None:
    deeds = race(partial(write_and_maintain, server.options), table.path, PROCESSES, COMMITS, timeout_seconds=600)
    keys = [key for deed in deeds for key in deed.rows]
    assert len(keys) == PROCESSES * COMMITS
    assert [deed.snapshot_id for deed in deeds] == list(range(1, len(deeds) + 1))
    assert rows_of(table) == {_TOTAL: len(keys), **dict.fromkeys(keys, 1)}
    ids = table.snapshots.ids()
    assert ids == list(range(ids[0], len(deeds) + 1))
    assert ids[0] > 1
    compact(table, full=True)
    assert rows_of(table) == {_TOTAL: len(keys), **dict.fromkeys(keys, 1)}


class KilledFileIO(FaultyFileIO):
    """Kills its process at the call number ``fail_at``, before or after its deed."""

    __slots__ = ()

    def _call(self, name: str, deed: Any) -> Any:
        number, self.calls = self.calls, self.calls + 1
        if number != self.fail_at:
            return deed()
        if self.after:
            deed()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def _work(options: dict[str, str], path: str, key: int, begun: Any, fail_at: int | None, after: bool) -> None:
    """Insert, compact and expire in a process that is killed: by the server, or at a call of its own."""
    store = FileIO.for_path(path, options)
    table = load_table(path, options={**options, **PATIENT})
    if fail_at is not None:
        store = KilledFileIO(store, after=after)
        table = load_table(path, file_io=store).with_options(PATIENT)
        store.fail_at, store.calls = fail_at, 0
    begun.set()
    insert(table, {_TOTAL: 1, key: 1})
    compact(table, full=True)
    expire_snapshots(table, _KEEP)


class Victims:
    """Processes that are killed at a request of theirs, before or after the store's deed."""

    def __init__(self, server: StoreServer, path: str) -> None:
        self._server, self._path = server, path
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])

    def ended_at(self, number: int, key: int, *, after: bool) -> bool:
        """Let one do its work until the request of that number; return whether there was none."""
        if self._server.url.startswith("hdfs:"):
            return self._run(self._server.options, key, number, after=after, begun=self._context.Event())
        with faulty(self._server) as (front, faults):
            victim: list[BaseProcess] = []
            seen, begun = 0, self._context.Event()

            def rule(_method: str, _path: str) -> Fault | None:
                nonlocal seen
                if not begun.is_set():
                    return None
                seen += 1
                if seen != number + 1:
                    return None
                victim[0].kill()
                return "lost" if after else "reset"

            faults.rule = rule
            return self._run(front.options, key, None, after=after, begun=begun, victim=victim)

    def _run(
        self,
        options: dict[str, str],
        key: int,
        fail_at: int | None,
        *,
        after: bool,
        begun: Any,
        victim: list[BaseProcess] | None = None,
    ) -> bool:
        process = self._context.Process(target=_work, args=(options, self._path, key, begun, fail_at, after))
        if victim is not None:
            victim.append(process)
        process.start()
        process.join(120)
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode == 0


def test_a_process_that_is_killed_leaves_a_whole_table(server: StoreServer, table: FileStoreTable) -> None:
    insert(table, {_TOTAL: 1, 1: 1})
    insert(table, {_TOTAL: 1, 2: 1})
    expected = {_TOTAL: 2, 1: 1, 2: 1}
    victims, random = Victims(server, table.path), chance("store kills", server.root)
    killed, number = 0, random.randrange(5)
    for turn in range(KILLS):
        key = 10 + turn
        done = victims.ended_at(number, key, after=turn % 2 == 1)
        found = rows_of(load_table(table.path, options=server.options))
        if key in found:
            expected = {**expected, _TOTAL: expected[_TOTAL] + 1, key: 1}
        assert found == expected, f"request {number}"
        ids = table.snapshots.ids()
        assert ids == list(range(ids[0], ids[-1] + 1))
        killed += not done
        number = 0 if done else number + (1 if KILLS > 10 else random.randint(4, 14))
    assert killed >= min(KILLS, 2)
    for _ in range(2):
        expected[_TOTAL] += 1
        insert(table, {_TOTAL: 1})
        compact(table, full=True)
        assert rows_of(table) == expected
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            expire_snapshots(table, _KEEP)
        except PaimonError:  # what a dead process holds is free after half a minute at most
            continue
        break
    assert rows_of(table) == expected
