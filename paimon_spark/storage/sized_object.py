"""Objects of known size, opened for pyarrow: each read is one request, or was asked for ahead."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa

from paimon_spark.storage import silence
from paimon_spark.storage.read_ahead import (
    REQUESTS_AT_ONCE,
    SMALL_FILE_BYTES,
    Fetch,
    Range,
    RangesAhead,
    check_size,
)
from paimon_spark.storage.store_errors import NamedErrorsFile, translated

SIZED: Final = frozenset({"s3", "gs", "abfs", "oss"})
"""Schemes whose objects are opened by their size."""
FETCHED: Final = SIZED | {"hdfs"}
"""Schemes whose small files are asked for before they are read."""
_AHEAD_BYTES: Final = 32 << 20


class SizedObject:
    """An object of known size; a small object comes with the first read."""

    def __init__(self, store: Any, key: str, size: int, read_whole: Callable[[], bytes]) -> None:
        self.fs = store
        self._key = key
        self._size = size
        self._read_whole = read_whole
        self._position = 0
        self._whole: bytes | None = None
        self._ahead = RangesAhead(partial(fetch, store, key), _AHEAD_BYTES) if can_fetch(store) else None
        self.closed = False

    def expect(self, lanes: Iterable[Sequence[Range]], most_bytes: int, piece_bytes: int | None) -> None:
        """Foretell what is read next (see `RangesAhead.expect`); what waits takes no more than some bytes."""
        if self._ahead is None or self._size <= SMALL_FILE_BYTES:
            return
        self._ahead.most_bytes = most_bytes
        inside = [[(start, end) for start, end in lane if 0 <= start < end <= self._size] for lane in lanes]
        self._ahead.expect(inside, **({} if piece_bytes is None else {"piece_bytes": piece_bytes}))

    def read(self, length: int = -1) -> bytes:
        """Bytes from where it stands.

        Raises:
            CorruptTableError: the object has another size.
        """
        start = self._position
        end = self._size if length is None or length < 0 else min(start + length, self._size)
        if start >= end:
            return b""
        if self._whole is None and self._size <= SMALL_FILE_BYTES:
            self._whole = self._read_whole()
            check_size(len(self._whole), self._size, self._key)
        data = self._read(start, end) if self._whole is None else self._whole[start:end]
        self._position = start + len(data)
        return bytes(data)

    def _read(self, start: int, end: int) -> bytes:
        found = None if self._ahead is None else self._ahead.read(start, end)
        return self.fs.cat_file(self._key, start=start, end=end) if found is None else found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """Where it stands."""
        return self._position

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Forget what was read."""
        if self._ahead is not None:
            self._ahead.forget()
        self._whole = None
        self.closed = True


class SizedFile(pa.PythonFile):  # type: ignore[misc]
    """An object for pyarrow's readers, who may tell what they will read."""

    _sized: SizedObject

    @classmethod
    def of(cls, sized: SizedObject, path: str, secrets: tuple[str, ...]) -> SizedFile:
        """An object as a file whose errors are translated."""
        file = cls(NamedErrorsFile(sized, path, secrets), mode="r")  # whose own arguments these are
        file._sized = sized
        return file

    def expect(self, lanes: Iterable[Sequence[Range]], most_bytes: int, piece_bytes: int | None = None) -> None:
        """See `SizedObject.expect`."""
        self._sized.expect(lanes, most_bytes, piece_bytes)


def can_fetch(store: Any) -> bool:
    """Whether fsspec's file system sends requests without waiting for their answers, or lets threads wait for them."""
    if getattr(store, "reads_in_threads", False):
        return True
    return bool(getattr(store, "async_impl", False)) and not getattr(store, "asynchronous", False)


def fetch(store: Any, key: str, start: int | None = None, end: int | None = None, **asked: Any) -> Fetch:
    """Begin to read bytes of an object."""
    if getattr(store, "reads_in_threads", False):
        return _threads().submit(store.cat_file, key, start=start, end=end, **asked)
    return asyncio.run_coroutine_threadsafe(store._cat_file(key, start=start, end=end, **asked), store.loop)


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads of this process that wait for answers."""
    return ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="paimon-fetch")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)


class NamedFetch:
    """Bytes that were asked for, with the errors of the store translated."""

    def __init__(self, begun: Fetch, store: Any, path: str, secrets: tuple[str, ...]) -> None:
        self._begun = begun
        self._store = store
        self._path = path
        self._secrets = secrets

    def result(self) -> bytes:
        """Wait for them."""
        try:
            return bytes(self._begun.result())
        except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of many kinds
            silence.noticed(self._store, error)
            raise translated(error, self._path, self._secrets) from None

    def cancel(self) -> bool:
        """Ask for them no longer."""
        return self._begun.cancel()
