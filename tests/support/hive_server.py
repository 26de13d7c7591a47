"""Hive's metastore on this machine, and a proxy before it whose connections can be broken.

It is that of PySpark's jars, 2.3; where the environment variable `PAIMON_SPARK_TESTS_HIVE` is `4`, it is Hive's own
standalone metastore 4.0.1, fetched by Maven.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.java_server import core_site, first_line, java_server
from tests.support.kerberos import Kdc
from tests.support.maven_jars import fetched, spark_jars
from tests.support.store_server import StoreServer

_SOURCE = Path(__file__).with_name("HiveServer.java")
_SOURCE_4 = Path(__file__).with_name("HiveServer4.java")
_VERSION_4 = "4.0.1"
_SCRIPT_4 = "scripts/metastore/upgrade/derby/hive-schema-4.0.0.derby.sql"
_NEEDED_4 = (
    ("javax.servlet", "javax.servlet-api", "3.1.0"),
    ("commons-collections", "commons-collections", "3.2.2"),
    ("org.apache.hadoop", "hadoop-hdfs", "3.3.6"),
)
"""What that archive leaves to Hadoop, and PySpark's jars do not have."""
_OF_SPARK_4 = ("hadoop-client-", "gson", "httpc", "slf4j-api", "commons-", "log4j-1.2-api")
IS_HIVE_4 = os.environ.get("PAIMON_SPARK_TESTS_HIVE") == "4"
"""Whether tests have the metastore of Hive 4."""
_OF_HIVE = ("hive-", "libthrift", "libfb303", "commons-", "log4j", "guava", "failureaccess", "antlr-runtime")
_OPENED = ("lang", "net", "util", "nio")
_CHUNK_BYTES = 1 << 16
LOCK_SECONDS = 4
"""After so long the lock of a client that has died is free (`hive.txn.timeout`)."""


@dataclass(frozen=True)
class HiveServer:
    """A metastore that runs."""

    port: int
    warehouse: str
    """The directory of its database ``default``."""

    @property
    def uri(self) -> str:
        """Where clients reach it."""
        return f"thrift://127.0.0.1:{self.port}"


def java_catalog() -> tuple[str, list[str]]:
    """Paths of the jar with Java's Hive catalog, and of what it needs of PySpark's jars alongside the oracle's.

    Paimon 1.2.0: no later connector is to be had from Maven.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot be fetched.
    """
    version = "1.2.0"
    (jar,) = fetched(f"hive-connector-{version}", [("org.apache.paimon", "paimon-hive-connector-3.1", version)])
    return jar, [path for path in spark_jars() if os.path.basename(path).startswith(_OF_HIVE)]


@contextmanager
def hive_server(
    *,
    strict: bool = True,
    more_jars: Sequence[str] = (),
    hadoop: Mapping[str, str] | None = None,
    kdc: Kdc | None = None,
    keystore: str | None = None,
) -> Iterator[HiveServer]:
    """Start the metastore; it ends with the context.

    Args:
        strict: whether it refuses that a column takes the place of one of another type, which is Hive's default.
        more_jars: paths of jars that it needs alongside PySpark's, such as a file system of Hadoop.
        hadoop: settings of Hadoop, by which it reaches stores: it makes the directories of databases.
        kdc: whose tickets its clients need; it is `kdc.service` itself.
        keystore: path of one in PKCS12, whose password is `changeit`: it speaks TLS.

    Raises:
        OSError: there is no Java.
        RuntimeError: it does not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        if IS_HIVE_4 and kdc is None and keystore is None and not more_jars:
            with _hive_4(Path(folder), strict=strict) as server:
                yield server
            return
        secure = {} if kdc is None else {"hadoop.security.authentication": "kerberos"}
        jars = [*spark_jars(), *more_jars, *core_site(Path(folder), {**secure, **(hadoop or {})})]
        options = ["-Xmx512m", "-Dhive.async.log.enabled=false", "-Dlog4j2.level=OFF"]
        options += [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        arguments = [f"{folder}/warehouse", f"{LOCK_SECONDS}s", str(strict).lower()]
        if keystore is not None:
            options.append(f"-Dtests.keystore={keystore}")
        if kdc is not None:
            options.append(f"-Djava.security.krb5.conf={kdc.config}")
            arguments += [kdc.keytab(kdc.service), kdc.service]
        with java_server(_SOURCE, jars, arguments, Path(folder), options=options) as process:
            yield HiveServer(int(first_line(process, Path(folder))), f"{folder}/warehouse")


@contextmanager
def _hive_4(folder: Path, *, strict: bool) -> Iterator[HiveServer]:
    artifact = ("org.apache.hive", "hive-standalone-metastore-server", _VERSION_4, "bin", "tar.gz")
    found = fetched(f"hive-metastore-{_VERSION_4}", [artifact, *_NEEDED_4])
    (archive,) = (path for path in found if path.endswith(".gz"))
    more = [path for path in found if path != archive]
    unpacked = Path(archive).parent.with_name("unpacked")
    if not unpacked.exists():
        aside = Path(tempfile.mkdtemp(dir=unpacked.parent))
        with tarfile.open(archive) as tar:
            tar.extractall(aside, filter="data")
        with contextlib.suppress(OSError):  # another process was first
            aside.rename(unpacked)
    (home,) = unpacked.iterdir()
    of_hive = [str(jar) for jar in sorted((home / "lib").glob("*.jar")) if "slf4j" not in jar.name]
    jars = [*of_hive, *more, *(jar for jar in spark_jars() if os.path.basename(jar).startswith(_OF_SPARK_4))]
    options = [
        "-Xmx512m",
        "-Dlog4j2.level=OFF",
        *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    ]
    arguments = [f"{folder}/warehouse", f"{LOCK_SECONDS}s", str(strict).lower(), str(home / _SCRIPT_4)]
    with java_server(_SOURCE_4, jars, arguments, folder, options=options) as process:
        yield HiveServer(int(first_line(process, folder)), f"{folder}/warehouse")


def hive_warehouse(server: HiveServer, folder: str) -> StoreServer:
    """A warehouse on this machine, reached by the options of a catalog whose names are in the metastore."""
    options = {"metastore": "hive", "uri": server.uri, "warehouse": f"{folder}/wh", "lock.enabled": "true"}
    return StoreServer(server.uri, f"{folder}/wh", options)


@dataclass
class HiveProxy:
    """A way to the metastore that can be closed."""

    port: int
    calls: list[str] = field(default_factory=list)
    """Names of the calls that were passed on, in order."""
    lost: str | None = None
    """The call after which, once, the connection ends before the answer."""
    is_gone: bool = False
    """Whether connections end at once, as if no metastore ran."""
    _open: list[socket.socket] = field(default_factory=list)

    @property
    def uri(self) -> str:
        """Where clients reach it."""
        return f"thrift://127.0.0.1:{self.port}"

    def taken(self) -> list[str]:
        """The calls since the last look."""
        found, self.calls = self.calls, []
        return found

    def cut(self) -> None:
        """Break all connections, as a restart does."""
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()


@contextmanager
def hive_proxy(server: HiveServer) -> Iterator[HiveProxy]:
    """A proxy before the metastore."""
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = HiveProxy(listening.getsockname()[1])

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(client,), daemon=True).start()

    def talk(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", server.port)) as node, contextlib.suppress(OSError):
            if proxy.is_gone:
                return
            proxy._open.append(client)
            lost = threading.Event()
            threading.Thread(target=back, args=(node, client, lost), daemon=True).start()
            while data := client.recv(_CHUNK_BYTES):
                call = _call_in(data)
                if call:
                    proxy.calls.append(call)
                if call and call == proxy.lost:
                    proxy.lost = None
                    lost.set()
                node.sendall(data)
            node.shutdown(socket.SHUT_RDWR)

    def back(node: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := node.recv(_CHUNK_BYTES):
                if lost.is_set():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield proxy
    finally:
        listening.close()
        proxy.cut()


def _call_in(data: bytes) -> str | None:
    """The name of the call that begins with these bytes of Thrift's binary protocol."""
    if data[:4] != b"\x80\x01\x00\x01":
        return None
    length = int.from_bytes(data[4:8], "big")
    return data[8 : 8 + length].decode("ascii", "replace")
