"""The tasks of a planned write, and its commit on the driver. Each task pays for what is imported here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.write.plan import WritePlan


@dataclass
class PaimonCommitMessage(WriterCommitMessage):
    """What one task wrote: names and metadata of files."""

    task: TaskMessage


class PaimonWriter(DataSourceArrowWriter):
    """A planned write: made on the driver, pickled to every task and to the commit (which sees no state of tasks)."""

    def __init__(
        self,
        plan: WritePlan,
        overwrite: OverwriteSpec | None,
        operation: str | None = None,
        replaces: str | None = None,
    ) -> None:
        self._plan = plan
        self._overwrite = overwrite
        self._operation = operation
        self._replaces = replaces

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Called in every attempt, also without rows; one attempt per task is committed."""
        context = TaskContext.get()
        batches = batches_from_spark(iterator, self._plan.data_schema)
        return PaimonCommitMessage(write_batches(self._plan, batches, context.partitionId() if context else 0))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all that the tasks wrote one snapshot. Called once, on the driver.

        Raises:
            CommitConflictError: another commit changed what this one relies on; nothing was committed.
            CommitStateUnknownError: it is not known whether the commit took place.
        """
        # the tasks, which only write, do not pay for importing these
        from paimon_spark.commit.file_store_commit import commit
        from paimon_spark.maintain.after_commit import maintenance
        from paimon_spark.maintain.row_level import replaced_files
        from paimon_spark.write.plan import check_one_task_per_bucket

        tasks = [message.task for message in messages if isinstance(message, PaimonCommitMessage)]
        check_one_task_per_bucket(self._plan, tasks)
        table = self._plan.table
        gone = [] if self._replaces is None else replaced_files(table, **json.loads(self._replaces))
        commit(
            table,
            [*tasks, *gone],
            overwrite=self._overwrite,
            operation=self._operation,
            planned_on=self._plan.snapshot,
            rows_read=self._plan.rows_read,
            after_commit=maintenance(table),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: Spark also aborts after a commit whose outcome is unknown, so no file may go.

        Files of failed jobs are no part of any snapshot; `remove_orphan_files` takes them.
        """
