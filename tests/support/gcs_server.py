"""A server with the protocol of Google Cloud Storage on this machine (fake-gcs-server), for tests of stores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.paimon_oracle import cache_dir
from tests.support.store_server import BUCKET, StoreServer, free_port, served

_VERSION = "1.56.1"


@contextmanager
def gcs_server() -> Iterator[StoreServer]:
    """Start a server with an empty bucket; it ends with the context.

    Raises:
        OSError: there is no Go.
        RuntimeError: it cannot fetch or build the server.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    listening = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with served([str(_program()), "-backend", "memory", *listening], port):
        import requests

        requests.post(f"{url}/storage/v1/b?project=p", json={"name": BUCKET}, timeout=30).raise_for_status()
        options = {"gs.storage.root.url": url, "fs.token": "anon", "fs.project": "p"}
        yield StoreServer(url, f"gs://{BUCKET}/wh", options)


def _program() -> Path:
    folder = Path(cache_dir()) / f"fake-gcs-server-{_VERSION}"
    program = folder / "fake-gcs-server"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["go", "install", f"github.com/fsouza/fake-gcs-server@v{_VERSION}"]
        done = subprocess.run(
            command, env={**os.environ, "GOBIN": str(folder)}, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"Go cannot make fake-gcs-server: {done.stderr[-200:]}")
    return program
