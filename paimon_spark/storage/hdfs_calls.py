"""Calls of HDFS's client that end in a bounded time: by itself it waits for a silent NameNode without end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

ANSWER_SECONDS: Final = 40
"""A call that takes longer is given up."""
NEXT_ANSWER_SECONDS: Final = 2
"""So long a call waits after one that was given up, until one is answered."""
_REPEATABLE: Final = frozenset(("get_file_info", "list_status", "read", "mkdirs"))
"""Calls that change nothing when they are sent twice."""
_PIECE_BYTES: Final = 4 << 20
"""Of a file that is read, so much comes within the time."""
_FIRST_SHARE: Final = 0.25
"""The part of its time after which such a call is sent again on a new connection."""
_CUT: Final = (
    *("disconnected", "onnection reset", "onnection refused", "roken pipe", "channel closed", "early eof"),
    "Already borrowed",
)
"""Parts of texts that tell of a connection that ended; the last, of a file whose call before was given up."""
_NOT_YET: Final = "org.apache.hadoop.ipc.RetriableException"
_PAUSE_SECONDS: Final = 0.5

_R = TypeVar("_R")


class BoundedClient:
    """`hdfs_native`'s client, whose calls and whose files' writes are given up after a time.

    After such a call it connects anew, and waits shorter until something is answered. The client can lose a call,
    without an error, that it sends on a connection that ends at this moment, so a call that may be sent twice is sent
    again long before it is given up. A DataNode is waited for by ``dfs.client.socket-timeout`` when it is asked; in the
    middle of a block it is not, so files' reads are bounded too.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._client = connect()
        self._silent = False

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self._call(lambda client: getattr(client, name)(*given, **named), name)

    def list_status(self, path: str, recursive: bool = False) -> list[Any]:
        """All that is in a directory."""
        found: list[Any] = self._call(lambda client: list(client.list_status(path, recursive)), "list_status")
        return found

    def read(self, path: str) -> Any:
        """A file for reading."""
        file = self._call(lambda client: client.read(path), "read")
        file.inner = _BoundedReader(file.inner)
        return file

    def create(self, path: str, **options: Any) -> Any:
        """A new file for writing."""
        file = self._call(lambda client: client.create(path, **options), "create")
        file.inner = _BoundedWriter(file.inner)
        return file

    def _call(self, deed: Callable[[Any], Any], name: str) -> Any:
        seconds = NEXT_ANSWER_SECONDS if self._silent else ANSWER_SECONDS
        if name not in _REPEATABLE:
            return self._call_once(deed, name, seconds)
        try:
            return self._call_once(deed, name, seconds * _FIRST_SHARE)
        except Exception as error:
            if not is_cut(error):
                raise
        return self._call_once(deed, name, seconds * (1 - _FIRST_SHARE))

    def _call_once(self, deed: Callable[[Any], Any], name: str, seconds: float) -> Any:
        client = self._client
        try:
            found = bounded(lambda: deed(client), name, seconds)
        except TimeoutError:
            self._silent, self._client = True, self._connect()
            raise
        self._silent = False
        return found


class _BoundedWriter:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return lambda *given, **named: bounded(lambda: method(*given, **named), name, ANSWER_SECONDS)


class _BoundedReader:
    """Reads pieces, each within the time: a large read of a slow network may last."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, size: int = -1) -> bytes:
        """Bytes from where it stands."""
        left = max(0, self._inner.file_length() - self._inner.tell())
        return self._pieces(
            left if size is None or size < 0 else min(size, left), lambda _, length: self._inner.read(length)
        )

    def read_range(self, offset: int, length: int) -> bytes:
        """Bytes of a range."""
        return self._pieces(length, lambda at, size: self._inner.read_range(offset + at, size))

    def _pieces(self, length: int, read: Callable[[int, int], bytes]) -> bytes:
        parts = []
        for at in range(0, length, _PIECE_BYTES):
            size = min(_PIECE_BYTES, length - at)
            parts.append(bounded(lambda at=at, size=size: read(at, size), "read", ANSWER_SECONDS, "a DataNode"))  # type: ignore[misc]
        return parts[0] if len(parts) == 1 else b"".join(parts)


def is_cut(error: Exception) -> bool:
    """Whether the connection to the NameNode ended, or a call had no answer."""
    return isinstance(error, (ConnectionError, TimeoutError)) or any(sign in str(error) for sign in _CUT)


def bounded(deed: Callable[[], _R], name: str, seconds: float, node: str = "the NameNode") -> _R:
    """Return what a call gives; where a NameNode that has just become active says so, it is asked again.

    Raises:
        TimeoutError: it takes too long; it may still be done.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return _answered(deed, name, end - time.monotonic(), node)
        except Exception as error:
            if _NOT_YET not in str(error) or time.monotonic() > end - _PAUSE_SECONDS:
                raise
        time.sleep(_PAUSE_SECONDS)


def _answered(deed: Callable[[], _R], name: str, seconds: float, node: str) -> _R:
    answers: list[_R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(deed())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name=f"hdfs-{name}")
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"{node} has not answered '{name}' within {seconds:.0f} seconds")
    return answers[0]
