"""Compaction of what a write has added, before the write returns: tables whose level 0 is hidden or has no changelog.

Equals what Java's writer does where ``CoreOptions.needLookup`` holds, and what its Spark connector does in each batch
write with ``full-compaction.delta-commits``: a full compaction of the buckets that were written. The rows are an APPEND
snapshot, their compaction is a COMPACT snapshot of the same user. Rows that are committed stay committed: a compaction
that fails is told in the log and left to the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.errors import CommitConflictError, CommitStateUnknownError
from paimon_spark.maintain.compact.compaction import Executor, compact, rewrite_here
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.spec.schema import BucketMode

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 10
"""A rival may compact or overwrite the same buckets: each attempt starts from the latest snapshot."""
_MOST_BYTES_HERE = 1 << 30
"""New files of a write that a driver without tasks compacts by itself."""


def is_compacted_after_write(table: FileStoreTable) -> bool:
    """Tell whether a write into the table is compacted before it returns."""
    options = table.options
    looks_up = bool(table.schema.primary_keys) and options.needs_lookup
    return (looks_up or _in_full(table)) and not options.write_only


def _in_full(table: FileStoreTable) -> bool:
    """Whether each batch write ends with a full compaction; only streams count their commits (Java)."""
    commits = table.options.value("full-compaction.delta-commits")
    return commits is not None and int(commits) > 0 and table.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE


def compact_after_write(
    table: FileStoreTable,
    messages: Iterable[TaskMessage],
    *,
    commit_user: str,
    changelog: bool = True,
    execute: Executor | None = None,
) -> int | None:
    """Compact the buckets that a committed write has added files to. Runs on the driver, after the commit.

    Args:
        table: as it was written, with dynamic options.
        messages: of the write.
        commit_user: of the write.
        changelog: whether the rows make a changelog; those of an overwrite do not.
        execute: does the rewriting in tasks; None: this process does, up to a bound.

    Returns:
        The id of the new snapshot; None when there is none, for whatever reason. Nothing is raised: the rows are
        committed.
    """
    new = [message for task in messages for message in task.messages if message.new_files]
    if not new or not is_compacted_after_write(table):
        return None
    scope, in_full = CompactScope(places=frozenset((m.partition, m.bucket) for m in new)), _in_full(table)
    if execute is None:
        size = sum(file.file_size for message in new for file in message.new_files)
        if in_full:
            size = _live_bytes(table, scope)
        if size > _MOST_BYTES_HERE:
            _left(table, f"{size} bytes are too many for the driver, and this way of writing has no tasks for it")
            return None
    for _ in range(_ATTEMPTS):
        try:
            return compact(
                table,
                scope,
                full=in_full,
                execute=execute or rewrite_here,
                after_write_of=commit_user,
                changelog=changelog,
            )
        except CommitConflictError as conflict:
            reason = str(conflict)
            _LOG.info("%s: another commit won over the compaction after a write; it starts anew.", table.path)
        except CommitStateUnknownError as error:
            _LOG.warning("%s: it is not known whether the compaction after a write took place: %s", table.path, error)
            return None
        except Exception as error:  # noqa: BLE001 - the rows are committed, and the next compaction tries again
            reason = f"{type(error).__name__}: {error}"
            break
    _left(table, reason)
    return None


def _live_bytes(table: FileStoreTable, scope: CompactScope) -> int:
    """Bytes of the files of some buckets."""
    snapshot = table.snapshots.latest()
    if snapshot is None:
        return 0
    return sum(file.file_size for bucket in scope.bucket_files(table, snapshot) for file in bucket.files)


def _left(table: FileStoreTable, reason: str) -> None:
    hidden = "hidden from readers" if table.options.batch_scan_skips_level_0 else "without changelog"
    _LOG.warning(
        "%s: the rows of the write are committed, but not compacted, and %s until they are: run CALL sys.compact or "
        "PaimonTable.compact(), or write again. %s",
        table.path,
        hidden,
        reason,
    )
