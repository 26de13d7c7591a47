"""Spark's Python worker: the work that it does between tasks becomes cheaper, and errors leave it without frames.

The frames are those below the place where an error leaves this package: its sentence says all.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from pyspark import TaskContext

from paimon_spark.errors import PaimonError

_RELOADS_AT_ONCE = sys.version_info < (3, 13)
_STATE = "_paimon_archive_state"


def speed_up_worker() -> None:
    """Let later tasks of this worker start sooner. Called in a task; elsewhere and the second time it does nothing.

    Before each task PySpark calls ``importlib.invalidate_caches``. Until Python 3.12 every ``zipimporter`` then reads
    the directory of its archive again; a worker has about 16 of them for ``pyspark.zip``, which takes 0.1 CPU seconds.
    """
    if _RELOADS_AT_ONCE and TaskContext.get() is not None:
        _keep_directories_of_archives()


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
