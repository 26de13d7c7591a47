"""A store whose every call takes 0.3 to 2 seconds: commits, compactions, expiries, rollbacks and streams stay right.

The clock of the process goes on with each call and each pause; nobody waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.stream_scan import StreamScan
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.faults import FaultyFileIO
from tests.support.history import rows
from tests.support.seeds import chance
from tests.support.streams import rows_of_batch

_KEYED = {"bucket": "1"}
KINDS = {
    "append": {"bucket": "-1"},
    "evolving": {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    "keyed": _KEYED,
    "lookup": {**_KEYED, "changelog-producer": "lookup"},
    "vectors": {**_KEYED, "deletion-vectors.enabled": "true"},
}


class Clock:
    """A clock that one thread puts forward; others, a heartbeat or what an earlier test left, sleep as ever."""

    def __init__(self, random: Random) -> None:
        self.ahead, self.random = 0.0, random
        self.thread, self.sleep = threading.get_ident(), time.sleep

    def take(self, seconds: float) -> None:
        if threading.get_ident() == self.thread:
            self.ahead += seconds
        else:
            self.sleep(seconds)


class SlowStore(FaultyFileIO):
    """Each call takes its time by the clock; some let another writer commit meanwhile."""

    __slots__ = ("clock", "meanwhile")

    def _call(self, name: str, deed: Callable[[], object]) -> object:  # type: ignore[override]
        self.calls += 1
        if threading.get_ident() != self.clock.thread:
            return deed()
        self.clock.take(self.clock.random.uniform(0.3, 2))
        answer = deed()
        self.clock.take(self.clock.random.uniform(0, 1))
        self.meanwhile()
        return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock(chance("slow stores"))
    monotonic, now, nanos = time.monotonic, time.time, time.time_ns
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + clock.ahead)
    monkeypatch.setattr(time, "time", lambda: now() + clock.ahead)
    monkeypatch.setattr(time, "time_ns", lambda: nanos() + int(clock.ahead * 1e9))
    monkeypatch.setattr(time, "sleep", clock.take)
    yield clock
    monkeypatch.undo()


def slow(table: FileStoreTable, clock: Clock, meanwhile: Callable[[], object] = lambda: None) -> FileStoreTable:
    store = SlowStore(load_table(table.path).file_io)
    store.clock, store.meanwhile = clock, meanwhile
    return replace(load_table(table.path), file_io=store)


def write(table: FileStoreTable, given: dict[int, str]) -> dict[int, str]:
    batch = pa.RecordBatch.from_pydict({"k": pa.array(list(given), pa.int32()), "v": pa.array(list(given.values()))})
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)
    return given


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_is_done_with_a_table(tmp_path: Path, clock: Clock, kind: str) -> None:
    keys = ["k"] if _KEYED.items() <= KINDS[kind].items() else []
    options = {name.replace("-", "_").replace(".", "__"): value for name, value in KINDS[kind].items()}
    made = make_table(tmp_path / "t", primary_key=keys, manifest__merge_min_count="3", **options)
    expected, states = {}, {}
    for number in range(8):
        table = slow(made, clock)
        expected |= write(table, {number: f"v{number}", number + 100: "x"})
        if number in (2, 5, 7) or kind == "vectors":
            compact(table)
        assert rows(made) == expected
        states[table.snapshots.ids()[-1]] = dict(expected)
    assert clock.ahead > 60
    tags.create_tag(slow(made, clock), "kept", snapshot_id=list(states)[3])
    given = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(list(states)[2])}
    stream = StreamScan(slow(made, clock).with_options(given), view=ROWS)
    start = stream.initial()
    read = {}
    while (end := stream.next_offset(start)) != start:
        read |= {row["k"]: row["v"] for row in rows_of_batch(stream, start, end)}
        start = end
    assert read == expected
    gone = expire_snapshots(
        slow(made, clock), Retention.of_snapshots(made.options).with_arguments(retain_max=6, retain_min=6)
    )
    assert gone
    back = list(states)[-2]
    rollback.rollback_to_snapshot(slow(made, clock), back)
    assert rows(made) == states[back]
    assert rows(made, tag="kept") == states[list(states)[3]]
    assert made.snapshots.missing_ranges() == []


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_commits_beside_faster_writers(tmp_path: Path, clock: Clock, kind: str) -> None:
    """Others commit during every fortieth call: the slow commit waits and tries again until it is in."""
    made = make_table(tmp_path / "t", primary_key=["k"] if kind == "keyed" else [], **KINDS[kind])
    expected = write(made, {-1: "first"})
    calls = 0

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        if calls % 40 == 0:
            expected.update(write(load_table(made.path), {1000 + calls: "other"}))

    for number in range(4):
        expected |= write(slow(made, clock, meanwhile), {number: "slow"})
        compact(slow(made, clock, meanwhile))
    assert rows(made) == expected
    assert len(expected) > 5


class Slowest(Random):
    """Each call takes the longest time, or many times that."""

    times = 1

    def uniform(self, a: float, b: float) -> float:
        return self.times * max(a, b)


@pytest.mark.parametrize("times", [0, 1, 10])
def test_a_rollback_of_many_snapshots_takes_back_what_followed_them(tmp_path: Path, clock: Clock, times: int) -> None:
    """Their deletion takes longer than a commit beside it may be waited for, and so may a look at what followed."""
    if times:
        clock.random = Slowest()
        clock.random.times = times
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(30):
        write(made, {number: "x"})
    done = []

    def meanwhile() -> None:
        if not done and not made.snapshots.exists(30) and made.snapshots.exists(28):
            done.append(1)  # a commit that has looked at snapshot 29 just before that is deleted
            write(load_table(made.path), {1000: "late"})

    table = slow(made, clock, meanwhile)
    assert rollback.rollback_to_snapshot(table, 2).current_snapshot_id == 2
    assert done
    assert rows(made) == {0: "x", 1: "x"}
