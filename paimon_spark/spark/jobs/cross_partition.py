"""Writes to tables whose primary key lacks a partition column: a key that comes with another partition is one key.

Java: ``GlobalIndexAssigner`` and its ``ExistingProcessor``. A Spark job reads the keys that there are, with their
partitions and buckets, and a shuffle brings them to the task that gets the new rows of these keys, whatever their
partitions. There `write.cross_partition_update` says where a row goes:

- deduplicate: the last row of a key stays, and its old row is deleted where it was;
- partial-update, aggregation: all rows go to the partition in which the key is, or came first;
- first-row: a row of a known key is left out, unless it has its key's partition.

Rows and keys travel as Arrow streams; nothing is collected on the driver, and tasks spill what they cannot hold.
How many keys each bucket has is counted by a Spark job where its files do not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from paimon_spark.commit.run_again import run_again
from paimon_spark.maintain.cross_partition_write import bucket_plan, kept_keys, with_named_partitions
from paimon_spark.read.key_lookup import count_keys, numbers_of_keys, read_key_locations
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, map_in_arrow, numbered
from paimon_spark.spark.jobs.clustering import PACKED_STRUCT, targets_of
from paimon_spark.spark.jobs.progress import name_of
from paimon_spark.spark.jobs.write_tasks import RowsToWrite, number_of_tasks, run_write
from paimon_spark.spark.session.pyspark_members import estimated_bytes
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spark.source.reader import pack_splits, task_slots
from paimon_spark.spark.source.table_write import TaskRows, planned
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.cross_partition_update import (
    ORDER,
    assign_all_rows,
    assign_partitions,
    cross_partition_schema,
    location_fields,
    pack_known_keys,
    pack_new_rows,
    partitions_of_rows,
)
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.packed_rows import TASK
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable


def packed_splits(table: FileStoreTable, splits: Sequence[DataSplit], cores: int) -> list[tuple[DataSplit, ...]]:
    """The splits of each task."""
    return pack_splits(splits, table.options, cores=cores)


def _count_keys(
    table: FileStoreTable, packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for split in splits_of(packed, numbers):
        counted = ([split.partition], [split.bucket], [count_keys(table, split)])
        arrays = [pa.array(v, t) for v, t in zip(counted, (pa.binary(), pa.int32(), pa.int64()), strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["partition", "bucket", "rows"])


def splits_of(packed: Sequence[Sequence[DataSplit]], numbers: Iterator[pa.RecordBatch]) -> Iterator[DataSplit]:
    """The splits of the tasks of these numbers."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from packed[number]


def _counted(
    spark: SparkSession, table: FileStoreTable, splits: Sequence[DataSplit]
) -> Iterator[tuple[bytes, int, int]]:
    """Count the keys of splits, by a job."""
    packed = packed_splits(table, splits, task_slots())
    struct = StructType(
        [StructField("partition", BinaryType()), StructField("bucket", IntegerType()), StructField("rows", LongType())]
    )
    frame = spark.range(0, len(packed), 1, len(packed))
    for row in collect_in_arrow(
        frame, f"count keys of {name_of(table.path)}", partial(_count_keys, table, packed), struct
    ):
        yield bytes(row.partition), row.bucket, row.rows


_ONE_TASK_BYTES = 32 << 20
_ONE_TASK_KEYS = 4_000_000
"""New rows (as Spark estimates them) and known keys that one task takes, in about a second."""


def write_cross_partition(written: RowsToWrite) -> int | None:
    """As `shuffled_write.write_shuffled`, where a new row may change the partition of its key.

    The commit is refused if another one has changed keys in the range of this one's meanwhile: each would hold a key
    that the other has put into another partition. Then the write runs again, from a fresh read of the keys; with
    `rows_of` who read the rows runs it again.
    """
    if written.rows_of is None:
        return run_again(written.table, lambda snapshot: _write(written, SnapshotIdentity.of(snapshot)))
    return _write(written, written.rows_of)


def _write(written: RowsToWrite, at: SnapshotIdentity) -> int | None:
    df, table, overwrite = written.df, written.table, written.overwrite
    spark = df.sparkSession
    given = plan_write(table, overwrite=written.mode, data_schema=spark_arrow_schema(df.schema), rows_of=at)
    rows = numbered(df)
    if overwrite is not None:
        overwrite = with_named_partitions(given, overwrite, lambda: _partitions_of(rows, given))
    splits = kept_keys(given, overwrite, task_slots())
    assignment = replace(given, dynamic=bucket_plan(given, splits, partial(_counted, spark, table)))
    schema = cross_partition_schema(table.schema)
    in_tasks = TaskRows(assignment=assignment, packed=True)
    write = planned(table, schema, overwrite, rows=in_tasks, operation=written.operation, rows_of=at)
    write = replace(write, stream=written.stream)
    if _is_little(rows, splits):
        ordered = rows.select("*", sf.monotonically_increasing_id().alias(ORDER)).repartition(1)
        return run_write(ordered, write, partial(_assign_and_write, given, write.plan, splits))
    tasks = number_of_tasks(df, table)
    targets = targets_of(tasks)
    both = map_in_arrow(rows, partial(_pack_new, given, targets), PACKED_STRUCT)
    if splits:
        work = packed_splits(table, splits, task_slots())
        numbers = spark.range(0, len(work), 1, len(work))
        both = both.unionAll(map_in_arrow(numbers, partial(_pack_known, table, work, targets), PACKED_STRUCT))
    assign = partial(_assign, write.plan, targets)
    assigned = map_in_arrow(both.repartition(tasks, TASK), assign, PACKED_STRUCT)
    return run_write(assigned.repartition(tasks, TASK), write)


def _is_little(rows: DataFrame, splits: Sequence[DataSplit]) -> bool:
    """Whether one task takes all rows and keys: more of them would take longer to start than they save."""
    if is_connect(rows.sparkSession):  # which does not say how many rows there are
        return False
    keys = sum(numbers_of_keys(splits)[0].values())
    return keys <= _ONE_TASK_KEYS and estimated_bytes(rows) <= _ONE_TASK_BYTES


def _assign_and_write(
    given: WritePlan, plan: WritePlan, splits: Sequence[DataSplit], batches: Iterator[pa.RecordBatch], task_id: int
) -> TaskMessage:
    """Join all rows and keys, and write the rows. Runs in the one task."""
    fields = location_fields(plan.table.schema)
    known = (keys for split in splits for keys in read_key_locations(plan.table, split, fields))
    return write_batches(plan, assign_all_rows(given, plan, _ordered(given, batches), known), task_id)


def _ordered(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([*plan.data_schema, pa.field(ORDER, pa.int64())])
    return batches_from_spark((batch.rename_columns(schema.names) for batch in batches), schema)


def _task_id() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0


def _pack_new(plan: WritePlan, targets: Sequence[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack new rows for the tasks of their keys. Runs in tasks."""
    return pack_new_rows(plan, _named(plan, batches), _task_id(), targets)


def _named(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = plan.data_schema
    return batches_from_spark((batch.rename_columns(schema.names) for batch in batches), schema)


def _pack_known(
    table: FileStoreTable,
    work: Sequence[Sequence[DataSplit]],
    targets: Sequence[int],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Pack known keys for their tasks. Runs in tasks."""
    fields = location_fields(table.schema)
    for split in splits_of(work, numbers):
        yield from pack_known_keys(table.schema, read_key_locations(table, split, fields), targets)


def _assign(plan: WritePlan, targets: Sequence[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join rows and keys, and pack rows for the tasks of their buckets. Runs in tasks."""
    return assign_partitions(plan, batches, _task_id(), targets)


def _partitions_of(rows: DataFrame, plan: WritePlan) -> frozenset[bytes]:
    """The partitions of the rows, by a job."""
    struct = StructType([StructField("partition", BinaryType())])
    found = map_in_arrow(rows, partial(_partitions, plan), struct).distinct().collect()
    return frozenset(bytes(row.partition) for row in found)


def _partitions(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = pa.array(sorted(partitions_of_rows(plan, _named(plan, batches))), pa.binary())
    yield pa.RecordBatch.from_arrays([found], names=["partition"])
