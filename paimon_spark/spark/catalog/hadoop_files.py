"""How the JVM of a classic session opens the files of a table: by which URIs, with which settings.

Local files it always can. Of other stores Hadoop must have the file system (``hadoop-aws`` and the like, which the
session brings) and the right to read: that is tried once for each store and bucket, with one file of a scan. Options
that we were given are passed on for our scans alone. They do not reach the session's settings, plans and logs. Hadoop
keeps a file system for each scheme and bucket, whatever its settings: so a store with options has a scheme of its own.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from paimon_spark.spark.catalog.file_partitions import file_uri
from paimon_spark.spark.jvm.file_sizes import size_of_file
from paimon_spark.storage.confinement import ConfinedFileIO
from paimon_spark.storage.file_io import FsspecFileIO
from paimon_spark.storage.hadoop_options import hadoop_options
from paimon_spark.storage.store_options import redact, scheme_of

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway
    from paimon_spark.storage.file_io import FileIO

_LOG = logging.getLogger(__name__)

_SCHEMES: Final = frozenset(
    {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "hdfs", "viewfs", "webhdfs"}
)
"""Those that Hadoop has file systems for."""
_OWN_SCHEME: Final = "s3a-paimon-"
_S3: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_TRY_AGAIN_SECONDS: Final = 300
"""After so long a store that the JVM could not open is tried again."""


@dataclass(frozen=True)
class HadoopFiles:
    """The way to the files of one scan."""

    store: str | None = None
    """The name of the store's settings in ``PaimonStores``; None where those of the session are enough."""
    scheme: str = ""
    """What the scheme of a path is replaced with."""

    def uri(self, path: str) -> str:
        """The URI of a file for Hadoop's ``Path``, without percent encoding."""
        scheme = scheme_of(path)
        if scheme in ("", "file"):
            return file_uri(path)
        return (self.scheme or scheme) + path[len(scheme) :]


LOCAL: Final = HadoopFiles()


class _Tried:
    """What was tried in one JVM."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names: dict[frozenset[tuple[str, str]], str] = {}
        self.ways: dict[tuple[str, str, frozenset[tuple[str, str]]], tuple[HadoopFiles | None, float]] = {}


_TRIED: WeakKeyDictionary[Any, _Tried] = WeakKeyDictionary()


def hadoop_files(gateway: Gateway, file_io: FileIO, sizes: Mapping[str, int]) -> HadoopFiles | None:
    """The way by which Spark's readers open files; None where they cannot.

    Args:
        gateway: the JVM.
        file_io: the table's.
        sizes: the files, with their bytes as the manifests tell.
    """
    roots = {_root(path): path for path in sizes}
    schemes = {scheme for scheme, _ in roots}
    if schemes <= {"", "file"}:
        return LOCAL
    inner = file_io.inner if isinstance(file_io, ConfinedFileIO) else file_io
    if len(schemes) > 1 or not schemes <= _SCHEMES or not isinstance(inner, FsspecFileIO):
        return None
    given = inner.storage_options if inner.session is None else inner.session.given
    settings = hadoop_options(inner.scheme, given, {bucket for _, bucket in roots})
    if settings is None:
        return None
    ways = {_way(gateway, settings, root, path, sizes[path]) for root, path in roots.items()}
    return ways.pop() if len(ways) == 1 else None


def _root(path: str) -> tuple[str, str]:
    scheme = scheme_of(path)
    return scheme, "" if scheme in ("", "file") else path[len(scheme) + 1 :].lstrip("/").partition("/")[0]


def _way(
    gateway: Gateway, settings: Mapping[str, str], root: tuple[str, str], path: str, size: int
) -> HadoopFiles | None:
    tried = _TRIED.setdefault(gateway.gateway, _Tried())
    key = (*root, frozenset(settings.items()))
    with tried.lock:
        way, until = tried.ways.get(key, (None, 0.0))
        if way is None and time.monotonic() >= until:
            way = _try(gateway, tried, settings, path, size)
            tried.ways[key] = (way, time.monotonic() + _TRY_AGAIN_SECONDS)
        return way


def _try(gateway: Gateway, tried: _Tried, settings: Mapping[str, str], path: str, size: int) -> HadoopFiles | None:
    name = tried.names.setdefault(frozenset(settings.items()), uuid.uuid4().hex[:12]) if settings else None
    scheme = scheme_of(path)
    choices = [HadoopFiles(name, f"{_OWN_SCHEME}{name}")] if name else [HadoopFiles()]
    if not name and scheme in ("s3", "s3n"):
        choices.append(HadoopFiles(None, "s3a"))
    reason = ""
    for way in choices:
        own = {f"fs.{way.scheme}.impl": _S3} if name else {}
        found = size_of_file(gateway, name, {**settings, **own}, way.uri(path))
        if found == size:
            return way
        reason = f"it finds {found} bytes where {size} are" if isinstance(found, int) else found
    _LOG.warning(
        "Spark's own Parquet reader cannot open the files at %s, so Paimon's reads them: %s. It needs Hadoop's file "
        "system of the store (docs/storage.md).",
        redact(path).rpartition("/")[0],
        reason,
    )
    return None
