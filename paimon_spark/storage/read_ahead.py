"""Bytes of objects that are asked for before they are needed, many at once: a store far away answers late, not slowly.

`RangesAhead` is for the column chunks of one file, whose order its reader tells; `FilesAhead` for small files that are
read one after the other. What waits in memory is bounded, however slow a store or a reader is. `FileIO.fetch`
begins a request: most clients send it without waiting for the answer, threads wait for those of others. Objects of
known size are opened for pyarrow so that each read is one request, or was asked for ahead. Runs in tasks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, Protocol

import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.file_names import compacted_changelog_region
from paimon_spark.storage import silence
from paimon_spark.storage.store_errors import NamedErrorsFile, translated
from paimon_spark.storage.store_options import redact

REQUESTS_AT_ONCE: Final = 16
"""How many requests of one reader are under way at the most."""
SMALL_FILE_BYTES: Final = 1 << 20
"""Files up to this size come whole: a request more takes as long as so many bytes."""
_GAP_BYTES: Final = 1 << 20
"""Ranges with no more than this between them are one request."""
_PIECE_BYTES: Final = 8 << 20
"""Longer ranges are several requests, which are sent at once."""
FILES_AHEAD_BYTES: Final = 16 << 20
"""Bytes of small files that wait to be read."""

Range = tuple[int, int]
"""Where bytes begin, and where they end."""


class Fetch(Protocol):
    """Bytes that were asked for."""

    def result(self) -> bytes:
        """Wait for them; raises what the store says."""

    def cancel(self) -> bool:
        """Ask for them no longer."""


class FetchingSource(Protocol):
    """What `FilesAhead` asks of a store."""

    def fetch(self, path: str) -> Fetch | None:
        """Begin to read a whole file; None where that gains nothing."""

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A seekable file."""

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""


@dataclass(slots=True)
class _Piece:
    """What one request gives."""

    start: int
    end: int
    left: int
    """Bytes of it that its reader will still ask for."""
    fetch: Fetch | None = None
    over: bool = False
    """Whether nobody will ask for more of it, or it was passed over."""


@dataclass(slots=True)
class _Lane:
    """Pieces that are read in this order."""

    pieces: list[_Piece]
    at: int = 0
    """The first that was not asked for."""


@dataclass(slots=True)
class RangesAhead:
    """Ranges of one object, as far as they were foretold. Not for several threads at once.

    Attributes:
        start: begins to fetch a range of the object.
        most_bytes: what waits and what is under way is no more, but for one piece of each lane.
    """

    start: Callable[[int, int], Fetch]
    most_bytes: int
    _lanes: list[_Lane] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _positions: list[tuple[_Lane, _Piece]] = field(default_factory=list)
    _held_bytes: int = 0
    _under_way: int = 0

    def expect(self, lanes: Iterable[Sequence[Range]], piece_bytes: int = _PIECE_BYTES) -> None:
        """Foretell what is read next; what was foretold before is forgotten.

        Args:
            lanes: ranges that do not overlap, in the order in which they are read: of one lane, each is read to its end
                before the next one is begun; lanes are read side by side.
            piece_bytes: most bytes of a request.
        """
        self.forget()
        self._lanes = [_Lane(_pieces(ranges, piece_bytes)) for ranges in lanes]
        assigned = sorted(
            ((lane, piece) for lane in self._lanes for piece in lane.pieces), key=lambda both: both[1].start
        )
        if any(before.end > after.start for (_, before), (_, after) in pairwise(assigned)):
            self._lanes, assigned = [], []  # a damaged footer: its reader finds out
        self._starts = [piece.start for _, piece in assigned]
        self._positions = assigned
        self._advance()

    def read(self, start: int, end: int) -> bytes | None:
        """Bytes of a range; None where they were not foretold, or read already."""
        at = bisect_right(self._starts, start) - 1
        parts: list[memoryview] = []
        position = start
        while position < end:
            if at < 0 or at >= len(self._positions):
                return None
            _, piece = self._positions[at]
            if piece.over or not piece.start <= position < piece.end:
                return None
            if piece.fetch is None:
                self._begin(piece)
            assert piece.fetch is not None
            data = memoryview(piece.fetch.result())
            stop = min(end, piece.end)
            parts.append(data[position - piece.start : stop - piece.start])
            position, at = stop, at + 1
        self._used(start, end)
        self._advance()
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def forget(self) -> None:
        """Drop what waits, and ask for it no longer."""
        for _, piece in self._positions:
            if piece.fetch is not None:
                piece.fetch.cancel()
        self._lanes, self._starts, self._positions = [], [], []
        self._held_bytes = self._under_way = 0

    def _used(self, start: int, end: int) -> None:
        at = bisect_right(self._starts, start) - 1
        while at < len(self._positions) and self._positions[at][1].start < end:
            piece = self._positions[at][1]
            piece.left -= min(end, piece.end) - max(start, piece.start)
            if piece.left <= 0:
                piece.over, piece.fetch = True, None
                self._held_bytes -= piece.end - piece.start
                self._under_way -= 1
            at += 1

    def _advance(self) -> None:
        """Ask for the next pieces: of each lane one, then more as long as they fit."""
        for lane in self._lanes:
            self._skip(lane)
            if lane.at < len(lane.pieces) and (lane.at == 0 or lane.pieces[lane.at - 1].over):
                self._begin(lane.pieces[lane.at])
        begun = True
        while begun:  # of each lane one, before another one of the first
            begun = sum(map(self._one_more, self._lanes)) > 0

    def _one_more(self, lane: _Lane) -> bool:
        self._skip(lane)
        if lane.at == len(lane.pieces) or self._under_way >= REQUESTS_AT_ONCE:
            return False
        piece = lane.pieces[lane.at]
        if self._held_bytes + piece.end - piece.start > self.most_bytes:
            return False
        self._begin(piece)
        return True

    def _skip(self, lane: _Lane) -> None:
        while lane.at < len(lane.pieces) and (lane.pieces[lane.at].over or lane.pieces[lane.at].fetch is not None):
            lane.at += 1

    def _begin(self, piece: _Piece) -> None:
        piece.fetch = self.start(piece.start, piece.end)
        self._held_bytes += piece.end - piece.start
        self._under_way += 1


def _pieces(ranges: Sequence[Range], piece_bytes: int) -> list[_Piece]:
    """Join near ranges, and cut long ones."""
    found: list[_Piece] = []
    for start, end in ranges:
        last = found[-1] if found else None
        if last is not None and last.end <= start <= last.end + _GAP_BYTES and end - last.start <= piece_bytes:
            last.left += end - start
            last.end = end
            continue
        for at in range(start, end, piece_bytes):
            stop = min(end, at + piece_bytes)
            found.append(_Piece(at, stop, stop - at))
    return found


def check_size(found: int, expected: int | None, path: str) -> None:
    """Check that a file came as it is recorded.

    Raises:
        CorruptTableError: it has another size.
    """
    if expected is not None and found != expected:
        raise CorruptTableError(
            f"The file has {found} bytes, but its manifest entry says {expected}: "
            "it was damaged or exchanged for another",
            path=redact(path),
        )


class FilesAhead:
    """Opens files, the small ones of which were asked for before (`data_file.Source`). Threads may share it."""

    def __init__(
        self, file_io: FetchingSource, files: Iterable[tuple[str, int]], most_bytes: int = FILES_AHEAD_BYTES
    ) -> None:
        """Begin to fetch.

        Args:
            file_io: their store.
            files: paths and sizes, in the order in which they will be opened, more or less.
            most_bytes: of files that wait.
        """
        self._file_io = file_io
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._next = deque(
            (path, size)
            for path, size in files
            if size <= SMALL_FILE_BYTES and compacted_changelog_region(path) is None
        )
        self._found: dict[str, tuple[Fetch, int]] = {}
        self._bytes = 0
        self._opened: set[str] = set()
        with self._lock:
            self._advance()

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A seekable file."""
        fetch = self._taken(path)
        if fetch is None:
            return self._file_io.open_input(path, size)
        data = fetch.result()
        check_size(len(data), size, path)
        return pa.BufferReader(data)

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        fetch = self._taken(path)
        return self._file_io.read_bytes(path) if fetch is None else fetch.result()

    def _taken(self, path: str) -> Fetch | None:
        with self._lock:
            self._opened.add(path)
            fetch, size = self._found.pop(path, (None, 0))
            self._bytes -= size
            self._advance()
            return fetch

    def _advance(self) -> None:
        while self._next and len(self._found) < REQUESTS_AT_ONCE:
            path, size = self._next[0]
            if self._found and self._bytes + size > self._most_bytes:
                return
            self._next.popleft()
            if path in self._opened:
                continue
            fetch = self._file_io.fetch(path)
            if fetch is None:
                self._next.clear()
                return
            self._found[path] = (fetch, size)
            self._bytes += size

    def __del__(self) -> None:
        for fetch, _ in self._found.values():
            fetch.cancel()


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
