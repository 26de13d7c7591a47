"""Compaction after a write, before the write returns: what it made due, as Java's writers compact by themselves.

The rows are an APPEND snapshot, their compaction is a COMPACT snapshot of the same user. Rows that are committed stay
committed: one that fails is reported in the log and left to the next one, and so is one that another commit won
over, unless it makes rows visible or sorted runs pile up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import CommitConflictError, CommitStateUnknownError, UnsupportedError
from paimon_spark.maintain.compact.compaction import Executor, compact, rewrite_here
from paimon_spark.maintain.compact.due import DueCompaction, due_after_write, visible_after_compaction

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 10
"""A rival may compact or overwrite the same buckets: each attempt starts from the latest snapshot."""
_MOST_BYTES_HERE = 1 << 30
"""What a driver without tasks compacts by itself where somebody waits for it."""
_FEW_BYTES_HERE = 16 << 20
"""What it compacts where nobody does."""


class _TooMuchHereError(Exception):
    """A compaction needs tasks, and this way of writing has none."""


def compact_after_write(
    table: FileStoreTable,
    messages: Iterable[TaskMessage],
    *,
    commit_user: str,
    backlog: Mapping[bytes, Mapping[int, int]] | None = None,
    micro_batch: int | None = None,
    changelog: bool = True,
    execute: Executor | None = None,
) -> int | None:
    """Compact what a committed write has made due (`due_after_write`). Runs on the driver, after the commit.

    Args:
        table: as it was written, with dynamic options.
        messages: of the write.
        commit_user: of the write.
        backlog: what the buckets had left to compact when the write was planned.
        micro_batch: its number, where it is one of a stream.
        changelog: whether the rows make a changelog; those of an overwrite do not.
        execute: does the rewriting in tasks; None: this process does, up to a bound.

    Returns:
        The id of the new snapshot; None when there is none, for whatever reason. Nothing is raised: the rows are
        committed.
    """
    try:
        due = due_after_write(table, messages, backlog or {}, micro_batch)
    except Exception as error:  # noqa: BLE001 - the rows are committed
        _LOG.warning("%s: nobody knows whether a compaction is due after a write: %s", table.path, error)
        return None
    if due is None:
        return None
    reason, level = "", logging.WARNING
    for _ in range(_ATTEMPTS if due.urgent else 1):
        try:
            return compact(
                table,
                due.scope,
                full=due.full,
                execute=execute or _here(due),
                after_write_of=commit_user,
                changelog=changelog,
            )
        except CommitConflictError as conflict:
            reason, level = str(conflict), logging.WARNING if due.urgent else logging.INFO
            _LOG.info("%s: another commit won over the compaction after a write.", table.path)
        except CommitStateUnknownError as error:
            _LOG.warning("%s: it is not known whether the compaction after a write took place: %s", table.path, error)
            return None
        except UnsupportedError as error:
            reason, level = str(error), logging.WARNING if due.visible_after_compaction else logging.INFO
            break
        except _TooMuchHereError as error:
            reason, level = str(error), logging.WARNING
            break
        except Exception as error:  # noqa: BLE001 - the rows are committed, and the next compaction tries again
            reason, level = f"{type(error).__name__}: {error}", logging.WARNING
            break
    _LOG.log(level, "%s: %s %s", table.path, _left(table, due), reason)
    return None


def compact_left_behind(table: FileStoreTable, *, commit_user: str, execute: Executor | None = None) -> None:
    """Compact what a stream that was killed between a commit and its compaction left, where it makes rows visible.

    Args:
        table: as it was written, with dynamic options.
        commit_user: of the stream.
        execute: does the rewriting in tasks; None: this process does.
    """
    if not visible_after_compaction(table):
        return
    try:
        compact(table, full=False, execute=execute or rewrite_here, after_write_of=commit_user)
    except Exception as error:  # noqa: BLE001 - the next micro-batch compacts again
        _LOG.warning("%s: what a stream left to compact is left again: %s", table.path, error)


def _here(due: DueCompaction) -> Executor:
    """Rewrite in this process, up to a bound."""
    most = _MOST_BYTES_HERE if due.urgent else _FEW_BYTES_HERE

    def execute(table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        size = sum(rewrite.size_bytes for rewrite in rewrites)
        if size > most:
            raise _TooMuchHereError(
                f"{size} bytes are too many for the driver, and this way of writing has no tasks for it."
            )
        return rewrite_here(table, rewrites)

    return execute


def _left(table: FileStoreTable, due: DueCompaction) -> str:
    if not due.visible_after_compaction:
        return (
            "the rows of the write are committed; the compaction that was due is left to the next write, or to CALL "
            "sys.compact or PaimonTable.compact()."
        )
    hidden = "hidden from readers" if table.options.batch_scan_skips_level_0 else "without changelog"
    return (
        f"the rows of the write are committed, but not compacted, and {hidden} until they are: run CALL sys.compact or "
        "PaimonTable.compact(), or write again."
    )
