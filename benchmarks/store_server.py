"""A store for benchmarks: a server that counts what it is asked and delays each answer, as a store far away does.

It is moto's S3 in this process, or it stands in front of another server (Google's and Azure's protocols). It runs as
a process of its own; `running()` starts it, and `Counted` are the numbers of what was sent since they were last asked
for. moto is pure Python: `server_seconds` say how much of the time was its own work, not the delay or the client.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BUCKET = "warehouse"
DELAY_SECONDS = 0.03
_ROOT = Path(__file__).parent.parent
_ASK = "/_counted"
_HEADERS = "benchmarks.headers"
"""Headers as they came: WSGI changes their names, which Azure signs."""
_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "server", "date")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Counted:
    """What a server was asked: of each request its method, target, times, and bytes."""

    requests: list[dict[str, Any]]

    @property
    def number(self) -> int:
        """How many requests."""
        return len(self.requests)

    @property
    def sent_bytes(self) -> int:
        """Bytes of bodies that clients sent."""
        return sum(request["in"] for request in self.requests)

    @property
    def received_bytes(self) -> int:
        """Bytes of bodies that clients were sent."""
        return sum(request["out"] for request in self.requests)

    @property
    def server_seconds(self) -> float:
        """Seconds in which the server worked on at least one request, its delays left out."""
        return _covered((request["begun"], request["end"]) for request in self.requests)

    @property
    def waves(self) -> float:
        """Seconds in which at least one request was under way, in delays: how many were sent one after the other."""
        return _covered((request["start"], request["end"]) for request in self.requests) / DELAY_SECONDS

    @property
    def at_once(self) -> int:
        """The most requests that were under way at one time."""
        marks = sorted([(r["start"], 1) for r in self.requests] + [(r["end"], -1) for r in self.requests])
        most = now = 0
        for _, change in marks:
            now += change
            most = max(most, now)
        return most


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    total = end = 0.0
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


@dataclass(frozen=True)
class Server:
    """A server that is running."""

    url: str

    def counted(self) -> Counted:
        """What it was asked since the last call."""
        with urllib.request.urlopen(self.url + _ASK) as answer:
            return Counted(json.load(answer))

    @property
    def options(self) -> dict[str, str]:
        """Options of a catalog that reach moto's S3."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key": "key",
            "s3.secret-key": "hidden",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }


@contextmanager
def running(delay: float = DELAY_SECONDS, front_of: str = "", port: int = 0) -> Iterator[Server]:
    """Start a server: moto's S3 with an empty bucket, or one in front of another; it ends with the context."""
    command = [sys.executable, "-m", "benchmarks.store_server", "--delay", str(delay), "--port", str(port)]
    with subprocess.Popen(
        [*command, "--front-of", front_of], stdout=subprocess.PIPE, text=True, cwd=_ROOT, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            server = Server(f"http://127.0.0.1:{line.split()[1]}")
            if not front_of:
                make = urllib.request.Request(f"{server.url}/{BUCKET}", method="PUT")
                urllib.request.urlopen(make).close()
            server.counted()
            yield server
        finally:
            process.terminate()


class Counting:
    """A WSGI application around another one."""

    def __init__(self, app: App, delay: float) -> None:
        self._app = app
        self._delay = delay
        self._lock = threading.Lock()
        self._seen: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == _ASK:
            with self._lock:
                seen, self._seen = self._seen, []
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(seen).encode()]
        start = time.time()
        time.sleep(self._delay)
        begun = time.time()
        parts = list(self._app(environ, start_response))
        query = environ.get("QUERY_STRING", "")
        note = {
            "method": environ["REQUEST_METHOD"],
            "target": environ["PATH_INFO"] + ("?" + query if query else ""),
            "range": environ.get("HTTP_RANGE", ""),
            "in": int(environ.get("CONTENT_LENGTH") or 0),
            "out": sum(map(len, parts)),
            "start": start,
            "begun": begun,
            "end": time.time(),
        }
        with self._lock:
            self._seen.append(note)
        return parts


class Front:
    """A WSGI application that asks another server."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._connections = threading.local()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""
        if length := int(environ.get("CONTENT_LENGTH") or 0):
            body = environ["wsgi.input"].read(length)
        target = environ.get("RAW_URI") or environ["REQUEST_URI"]
        headers = {k: v for k, v in environ[_HEADERS] if k.lower() not in _HOP}
        headers["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(self._host, timeout=60)
        connection.request(environ["REQUEST_METHOD"], target, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        found = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP]
        length_said = answer.getheader("Content-Length") if environ["REQUEST_METHOD"] == "HEAD" else str(len(data))
        if answer.status not in (204, 304):
            found.append(("Content-Length", length_said or "0"))
        start_response(f"{answer.status} {answer.reason}", found)
        return [data]


def _serve(delay: float, front_of: str, port: int) -> None:
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def make_environ(self) -> dict[str, Any]:
            return {**super().make_environ(), _HEADERS: self.headers.items()}

        def log_request(self, *_: Any) -> None:
            pass

    if front_of:
        app: App = Front(front_of)
    else:
        from moto.server import DomainDispatcherApplication, create_backend_app

        os.environ.setdefault("MOTO_S3_DEFAULT_MAX_KEYS", "1000")
        app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", port, Counting(app, delay), threaded=True, request_handler=Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    print(f"PORT {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--delay", type=float, default=DELAY_SECONDS)
    arguments.add_argument("--front-of", default="")
    arguments.add_argument("--port", type=int, default=0)
    given = arguments.parse_args()
    _serve(given.delay, given.front_of, given.port)
