"""Giving freed memory back to the system: a large process otherwise grows by all that it freed a moment ago.

Arrow's allocator (mimalloc 3 in pyarrow's wheels) keeps what is freed for a second before the system gets it, and takes
new memory meanwhile. Data goes by at hundreds of megabytes a second, so that a task which holds 80 MB took 260. The C
library (glibc) keeps what lies below memory that is in use, for good. Rows that a Spark worker is sent are there, as
bytes of Python's: 170 MB stayed after a write whose buffer was 192.

To take memory anew costs a read a third of its time. So a process gives it back only where it is large already.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Final

import pyarrow as pa

KEPT_BYTES = 480 << 20
"""A process of this size or less keeps what it freed."""
STEP_BYTES = 32 << 20
"""After so many freed bytes the size of the process is looked at."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class _State:
    """Of this process."""

    freed = 0
    """Bytes since its size was looked at last."""
    limit: int | None = None
    """The size above which memory is given back: what was held the last time, and two steps more."""


def note_freed(count: int) -> None:
    """Say that so many bytes of arrays are done with; from time to time a large process gives freed memory back.

    Args:
        count: bytes, at least about.
    """
    _State.freed += count  # threads may miss some: it only says when to look
    if _State.freed >= STEP_BYTES:
        give_back()


def give_back(*, kept_bytes: int | None = None) -> None:
    """Give all freed memory back to the system, if this process is large.

    Args:
        kept_bytes: of this size or less it is not; `KEPT_BYTES` when not given.
    """
    _State.freed = 0
    size = _resident_bytes()
    if size <= (KEPT_BYTES if kept_bytes is None else kept_bytes):
        _State.limit = None
        return
    if _State.limit is None or size > _State.limit:
        pa.default_memory_pool().release_unused()
        _trim()(0)
        size = _resident_bytes()
        _State.limit = size + 2 * STEP_BYTES
    else:
        _State.limit = min(_State.limit, size + 2 * STEP_BYTES)


def _resident_bytes() -> int:
    """The memory that this process has now; 0 where the system does not say it in ``/proc``."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


@cache
def _trim() -> Callable[[int], object]:
    """The C library's `malloc_trim`; where there is none, nothing is done."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return trim
    return lambda _: None
