"""Servers of stores that tests start as processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "warehouse"
_PATIENCE_SECONDS = 180


@dataclass(frozen=True)
class StoreServer:
    """A server that is running."""

    url: str
    root: str
    """A warehouse in it."""
    options: dict[str, str]
    """Options of a read, a write or a catalog that reach it."""


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def served(command: Sequence[str], port: int, log: Path = Path(os.devnull)) -> Iterator[None]:
    """Run a server that listens on a port of this machine; it ends with the context. Its errors go to ``log``."""
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            _wait(port, process)
            yield
        finally:
            process.terminate()
            process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
