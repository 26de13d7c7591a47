"""Stores that have just not answered: what is asked next waits shortly, so that an error comes within a minute.

A request is sent several times before it is given up, which takes most of a minute. One statement sends many, and goes
on after some that fail: so once one was given up, those that follow are sent once and wait for seconds, until one is
answered. Files are then not deleted at all for a while: what is left is removed as orphan files are. A store may answer
all but requests to delete: those are counted by themselves.
"""

from __future__ import annotations

import time
from typing import Any, Final

CONNECT_SECONDS: Final = 2
ANSWER_SECONDS: Final = 2
"""So long a request waits after one that was given up."""
REST_SECONDS: Final = 10
"""So long nothing is deleted after a request that was given up."""
_TIME_OUTS: Final = frozenset(
    {"ReadTimeoutError", "ConnectTimeoutError", "ReadTimeout", "ConnectTimeout", "TimeoutError", "ServerTimeoutError"}
)
"""Errors of the stores' packages, and those that these are raised for."""
_SINCE: Final[dict[Any, float]] = {}
"""File systems of fsspec that are silent, and when a request was given up last."""
_OF_DELETES: Final[dict[Any, tuple[float, BaseException]]] = {}
"""Those that do not answer what deletes, whatever else they answer: since when, and the error."""
_ASKED_BY: Final = "_paimon_asked_by"
"""The attribute of a file system that asks in the place of another one, which waits longer."""


def noticed(store: Any, error: BaseException, *, deleting: bool = False) -> None:
    """Remember what an error says of a file system of fsspec, if it says that no answer came."""
    if store is None:
        return
    if says_silence(error):
        now = time.monotonic()
        _SINCE[_asked(store)] = now
        if deleting:
            _OF_DELETES[_asked(store)] = now, error
    elif deleting:
        _OF_DELETES.pop(_asked(store), None)


def is_any() -> bool:
    """Whether any store is silent."""
    return bool(_SINCE)


def answered(store: Any, *, deleting: bool = False) -> None:
    """Forget that a store was silent; at what deletes, only if it has answered that."""
    if _SINCE:
        _SINCE.pop(_asked(store), None)
    if deleting and _OF_DELETES:
        _OF_DELETES.pop(_asked(store), None)


def is_silent(store: Any, *, deleting: bool = False) -> bool:
    """Whether the last request was given up, or the last one that deletes."""
    return (bool(_SINCE) and _asked(store) in _SINCE) or (deleting and at_deletes(store) is not None)


def at_deletes(store: Any) -> BaseException | None:
    """The error of the last request that deletes, if it was given up."""
    return _OF_DELETES[_asked(store)][1] if _OF_DELETES and _asked(store) in _OF_DELETES else None


def rests(store: Any) -> bool:
    """Whether so little time has passed since a request was given up that nothing is deleted."""
    if not is_silent(store, deleting=True):
        return False
    asked = _asked(store)
    last = max(_SINCE.get(asked, 0.0), _OF_DELETES[asked][0] if asked in _OF_DELETES else 0.0)
    return time.monotonic() - last < REST_SECONDS


def replace(store: Any, other: Any) -> Any:
    """Let a file system ask in the place of another one; return it."""
    setattr(other, _ASKED_BY, store)
    return other


def says_silence(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised for, is one of waiting in vain."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if any(kind.__name__ in _TIME_OUTS for kind in type(error).__mro__):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def _asked(store: Any) -> Any:
    return getattr(store, _ASKED_BY, store)
