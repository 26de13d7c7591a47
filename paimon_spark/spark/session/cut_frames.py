"""Errors without the frames below the place where they leave this package: their sentence says all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from paimon_spark.errors import PaimonError

_T = TypeVar("_T")


def cutting(method: Callable[..., Any], errors: type[Exception] = PaimonError) -> Callable[..., Any]:
    """Return a method whose errors, those of ours by default, come without the frames below it."""

    def call(*given: Any, **named: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves such frames out
        try:
            return method(*given, **named)
        except errors as error:
            raise error.with_traceback(None) from None

    return call


def cut_batches(batches: Iterator[_T]) -> Iterator[_T]:
    """Return batches of a task, whose errors of ours Spark then logs in a few lines."""
    try:
        yield from batches
    except PaimonError as error:
        raise error.with_traceback(None) from None
