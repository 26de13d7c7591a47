"""The end of each write: its commit, the compaction that it makes due, the wait for its rows. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.row_counts import report_written
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import CommittedError, PaimonError
from paimon_spark.maintain.after_commit import maintenance, wait_until_visible
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.maintain.files.deletion import delete_messages
from paimon_spark.write.message import TaskMessage

if TYPE_CHECKING:
    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.maintain.compact.compaction import Executor
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import CommitMessage
    from paimon_spark.write.plan import WritePlan


def commit_write(
    table: FileStoreTable,
    plan: WritePlan,
    messages: Sequence[TaskMessage],
    *,
    commit_user: str,
    others: Sequence[TaskMessage | CommitMessage] = (),
    overwrite: OverwriteSpec | None = None,
    operation: str | None = None,
    put: Callable[..., int | None] = commit,
    micro_batch: int | None = None,
    execute: Executor | None = None,
) -> int | None:
    """Make what the tasks of a write wrote one snapshot; return its id, or that of the compaction which followed.

    Where nothing was committed, for certain, the files of the tasks are deleted.

    Args:
        table: the table to commit to.
        plan: of the write.
        messages: of all tasks.
        commit_user: who commits.
        others: what the same commit takes in besides: files that are replaced; messages of tasks, such as logs.
        overwrite: what is replaced; None appends.
        operation: what the snapshot says; None: whether rows were added or replaced, as in Java.
        put: makes the snapshot, with the arguments of `commit`.
        micro_batch: its number, where the rows are one of a stream.
        execute: does the rewriting of the compaction in tasks; None: this process does.

    Raises:
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
        CommitStateUnknownError: it is not known whether the commit took place.
        CommittedError: the rows are committed, but reads do not see them in time, or that cannot be found out.
    """
    written = [*messages, *(other for other in others if isinstance(other, TaskMessage))]
    with undone_where_void(lambda: delete_messages(table, written)):
        made = put(
            table,
            [*messages, *others],
            commit_user=commit_user,
            overwrite=overwrite,
            operation=operation or ("WRITE" if overwrite is None else "OVERWRITE"),
            planned_on=plan.snapshot,
            rows_read=plan.rows_read,
            after_commit=maintenance(table),
        )
    report_written(table, messages, operation, made)
    compacted = None
    if plan.postponed_user is None:
        compacted = compact_after_write(
            table,
            messages,
            commit_user=commit_user,
            backlog=plan.backlog,
            micro_batch=micro_batch,
            changelog=overwrite is None,
            execute=execute,
        )
    if micro_batch is None:
        try:
            wait_until_visible(table, messages, made)
        except CommittedError:
            raise
        except PaimonError as error:
            raise CommittedError(
                f"Snapshot {made} of {table.path} holds the rows; do not write them again. Whether reads see them is "
                f"not known: {error}"
            ) from error
    return compacted or made
