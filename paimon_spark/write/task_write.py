"""One task of a write: batches in, data files and one small message out. Runs in Spark's Python workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.memory import note_freed
from paimon_spark.merge.changelog import lookup_engine
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.spec.file_names import POSTPONE_BUCKET, index_file_names
from paimon_spark.spec.hashing import encode_hash_index
from paimon_spark.spec.special_fields import RowKind
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.partitions import check_partition_time
from paimon_spark.write.bucket_assignment import AssignedKeys, hash_loader
from paimon_spark.write.bucket_filling import Hashes, StoredAssignmentLog
from paimon_spark.write.bucket_writer import BucketWriter
from paimon_spark.write.data_file_spec import with_input
from paimon_spark.write.dynamic_bucket import DynamicBuckets
from paimon_spark.write.managed_blobs import ManagedBlobWriter
from paimon_spark.write.message import INLINE_HASHES, CommitMessage, NewHashes, TaskMessage
from paimon_spark.write.plan import TASK_BITS, WritePlan
from paimon_spark.write.postpone import PostponedWriter, postponed_spec
from paimon_spark.write.rolling import RollingFiles
from paimon_spark.write.routing import RoutedRows, Router
from paimon_spark.write.row_writers import AppendWriter, CompanionFiles, KeyValueWriter

if TYPE_CHECKING:
    from paimon_spark.spec.file_names import FileNameSequence

_LOG = logging.getLogger(__name__)

_CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 32 << 20
_APPEND_FLUSH_BYTES = 64 << 20
_MAX_OPEN_FILES = 64
_MAX_SEQUENCE = 2**63 - 1
_LOG_ROWS = 10_000_000


def write_batches(plan: WritePlan, batches: Iterable[pa.RecordBatch], task_id: int) -> TaskMessage:
    """Write the batches of one task attempt.

    Args:
        plan: made by ``plan_write`` on the driver.
        batches: rows of ``plan.data_schema``, of any size; they are combined before any work is done.
        task_id: number of the task within the job, from 0, the same for each attempt (Spark: the partition id).

    Returns:
        The files written, for the commit. When the task fails, its files are deleted as far as possible; what is left
        is referenced by nothing.

    Raises:
        DataError: a row cannot be taken; nothing is written then.
    """
    task = _TaskWrite(plan, task_id)
    try:
        rows = 0
        for chunk in combine_batches(batches, plan.data_schema, chunk_bytes(plan)):
            task.write(chunk)
            note_freed(chunk.nbytes)  # what is buffered are copies
            if (rows + chunk.num_rows) // _LOG_ROWS > rows // _LOG_ROWS:
                _LOG.info("Task %d has taken %d rows for %s.", task_id, rows + chunk.num_rows, plan.table.path)
            rows += chunk.num_rows
        return TaskMessage(task.finish(), rows, task.assignment_log, task.blob_files, task.by_kind)
    except BaseException:
        task.abort()
        raise


def write_parts(
    plans: Sequence[WritePlan], batches: Iterable[tuple[int, pa.RecordBatch]], task_id: int
) -> list[TaskMessage]:
    """Write the batches of one task attempt by several plans, as `write_batches` does by one.

    Args:
        plans: of one table; their files are not the same.
        batches: each with the position of its plan.
        task_id: as of `write_batches`.
    """
    tasks = [_TaskWrite(plan, task_id) for plan in plans]
    rows = [0 for _ in plans]
    try:
        for at, chunk in _combined(batches, len(plans), chunk_bytes(plans[0])):
            tasks[at].write(chunk)
            rows[at] += chunk.num_rows
            note_freed(chunk.nbytes)
        finished = zip(tasks, rows, strict=True)
        return [
            TaskMessage(task.finish(), count, task.assignment_log, task.blob_files, task.by_kind)
            for task, count in finished
        ]
    except BaseException:
        for task in tasks:
            task.abort()
        raise


def _combined(batches: Iterable[tuple[int, pa.RecordBatch]], count: int, limit: int) -> Iterator[tuple[int, pa.Table]]:
    """Combine the batches of each plan as `combine_batches` does."""
    pending: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    rows, size = [0] * count, [0] * count
    for at, batch in batches:
        pending[at].append(batch)
        rows[at] += batch.num_rows
        size[at] += batch.nbytes
        if rows[at] >= _CHUNK_ROWS or size[at] >= limit:
            yield at, pa.Table.from_batches(pending[at])
            pending[at], rows[at], size[at] = [], 0, 0
    yield from ((at, pa.Table.from_batches(parts)) for at, parts in enumerate(pending) if parts)


def chunk_bytes(plan: WritePlan) -> int:
    """How many bytes of rows a task of a write takes at a time: a part of ``write-buffer-size``."""
    return min(_CHUNK_BYTES, max(1, int(plan.table.options.value("write-buffer-size")) // 4))


def combine_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, chunk_bytes: int) -> Iterator[pa.Table]:
    """Combine small batches (Spark sends 10,000 rows) into tables of about 256k rows or ``chunk_bytes``."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        parts.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _CHUNK_ROWS or size >= chunk_bytes:
            yield pa.Table.from_batches(parts)
            parts, rows, size = [], 0, 0
    if parts:
        yield pa.Table.from_batches(parts)


class _TaskWrite:
    """The writers of one task attempt, which share one memory budget."""

    def __init__(self, plan: WritePlan, task_id: int) -> None:
        self._plan = plan
        self._task_id = task_id
        schema = plan.table.schema
        waits = plan.postponed_user
        self._spec = plan.files if waits is None else with_input(postponed_spec(schema, waits), plan.table)
        self._engine = merge_engine_for(schema) if schema.kind.is_keyed else None
        self._dynamic = self._dynamic_buckets()
        has_index = plan.assigned and schema.kind.assigns_buckets
        self._assigned = AssignedKeys(plan.dynamic, hash_loader(plan)) if has_index and plan.dynamic else None
        note = None if self._assigned is None else self._assigned.note
        self._router = Router(schema, self._dynamic, note, plan.total_buckets)
        self._writers: dict[tuple[bytes, int], BucketWriter] = {}
        self._buffered = 0
        self._num_buckets = schema.core_options.bucket
        self._partitions: set[bytes] = set()
        self._by_kind = np.zeros(len(RowKind), dtype=np.int64)
        # the rest is for what is routed, merged and encoded while the buffer is full
        self.budget = int(schema.core_options.value("write-buffer-size")) * 3 // 4

    def _dynamic_buckets(self) -> DynamicBuckets | None:
        dynamic, table = self._plan.dynamic, self._plan.table
        if dynamic is None or self._plan.assigned:
            return None
        log = None if dynamic.log is None else StoredAssignmentLog(table.file_io, table.paths, dynamic.log)
        return DynamicBuckets(dynamic, hash_loader(self._plan), log, self._task_id)

    @property
    def by_kind(self) -> tuple[int, int, int, int]:
        """How many rows of each kind were taken."""
        inserted, before, after, deleted = self._by_kind.tolist()
        return inserted, before, after, deleted

    @property
    def assignment_log(self) -> tuple[str, int] | None:
        """The assignment log of the write, and how many of its records this task has seen."""
        if self._dynamic is None or self._plan.dynamic is None or self._plan.dynamic.log is None:
            return None
        return (self._plan.dynamic.log, self._dynamic.records) if self._dynamic.records else None

    @property
    def blob_files(self) -> tuple[str, ...]:
        """The managed blob files that were made."""
        writers = (writer for writer in self._writers.values() if isinstance(writer, ManagedBlobWriter))
        return tuple(path for writer in writers for path in writer.managed_blob_paths)

    def write(self, chunk: pa.Table) -> None:
        """Route one chunk of rows and buffer it; flush the largest buffers when there is too much."""
        locations = None
        if self._plan.assigned:
            locations = chunk.column(chunk.num_columns - 1).to_numpy()
            chunk = chunk.remove_column(chunk.num_columns - 1)
        mapped = self._plan.mapping.apply(chunk, locations)
        if mapped.kinds is None:
            self._by_kind[RowKind.INSERT] += mapped.rows.num_rows
        else:
            self._by_kind += np.bincount(mapped.kinds, minlength=len(RowKind))
        for routed in self._router.route(mapped):
            writer = self._writer(routed)
            if self._buffered and self._buffered + routed.rows.nbytes > self.budget:
                self._flush_largest()
            before = writer.buffered_bytes
            writer.write(routed.rows, routed.kinds)
            self._buffered += writer.buffered_bytes - before
        if self._buffered > self.budget:
            self._flush_largest()
        self._limit_open_files()

    def _writer(self, routed: RoutedRows) -> BucketWriter:
        key = (routed.partition, routed.bucket if self._plan.postponed_user is None else POSTPONE_BUCKET)
        writer = self._writers.get(key)
        if writer is None:
            if routed.partition not in self._partitions:
                self._plan.check_partition(routed.partition)
                check_partition_time(DataLayout.of(self._plan.table.schema), self._plan.table.options, routed.partition)
                self._partitions.add(routed.partition)
            writer = self._writers[key] = self._new_writer(*key)
        return writer

    def _new_writer(self, partition: bytes, bucket: int) -> BucketWriter:
        table = self._plan.table
        directory = table.paths.bucket_dir(table.paths.partition_path(partition), bucket)
        names = self._spec.file_names()
        writer = self._writer_of_rows(partition, bucket, directory, names)
        if not self._spec.managed_blobs or self._plan.blobs_are_descriptors:
            return writer
        return ManagedBlobWriter.of(writer, table.file_io, self._spec, directory, names)

    def _writer_of_rows(self, partition: bytes, bucket: int, directory: str, names: FileNameSequence) -> BucketWriter:
        table = self._plan.table
        unaware = self._num_buckets == -1 and self._engine is None
        first = 0 if unaware else self._plan.first_sequence(partition, bucket, self._task_id)
        if self._engine is None:
            files = RollingFiles(table.file_io, self._spec, directory, names, next_sequence=first)
            companions = [
                (
                    [field.name for field in spec.physical_fields],
                    RollingFiles(table.file_io, spec, directory, names.ending(spec.extension)),
                )
                for spec in self._spec.companions
            ]
            columns = [field.name for field in self._spec.physical_fields]
            every = CompanionFiles(files, columns, companions, self._spec.step_rows) if companions else files
            return AppendWriter(every, min(_APPEND_FLUSH_BYTES, self.budget))
        if self._plan.postponed_user is not None:
            return PostponedWriter(self._spec, self._engine, RollingFiles(table.file_io, self._spec, directory, names))
        shares = self._plan.shares_buckets(partition)
        return KeyValueWriter(
            self._spec,
            self._engine,
            lambda: RollingFiles(table.file_io, self._spec, directory, names),
            first_sequence=first,
            end_sequence=min(first + (1 << TASK_BITS), _MAX_SEQUENCE) if shares else _MAX_SEQUENCE,
            open_changelog=self._changelog_opener(directory),
            taken_by=lookup_engine(self._engine) if table.options.compacts_writes else None,
        )

    def _changelog_opener(self, directory: str) -> Callable[[], RollingFiles] | None:
        """What makes the changelog files of a flush into a bucket; None where incoming rows are no changelog."""
        spec, table = self._plan.changelog, self._plan.table
        if spec is None:
            return None
        names = spec.file_names()
        return lambda: RollingFiles(table.file_io, spec, directory, names)

    def _flush_largest(self) -> None:
        """Flush until half the budget is free, the largest buffers first."""
        by_size = sorted(self._writers.values(), key=lambda w: w.buffered_bytes, reverse=True)
        flushed = 0
        for writer in by_size:
            if self._buffered <= self.budget // 2:
                break
            self._buffered -= writer.buffered_bytes
            writer.flush()
            flushed += 1
        _LOG.info("Task %d flushed %d of %d buckets: the write buffer was full.", self._task_id, flushed, len(by_size))

    def _limit_open_files(self) -> None:
        opened = [w for w in self._writers.values() if w.is_open]
        for writer in opened[:-_MAX_OPEN_FILES]:
            writer.release_file()

    def finish(self) -> tuple[CommitMessage, ...]:
        """Write everything and describe it."""
        closed = {slot: writer.close() for slot, writer in self._writers.items()}  # then no rows are held
        assignment = self._dynamic or self._assigned
        new_hashes = {} if assignment is None else assignment.new_hashes()
        dynamic = self._plan.dynamic is not None
        messages = []
        for (partition, bucket), files in closed.items():
            hashes = new_hashes.get((partition, bucket))
            index = None if hashes is None else self._message_hashes(hashes)
            if files or index:
                changelog = self._writers[partition, bucket].changelog_files
                total = -1 if dynamic else self._plan.number_of_buckets(partition)
                messages.append(CommitMessage(partition, bucket, total, files, index, changelog_files=changelog))
        return tuple(messages)

    def _message_hashes(self, hashes: Hashes) -> NewHashes:
        if len(hashes) <= INLINE_HASHES:
            return NewHashes.inline(hashes)
        table = self._plan.table
        data = encode_hash_index(hashes)
        name = index_file_names().next()
        table.file_io.write_bytes(table.paths.index_path(name), data)
        return NewHashes(count=len(hashes), file_name=name, file_size=len(data))

    def abort(self) -> None:
        """Delete the files of this attempt: no message names them."""
        for writer in self._writers.values():
            writer.abort()
