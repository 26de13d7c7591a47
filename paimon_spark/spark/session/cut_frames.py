"""Errors without the frames below the place where they leave this package: their sentence says all."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from paimon_spark.errors import PaimonError

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
