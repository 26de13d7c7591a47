"""A write whose rows are shuffled first: each bucket has one writer, and gets one file instead of one of every task.

Spark gives a Python data source no say in how rows are distributed, so this is a job of its own: a shuffle brings each
row to the task of its bucket, which is told by an expression or by a column of places; a pass writes, and answers with
the task's commit message. Where neither can tell the bucket, one more pass over the rows does.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.bucket_expression import bucket_expression, kept_as_given
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import has_column_functions, map_in_arrow
from paimon_spark.spark.jobs.clustering import (
    PLACED_BUCKET,
    clustering,
    partition_keys,
    with_places,
)
from paimon_spark.spark.source.table_write import TableWrite, planned
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.routing import partitions_together, shuffle_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.spec.snapshot import Operation
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable

_TASK = "_paimon_task"


def is_shuffled(table: FileStoreTable) -> bool:
    """Whether rows of the table belong together."""
    schema = table.schema
    return schema.bucket_mode is not BucketMode.BUCKET_UNAWARE or partitions_together(schema)


def write_shuffled(
    df: DataFrame,
    table: FileStoreTable,
    overwrite: OverwriteSpec | None,
    *,
    operation: Operation | None = None,
    rows_of: SnapshotIdentity | None = None,
) -> int | None:
    """Write the rows and commit them; return the id of the new snapshot. Runs on the driver.

    Args:
        df: the rows; columns are matched by name.
        table: the table with the options of this write.
        overwrite: what to replace; None to append.
        operation: what the snapshot says about the statement; None for nothing.
        rows_of: the snapshot that the rows are made of; None where they are new.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
    """
    arrow_schema = spark_arrow_schema(df.schema)
    tasks = _number_of_tasks(df, table)
    # mapInArrow takes names of columns for expressions: one with a dot or a back quote it would not find
    rows = df.toDF(*(str(number) for number in range(len(df.columns))))
    placing = None
    if table.schema.bucket_mode is BucketMode.HASH_DYNAMIC and has_column_functions():
        mode = None if overwrite is None else overwrite.kind
        placing = plan_write(table, overwrite=mode, data_schema=arrow_schema, rows_of=rows_of)
    write = planned(
        table, arrow_schema, overwrite, shuffled=True, placing=placing, operation=operation, rows_of=rows_of
    )
    return run_write(_placed(rows, write.plan, placing, tasks), write)


def run_write(rows: DataFrame, write: TableWrite) -> int | None:
    """Write rows where they are, each partition of Spark's a task, and commit them; return the id of the new snapshot.

    Args:
        rows: with the columns of the plan in their order, under any names; more columns behind them are left out.
        write: the planned write.
    """
    answer = StructType([StructField("message", BinaryType(), nullable=False)])
    messages = map_in_arrow(rows, partial(_write_task, write), answer).collect()
    return write.commit([pickle.loads(bytes(row.message)) for row in messages])


def _placed(rows: DataFrame, plan: WritePlan, placing: WritePlan | None, tasks: int) -> DataFrame:
    """The rows, those of one (partition, bucket) in one task."""
    schema, sources = plan.table.schema, plan.mapping.sources
    positions = dict(zip(schema.field_names, sources, strict=True))
    partitions = _columns_as_stored(plan, schema.partition_keys, positions)
    bucket = None
    if placing is not None:
        rows = with_places(rows, placing, rows.columns)
        bucket = PLACED_BUCKET
    elif schema.bucket_mode is BucketMode.HASH_FIXED:
        keys = _columns_as_stored(plan, schema.bucket_keys, positions)
        names = {} if keys is None else dict(zip(schema.bucket_keys, keys, strict=True))
        bucket = None if keys is None else bucket_expression(schema, names)
    if bucket is not None:  # without the partitions, a task has this bucket of all of them
        return rows.repartition(tasks, *map(sf.expr, clustering(partitions or [], bucket, tasks)))
    keys_of_tasks = partition_keys(tasks)
    with_task = StructType([*rows.schema.fields, StructField(_TASK, IntegerType(), nullable=False)])
    return map_in_arrow(rows, partial(_add_task, plan, keys_of_tasks), with_task).repartition(tasks, _TASK)


def _columns_as_stored(plan: WritePlan, names: Iterable[str], positions: dict[str, int | None]) -> list[str] | None:
    """The numbered columns of the data that are these of the table; None where storing changes their values."""
    found = []
    for name in names:
        position, field = positions[name], plan.table.schema.field(name)
        if position is None or not kept_as_given(field, plan.data_schema.field(position).type):
            return None
        found.append(f"`{position}`")
    return found


def _number_of_tasks(df: DataFrame, table: FileStoreTable) -> int:
    """As many tasks as the session has cores (on Connect: shuffle partitions), but no more than there are buckets."""
    spark = df.sparkSession
    context = getattr(spark, "_sc", None)
    shuffles = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = shuffles if context is None else max(1, min(shuffles, context.defaultParallelism))
    buckets = table.options.bucket
    return min(tasks, buckets) if buckets > 0 and not table.schema.partition_keys else tasks


def _add_task(plan: WritePlan, keys: list[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every batch, its columns numbered, with the key of the task that each of its rows belongs to. Runs in tasks."""
    schema = plan.data_schema
    targets = pa.array(keys, pa.int32())
    for batch in batches:
        named = batch.select(range(len(schema))).rename_columns(schema.names)
        rows = pa.Table.from_batches(list(batches_from_spark([named], schema)))
        ids = shuffle_ids(plan.table.schema, plan.mapping.columns(rows), len(keys))
        chosen = targets.take(pa.array(ids))
        yield pa.RecordBatch.from_arrays([*batch.columns, chosen], names=[*batch.schema.names, _TASK])


def _write_task(write: TableWrite, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task; answer with its commit message. Runs in tasks."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return
    names = write.given_schema.names
    own = (batch.select(range(len(names))).rename_columns(names) for batch in chain([first], filled))
    context = TaskContext.get()
    message = write.write_task(own, context.partitionId() if context else 0)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], names=["message"])
