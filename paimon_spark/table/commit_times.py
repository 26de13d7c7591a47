"""Which snapshots existed at a time, even if clocks jump.

Our commits never go back in time; commits of other engines may. Java: ``SnapshotManager.earlierOrEqualTimeMills``,
which relies on the recorded times.
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
"""Synchronised clocks differ by less."""

_JUST_NOW_MILLIS = 60_000


def next_commit_millis(latest: Snapshot | None) -> int:
    """Return the time of a snapshot that is made now: not before that of its predecessor."""
    return max(time.time_ns() // 1_000_000, latest.time_millis if latest else 0)


def count_until(snapshots: SnapshotStore, ids: Sequence[int], time_millis: int) -> int:
    """Return how many of the snapshots were committed at or before a time.

    A snapshot with a time in the future was made with a wrong clock: only its order is known. A read of "now" sees it.

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
