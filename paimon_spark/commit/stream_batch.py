"""Micro-batches of streaming queries: each is committed once, however often it is replayed.

A query is a commit user, and the number of a micro-batch is the identifier of its commit (Java: ``StreamTableCommit``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import BATCH
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.table.table import FileStoreTable


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
    searched: SnapshotIdentity = field(default_factory=SnapshotIdentity)
    """Neither this snapshot nor one before it holds this micro-batch or a later one."""


def stream_user(query_id: str, options: CoreOptions) -> str:
    """Return the commit user of a query, after the option ``commit.user-prefix``."""
    prefix = options.value("commit.user-prefix")
    return f"{prefix}_{query_id}" if prefix else query_id


def uncommitted(table: FileStoreTable, batch: StreamBatch) -> StreamBatch | None:
    """Return a micro-batch that tells how far it was searched for; None where the table has it, or a later one.

    Raises:
        CorruptTableError: a snapshot cannot be read.
    """
    newest = oldest = None
    for snapshot in batch.searched.later(table.snapshots):
        newest, oldest = newest or snapshot, snapshot
        if snapshot.commit_user == batch.user and snapshot.commit_identifier != BATCH:
            if snapshot.commit_identifier >= batch.identifier:
                return None
            break  # those before it are of earlier micro-batches
    else:
        if batch.identifier and not batch.searched.id and oldest is not None and oldest.id > FIRST_SNAPSHOT_ID:
            _LOG.warning(
                "%s: no snapshot of query %s lives any more. If its micro-batch %d was committed before the query "
                "stopped, the rows come once more. Let snapshots live longer than queries stand still: "
                "'snapshot.time-retained', 'snapshot.num-retained.min'.",
                table.path, batch.user, batch.identifier,
            )  # fmt: skip
    return batch if newest is None else replace(batch, searched=SnapshotIdentity.of(newest))
