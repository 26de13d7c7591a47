"""A disk that answers like a store far away, and notes how many requests lie one after the other.

Answers wait until no further request comes: those that are under way at the same time are one round. So a client that
asks for the next thing only when it has the last one needs a round for each request, however fast the machine is.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import pyarrow as pa
from fsspec.asyn import AsyncFileSystem

from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.storage.read_ahead import Fetch, fetch
from paimon_spark.storage.store_requests import open_object

_QUIET_SECONDS = 0.1


class _Far(AsyncFileSystem):  # type: ignore[misc]
    """Files of the disk by ranges."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[int] = []
        self._answers: asyncio.Event | None = None
        self._newest = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        loop = asyncio.get_running_loop()
        self._newest = loop.time()
        if self._answers is None:
            self._answers = asyncio.Event()
            self.rounds.append(0)
            task = loop.create_task(self._answer(self._answers))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.rounds[-1] += 1
        await self._answers.wait()
        first = start or 0
        with open(path, "rb") as file:
            file.seek(first)
            return file.read(-1 if end is None else end - first)

    async def _answer(self, waiting: asyncio.Event) -> None:
        while (left := self._newest + _QUIET_SECONDS - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)
        self._answers = None
        waiting.set()


@dataclass(frozen=True)
class FarDisk(LocalFileIO):
    """The data files of a disk as objects of a store; its other files are at hand."""

    far: _Far = field(default_factory=_Far)

    @property
    def threads(self) -> int:
        """As of a store."""
        return 16

    def rounds(self) -> list[int]:
        """How many requests each round had since the last call."""
        found = list(self.far.rounds)
        self.far.rounds.clear()
        return found

    def fetch(self, path: str) -> Fetch:
        """Begin to read a whole file."""
        return fetch(self.far, path)

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A file by ranges."""
        return open_object(self.far, "gs", path, os.path.getsize(path), path, ())
