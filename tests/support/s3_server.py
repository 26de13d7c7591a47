"""A server with S3's protocol on this machine (moto), for tests of stores."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.store_server import BUCKET as BUCKET
from tests.support.store_server import StoreServer, free_port, served

_COLOURS = re.compile("\x1b[^m]*m")
_REQUEST = re.compile(r'"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1"')


@dataclass(frozen=True)
class S3Server(StoreServer):
    """A server that is running."""

    @classmethod
    def at(cls, url: str) -> S3Server:
        """The server that listens at an address."""
        options = {
            "s3.endpoint": url,
            "s3.access-key": "key",
            "s3.secret-key": "hidden",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }
        return cls(url, f"s3a://{BUCKET}/wh", options)

    def store(self) -> Any:
        """fsspec's file system over it."""
        import s3fs

        region = {"region_name": "us-east-1"}
        return s3fs.S3FileSystem(
            key="key", secret="hidden", endpoint_url=self.url, client_kwargs=region, use_listings_cache=False
        )


class RequestLog:
    """The requests that a server had, of whichever process: each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def new(self) -> list[str]:
        """Those since the last call, as `requests_of` spells them."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            text = file.read()
        self._read_bytes += len(text)
        plain = _COLOURS.sub("", text.decode())
        return [_spelled(method, target) for method, target in _REQUEST.findall(plain)]


def _spelled(method: str, target: str) -> str:
    url = urlsplit(target)
    asked = parse_qs(url.query)
    key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
    return f"LIST {asked['prefix'][0]}" if "list-type" in asked else f"{method} {key}"


@contextmanager
def requests_of(store: Any) -> Iterator[list[str]]:
    """Note the requests that a file system of fsspec sends while the context is open, as ``GET wh/t/schema-0``.

    A listing is a ``LIST`` of its prefix.
    """
    seen: list[str] = []

    def note(request: Any, **_: Any) -> None:
        seen.append(_spelled(request.method, request.url))

    store.connect()
    events = store.s3.meta.events
    events.register("before-send.s3", note)
    try:
        yield seen
    finally:
        events.unregister("before-send.s3", note)


@contextmanager
def s3_server(log: Path = Path(os.devnull)) -> Iterator[S3Server]:
    """Start a server with an empty bucket; it ends with the context. It logs each request (`RequestLog`)."""
    port = free_port()
    with served([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port, log):
        server = S3Server.at(f"http://127.0.0.1:{port}")
        server.store().call_s3("create_bucket", Bucket=BUCKET)
        yield server
