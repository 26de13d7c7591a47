"""Micro-batches of streaming queries: each is committed once, however often it is replayed.

A query is a commit user, and the number of a micro-batch is the identifier of its commit (Java: ``StreamTableCommit``).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import BATCH
from paimon_spark.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One micro-batch of a query."""

    user: str
    """The query: the same after each restart from its checkpoint, and of no other query."""
    identifier: int
    """Number of the micro-batch, ascending."""
    watermark: int | None = None
    """Event-time watermark of the query, in epoch milliseconds."""


def stream_user(query_id: str, options: CoreOptions) -> str:
    """Return the commit user of a query, after the option ``commit.user-prefix``."""
    prefix = options.value("commit.user-prefix")
    return f"{prefix}_{query_id}" if prefix else query_id


def last_batch(table: FileStoreTable, user: str) -> int | None:
    """Return the number of the last micro-batch of a user that the living snapshots hold; None without one.

    Raises:
        CorruptTableError: a snapshot cannot be read.
    """
    for snapshot_id in reversed(table.snapshots.ids()):
        with contextlib.suppress(SnapshotNotFoundError):  # expired meanwhile
            snapshot = table.snapshots.get(snapshot_id)
            if snapshot.commit_user == user and snapshot.commit_identifier != BATCH:
                return snapshot.commit_identifier
    return None


def is_committed(table: FileStoreTable, batch: StreamBatch) -> bool:
    """Tell whether the table has a micro-batch, or a later one of its query, already."""
    last = last_batch(table, batch.user)
    return last is not None and last >= batch.identifier


def discard(table: FileStoreTable, messages: Iterable[TaskMessage]) -> None:
    """Delete the files of a micro-batch that was written again and is not committed; a leftover is an orphan file."""
    _LOG.info("%s has this micro-batch already: the files of its replay are deleted.", table.path)
    paths = []
    for message in (message for task in messages for message in task.messages):
        for file in (*message.new_files, *message.changelog_files):
            path = table.paths.data_file_path(message.partition, message.bucket, file)
            paths += [path, *(f"{path.rpartition('/')[0]}/{name}" for name in file.extra_files)]
    with contextlib.suppress(OSError):
        table.file_io.delete_files(paths)
