"""The pauses that clients of stores ask for: they say how long an error takes on a machine of any speed."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple
from unittest import mock


class Pause(NamedTuple):
    """One sleep: its seconds, and who sleeps, for the message of a test that fails."""

    seconds: float
    thread: str
    callers: str


_ASKED: ContextVar[list[Pause] | None] = ContextVar("asked", default=None)


def _pause(seconds: float) -> Pause:
    frames = traceback.extract_stack(limit=6)[:-2]
    return Pause(seconds, threading.current_thread().name, " < ".join(f.name for f in reversed(frames)))


@contextmanager
def pauses() -> Iterator[list[Pause]]:
    """Collect each sleep of this process: those of all threads, and of coroutines begun in this block.

    All stores share one event loop, where a read that an earlier test gave up may still try again: a coroutine has the
    context of the thread that submitted it.
    """
    asked: list[Pause] = []
    sleep, sleep_of_loop = time.sleep, asyncio.sleep

    def slept(seconds: float) -> None:
        asked.append(_pause(seconds))
        sleep(seconds)

    async def slept_in_loop(delay: float, result: object = None) -> object:
        if _ASKED.get() is asked:
            asked.append(_pause(delay))
        return await sleep_of_loop(delay, result)

    token = _ASKED.set(asked)
    try:
        with mock.patch("time.sleep", slept), mock.patch("asyncio.sleep", slept_in_loop):
            yield asked
    finally:
        _ASKED.reset(token)
