"""Giving freed memory back to the system: a process otherwise grows by all that it freed a moment ago.

Arrow's allocator (mimalloc 3 in pyarrow's wheels) keeps what is freed for a second before the system gets it, and takes
new memory meanwhile. Data goes by at hundreds of megabytes a second, so that a task which holds 80 MB took 260. The C
library (glibc) keeps what lies below memory that is in use, for good. Rows that a Spark worker is sent are there, as
bytes of Python's: 170 MB stayed after a write whose buffer was 192.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import pyarrow as pa

_MOST_KEPT_BYTES: Final = 32 << 20


class _Freed:
    """Bytes that were freed since memory was given back last."""

    bytes = 0


def note_freed(count: int) -> None:
    """Say that so many bytes of Arrow arrays are done with; from time to time freed memory is given back.

    Args:
        count: bytes, at least about.
    """
    _Freed.bytes += count  # threads may miss some: it only says when to look
    if _Freed.bytes >= _MOST_KEPT_BYTES:
        give_back()


def give_back() -> None:
    """Give all freed memory back to the system; what costs is only that it is taken anew."""
    _Freed.bytes = 0
    pa.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    """The C library's `malloc_trim`; where there is none, nothing is done."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return trim
    return lambda _: None
