"""Compaction of what a write has added, before the write returns: tables whose level 0 is hidden or has no changelog.

Equals what Java's writer does where ``CoreOptions.needLookup`` holds: the rows are an APPEND snapshot, their compaction
is a COMPACT snapshot of the same user. Rows that are committed stay committed: a compaction that fails is told in the
log and left to the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.errors import CommitConflictError, CommitStateUnknownError
from paimon_spark.maintain.compact.compaction import Executor, compact, rewrite_here
from paimon_spark.maintain.compact.scope import CompactScope

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
    return bool(table.schema.primary_keys) and options.needs_lookup and not options.write_only


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
    size = sum(file.file_size for message in new for file in message.new_files)
    if execute is None and size > _MOST_BYTES_HERE:
        _left(table, f"{size} new bytes are too many for the driver, and this way of writing has no tasks for it")
        return None
    places = frozenset((message.partition, message.bucket) for message in new)
    for _ in range(_ATTEMPTS):
        try:
            return compact(
                table,
                CompactScope(places=places),
                full=False,
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


def _left(table: FileStoreTable, reason: str) -> None:
    hidden = "hidden from readers" if table.options.batch_scan_skips_level_0 else "without changelog"
    _LOG.warning(
        "%s: the rows of the write are committed, but not compacted, and %s until they are: run CALL sys.compact or "
        "PaimonTable.compact(full=False), or write again. %s",
        table.path,
        hidden,
        reason,
    )
