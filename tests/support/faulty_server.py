"""A server in front of a store's that fails on purpose: by an answer, by none, or by one that is lost."""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tests.support.store_server import StoreServer


@dataclass(frozen=True)
class Answer:
    """What a store answers of its own accord."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


XML: Final = (("Content-Type", "application/xml"),)


def _s3(status: int, code: str, message: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>", XML)


S3_REFUSALS: Final[dict[str, tuple[Answer, str]]] = {
    "keys": (_s3(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist"), r"check the keys"),
    "secret": (_s3(403, "SignatureDoesNotMatch", "The request signature does not match"), r"check the keys"),
    "denied": (_s3(403, "AccessDenied", "Access Denied"), r"may not be read or written.*Give the user"),
    "clock": (
        _s3(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
        r"The clock of this machine differs.*Set the clock",
    ),
    "region": (
        _s3(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'"),
        r"in another region.*expecting 'eu-west-1'.*s3\.region",
    ),
    "endpoint": (
        Answer(
            301,
            "<Error><Code>PermanentRedirect</Code><Message>The bucket must be addressed using the specified endpoint."
            "</Message></Error>",
            (*XML, ("x-amz-bucket-region", "eu-west-1")),
        ),
        r"at another endpoint.*s3\.endpoint",
    ),
    "token": (_s3(400, "ExpiredToken", "The provided token has expired."), r"Give a new one.*that are renewed"),
    "bucket": (_s3(404, "NoSuchBucket", "The specified bucket does not exist"), r"does not exist.*Create"),
    "busy": (_s3(503, "SlowDown", "Please reduce your request rate."), r"reduce your request rate.*run it again"),
}  # fmt: skip
"""Answers with which S3 refuses a request, and words of the error that each becomes."""


Fault = int | str | Answer
"""A status or a whole answer; ``reset``: the connection ends before the deed; ``lost``: it ends after the deed;
``silent``: no deed, and no answer as long as the server runs; ``stalled``: half of
the answer, and no more of it; ``cut``: half of it, then the connection ends."""
_REPORTED_BYTES = 400
Rule = Callable[[str, str], Fault | None]
"""What happens to a request: by its method and its path, decoded."""


class Faults:
    """What goes wrong now; `rule` may be set at any time."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.met: list[tuple[str, str, Fault]] = []
        self._lock = threading.Lock()

    def of(self, method: str, target: str) -> Fault | None:
        """The fault of a request, which is noted."""
        with self._lock:
            path = unquote(target)
            fault = None if self.rule is None else self.rule(method, path)
            if fault is not None:
                self.met.append((method, path, fault))
            return fault

    def once(self, fault: Fault, method: str, part: str) -> None:
        """Let the next request whose path has a part fail."""
        self.met.clear()

        def rule(of: str, path: str) -> Fault | None:
            return fault if not self.met and of in method.split("|") and part in path else None

        self.rule = rule

    def always(self, fault: Fault, method: str, part: str) -> None:
        """Let all requests whose path has a part fail."""
        self.met.clear()
        self.rule = lambda of, path: fault if of in method.split("|") and part in path else None

    def every(self, number: int, fault: Fault) -> None:
        """Let each request of so many fail."""
        self.met.clear()
        seen = 0

        def rule(_method: str, _path: str) -> Fault | None:
            nonlocal seen
            seen += 1
            return fault if seen % number == 0 else None

        self.rule = rule


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """What a request brings, in chunks or not."""
    if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    parts = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        parts.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass
    return b"".join(parts)


class _Front(ThreadingHTTPServer):
    """One whose clients may go before they have their answer: they are made to give up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def faulty(server: StoreServer) -> Iterator[tuple[StoreServer, Faults]]:
    """The same store behind a server that fails on purpose."""
    faults, behind, ended = Faults(), urlsplit(server.url), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self) -> None:
            body = body_of(self)
            reported = (
                body[:_REPORTED_BYTES].decode("latin-1") if "/upload/" in self.path else ""
            )  # Google's names are there
            fault = faults.of(self.command, self.path + reported)
            if fault == "reset":
                self.close_connection = True
                return
            if fault == "silent":
                ended.wait()
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._send(fault, [("Content-Type", "text/plain")], b"on purpose")
                return
            if isinstance(fault, Answer):
                self._send(fault.status, list(fault.headers), fault.body.encode())
                return
            connection = http.client.HTTPConnection(behind.hostname or "", behind.port, timeout=30)
            headers = {key: value for key, value in self.headers.items() if key.lower() != "transfer-encoding"}
            headers["Content-Length"] = str(len(body))
            connection.request(self.command, self.path, body, headers)
            found = connection.getresponse()
            data = found.read()
            connection.close()
            if fault == "lost":
                self.close_connection = True
                return
            self._send(found.status, found.getheaders(), data, whole=fault not in ("stalled", "cut"))
            if fault == "stalled":
                ended.wait()
            self.close_connection |= fault in ("stalled", "cut")

        def _send(self, status: int, headers: list[tuple[str, str]], data: bytes, *, whole: bool = True) -> None:
            self.send_response_only(status)
            known = {key.lower(): value for key, value in headers}
            for key, value in headers:
                if key.lower() not in ("transfer-encoding", "content-length", "connection", "content-encoding"):
                    self.send_header(key, value)
            length = known.get("content-length", "0") if self.command == "HEAD" else str(len(data))
            if known.get("content-encoding"):
                self.send_header("Content-Encoding", known["content-encoding"])
            if status not in (204, 304):
                self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data if whole else data[: len(data) // 2])

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815

    front = _Front(("127.0.0.1", 0), Handler)
    threading.Thread(target=front.serve_forever, args=(0.05,), daemon=True).start()
    try:
        location = f"127.0.0.1:{front.server_address[1]}"
        options = {key: value.replace(behind.netloc, location) for key, value in server.options.items()}
        yield replace(server, url=server.url.replace(behind.netloc, location), options=options), faults
    finally:
        ended.set()
        front.shutdown()
        front.server_close()
