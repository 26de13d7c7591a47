"""Requests that may have done their deed although no clear answer came: what is there afterwards tells.

The packages of stores send a request again, and of two that create an object the second is refused because of the
first. aiohttp does so too, without a word, where a connection that it has used before turns out to be closed: so its
connections are counted. A file system may work in another thread: what is noted belongs to the context of who asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

_UNCLEAR_STATUS: Final = 500
"""From this status on an answer does not say that nothing was done."""


@dataclass
class Noted:
    """What became of the requests of a context."""

    unclear: int = 0
    """Those without a clear answer."""
    sent: int = 0
    connections: int = 0
    """How often a connection was taken for them."""

    def __bool__(self) -> bool:
        """Whether one of them may have done its deed unseen."""
        return self.unclear > 0 or self.connections > self.sent


_NOTED: Final[ContextVar[Noted | None]] = ContextVar("_NOTED", default=None)


@contextmanager
def noted() -> Iterator[Noted]:
    """Note the requests that are sent while the context is open."""
    found = Noted()
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


def note(status: int = 0) -> None:
    """Note the status of an answer; 0: there was none."""
    found = _NOTED.get()
    if found is not None:
        found.sent += 1
        found.unclear += not status or status >= _UNCLEAR_STATUS


def count_connections(session: Any) -> None:
    """Let a session of aiohttp count the connections that it takes for the requests of a context."""
    configs = getattr(session, "trace_configs", None)
    if configs is not None and _counter() not in configs:
        configs.append(_counter())


@functools.cache
def _counter() -> Any:
    from aiohttp import TraceConfig

    async def taken(*_: Any) -> None:
        found = _NOTED.get()
        if found is not None:
            found.connections += 1

    counter: Any = TraceConfig()
    counter.on_connection_reuseconn.append(taken)
    counter.on_connection_create_end.append(taken)
    counter.freeze()
    return counter
