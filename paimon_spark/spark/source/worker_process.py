"""Spark's Python worker: the work that it does between tasks becomes cheaper, and errors leave it without frames.

The frames are those below the place where an error leaves this package: its sentence says all.
"""

from __future__ import annotations

import functools
import gc
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from pyspark import TaskContext

from paimon_spark.errors import PaimonError

_RELOADS_AT_ONCE = sys.version_info < (3, 13)
_STATE = "_paimon_archive_state"


def speed_up_worker() -> None:
    """Let this task and later ones of this worker start sooner. Called in a task, before it reads its input.

    PySpark does three things for each task that take longer than a short task itself:

    - The JVM sends the function and then the input. With TCP it sends the input only once the function is acknowledged,
      and the kernel waits 0.04 seconds for data to send the acknowledgement with. So it is with the end of the output,
      the other way round.
    - Before the task it calls ``importlib.invalidate_caches``. Until Python 3.12 every ``zipimporter`` then reads the
      directory of its archive again; a worker has about 16 of them for ``pyspark.zip``, which takes 0.1 CPU seconds.
    - After the task it calls ``gc.collect``, which walks what all modules hold: 0.05 CPU seconds.
    """
    if TaskContext.get() is None:
        return
    _do_not_wait_for_data()
    if _RELOADS_AT_ONCE:
        _keep_directories_of_archives()
    _keep_modules_from_collector()


class UnpickledInTask:
    """What Spark unpickles with the function of a task, before it reads the task's input: readers and writers."""

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the object; in a task, see `speed_up_worker`."""
        self.__dict__.update(state)
        speed_up_worker()


_WITHOUT_DELAY: Final = tuple(
    getattr(socket, name) for name in ("TCP_NODELAY", "TCP_QUICKACK") if hasattr(socket, name)
)
"""Options of a socket: data is sent without waiting for more; what comes is acknowledged at once.

The second is of Linux only, and its kernel resets it, so each task sets both.
"""
_DESCRIPTORS = Path("/proc/self/fd")


def _do_not_wait_for_data() -> None:
    """Let the kernel send and acknowledge at once between this worker and local processes; the JVM is one of them."""
    if socket.getdefaulttimeout() is not None:
        return  # a socket object that is made then would let the connection block no more
    for descriptor in _local_connections():
        with suppress(OSError):  # it is closed, or something else by now
            connection = socket.socket(fileno=descriptor)
            try:
                for option in _WITHOUT_DELAY:
                    connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            finally:
                connection.detach()


@cache
def _local_connections() -> tuple[int, ...]:
    """File descriptors of the TCP connections to this machine that the worker has when its first task begins."""
    with suppress(OSError):
        return tuple(filter(_is_local_connection, map(int, os.listdir(_DESCRIPTORS))))
    return ()


def _is_local_connection(descriptor: int) -> bool:
    try:
        connection = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        return connection.family in (socket.AF_INET, socket.AF_INET6) and _is_loopback(connection.getpeername()[0])
    except OSError:
        return False
    finally:
        connection.detach()


def _is_loopback(address: str) -> bool:
    return address.startswith(("127.", "::ffff:127.")) or address == "::1"


_MODULES_KEPT = 0


def _keep_modules_from_collector() -> None:
    """Take what is alive out of later garbage collections, if modules were imported since the last time."""
    global _MODULES_KEPT  # noqa: PLW0603
    if len(sys.modules) != _MODULES_KEPT:
        gc.freeze()
        _MODULES_KEPT = len(sys.modules)


@cache
def _keep_directories_of_archives() -> None:
    """Let ``zipimporter`` read the directory of an archive again only once the archive has changed."""
    import zipimport

    importer: Any = zipimport.zipimporter
    plain = importer.invalidate_caches

    @wraps(plain)
    def invalidate_caches(self: Any) -> None:
        try:
            found = os.stat(self.archive)
        except OSError:
            plain(self)
            return
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if getattr(self, _STATE, None) != state:
            plain(self)
            setattr(self, _STATE, state)

    importer.invalidate_caches = invalidate_caches


_T = TypeVar("_T")
_P = ParamSpec("_P")
_HIDES = "SPARK_HIDE_TRACEBACK"
"""PySpark's own variable: a worker with it tells the JVM an error's class and text, without its traceback."""


def told_by_worker(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method that Spark calls in a Python worker, of whose errors of ours users then see the sentence alone.

    A session that never saw this package shows what the worker tells, with all frames of it.
    """

    @functools.wraps(method)
    def call(*given: _P.args, **named: _P.kwargs) -> _T:
        try:
            return method(*given, **named)
        except PaimonError:
            _hide_traceback()
            raise

    return call


def cut_batches(batches: Iterator[_T]) -> Iterator[_T]:
    """Return batches of a task, whose errors of ours Spark then logs in a line."""
    try:
        yield from batches
    except PaimonError as error:
        _hide_traceback()
        raise error.with_traceback(None) from None


def _hide_traceback() -> None:
    """Let a worker of Spark's tell the error that ends it without a traceback; elsewhere do nothing."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name.startswith("pyspark."):
        os.environ[_HIDES] = "1"
