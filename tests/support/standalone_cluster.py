"""A standalone Spark master with workers, and a Connect server on it, each a process of its own on loopback."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from tests.support.class_archive import archive_file, java_options
from tests.support.store_server import free_port

HOST = "127.0.0.1"
HOME = Path(pyspark.__file__).parent


def end_with_parent() -> None:
    """Linux: ask for SIGTERM when the process that started this one ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def spark_process(log: Path, ready: str, *command: str, **environment: str) -> Iterator[None]:
    """Run a class of Spark until the block ends; wait for the text `ready` in its log first."""
    places = {"SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(HOME)}
    variables = {**os.environ, **places, "SPARK_DAEMON_JAVA_OPTS": java_options(archive_file()), **environment}
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command],
            stdout=output, stderr=output, env=variables, cwd=log.parent, start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - the program has no other thread yet
        )  # fmt: skip
    try:
        last = time.monotonic() + 120
        while ready not in log.read_text():
            if process.poll() is not None or time.monotonic() > last:
                raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2, memory: str = "900m") -> Iterator[str]:
    """Start a master and workers of one core; yield the URL of the master."""
    folder.mkdir(parents=True, exist_ok=True)
    deploy, port = "org.apache.spark.deploy", str(free_port())
    with contextlib.ExitStack() as running:
        master = (f"{deploy}.master.Master", "--host", HOST, "--port", port, "--webui-port", "0")
        options = "-Dspark.deploy.maxExecutorRetries=-1"
        running.enter_context(
            spark_process(folder / "master.log", "New state: ALIVE", *master, SPARK_MASTER_OPTS=options)
        )
        for number in range(workers):
            worker = (
                f"{deploy}.worker.Worker",
                "--host",
                HOST,
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                memory,
            )
            location = ("--work-dir", str(folder / f"work-{number}"), f"spark://{HOST}:{port}")
            log = folder / f"worker-{number}.log"
            running.enter_context(spark_process(log, "Successfully registered with master", *worker, *location))
        yield f"spark://{HOST}:{port}"


@contextlib.contextmanager
def connect_server(folder: Path, master: str, options: Mapping[str, str]) -> Iterator[str]:
    """Start a Connect server in a process of its own on a master; yield its URL."""
    port = str(free_port())
    given = {**options, "spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": port}
    listed = [text for key, value in given.items() for text in ("--conf", f"{key}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", master, *listed)
    submit = ("org.apache.spark.deploy.SparkSubmit", *server, "spark-internal")
    with spark_process(folder / "connect.log", "Spark Connect server started", *submit):
        yield f"sc://{HOST}:{port}"
