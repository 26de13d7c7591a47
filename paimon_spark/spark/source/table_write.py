"""One write: its plan, what each of its tasks does, and its commit. Every entry point writes through it.

It is made on the driver, travels to each task and stays on the driver for the commit. Plain values, picklable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.packed_rows import PACKED_SCHEMA, unpack_rows
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from paimon_spark.commit.file_store_commit import StreamBatch
    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.maintain.compact.compaction import Executor
    from paimon_spark.spec.snapshot import Operation
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.plan import WritePlan
    from paimon_spark.write.routing import KeyRanges

_LOG = logging.getLogger(__name__)

WriteTask = Callable[[Iterator[pa.RecordBatch], int], TaskMessage]
"""Writes the rows of one task, at least one; the number is the same for all attempts of the task."""


@dataclass(frozen=True, slots=True)
class ReplacedFiles:
    """Files whose rows a write writes anew: its commit takes them out."""

    snapshot_id: int
    """The snapshot that was read."""
    files: tuple[str, ...]
    """Their paths."""


@dataclass(frozen=True, slots=True)
class RowDeletions:
    """Rows that the commit of a write deletes, by deletion vectors."""

    snapshot_id: int
    """The snapshot that was read."""
    files: tuple[tuple[str, bytes], ...]
    """Paths of data files, each with deleted rows as `encode_positions` gives them; a file may come several times."""


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A planned write of rows into one table."""

    plan: WritePlan
    overwrite: OverwriteSpec | None = None
    """What is replaced; None appends."""
    operation: Operation | None = None
    """The statement that the snapshot names; None for what a plain write or an overwrite says."""
    replaced: ReplacedFiles | None = None
    """Files that are written anew."""
    packed: bool = False
    """Whether rows come packed (`write.packed_rows`)."""
    owner: FileStoreTable | None = None
    """The table to commit to, where the plan's has another number of buckets; None where it is the plan's."""
    deleted: RowDeletions | None = None
    """Rows that are deleted."""
    stream: StreamBatch | None = None
    """The micro-batch that the rows are; None of a batch write."""

    @property
    def given_schema(self) -> pa.Schema:
        """What a task is given: the columns of the data, or packed rows."""
        return PACKED_SCHEMA if self.packed else self.plan.data_schema

    def write_task(self, batches: Iterable[pa.RecordBatch], task_id: int) -> TaskMessage:
        """Write the rows of one attempt of a task. Runs in tasks.

        Args:
            batches: the rows as Spark hands them over, with the columns of `given_schema`.
            task_id: the same for all attempts of a task.

        Raises:
            DataError: a row cannot be taken; nothing is written then.
        """
        rows = unpack_rows(batches) if self.packed else batches_from_spark(batches, self.plan.data_schema)
        return write_batches(self.plan, rows, task_id)

    def commit(self, messages: Sequence[TaskMessage], execute: Executor | None = None) -> int | None:
        """Make all that the tasks wrote one snapshot; returns its id. Called once, on the driver.

        What is due is compacted then, in a snapshot of its own, unless the table is write-only: so tables stay fast,
        and with lookups the rows are visible and have a changelog when this returns.

        Where nothing was committed, for certain, all that the tasks wrote is deleted.

        Args:
            messages: of all tasks.
            execute: does the rewriting of that compaction in tasks; None: this process does.

        Raises:
            CommitConflictError: another commit changed what this one relies on; nothing was committed.
            CommitStateUnknownError: it is not known whether the commit took place.
        """
        # the tasks, which only write, do not pay for importing these
        from paimon_spark.commit.file_store_commit import commit, uncommitted
        from paimon_spark.commit.run_again import undone_where_void
        from paimon_spark.maintain.committed_write import commit_write
        from paimon_spark.maintain.compact.due import compact_left_behind
        from paimon_spark.maintain.row_deletion import commit_deletions
        from paimon_spark.maintain.row_level import replaced_files
        from paimon_spark.write.plan import check_one_task_per_bucket, new_user

        table, replaced, deleted, stream = self.owner or self.plan.table, self.replaced, self.deleted, self.stream
        with undone_where_void(lambda: self.discard(messages)):
            check_one_task_per_bucket(self.plan, messages)
            gone = [] if replaced is None else replaced_files(table, replaced.snapshot_id, replaced.files)
            if stream is not None:
                stream = uncommitted(table, stream)
        put: Callable[..., int | None] = commit
        if deleted is not None:
            put = partial(commit_deletions, snapshot_id=deleted.snapshot_id, deleted=deleted.files)
        user = self.plan.postponed_user or new_user(table.options)
        if self.stream is not None:
            user = self.stream.user
            if stream is None:
                _LOG.info("%s has this micro-batch already: the files of its replay are deleted.", table.path)
                self.discard(messages)
                compact_left_behind(table, commit_user=user, execute=execute)
                return None
            put = partial(commit, identifier=stream.identifier, watermark=stream.watermark, searched=stream.searched)
        return commit_write(
            table,
            self.plan,
            messages,
            commit_user=user,
            others=[*self._assignments(), *gone],
            overwrite=self.overwrite,
            operation=None if self.operation is None else self.operation.value,
            put=put,
            micro_batch=None if self.stream is None else self.stream.identifier,
            execute=execute,
        )

    def discard(self, messages: Sequence[TaskMessage]) -> None:
        """Delete all that the tasks wrote, instead of a commit. Runs on the driver."""
        from paimon_spark.maintain.files.deletion import delete_messages  # the tasks do without it

        delete_messages(self.owner or self.plan.table, [*messages, *self._assignments()])

    def _assignments(self) -> list[TaskMessage]:
        """Where the keys of an assigned write were assigned, as a message: it is deleted with the others."""
        from paimon_spark.write.bucket_assignment import assignment_records

        records = assignment_records(self.plan)
        return [] if records is None else [TaskMessage((), 0, records)]


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Which rows of a write come to one task, and in which form."""

    shuffled: bool = False
    """Whether all rows of one (partition, bucket) do, of dynamic buckets all rows of one key."""
    assignment: WritePlan | None = None
    """The plan by which rows of dynamic buckets are assigned."""
    packed: bool = False
    """Whether rows come packed (`write.packed_rows`), those of dynamic buckets with their buckets."""
    key_ranges: KeyRanges | None = None
    """Where buckets are shared by several tasks."""


SHUFFLED: Final = TaskRows(shuffled=True)
IN_ANY_TASK: Final = TaskRows()


def planned(
    table: FileStoreTable,
    data_schema: pa.Schema,
    overwrite: OverwriteSpec | None = None,
    *,
    rows: TaskRows = IN_ANY_TASK,
    operation: Operation | None = None,
    rows_of: SnapshotIdentity | None = None,
    replaced: ReplacedFiles | None = None,
    deleted: RowDeletions | None = None,
) -> TableWrite:
    """Plan a write. Runs on the driver.

    Args:
        table: the table with the options of this write.
        data_schema: Arrow schema of the rows.
        overwrite: what to replace; None to append.
        rows: which rows come to one task.
        operation: what the snapshot says about the statement.
        rows_of: the snapshot that the rows are made of; None where they are new.
        replaced: files that are written anew.
        deleted: rows that are deleted.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        UnsupportedError: the table cannot be written yet.
    """
    from paimon_spark.spec.schema import BucketMode
    from paimon_spark.write.cross_partition_update import needs_shuffle
    from paimon_spark.write.plan import plan_write
    from paimon_spark.write.postpone import needs_buckets, writes_real_buckets

    if table.schema.bucket_mode is BucketMode.KEY_DYNAMIC and rows.assignment is None:
        raise needs_shuffle(table.schema)
    if table.schema.bucket_mode is BucketMode.POSTPONE_MODE and writes_real_buckets(table.options):
        raise needs_buckets()
    plan = plan_write(
        table,
        overwrite=None if overwrite is None else overwrite.kind,
        data_schema=data_schema,
        shuffled=rows.shuffled,
        assignment=rows.assignment,
        rows_of=rows_of,
        rewritten=replaced is not None or deleted is not None,
        key_ranges=rows.key_ranges,
    )
    return TableWrite(plan, overwrite, operation, replaced, packed=rows.packed, deleted=deleted)
