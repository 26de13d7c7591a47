"""The most memory that Arrow holds while something runs, beyond what it held before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa


@dataclass
class Peak:
    """Bytes, once the block has ended."""

    bytes: int = 0


@contextmanager
def arrow_peak() -> Iterator[Peak]:
    """Watch Arrow's memory while a block runs: what numpy holds does not count."""
    base, peak, stop = pa.total_allocated_bytes(), Peak(), threading.Event()

    def look() -> None:
        while not stop.wait(0.001):
            peak.bytes = max(peak.bytes, pa.total_allocated_bytes() - base)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
