"""One process at a time: the lease file of a directory."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.maintain.files import lease
from paimon_spark.maintain.files.lease import PREFIX, LeaseHeldError
from paimon_spark.storage.file_io import FileIO
from tests.support.faults import FaultyFileIO


@pytest.fixture
def directory(tmp_path: Path) -> str:
    (tmp_path / "snapshot").mkdir()
    return str(tmp_path / "snapshot")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that goes on by the pauses only."""
    now = [1000.0]
    watch = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(lease, "time", watch)  # of this module alone: other threads have their own
    return now


def leases(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith(PREFIX)]


def left_by(directory: str, **changes: Any) -> Path:
    """The lease of another process."""
    content = {"work": "an expiry", "machine": "another machine", "process": 7, "beat": 3, **changes}
    path = Path(directory) / f"{PREFIX}0"
    path.write_text(json.dumps(content))
    return path


def test_a_lease_is_given_back(directory: str) -> None:
    with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=0):
        assert len(leases(directory)) == 1
    assert leases(directory) == []
    with (
        pytest.raises(ZeroDivisionError),
        lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=0),
    ):
        raise ZeroDivisionError
    assert leases(directory) == []


def test_another_holder_is_named(directory: str, clock: list[float]) -> None:
    left = left_by(directory)
    with (
        pytest.raises(LeaseHeldError, match=r"an expiry \(process 7\)"),
        lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=5),
    ):
        pytest.fail("two at once")
    assert leases(directory) == [left.name]
    assert 5 <= clock[0] - 1000 < 7


def test_a_lease_that_nobody_renews_ends(directory: str, clock: list[float]) -> None:
    left_by(directory)
    with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=60):
        assert 30 < clock[0] - 1000 < 35
        assert len(leases(directory)) == 1
    assert leases(directory) == []


def test_a_lease_that_is_renewed_lasts(directory: str, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(seconds: float) -> None:
        clock[0] += seconds
        left_by(directory, beat=int(clock[0] / 5))

    left_by(directory)
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=pause))
    with (
        pytest.raises(LeaseHeldError),
        lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=100),
    ):
        pytest.fail("two at once")


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[1]", b'{"process": "x"}', b"\xff"])
def test_a_file_that_is_no_lease_ends_too(directory: str, clock: list[float], content: bytes) -> None:
    (Path(directory) / f"{PREFIX}0").write_bytes(content)
    with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=60):
        assert clock[0] - 1000 > 30


def test_the_lease_of_a_process_that_ended_is_taken_at_once(directory: str, clock: list[float]) -> None:
    if not lease._machine():
        pytest.skip("only Linux tells which machine this is")
    program = (
        "import os, sys\n"
        "from paimon_spark.maintain.files import lease; from paimon_spark.storage.file_io import FileIO\n"
        "with lease.lease(FileIO.for_path(sys.argv[1]), sys.argv[1], 'an expiry', wait_seconds=0): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, directory], check=False).returncode == 9
    assert len(leases(directory)) == 1
    with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=0):
        assert clock[0] == 1000
        assert len(leases(directory)) == 1


def test_threads_wait_for_each_other(directory: str) -> None:
    entered, at_once = [], []

    def work() -> None:
        for _ in range(5):
            with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=60):
                entered.append(1)
                at_once.append(len(entered))
                time.sleep(0.002)
                entered.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert at_once == [1] * 15


def _work(directory: str) -> None:
    held = Path(directory).parent / "held"
    for _ in range(10):
        with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=60):
            held.touch(exist_ok=False)  # an error if another process is here too
            time.sleep(0.002)
            held.unlink()


def test_processes_wait_for_each_other(directory: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(_work, [directory] * 3, chunksize=1)
    assert leases(directory) == []


def test_a_lease_is_renewed(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_BEAT_SECONDS", 0.01)
    with lease.lease(FileIO.for_path(directory), directory, "a rollback", wait_seconds=0):
        path, beats = Path(directory) / leases(directory)[0], set()
        while len(beats) < 3:
            beats.add(json.loads(path.read_bytes())["beat"])


def test_a_lease_is_kept_on_a_slow_store(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes 2 seconds, in a fifteenth of the time: the holder renews its lease, and nobody takes it."""

    class Slow(FaultyFileIO):
        def _call(self, name: str, deed: Callable[[], Any]) -> Any:  # type: ignore[override]
            time.sleep(2 / 15)
            return deed()

    monkeypatch.setattr(lease, "_BEAT_SECONDS", 5 / 15)
    monkeypatch.setattr(lease, "_DEAD_SECONDS", 30 / 15)
    monkeypatch.setattr(lease, "_process_is_gone", lambda name, content: False)
    store = Slow(FileIO.for_path(directory))
    with (
        lease.lease(store, directory, "a rollback", wait_seconds=0),
        pytest.raises(LeaseHeldError, match="a rollback"),
        lease.lease(store, directory, "an expiry", wait_seconds=60 / 15),
    ):
        pytest.fail("two hold it")
    with lease.lease(store, directory, "an expiry", wait_seconds=60 / 15):
        assert len(leases(directory)) == 1
