"""Java's server of REST catalogs on this machine, and a proxy before it that counts requests and makes them fail."""

from __future__ import annotations

import http.client
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from conftest import absent
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.metastore_catalog import open_catalog
from tests.oracle.paimon_oracle import PaimonOracle, bundle_jar
from tests.support.java_server import core_site, first_line, java_server
from tests.support.maven_jars import fetched, spark_jars

_SOURCE = Path(__file__).with_name("RestServer.java")
_NEEDED = ("hadoop-client-", "slf4j-api", "jackson-", "jcl-over", "snappy-java", "commons-", "http")
TOKEN = "a-token"


@dataclass
class RestServer:
    """A server that runs."""

    uri: str
    dlf_uri: str
    """The same server, which wants signatures of DLF."""
    process: subprocess.Popen[str]

    def options(self, uri: str | None = None) -> dict[str, str]:
        """The options of a catalog of it."""
        return {
            "metastore": "rest",
            "uri": uri or self.uri,
            "warehouse": "wh",
            "token.provider": "bear",
            "token": TOKEN,
        }

    def give_tokens(self, options: Mapping[str, str], seconds: float) -> None:
        """Let the files of each table be reached by such options, which end after so long."""
        ends = int((time.time() + seconds) * 1000)
        self._reported(" ".join(["token", str(ends), *(f"{key}={value}" for key, value in options.items())]))

    def answer_next_commit_with_an_error(self) -> None:
        """The next commit is made, and the answer is an error."""
        self._reported("unclear")

    def signed(self, signer: str) -> dict[str, str]:
        """The headers that a signer of Java's, default or openapi, gives a certain request."""
        return dict(line.split("=", 1) for line in self._reported(f"sign {signer}"))

    def _reported(self, word: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        lines: list[str] = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "done":
            assert line, "the server has ended"
            lines.append(line)
        return lines


@contextmanager
def rest_server(
    store: str | None = None, *, more_jars: Sequence[str] = (), hadoop: Mapping[str, str] | None = None
) -> Iterator[RestServer]:
    """Start the server; it ends with the context.

    Args:
        store: where tables lie, on a store, or in a directory that ends with the server.
        more_jars: paths of jars that it needs alongside PySpark's: a file system of Hadoop.
        hadoop: settings of Hadoop, by which it reaches the store.

    Raises:
        OSError: there is no Java or no Maven.
        RuntimeError: jars cannot be fetched, or it does not start.
    """
    found = fetched(
        "rest-server-1.4.2",
        [("org.apache.paimon", "paimon-core", "1.4.2", "tests")],
        [("com.squareup.okhttp3", "mockwebserver", "4.12.0")],
    )
    of_spark = [jar for jar in spark_jars() if os.path.basename(jar).startswith(_NEEDED)]
    with tempfile.TemporaryDirectory() as folder:
        jars = [bundle_jar("1.4.2"), *found, *of_spark, *more_jars, *core_site(Path(folder), hadoop or {})]
        arguments = [f"file://{folder}/bear", f"file://{folder}/dlf", *([] if store is None else [store])]
        with java_server(_SOURCE, jars, arguments, Path(folder), options=["-Xmx256m"]) as process:
            yield RestServer(*(first_line(process, Path(folder)).rstrip("/") for _ in range(2)), process)


Fault = Callable[[str, str, Callable[[], tuple[int, bytes]]], tuple[int, bytes] | None]
"""Given the method, the path and what passes the request on, gives another answer; None breaks the connection."""


@dataclass
class RestProxy:
    """Passes requests on."""

    uri: str
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request, from behind the prefix."""
    bodies: list[bytes] = field(default_factory=list)
    """What each request sent."""
    fault: Fault | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """What faulty answers have alongside."""

    sees: Callable[[Mapping[str, str]], None] | None = None
    """Is given the headers of each request."""

    def taken(self) -> list[str]:
        """The requests since the last call, as texts."""
        found = [f"{method} {path}" for method, path in self.requests]
        self.requests.clear()
        self.bodies.clear()
        return found


class HasAddress(Protocol):
    """A server that is reached by HTTP."""

    @property
    def uri(self) -> str:
        """Where it is."""


@contextmanager
def rest_proxy(server: HasAddress) -> Iterator[RestProxy]:
    """Start a proxy before a server; it ends with the context."""
    target = urlsplit(server.uri)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size) if size else None
            path = self.path.removeprefix("/v1/paimon/").removeprefix("/v1/")
            proxy.requests.append((self.command, path))
            proxy.bodies.append(body or b"")
            if proxy.sees is not None:
                proxy.sees(dict(self.headers.items()))

            def pass_on() -> tuple[int, bytes]:
                connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
                headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.status, answer.read()
                connection.close()
                return content

            answer = pass_on() if proxy.fault is None else proxy.fault(self.command, path, pass_on)
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, content = answer
            self.send_response(status)
            for key, value in proxy.headers.items() if status >= 400 else ():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - names of the standard library's

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    proxy = RestProxy(f"http://127.0.0.1:{httpd.server_address[1]}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


@contextmanager
def java_of_rest(options: Mapping[str, str]) -> Iterator[PaimonOracle]:
    """Java's REST catalog over the warehouse ``wh``, with the options of a `RestServer`."""
    try:
        opened = PaimonOracle("wh", options={**options, "cache-enabled": "false"})
    except (OSError, RuntimeError) as error:
        absent(f"Java's REST catalog ({' '.join(str(error).split())[:200]})")
    with opened:
        yield opened


@contextmanager
def rest_database(server: RestServer, name: str) -> Iterator[FilesystemCatalog]:
    """Our REST catalog over the warehouse ``wh``, with a database that is there meanwhile."""
    found = open_catalog("wh", server.options())
    found.create_database(name)
    yield found
    for table in found.tables(name):
        found.drop_table(name, table)
    found.drop_database(name)
