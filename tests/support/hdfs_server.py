"""HDFS on this machine: Hadoop's own MiniDFSCluster, one NameNode and one DataNode, for tests of stores."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("dfs.namenode.fs-limits.min-block-size", "0");
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(settings, new java.io.File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("PORT " + cluster.getNameNodePort());
        System.out.flush();
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
"""


@contextmanager
def hdfs_server() -> Iterator[StoreServer]:
    """Start a NameNode and a DataNode; they end with the context.

    Raises:
        OSError: there is no Java or no Maven.
        RuntimeError: the jars cannot be fetched, or it does not start.
    """
    version = hadoop_version()
    alone = [("org.apache.hadoop", "hadoop-client-minicluster", version)]
    jars = fetched(f"hadoop-minicluster-{version}", alone, _JARS)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "Hdfs.java"
        program.write_text(_PROGRAM)
        classes = os.pathsep.join([*jars, *spark_jars()])
        command = ["java", "-Xmx400m", "-cp", classes, str(program), f"{folder}/data"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            try:
                url = _address(process, Path(folder) / "log")
                yield StoreServer(url, f"{url}/{BUCKET}/wh", {})
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(20)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("PORT "):
            return f"hdfs://127.0.0.1:{line.split()[1]}"
    raise RuntimeError(f"MiniDFSCluster did not start: {log.read_text()[-300:]}")
