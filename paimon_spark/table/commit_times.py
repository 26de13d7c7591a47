"""Which snapshots were there at a time, though clocks jump.

Commits of ours never go back in time, those of other engines may. Java: ``SnapshotManager.earlierOrEqualTimeMills``,
which takes the times as they are.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.snapshot_store import SnapshotStore

_SKEW_MILLIS = 1000
"""Clocks that are looked after differ by less."""

_JUST_NOW_MILLIS = 60_000


def next_commit_millis(latest: Snapshot | None) -> int:
    """Return the time of a snapshot that is made now: never before the one it follows, whatever the clock says."""
    return max(time.time_ns() // 1_000_000, latest.time_millis if latest else 0)


def count_until(snapshots: SnapshotStore, ids: Sequence[int], time_millis: int) -> int:
    """Return how many of the snapshots were committed at or before a time.

    A snapshot whose time is still to come was made under a clock that was ahead: all that is known of it is that it
    came after the one before it. A read of "now" sees it.

    Args:
        snapshots: gives them.
        ids: ascending.
        time_millis: epoch milliseconds.
    """

    def millis(snapshot_id: int) -> int:
        return snapshots.get(snapshot_id).time_millis

    if not ids or millis(ids[-1]) <= time_millis:
        return len(ids)
    now = time.time_ns() // 1_000_000 + _SKEW_MILLIS
    if time_millis <= now < millis(ids[-1]):
        past = bisect.bisect_right(ids, now, key=millis)
        if time_millis >= (millis(ids[past - 1]) if past else now - _JUST_NOW_MILLIS):
            return len(ids)
    return bisect.bisect_right(ids, time_millis, key=millis)
