"""Work on a table's snapshots, tags and branches: one process at a time, which holds a lease.

A rollback, an expiry, a tag or a branch that is made, renamed or deleted: each decides by what the others change, and
some delete files for good. So they exclude each other, by a lease next to the snapshots. Commits and readers do not
wait. Java has no such lease: its maintenance of the same table is best run at another time.

A lease is a file by which one process at a time works in a directory. A process writes a file of its own and then lists
the directory: of two that do so at once, at least one sees the other, and steps back. So this needs nothing of a store
but that a listing shows what was written before (docs/storage.md). The holder writes its file again every few seconds.
A file that stays as it is belongs to a process that has died; so does one of this machine whose process is gone,
without any waiting.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from paimon_spark.errors import StorageError, TableBusyError
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

PREFIX = ".lease-"
_BEAT_SECONDS = 5.0
_DEAD_SECONDS = 30.0
"""A file that nobody has written for so long, by the clock of the one who waits, has no holder."""
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0
_LOG = logging.getLogger(__name__)
_OWN: set[str] = set()
"""Names of the files that threads of this process hold or are trying to hold."""


class LeaseHeldError(Exception):
    """Another process holds the lease, and did not give it back in time; the message says which and what it does."""


@contextlib.contextmanager
def lease(io: FileIO, directory: str, work: str, *, wait_seconds: float) -> Iterator[None]:
    """Hold the lease of a directory.

    Args:
        io: the store.
        directory: where the file stands; made if it is not there.
        work: what is done, for those who wait.
        wait_seconds: how long to wait for another holder; 0: not at all.

    Raises:
        LeaseHeldError: another one has held it all the time.
        OSError: the directory cannot be listed or written.
    """
    name = f"{PREFIX}{uuid.uuid4()}"
    path, ended = f"{directory}/{name}", threading.Event()
    _OWN.add(name)
    try:
        _take(io, directory, name, work, wait_seconds)
        beats = threading.Thread(target=_beat, args=(io, path, work, ended), daemon=True)
        beats.start()
        try:
            yield
        finally:
            ended.set()
            beats.join()
    finally:
        _OWN.discard(name)
        io.delete_quietly(path)


def _take(io: FileIO, directory: str, name: str, work: str, wait_seconds: float) -> None:
    path, others = f"{directory}/{name}", _Others(io, directory, name)
    end, pause, reported = time.monotonic() + wait_seconds, _FIRST_PAUSE_SECONDS, False
    holder = None
    while True:
        if holder is None:
            io.write_bytes(path, _content(work, 0), overwrite=True)
            holder = others.living()
            if holder is None:
                return
            io.delete_quietly(path)
        else:
            holder = others.living()
            if holder is None:
                continue
        if time.monotonic() >= end:
            raise LeaseHeldError(holder)
        if not reported and pause >= _LONGEST_PAUSE_SECONDS:
            reported = True
            _LOG.info("%s waits in %s for %s", work, directory, holder)
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


class _Others:
    """The files of other holders, and since when each has been as it is now."""

    def __init__(self, io: FileIO, directory: str, name: str) -> None:
        self._io, self._directory, self._name = io, directory, name
        self._seen: dict[str, tuple[bytes, float]] = {}

    def living(self) -> str | None:
        """Say who holds the lease; None if nobody does. What a dead process has left is deleted."""
        for entry in self._io.list_names(self._directory):
            if entry.is_dir or not entry.name.startswith(PREFIX) or entry.name == self._name:
                continue
            path = f"{self._directory}/{entry.name}"
            try:
                content = self._io.read_bytes(path)
            except FileNotFoundError:
                continue
            if not self._is_dead(entry.name, content):
                return _said(content)
            self._io.delete_quietly(path)
        return None

    def _is_dead(self, name: str, content: bytes) -> bool:
        if _process_is_gone(name, content):
            return True
        now = time.monotonic()
        before, since = self._seen.get(name, (b"", now))
        if before != content:
            since = now
        self._seen[name] = content, since
        return now - since > _DEAD_SECONDS


def _beat(io: FileIO, path: str, work: str, ended: threading.Event) -> None:
    """Write the file again and again, as long as it is there."""
    for number in itertools.count(1):
        if ended.wait(_BEAT_SECONDS):
            return
        try:
            if not io.exists(path):
                _LOG.warning("%s: this process stood still, and another one has taken its place (%s)", work, path)
                return
            io.write_bytes(path, _content(work, number), overwrite=True)
        except Exception as error:  # noqa: BLE001 - the next beat may reach the store again
            _LOG.info("%s: the lease %s was not renewed: %s", work, path, error)


def _content(work: str, beat: int) -> bytes:
    position = {"work": work, "machine": _machine(), "process": os.getpid(), "beat": beat}
    return json.dumps(position).encode()


def _said(content: bytes) -> str:
    found = _read(content)
    return f"{found.get('work', 'another process')} (process {found.get('process', 'unknown')})"


def _read(content: bytes) -> dict[str, object]:
    with contextlib.suppress(ValueError):
        found = json.loads(content)
        if isinstance(found, dict):
            return found
    return {}


def _process_is_gone(name: str, content: bytes) -> bool:
    """Whether a file is of a process of this machine that has ended, or of work of this process that has."""
    found = _read(content)
    process = found.get("process")
    if not _machine() or found.get("machine") != _machine() or not isinstance(process, int) or process <= 0:
        return False
    if process == os.getpid():
        return name not in _OWN
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@lru_cache(maxsize=1)
def _machine() -> str:
    """What tells this machine, since it was started, and this container from all others; "" where nothing does."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


_Function = TypeVar("_Function", bound=Callable[..., Any])
_WAIT_SECONDS = ContextVar("_WAIT_SECONDS", default=600.0)


class _Held(threading.local):
    """The tables whose lease this thread holds, by their stores and paths."""

    def __init__(self) -> None:
        self.places: set[tuple[str, str]] = set()


_HELD = _Held()


def one_at_a_time(work: str) -> Callable[[_Function], _Function]:
    """Let a function that changes the snapshots, tags or branches of a table wait for others that do so.

    Functions of one thread may call each other.

    Args:
        work: what the function does, for the messages of those who wait.

    Returns:
        A decorator of functions whose first argument is the table. They raise `TableBusyError` if another process does
        not end in time; nothing has been done then.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def alone(table: FileStoreTable, *args: Any, **kwargs: Any) -> Any:
            with _alone(table, work):
                return function(table, *args, **kwargs)

        return cast("_Function", alone)

    return decorate


def others_at_work(table: FileStoreTable, listed: Iterable[str]) -> bool:
    """Return whether another process, or thread, is at work now.

    Args:
        table: the branch.
        listed: the names in its directory of snapshots, just listed.
    """
    if _place(table) in _HELD.places:
        return False
    if table.branch != MAIN_BRANCH:
        listed = [entry.name for entry in table.file_io.list_names(_directory(table))]
    return any(name.startswith(PREFIX) for name in listed)


@contextlib.contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Wait only so long for others, in the work that is done inside; 600 seconds otherwise."""
    before = _WAIT_SECONDS.set(seconds)
    try:
        yield
    finally:
        _WAIT_SECONDS.reset(before)


@contextlib.contextmanager
def _alone(table: FileStoreTable, work: str) -> Iterator[None]:
    if _place(table) in _HELD.places:
        yield
        return
    directory, wait_seconds = _directory(table), _WAIT_SECONDS.get()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lease(table.file_io, directory, work, wait_seconds=wait_seconds))
        except LeaseHeldError as error:
            raise TableBusyError(
                f"Nothing was done ({work} of {table.path}): {error} is at work on the snapshots, tags or branches of "
                f"the table, and did not end within {wait_seconds:.0f} seconds. Try again when it has ended."
            ) from error
        except OSError as error:
            raise StorageError(
                f"Nothing was done ({work} of {table.path}): {directory} could not be written ({error}). See that its "
                "files can be made and deleted."
            ) from error
        _HELD.places.add(_place(table))
        held.callback(_HELD.places.discard, _place(table))
        yield


def _place(table: FileStoreTable) -> tuple[str, str]:
    """The store and the path: all branches have one lease, and two stores may have one path."""
    return table.file_io.address, table.path


def _directory(table: FileStoreTable) -> str:
    """Where the lease of all branches stands."""
    return table.paths.for_branch(MAIN_BRANCH).snapshot_dir
