"""The pauses that clients of stores ask for: they say how long an error takes on a machine of any speed."""

from __future__ import annotations

import asyncio
import faulthandler
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple
from unittest import mock

_LONG_SECONDS = 45


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
    """Collect each sleep of this process: those of threads, and of coroutines begun in this block.

    All stores share one event loop, where a read that an earlier test gave up may still try again: a coroutine has the
    context of the thread that submitted it. A thread of py4j sleeps a second at a time as long as there is a JVM. Where
    the block takes longer than all pauses may, what each thread does is written to the log.
    """
    asked: list[Pause] = []
    sleep, sleep_of_loop = time.sleep, asyncio.sleep

    def slept(seconds: float) -> None:
        if not type(threading.current_thread()).__module__.startswith("py4j"):
            asked.append(_pause(seconds))
        sleep(seconds)

    async def slept_in_loop(delay: float, result: object = None) -> object:
        if _ASKED.get() is asked:
            asked.append(_pause(delay))
        return await sleep_of_loop(delay, result)

    token = _ASKED.set(asked)
    faulthandler.dump_traceback_later(_LONG_SECONDS, file=2)
    try:
        with mock.patch("time.sleep", slept), mock.patch("asyncio.sleep", slept_in_loop):
            yield asked
    finally:
        faulthandler.cancel_dump_traceback_later()
        _ASKED.reset(token)
