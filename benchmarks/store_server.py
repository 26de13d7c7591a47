"""A store for benchmarks: a server that counts what it is asked and delays each answer, as a store far away does.

It is moto's S3 in this process, or it stands in front of another server (Google's and Azure's protocols, and HDFS). It
runs as a process of its own; `running()` starts it, and `Counted` are the numbers of what was sent since they were last
asked for. moto is pure Python: `server_seconds` say how much of the time was its own work, not the delay or the client.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import queue
import re
import socket
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
_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")
_OWN = (*_HOP, "server", "date")
"""Headers of an answer that each server writes by itself; a request's date may be signed."""
_GENERATION = "x-goog-if-generation-match"
_CHUNK, _SMALL = 1 << 16, 1 << 12
_HEADER = 7
"""Bytes that begin a connection to a NameNode."""
_DATA_NODE = re.compile(rb"(\x1a\x24[0-9a-f-]{36}\x20)([\x80-\xff][\x80-\xff][\x01-\x03])")
"""The UUID of a DataNode and its port, in answers of a NameNode."""
_OPERATIONS = (b"\x00\x1c\x50", b"\x00\x1c\x51")
"""Version and code of the operations that write and read a block."""

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
def running(
    delay: float = DELAY_SECONDS, front_of: str = "", port: int = 0, *, google_xml: bool = False
) -> Iterator[Server]:
    """Start a server: moto's S3 with an empty bucket, or one in front of another; it ends with the context.

    Args:
        delay: seconds by which each answer is late.
        front_of: the URL of the other one; of a NameNode ``hdfs://host:port``.
        port: where it listens; any free one where that is 0.
        google_xml: the other one is fake-gcs-server, which is to take the puts of Google's XML protocol too.
    """
    command = [sys.executable, "-m", "benchmarks.store_server", "--delay", str(delay), "--port", str(port)]
    command += ["--google-xml"] * google_xml
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

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""
        if length := int(environ.get("CONTENT_LENGTH") or 0):
            body = environ["wsgi.input"].read(length)
        target = environ.get("RAW_URI") or environ["REQUEST_URI"]
        headers = {k: v for k, v in environ[_HEADERS] if k.lower() not in _HOP}
        status, found, data = self.ask(environ["REQUEST_METHOD"], target, body, headers)
        start_response(status, found)
        return [data]

    def ask(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[str, list[tuple[str, str]], bytes]:
        """The status, headers and body that the other server answers."""
        connection = http.client.HTTPConnection(self._host, timeout=60)
        connection.request(method, target, body, {**headers, "Content-Length": str(len(body))})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        found = [(k, v) for k, v in answer.getheaders() if k.lower() not in _OWN]
        length_said = answer.getheader("Content-Length") if method == "HEAD" else str(len(data))
        if answer.status not in (204, 304):
            found.append(("Content-Length", length_said or "0"))
        return f"{answer.status} {answer.reason}", found, data


class GoogleXml(Front):
    """fake-gcs-server, and the puts of Google's XML protocol, which it does not take: they become those of JSON."""

    def ask(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[str, list[tuple[str, str]], bytes]:
        """The answer in the protocol that was asked in."""
        bucket, _, key = target.lstrip("/").partition("/")
        if method != "PUT" or bucket in ("storage", "upload"):
            return super().ask(method, target, body, headers)
        condition = "".join(f"&ifGenerationMatch={v}" for k, v in headers.items() if k.lower() == _GENERATION)
        json_target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}{condition}"
        status, found, data = super().ask("POST", json_target, body, headers)
        if not status.startswith("200"):
            return status, found, data
        made = json.loads(data)
        return status, [("ETag", made["etag"]), ("x-goog-generation", made["generation"]), ("Content-Length", "0")], b""


class SlowHdfs:
    """A wire to a NameNode, and to the DataNode that it names, over which bytes take half a delay in each direction.

    Counted are calls of the NameNode and blocks that the DataNode is asked for; a connection that asks for the numbers
    is answered as `Counting` does.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay / 2
        self._lock = threading.Lock()
        self._number = 0
        self._data_nodes: dict[bytes, bytes] = {}

    def serve(self, port: int, *, names: bool) -> int:
        """Listen in front of a port of this machine; return the port that is listened on."""
        listening = socket.create_server(("127.0.0.1", 0))

        def accept() -> None:
            while True:
                threading.Thread(target=self._talk, args=(listening.accept()[0], port, names), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        found: int = listening.getsockname()[1]
        return found

    def _talk(self, client: socket.socket, port: int, names: bool) -> None:
        first = client.recv(_CHUNK)
        if first.startswith(b"GET /"):
            with self._lock:
                number, self._number = self._number, 0
            body = json.dumps([{}] * number).encode()
            client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            client.close()
            return
        node = socket.create_connection(("127.0.0.1", port))
        for end in (client, node):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(
            target=self._carry, args=(node, client, self._renamed if names else bytes), daemon=True
        ).start()
        self._carry(client, node, (_calls if names else _blocks)(self._count), first)

    def _carry(
        self, source: socket.socket, target: socket.socket, passed: Callable[[bytes], bytes], data: bytes = b""
    ) -> None:
        """Send on what comes, each part half a delay after it came."""
        under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()

        def send() -> None:
            with contextlib.suppress(OSError):
                while (part := under_way.get())[1]:
                    time.sleep(max(0.0, part[0] - time.monotonic()))
                    target.sendall(part[1])
                target.shutdown(socket.SHUT_WR)

        threading.Thread(target=send, daemon=True).start()
        with contextlib.suppress(OSError):
            data = data or source.recv(_CHUNK)
            while data:
                under_way.put((time.monotonic() + self._delay, passed(data)))
                data = source.recv(_CHUNK)
        under_way.put((0.0, b""))

    def _renamed(self, data: bytes) -> bytes:
        """An answer of the NameNode whose DataNode is behind a wire too: both ports take three bytes."""

        def wired(found: re.Match[bytes]) -> bytes:
            with self._lock:
                if found[2] not in self._data_nodes:
                    low, middle, high = found[2]
                    port = self.serve((low & 127) | (middle & 127) << 7 | high << 14, names=False)
                    self._data_nodes[found[2]] = bytes([port & 127 | 128, port >> 7 & 127 | 128, port >> 14])
            return found[1] + self._data_nodes[found[2]]

        return _DATA_NODE.sub(wired, data)

    def _count(self, number: int) -> None:
        with self._lock:
            self._number += number


def _blocks(count: Callable[[int], None]) -> Callable[[bytes], bytes]:
    """A function that counts operations in what a client sends to a DataNode; parts with data hold none."""
    end = b""

    def passed(data: bytes) -> bytes:
        nonlocal end
        both = end + data
        end = b"" if len(data) > _SMALL else both[-2:]
        if len(data) < _SMALL:
            count(sum(map(both.count, _OPERATIONS)))
        return data

    return passed


def _calls(count: Callable[[int], None]) -> Callable[[bytes], bytes]:
    """A function that counts Hadoop's calls in what a client sends: a header, who it is, then calls with lengths."""
    waiting, met = bytearray(), 0

    def passed(data: bytes) -> bytes:
        nonlocal met
        waiting.extend(data)
        if not met and len(waiting) >= _HEADER:
            del waiting[:_HEADER]
            met = 1
        while met and len(waiting) >= 4:
            length = max(0, int.from_bytes(waiting[:4], "big", signed=True))  # a ping has a length of -1
            if len(waiting) < 4 + length:
                break
            del waiting[: 4 + length]
            count(int(met > 1 and length > 0))
            met += 1
        return data

    return passed


def _serve(delay: float, front_of: str, port: int, *, google_xml: bool) -> None:
    if front_of.startswith("hdfs://"):
        print(f"PORT {SlowHdfs(delay).serve(urlsplit(front_of).port or 0, names=True)}", flush=True)
        threading.Event().wait()
        return
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def make_environ(self) -> dict[str, Any]:
            return {**super().make_environ(), _HEADERS: self.headers.items()}

        def log_request(self, *_: Any) -> None:
            pass

        def handle_expect_100(self) -> bool:
            return True  # werkzeug says it by itself: twice is once too often for Azure's library in C++

    if front_of:
        app: App = (GoogleXml if google_xml else Front)(front_of)
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
    arguments.add_argument("--google-xml", action="store_true")
    given = arguments.parse_args()
    _serve(given.delay, given.front_of, given.port, google_xml=given.google_xml)
