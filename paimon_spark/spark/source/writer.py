"""The tasks of a planned write, and its commit on the driver. Every task imports this module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_spark.errors import cutting
from paimon_spark.spark.source.worker_process import UnpickledInTask, told_by_worker
from paimon_spark.write.message import TaskMessage

if TYPE_CHECKING:
    from paimon_spark.spark.source.table_write import TableWrite


@dataclass
class PaimonCommitMessage(WriterCommitMessage):
    """What one task wrote: names and metadata of files."""

    task: TaskMessage


class PaimonWriter(UnpickledInTask, DataSourceArrowWriter):
    """A planned write: made on the driver, pickled to every task and to the commit (which sees no state of tasks)."""

    def __init__(self, write: TableWrite) -> None:
        self._write = write

    @told_by_worker
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Called in every attempt, also without rows; one attempt per task is committed."""
        context = TaskContext.get()
        write_task = cutting(self._write.write_task)
        return PaimonCommitMessage(write_task(iterator, context.partitionId() if context else 0))

    @told_by_worker
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all that the tasks wrote one snapshot. Called once, on the driver.

        Raises:
            CommitConflictError: another commit changed what this one relies on; nothing was committed.
            CommitStateUnknownError: it is not known whether the commit took place.
        """
        self._write.commit([message.task for message in messages if isinstance(message, PaimonCommitMessage)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: Spark also aborts after a commit whose outcome is unknown, so no file may go.

        Files of failed jobs are no part of any snapshot; `remove_orphan_files` takes them.
        """
