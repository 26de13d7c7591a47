"""Methods of PySpark that this package wraps, and PySpark's own below them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from paimon_spark.errors import cutting

_PLAIN = "_paimon_plain"


def wrap_method(kind: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a method in place of one of a class, once; a class without it stays as it is.

    Args:
        kind: the class.
        name: of the method.
        around: is given PySpark's method, and returns the one that takes its place.
    """
    found = getattr(kind, name, None)
    if found is None or hasattr(found, _PLAIN):
        return
    method = wraps(found)(cutting(around(found)))
    setattr(method, _PLAIN, found)
    setattr(kind, name, method)


def plain(method: Any) -> Any:
    """Return PySpark's own method below a bound method that may be wrapped."""
    own = getattr(method, _PLAIN, None)
    return method if own is None else own.__get__(method.__self__)
