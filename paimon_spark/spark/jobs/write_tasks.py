"""Runs the tasks of a planned write over rows that are shuffled already."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow
from paimon_spark.spark.jobs.progress import change_of
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.source.table_write import TableWrite, WriteTask
from paimon_spark.write.message import TaskMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.commit.file_store_commit import StreamBatch
    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.spark.jobs.keyed_merges import KeyedMerge
    from paimon_spark.spark.jobs.lookup_joins import LookupJoin
    from paimon_spark.spec.snapshot import Operation
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.plan import OverwriteMode


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """Rows that become one commit, and what is known of the statement or the micro-batch that writes them."""

    df: DataFrame
    """Columns are matched by name."""
    table: FileStoreTable
    overwrite: OverwriteSpec | None = None
    """What is replaced; None appends."""
    operation: Operation | None = None
    """What the snapshot says about the statement; None for a write or an overwrite."""
    rows_of: SnapshotIdentity | None = None
    """The snapshot that the rows are made of; None where they are new."""
    stream: StreamBatch | None = None
    """The micro-batch that the rows are; None of a batch write."""
    together: bool = False
    """The rows are in one partition of Spark's, and few: one task writes them, without a shuffle."""
    accepts: Callable[[Sequence[TaskMessage]], bool] | None = None
    """Looks at what the tasks wrote before it is committed; where it says no, that is deleted, and nothing is
    committed. Only where each key has a bucket of its own."""
    merge: KeyedMerge | LookupJoin | None = None
    """What tasks make of the rows, whose columns it names; only where each key has a bucket of its own."""

    @property
    def mode(self) -> OverwriteMode | None:
        """Which kind of overwrite it is."""
        return None if self.overwrite is None else self.overwrite.kind


def run_write(
    rows: DataFrame,
    write: TableWrite,
    task: WriteTask | None = None,
    *,
    accepts: Callable[[Sequence[TaskMessage]], bool] | None = None,
) -> int | None:
    """Write rows where they are, each partition of Spark's a task, and commit them; return the id of the new snapshot.

    Args:
        rows: with the columns of the plan in their order, under any names; more columns behind them are left out.
        write: the planned write.
        task: writes the rows of a task, whose columns are then its own matter; None: the write itself does.
        accepts: looks at what the tasks wrote before it is committed; where it says no, that is deleted, and nothing
            is committed.
    """
    return commit_tasks(rows.sparkSession, write, run_tasks(rows, write, task), accepts=accepts)


def commit_tasks(
    spark: SparkSession,
    write: TableWrite,
    messages: Sequence[TaskMessage],
    *,
    accepts: Callable[[Sequence[TaskMessage]], bool] | None = None,
) -> int | None:
    """Commit what the tasks of a write wrote; return the id of the new snapshot. Arguments as of `run_write`."""
    from paimon_spark.spark.jobs.compact_job import executor_of  # the tasks do without it

    if accepts is not None and not accepts(messages):
        write.discard(messages)
        return None
    return write.commit(messages, executor_of(spark))


def run_tasks(rows: DataFrame, write: TableWrite, task: WriteTask | None = None) -> list[TaskMessage]:
    """Write rows as `run_write` does; return what the tasks wrote, not committed."""
    batches = rows_at_hand(rows)
    if batches is not None:
        return write_here(batches, write, task)
    answer = StructType([StructField("message", BinaryType(), nullable=False)])
    what = change_of(write.operation, write.plan.table.path)
    messages = collect_in_arrow(rows, what, partial(_write_task, task or partial(_write_rows, write)), answer)
    return [pickle.loads(bytes(row.message)) for row in messages]


def write_here(
    batches: Sequence[pa.RecordBatch], write: TableWrite, task: WriteTask | None = None
) -> list[TaskMessage]:
    """Write rows as one task of `run_tasks` does; return what it wrote, not committed."""
    filled = [batch for batch in batches if batch.num_rows]
    return [(task or partial(_write_rows, write))(iter(filled), 0)] if filled else []


def number_of_tasks(df: DataFrame, table: FileStoreTable) -> int:
    """As many tasks as the session has cores (on Connect: shuffle partitions), but no more than there are buckets."""
    return number_of_tasks_of(df.sparkSession, table)


def number_of_tasks_of(spark: SparkSession, table: FileStoreTable) -> int:
    """The same of a session."""
    context = getattr(spark, "_sc", None)
    shuffles = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = shuffles if context is None else max(1, min(shuffles, context.defaultParallelism))
    buckets = table.options.bucket
    return min(tasks, buckets) if buckets > 0 and not table.schema.partition_keys else tasks


def _write_rows(write: TableWrite, batches: Iterator[pa.RecordBatch], task_id: int) -> TaskMessage:
    return write.write_task(map(partial(_named, write.given_schema.names), batches), task_id)


def _named(names: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(range(len(names))).rename_columns(names)


def filled_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """The batches that have rows; None where there is none. Each belongs to who takes it: it is kept nowhere here."""
    iterator = iter(batches)
    for batch in iterator:
        if batch.num_rows:
            return _handed_over([batch], iterator)
    return None


def _handed_over(first: list[pa.RecordBatch], others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first.pop()
    yield from filter(_has_rows, others)


def _has_rows(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows)


def _write_task(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task; answer with its commit message. Runs in tasks."""
    filled = filled_batches(batches)
    if filled is None:
        return
    context = TaskContext.get()
    message = task(filled, context.partitionId() if context else 0)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], names=["message"])
