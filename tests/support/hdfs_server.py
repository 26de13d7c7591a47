"""HDFS on this machine: Hadoop's own MiniDFSCluster, one NameNode (or two, one active) and one DataNode."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.java_server import java_server
from tests.support.maven_jars import fetched, hadoop_version, spark_jars
from tests.support.store_server import BUCKET, StoreServer

_JARS = (
    ("org.mockito", "mockito-core", "4.11.0"),
    ("junit", "junit", "4.13.2"),
)
_SOURCE = Path(__file__).with_name("Hdfs.java")


@dataclass(frozen=True)
class Nameservice:
    """HDFS with two NameNodes."""

    server: StoreServer
    process: subprocess.Popen[str]

    def fail_over(self, *, back: bool = False) -> None:
        """Let the active NameNode die and the other one take over; or let the first one come back and take over."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("b" if back else "f")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("DONE"):
                return
        raise RuntimeError("MiniDFSCluster ended")


@contextmanager
def hdfs_server() -> Iterator[StoreServer]:
    """Start a NameNode and a DataNode; they end with the context.

    Raises:
        OSError: there is no Java or no Maven.
        RuntimeError: the jars cannot be fetched, or it does not start.
    """
    with _cluster() as (_, (port,)):
        url = f"hdfs://127.0.0.1:{port}"
        yield StoreServer(url, f"{url}/{BUCKET}/wh", {})


@contextmanager
def hdfs_nameservice() -> Iterator[Nameservice]:
    """Start two NameNodes, of which the first is active, and a DataNode; they end with the context.

    Raises:
        OSError: there is no Java or no Maven.
        RuntimeError: the jars cannot be fetched, or it does not start.
    """
    with _cluster("two") as (process, ports):
        names = ("one", "two")
        options = {"hadoop.dfs.nameservices": "both", "hadoop.dfs.ha.namenodes.both": ",".join(names)}
        for name, port in zip(names, ports, strict=True):
            options[f"hadoop.dfs.namenode.rpc-address.both.{name}"] = f"127.0.0.1:{port}"
        yield Nameservice(StoreServer("hdfs://both", f"hdfs://both/{BUCKET}/wh", options), process)


@contextmanager
def _cluster(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process, and the ports of its NameNodes."""
    version = hadoop_version()
    alone = [("org.apache.hadoop", "hadoop-client-minicluster", version)]
    jars = fetched(f"hadoop-minicluster-{version}", alone, _JARS)
    with tempfile.TemporaryDirectory() as folder:
        classes = [*jars, *spark_jars()]
        with java_server(
            _SOURCE, classes, [f"{folder}/data", *arguments], Path(folder), options=["-Xmx400m"]
        ) as process:
            yield process, _ports(process, Path(folder) / "errors")


def _ports(process: subprocess.Popen[str], log: Path) -> list[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("PORT "):
            return line.split()[1:]
    raise RuntimeError(f"MiniDFSCluster did not start: {log.read_text()[-300:]}")
