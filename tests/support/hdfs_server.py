"""HDFS on this machine: Hadoop's own MiniDFSCluster, one NameNode (or two, one active) and one DataNode."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.maven_jars import fetched, hadoop_version, spark_jars
from tests.support.store_server import BUCKET, StoreServer

_JARS = (
    ("org.mockito", "mockito-core", "4.11.0"),
    ("junit", "junit", "4.13.2"),
)
_PROGRAM = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        boolean two = arguments.length > 1;
        Configuration settings = new Configuration();
        settings.set("dfs.namenode.fs-limits.min-block-size", "0");
        settings.set("dfs.ha.tail-edits.period", "1");
        MiniDFSCluster.Builder builder =
            new MiniDFSCluster.Builder(settings, new java.io.File(arguments[0])).numDataNodes(1);
        if (two) builder.nnTopology(MiniDFSNNTopology.simpleHATopology());
        MiniDFSCluster cluster = builder.build();
        if (two) cluster.transitionToActive(0);
        cluster.waitActive();
        String ports = "" + cluster.getNameNodePort(0);
        System.out.println("PORT " + (two ? ports + " " + cluster.getNameNodePort(1) : ports));
        System.out.flush();
        int command;
        while ((command = System.in.read()) >= 0) {
            if (command == 'f') {  // the active one dies, the other one takes over
                cluster.shutdownNameNode(0);
                cluster.transitionToActive(1);
            } else if (command == 'b') {  // the first one comes back, and takes over while both live
                cluster.restartNameNode(0, false);
                cluster.transitionToStandby(1);
                cluster.transitionToActive(0);
            } else {
                continue;
            }
            System.out.println("DONE");
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
"""


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
        program = Path(folder) / "Hdfs.java"
        program.write_text(_PROGRAM)
        classes = os.pathsep.join([*jars, *spark_jars()])
        command = ["java", "-Xmx400m", "-cp", classes, str(program), f"{folder}/data", *arguments]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            try:
                yield process, _ports(process, Path(folder) / "log")
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(20)


def _ports(process: subprocess.Popen[str], log: Path) -> list[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("PORT "):
            return line.split()[1:]
    raise RuntimeError(f"MiniDFSCluster did not start: {log.read_text()[-300:]}")
