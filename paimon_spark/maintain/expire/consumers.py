"""Resetting, deleting and expiring consumers. `expire_snapshots` keeps what they have not read yet."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.spec.sql_text import NamePatterns
from paimon_spark.table.consumer_store import ConsumerStore

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def reset_consumer(table: FileStoreTable, consumer_id: str, next_snapshot_id: int | None = None) -> None:
    """Set the snapshot that a consumer reads next; without a snapshot, delete the consumer.

    Raises:
        SnapshotNotFoundError: there is no such snapshot.
        PaimonError: the consumer's id cannot be a file's name.
    """
    store = ConsumerStore(table.file_io, table.paths)
    if next_snapshot_id is None:
        store.delete(consumer_id)
        return
    if not table.snapshots.exists(next_snapshot_id):
        ids = table.snapshots.ids()
        living = f"the snapshots are {ids[0]} to {ids[-1]}" if ids else "the table has no snapshot"
        raise SnapshotNotFoundError(
            f"Consumer '{consumer_id}' cannot read snapshot {next_snapshot_id} next, which does not exist: {living}."
        )
    store.reset(consumer_id, next_snapshot_id)


def clear_consumers(table: FileStoreTable, *, including: str | None = None, excluding: str | None = None) -> list[str]:
    """Delete consumers; return their ids.

    Args:
        table: the branch.
        including: a regular expression that the whole id matches; all of them when not given.
        excluding: consumers whose whole id matches this one stay.

    Raises:
        OptionError: one of them is no regular expression.
    """
    store = ConsumerStore(table.file_io, table.paths)
    patterns = NamePatterns.of(including, excluding)
    cleared = [consumer_id for consumer_id in store.statuses() if patterns.match(consumer_id)]
    for consumer_id in cleared:
        store.delete(consumer_id)
    return cleared


def expire_consumers(table: FileStoreTable, age: timedelta) -> list[str]:
    """Delete the consumers whose files have not changed for a time; return their ids."""
    store = ConsumerStore(table.file_io, table.paths)
    before = time.time_ns() // 1_000_000 - age // timedelta(milliseconds=1)
    expired = [consumer_id for consumer_id, status in store.statuses().items() if 0 < status.mtime_millis < before]
    for consumer_id in expired:
        store.delete(consumer_id)
    return expired
