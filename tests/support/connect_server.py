"""A Spark Connect server of its own process: a classic session cannot live alongside one of Connect."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.store_server import free_port

_CODE = """
import sys
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", sys.argv[1]).config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def connect_server(home: Path) -> Iterator[str]:
    """Run a server, whose working directory is `home` and whose clock is UTC; give its URL.

    Raises:
        RuntimeError: it did not start.
    """
    port = free_port()
    command = [sys.executable, "-c", _CODE, str(port)]
    environment = {**os.environ, "TZ": "UTC"}
    with subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            if not server.stdout.readline().startswith("ready"):
                raise RuntimeError("the Connect server did not start")
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.stdin.close()
            server.wait(30)
