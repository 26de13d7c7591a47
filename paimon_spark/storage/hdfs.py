"""HDFS through `hdfs-native`, a client in Rust that needs neither a JVM nor Hadoop's own libraries.

Its adapter for fsspec is used, except where a name with ``?``, ``#`` or ``;`` would become that of another file, or
where a process that ends while it writes would leave half a file under the name. Calls end in a bounded time: by itself
the client waits for a silent NameNode without end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from paimon_spark.errors import OptionError, StorageError

_PREFIX: Final = "hadoop."
_CONFIG: Final = "config"
_NAMESERVICES: Final = ("dfs.nameservices", "dfs.ha.namenodes.")
_DEFAULT_PORT: Final = 8020
_CONNECT_SECONDS: Final = 10.0
_BOUNDS: Final = {"dfs.client.socket-timeout": "15000"}
"""A DataNode that is silent in the middle of a block is waited for twice: Hadoop's 60 seconds would be two minutes."""
_PAUSES_SECONDS: Final = (0.5, 2.0)
_R = TypeVar("_R")
_CONFIG_DIRECTORIES: Final = ("HADOOP_CONF_DIR", "HADOOP_HOME")
"""Variables of the environment that lead the client to Hadoop's configuration, and so to nameservices."""

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


def hdfs_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Hadoop's configuration among the options of a store: ``hadoop.dfs.nameservices`` and so on."""
    found = {key[len(_PREFIX) :]: value for key, value in options.items() if key.lower().startswith(_PREFIX)}
    return {_CONFIG: found} if found else {}


def configuration(options: Mapping[str, Any]) -> dict[str, str]:
    """What `hdfs_options` found, as it is in the arguments of a file system."""
    return {key: str(value) for key, value in options.get(_CONFIG, {}).items()}


def open_hdfs(path: str, options: Mapping[str, Any]) -> Any:
    """Return the file system of a path, whose host is a NameNode, or a nameservice that the configuration knows.

    Args:
        path: with the port of the NameNode; 8020 where nothing says that its host is a nameservice.
        options: as of ``fsspec_options``.

    Raises:
        ImportError: `hdfs-native` is not installed.
        OptionError: an option is none of Hadoop's, or the port is no number.
        StorageError: nothing answers at the address.
    """
    other = next((key for key in options if key != _CONFIG), None)
    if other is not None:
        raise OptionError(
            f"Unknown option 'fs.{other}': HDFS is reached by Hadoop's settings, such as 'hadoop.dfs.nameservices'"
        )
    kind, config = _file_system(), configuration(options)
    host, port = _address(path)
    known = any(key.startswith(_NAMESERVICES) for key in config) or any(map(os.environ.get, _CONFIG_DIRECTORIES))
    if host and port is None and not known:
        port = _DEFAULT_PORT
    if host and port is not None:
        _check_reachable(host, port)
    return kind(host, port, **{**_BOUNDS, **config})


def _address(path: str) -> tuple[str | None, int | None]:
    authority = path.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host, colon, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
    if colon and not port.isdecimal():
        raise OptionError(f"The path at '{host}' has no number as its port: write hdfs://host:port/…")
    return host or None, int(port) if port else None


@functools.cache
def _check_reachable(host: str, port: int) -> None:
    """Check once that something listens: the client would try again and again, and say nothing."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise StorageError(
            f"No NameNode answers at {host}:{port} ({error.strerror or error}). Check the host and the port of the "
            "path hdfs://host:port/…; for a nameservice give its settings (hadoop.dfs.nameservices, …), or "
            "HADOOP_CONF_DIR in the environment of the driver and the executors",
            error.errno,
        ) from None


@functools.cache
def _file_system() -> type[Any]:
    from hdfs_native import Client
    from hdfs_native.fsspec import HdfsFileSystem

    class Hdfs(HdfsFileSystem):  # type: ignore[misc]
        """The client's file system with names taken as they are, whole files and bounded waits."""

        client: Any
        reads_in_threads = True

        def __init__(self, host: str | None = None, port: int | None = None, **config: str) -> None:
            super().__init__(host, port, **config)
            position = host if port is None else f"{host}:{port}"
            self.client = BoundedClient(lambda: Client(f"hdfs://{position or ''}", config))

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            if path.startswith("/"):
                return path.rstrip("/") or "/"
            _, _, rest = path.partition(":")
            if rest.startswith("//"):
                rest = rest[2:].partition("/")[2]
            return "/" + rest.strip("/")

        def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
            found: dict[str, Any] = super()._convert_file_status(file_status)
            return {**found, "mtime": file_status.modification_time}

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
            """Write a file that is there as a whole, or not at all."""
            _put(self, self._strip_protocol(path), value, overwrite=mode == "overwrite")

    return Hdfs


def create_if_absent(store: Any, key: str, data: bytes) -> bool:
    """Create a file unless there is one; return whether it was created. The NameNode's rename decides."""
    try:
        _put(store, key, data, overwrite=False)
    except FileExistsError:
        return False
    return True


def _put(store: Any, key: str, data: bytes, *, overwrite: bool) -> None:
    """Write a file aside, then rename it; again where the connection ended meanwhile."""
    _rename(store, _again(lambda: write_aside(store, key, data)), key, overwrite=overwrite)


def _again(deed: Callable[[], _R]) -> _R:
    """Do what may be done twice; again where the connection to the NameNode ends, or a call has no answer."""
    for pause in _PAUSES_SECONDS:
        try:
            return deed()
        except Exception as error:
            if not is_cut(error):
                raise
        time.sleep(pause)
    return deed()


def write_aside(store: Any, key: str, data: bytes) -> str:
    """Write a file under a hidden name of its own alongside another one; return that name."""
    directory, _, name = key.rpartition("/")
    aside = f"{directory}/.{name}.{uuid.uuid4()}.tmp"
    try:
        with store.open(aside, "wb") as file:
            file.write(data)
    except BaseException:
        _delete_own(store, aside)
        raise
    return aside


def _delete_own(store: Any, path: str) -> None:
    """Delete a file whose name nobody else uses; an error leaves it to the removal of orphan files."""
    with contextlib.suppress(Exception):
        _again(lambda: store.client.delete(path, False))


def _rename(store: Any, source: str, target: str, *, overwrite: bool) -> None:
    """Rename a file whose name nobody else uses: where an answer is lost, the source tells whether it was done."""

    def rename() -> None:
        try:
            store.client.rename(source, target, overwrite)
        except FileNotFoundError:
            if not sent:
                raise
        finally:
            sent.append(True)

    sent: list[bool] = []
    try:
        _again(rename)
    except BaseException as error:
        with contextlib.suppress(Exception):
            if isinstance(error, FileExistsError) and len(sent) > 1 and not store.exists(source):
                return  # the first attempt did it, and its answer was lost
        _delete_own(store, source)
        raise


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
