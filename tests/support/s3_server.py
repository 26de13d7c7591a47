"""A server with S3's protocol on this machine (moto), for tests of stores."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "warehouse"
_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class S3Server:
    """Where it listens."""

    url: str

    @property
    def options(self) -> dict[str, str]:
        """Options of a read, a write or a catalog that reach it."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key": "key",
            "s3.secret-key": "hidden",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }

    def store(self) -> Any:
        """fsspec's file system over it."""
        import s3fs

        region = {"region_name": "us-east-1"}
        return s3fs.S3FileSystem(
            key="key", secret="hidden", endpoint_url=self.url, client_kwargs=region, use_listings_cache=False
        )


@contextmanager
def requests_of(store: Any) -> Iterator[list[str]]:
    """Note the requests that a file system of fsspec sends while the context is open, as ``GET wh/t/schema-0``.

    A listing is a ``LIST`` of its prefix.
    """
    seen: list[str] = []

    def note(request: Any, **_: Any) -> None:
        url = urlsplit(request.url)
        asked = parse_qs(url.query)
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        seen.append(f"LIST {asked['prefix'][0]}" if "list-type" in asked else f"{request.method} {key}")

    store.connect()
    events = store.s3.meta.events
    events.register("before-send.s3", note)
    try:
        yield seen
    finally:
        events.unregister("before-send.s3", note)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start a server with an empty bucket; it ends with the context."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, process)
        server = S3Server(f"http://127.0.0.1:{port}")
        server.store().call_s3("create_bucket", Bucket=BUCKET)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
