"""The pauses that clients of stores ask for: they say how long an error takes on a machine of any speed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def pauses() -> Iterator[list[float]]:
    """Collect the seconds of each sleep of this process, in all of its threads."""
    asked: list[float] = []
    sleep, sleep_of_loop = time.sleep, asyncio.sleep

    def slept(seconds: float) -> None:
        asked.append(seconds)
        sleep(seconds)

    async def slept_in_loop(delay: float, result: object = None) -> object:
        asked.append(delay)
        return await sleep_of_loop(delay, result)

    with mock.patch("time.sleep", slept), mock.patch("asyncio.sleep", slept_in_loop):
        yield asked
