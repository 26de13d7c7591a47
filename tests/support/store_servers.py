"""Which servers of stores the tests start; each runs until the process of the tests ends."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final

from conftest import absent
from paimon_spark.storage.file_io import FileIO
from tests.support.azure_server import azure_server
from tests.support.gcs_server import gcs_server
from tests.support.hdfs_server import hdfs_server
from tests.support.oss_server import oss_server
from tests.support.s3_server import s3_server
from tests.support.store_server import StoreServer

SERVERS: Final[dict[str, Callable[[], AbstractContextManager[StoreServer]]]] = {
    "s3": s3_server,
    "gcs": gcs_server,
    "azure": azure_server,
    "hdfs": hdfs_server,
    "oss": oss_server,
}
_RUNNING: Final[dict[str, StoreServer]] = {}
_OPENED: Final = ExitStack()
atexit.register(_OPENED.close)


@contextmanager
def store_server(name: str) -> Iterator[StoreServer]:
    """A server with an empty warehouse, which is emptied again at the end.

    It is started once for a process: a NameNode takes many seconds. Where it cannot be had, the test is left out, in CI
    it fails.
    """
    if name not in _RUNNING:
        try:
            _RUNNING[name] = _OPENED.enter_context(SERVERS[name]())
        except (OSError, RuntimeError) as error:
            absent(f"the server of {name} ({' '.join(str(error).split())[:200]})")
    running = _RUNNING[name]
    try:
        yield running
    finally:
        FileIO.for_path(running.root, running.options).delete_quietly(running.root, recursive=True)
