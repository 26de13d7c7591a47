"""Numbers of buckets that a table gets late: by rescaling, or since its buckets are postponed (``bucket`` = -2).

Rescaling gives a table, or some of its partitions, another number of buckets: all rows are read and written anew.
Equals Java's ``RescaleProcedure``. One OVERWRITE commit; a commit of others to the same partitions meanwhile is a
conflict, so that none of it is lost.

Where buckets are postponed, a partition gets its number of buckets once: by the option, else by the rows and bytes that
come first. These are measured as Java does it (``PostponeFixedBucketSink``, ``SparkPostponeCompactProcedure``): rows
are first written as postponed files, which no snapshot refers to, and taken into real buckets from there. Where the
option says the number for all partitions, rows go to their buckets at once. Rows travel as Arrow streams, so that no
value passes through Spark's types.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.commit.row_counts import report_written
from paimon_spark.commit.run_again import run_again, undone_where_void
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.files.deletion import delete_files, delete_messages, delete_written
from paimon_spark.read.postponed_read import (
    PostponedFiles,
    by_writer,
    postponed_entries,
    postponed_schema,
    read_postponed_rows,
)
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow, numbered
from paimon_spark.spark.jobs.bucket_shuffle import write_to_buckets
from paimon_spark.spark.jobs.clustering import PACKED_STRUCT, targets_of
from paimon_spark.spark.jobs.cross_partition import write_cross_partition
from paimon_spark.spark.jobs.snapshot_rows import table_rows
from paimon_spark.spark.jobs.write_tasks import RowsToWrite, number_of_tasks_of, run_tasks, run_write
from paimon_spark.spark.source.table_write import TableWrite, planned
from paimon_spark.spec.file_names import POSTPONE_BUCKET, postponed_writer
from paimon_spark.spec.schema import BucketMode
from paimon_spark.table.partitions import exact_predicate
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.two_branches import partitions_with_files
from paimon_spark.write.message import CommitMessage, TaskMessage
from paimon_spark.write.packed_rows import TASK, pack_rows
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.postpone import (
    buckets_of_batch,
    buckets_of_postponed,
    known_buckets,
    writes_real_buckets,
)
from paimon_spark.write.task_write import chunk_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


def rescale(
    spark: SparkSession,
    table: FileStoreTable,
    bucket_num: int | None = None,
    partitions: Predicate | None = None,
) -> int | None:
    """Write the rows of a table into another number of buckets; return the id of the new snapshot.

    Returns None where no bucket of the partitions has files: there is nothing to do.

    Args:
        spark: a classic or a Connect session.
        table: with its dynamic options.
        bucket_num: the number of buckets; that of the table without. -1, or none, where buckets are dynamic: keys get
            such ones anew, also where the official connector made their number fixed.
        partitions: a condition over partition columns; all without.

    Raises:
        OptionError: the table is empty, or the number of buckets is missing or none.
        UnsupportedError: the table has no buckets; or they are dynamic, and a fixed number is asked for.
        CommitConflictError: others changed the same partitions every time; nothing was changed.
    """
    number = table.options.bucket if bucket_num is None else bucket_num
    _check_number(table, number, is_given=bucket_num is not None)

    def attempt(snapshot: Snapshot | None) -> int | None:
        if snapshot is None:
            raise OptionError(f"Table {table.path} has no snapshot, no need to rescale.")
        if not partitions_with_files((table, snapshot), partitions):
            return None  # as in Java, so that nothing is committed
        return _rescale(spark, table, snapshot, number, partitions)

    return run_again(table, attempt)


def _check_number(table: FileStoreTable, number: int, *, is_given: bool) -> None:
    kind = table.schema.kind
    if kind.assigns_buckets or kind.updates_across_partitions:
        if number != table.options.bucket:
            raise UnsupportedError(
                f"The buckets of table {table.path} are dynamic ('bucket' = '-1'). With a fixed number of them nothing "
                "could be inserted any more: leave out bucket_num, or give -1, to give keys their buckets anew."
            )
        return
    mode = table.schema.bucket_mode
    if mode not in (BucketMode.HASH_FIXED, BucketMode.POSTPONE_MODE):
        raise UnsupportedError(
            f"Only tables with buckets can be rescaled, and table {table.path} has none ('bucket' = "
            f"'{table.options.bucket}')."
        )
    if not is_given and mode is BucketMode.POSTPONE_MODE:
        raise OptionError("When rescaling postpone bucket tables, you must provide the resulting bucket number.")
    if number < 1:
        raise OptionError(f"bucket_num must be at least 1, but is {number}.")


def rescale_partitions(
    spark: SparkSession, table: FileStoreTable, snapshot: Snapshot, numbers: Mapping[bytes, int]
) -> SnapshotIdentity:
    """Give partitions of a postponed table other numbers of buckets, one commit for each number.

    Postponed rows stay as they are.

    Returns:
        The snapshot that is left.

    Raises:
        CommitConflictError: others changed the same partitions; some may be rescaled.
    """
    at = snapshot
    for number in sorted(set(numbers.values())):
        partitions = exact_predicate(table, [partition for partition, own in numbers.items() if own == number])
        done = _rescale(spark, table, at, number, partitions)
        at = at if done is None else table.snapshots.get(done)
    return SnapshotIdentity.of(at)


def _rescale(
    spark: SparkSession, table: FileStoreTable, snapshot: Snapshot, number: int, partitions: Predicate | None
) -> int | None:
    _LOG.info("Rescaling %s to %d buckets.", table.path, number)
    in_buckets = table.as_if({"postpone.merge-on-read": "false"})  # postponed rows are not replaced, so not read
    rows = table_rows(spark, in_buckets, snapshot.id, partitions)
    rescaled = table.as_if({"bucket": str(number), LAST_SAFE: str(snapshot.id)})
    overwrite = OverwriteSpec.static() if partitions is None else OverwriteSpec.matching(partitions)
    write = write_cross_partition if table.schema.kind.updates_across_partitions else write_to_buckets
    return write(RowsToWrite(rows, rescaled, overwrite))


_FIXED = "postpone.batch-write-fixed-bucket"
_DEFAULT = "postpone.default-bucket-num"
_NUMBER = "_PAIMON_NUMBER"
_NUMBERED_STRUCT = StructType([*PACKED_STRUCT.fields, StructField(_NUMBER, LongType(), False)])
"""Packed rows, and their position among all that are postponed."""


def write_postponed(written: RowsToWrite) -> int | None:
    """As `shuffled_write.write_shuffled`: to real buckets, or to files that are postponed."""
    table, rows_of = written.table, written.rows_of
    if not writes_real_buckets(table.options):
        write = _postponed_write(written, written.overwrite, rows_of)
        done = run_write(numbered(written.df), replace(write, operation=written.operation, stream=written.stream))
        _LOG.warning(
            "Rows written to %s wait in bucket-postpone: no read sees them before CALL sys.compact.", table.path
        )
        return done
    if rows_of is not None:
        return _write(written, SnapshotIdentity.of(rows_of.find(table.snapshots)))
    return run_again(table, lambda snapshot: _write(written, SnapshotIdentity.of(snapshot)))


def _postponed_write(
    written: RowsToWrite, overwrite: OverwriteSpec | None, rows_of: SnapshotIdentity | None
) -> TableWrite:
    """A write of postponed rows."""
    postponed = written.table.as_if({_FIXED: "false"})
    write = planned(postponed, spark_arrow_schema(written.df.schema), overwrite, rows_of=rows_of)
    return replace(write, owner=written.table)


def _write_to_fixed(written: RowsToWrite, at: SnapshotIdentity) -> int | None:
    """Write to as many buckets as the table says for partitions without rows, with nothing to measure before."""
    table, rows_read = written.table, written.rows_of is not None

    def as_postponed(write: TableWrite) -> TableWrite:
        return replace(write, plan=replace(write.plan, rows_read=rows_read), owner=table)

    fixed = table.as_if({"bucket": str(buckets_of_batch(table.options, 0, 0))})
    return write_to_buckets(replace(written, table=fixed, rows_of=at), as_postponed)


def _write(written: RowsToWrite, at: SnapshotIdentity) -> int | None:
    """Write to real buckets: through files that are measured, then taken in, and deleted."""
    df, table, overwrite = written.df, written.table, written.overwrite
    rows_read = written.rows_of is not None
    snapshot = at.find(table.snapshots)
    entries = [] if snapshot is None or overwrite is not None else table.manifests.live_entries(snapshot)
    known = known_buckets(entries)
    if table.options.value(_DEFAULT) is not None and not known:
        return _write_to_fixed(written, at)
    staging = _postponed_write(written, None, at)
    messages = run_tasks(numbered(df), staging)
    staged = [
        (m.partition, postponed_writer(f.file_name), f) for task in messages for m in task.messages for f in m.new_files
    ]

    def discard_blob_files() -> None:
        delete_files(table, [path for message in messages for path in message.blob_files])

    def delete_staged() -> None:
        delete_written(table, [(partition, POSTPONE_BUCKET, file) for partition, _, file in staged])

    try:
        numbers = _numbers(table, known, staged, buckets_of_batch)
        larger = {partition: n for partition, n in numbers.items() if n > known.get(partition, n)}
        if larger and rows_read:  # another snapshot between a read and its write would be a conflict
            numbers = {partition: known.get(partition, n) for partition, n in numbers.items()}
        elif larger:
            assert snapshot is not None
            at = rescale_partitions(df.sparkSession, table, snapshot, larger)
            staging = _postponed_write(written, None, at)
        taken_in = _taken_in(df.sparkSession, table, by_writer(table, staged), numbers, at, overwrite)
    except BaseException:
        discard_blob_files()
        delete_staged()
        raise
    try:
        from paimon_spark.spark.jobs.compact_job import executor_of  # most writes do without it

        plan = replace(staging.plan, postponed_user=None, rows_read=rows_read)
        operation = written.operation
        whole = TableWrite(plan, overwrite, operation, owner=table, stream=written.stream)
        with undone_where_void(discard_blob_files):
            made = whole.commit(taken_in, executor_of(df.sparkSession))
        report_written(table, messages, None if operation is None else operation.value, None)
        return made
    finally:
        delete_staged()


def _numbers(
    table: FileStoreTable,
    known: dict[bytes, int],
    files: Iterable[tuple[bytes, str, DataFileMeta]],
    decide: Callable[..., int],
) -> dict[bytes, int]:
    """The number of buckets of each partition that has some of the files."""
    sums: dict[bytes, list[int]] = {}
    for partition, _, file in files:
        counted = sums.setdefault(partition, [0, 0])
        counted[0] += file.row_count
        counted[1] += file.file_size
    return {partition: decide(table.options, *counted, known.get(partition)) for partition, counted in sums.items()}


def _taken_in(
    spark: SparkSession,
    table: FileStoreTable,
    groups: Sequence[PostponedFiles],
    numbers: dict[bytes, int],
    at: SnapshotIdentity,
    overwrite: OverwriteSpec | None = None,
    *,
    ordered: bool = False,
) -> list[TaskMessage]:
    """Write the rows of postponed files into real buckets, not committed: one job for each number of buckets.

    `ordered`: rows of a later group count as newer.
    """
    written: list[TaskMessage] = []
    for number in sorted(set(numbers.values())):
        own = [group for group in groups if numbers[group.partition] == number]
        fixed = table.as_if({"bucket": str(number)})
        mode = None if overwrite is None else overwrite.kind
        plan = plan_write(fixed, overwrite=mode, data_schema=postponed_schema(table), shuffled=True, rows_of=at)
        plan = replace(plan, blobs_are_descriptors=True)
        tasks = number_of_tasks_of(spark, fixed)
        work = _shares(own, tasks)
        pack = partial(_pack_postponed, plan, work, targets_of(tasks))
        packed = map_in_arrow(spark.range(0, len(work), 1, len(work)), pack, _NUMBERED_STRUCT)
        shuffled = packed.repartition(tasks, TASK)
        if ordered and len(work) > 1:
            shuffled = shuffled.sortWithinPartitions(_NUMBER)
        written += run_tasks(shuffled, TableWrite(plan, packed=True))
    return written


def _shares(groups: Sequence[PostponedFiles], tasks: int) -> list[list[PostponedFiles]]:
    """The work of each task, about even: groups that follow each other, so that their order can be reported."""
    shares: list[list[PostponedFiles]] = [[] for _ in range(max(1, min(tasks, len(groups))))]
    whole, before = sum(group.size_bytes + 1 for group in groups), 0
    for group in groups:
        middle = before + (group.size_bytes + 1) // 2
        shares[middle * len(shares) // whole].append(group)
        before += group.size_bytes + 1
    return [share for share in shares if share]


def _pack_postponed(
    plan: WritePlan, work: Sequence[Sequence[PostponedFiles]], targets: Sequence[int], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read postponed rows and pack them for the tasks of their buckets, numbered in their order. Runs in tasks."""
    context = TaskContext.get()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            rows = read_postponed_rows(plan.table, work[number], chunk_bytes(plan))
            streams = pack_rows(plan, rows, context.partitionId() if context else 0, targets)
            for at, stream in enumerate(streams, number << 32):
                yield stream.append_column(pa.field(_NUMBER, pa.int64(), nullable=False), pa.array([at]))


def take_in_postponed(spark: SparkSession, table: FileStoreTable) -> int | None:
    """Take all postponed rows into real buckets, in one COMPACT snapshot; return its id, None where there are none.

    Raises:
        CommitConflictError: another commit changed the same partitions meanwhile; nothing is changed.
    """

    def attempt(snapshot: Snapshot | None) -> int | None:
        if snapshot is None:
            return None
        entries = table.manifests.live_entries(snapshot)
        postponed = postponed_entries(entries)
        if not postponed:
            return None
        files = [(entry.partition, postponed_writer(entry.file.file_name), entry.file) for entry in postponed]
        numbers = _numbers(table, known_buckets(entries), files, buckets_of_postponed)
        rows = sum(entry.file.row_count for entry in postponed)
        _LOG.info("Taking %d postponed rows of %d files of %s into buckets.", rows, len(files), table.path)
        written = _taken_in(spark, table, by_writer(table, files), numbers, SnapshotIdentity.of(snapshot), ordered=True)
        taken: dict[bytes, list[DataFileMeta]] = {}
        for entry in postponed:
            taken.setdefault(entry.partition, []).append(entry.file)
        messages = [
            CommitMessage(partition, POSTPONE_BUCKET, POSTPONE_BUCKET, (), compact_before=tuple(gone))
            for partition, gone in taken.items()
        ]
        for message in (m for task in written for m in task.messages):
            changelog = message.changelog_files
            messages.append(
                replace(
                    message,
                    new_files=(),
                    changelog_files=(),
                    compact_after=message.new_files,
                    compact_changelog_files=changelog,
                )
            )
        # as in Java: another change of the partitions since then would have other sequence numbers
        strict = table.as_if({LAST_SAFE: str(snapshot.id)})
        # Java's rewrite commits as a table of fixed buckets, which expires snapshots
        after = maintenance(table.as_if({"bucket": "1"}))
        with undone_where_void(lambda: delete_messages(table, written)):
            return commit(strict, messages, planned_on=SnapshotIdentity.of(snapshot), after_commit=after)

    return run_again(table, attempt)
