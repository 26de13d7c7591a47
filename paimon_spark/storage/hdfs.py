"""HDFS through `hdfs-native`, a client in Rust that needs neither a JVM nor Hadoop's own libraries.

Its adapter for fsspec is used, except where a name with ``?``, ``#`` or ``;`` would become that of another file, or
where a process that ends while it writes would leave half a file under the name.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from paimon_spark.errors import OptionError, StorageError
from paimon_spark.storage.hdfs_calls import BoundedClient, is_cut

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
