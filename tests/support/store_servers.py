"""Which servers of stores the tests start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from conftest import absent
from tests.support.azure_server import azure_server
from tests.support.gcs_server import gcs_server
from tests.support.hdfs_server import hdfs_server
from tests.support.s3_server import s3_server
from tests.support.store_server import StoreServer

SERVERS: Final[dict[str, Callable[[], AbstractContextManager[StoreServer]]]] = {
    "s3": s3_server,
    "gcs": gcs_server,
    "azure": azure_server,
    "hdfs": hdfs_server,
}


@contextmanager
def store_server(name: str) -> Iterator[StoreServer]:
    """Start a server; where it cannot be had, the test is left out, in CI it fails."""
    server = SERVERS[name]()
    try:
        running = server.__enter__()
    except (OSError, RuntimeError) as error:
        absent(f"the server of {name} ({' '.join(str(error).split())[:200]})")
    try:
        yield running
    finally:
        server.__exit__(None, None, None)
