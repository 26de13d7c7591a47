"""What the acceptance cases need of a session of the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Backend:
    """What `run_file` needs of a session: the catalog is named `c`."""

    spark: Any
    wh: str
    checkpoints: str
    backend: str = "ours"
    store_options: dict[str, str] = field(default_factory=dict)

    def path(self, database: str, table: str) -> str:
        return f"{self.wh}/{database}.db/{table}"


@contextmanager
def utc_clocks() -> Iterator[None]:
    """Local time is UTC until the block ends."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()
