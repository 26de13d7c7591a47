"""A write whose rows are shuffled first: each bucket has one writer, and gets one file instead of one of every task.

Spark gives a Python data source no say in how rows are distributed, so this is a job of its own: a shuffle brings each
row to the task of its bucket, which is told by an SQL expression, or by Python, which packs the rows; a pass writes,
and answers with the task's commit message.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.spark.columns.bucket_expression import bucket_expression, kept_as_given
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.jobs.clustering import clustering, packed
from paimon_spark.spark.source.table_write import TableWrite, planned
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.packed_rows import TASK
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.routing import partitions_together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.spec.snapshot import Operation
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable


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
    if table.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        mode = None if overwrite is None else overwrite.kind
        placing = plan_write(table, overwrite=mode, data_schema=arrow_schema, rows_of=rows_of)
    write = planned(
        table, arrow_schema, overwrite, shuffled=True, placing=placing, operation=operation, rows_of=rows_of
    )
    keys = _clustered_by(write.plan, tasks)
    if keys is None:
        write = replace(write, packed=True)
        rows, keys = packed(rows, arrow_schema, placing or write.plan, tasks), [TASK]
    return run_write(rows.repartition(tasks, *map(sf.expr, keys)), write)


def run_write(rows: DataFrame, write: TableWrite) -> int | None:
    """Write rows where they are, each partition of Spark's a task, and commit them; return the id of the new snapshot.

    Args:
        rows: with the columns of the plan in their order, under any names; more columns behind them are left out.
        write: the planned write.
    """
    answer = StructType([StructField("message", BinaryType(), nullable=False)])
    messages = map_in_arrow(rows, partial(_write_task, write), answer).collect()
    return write.commit([pickle.loads(bytes(row.message)) for row in messages])


def _clustered_by(plan: WritePlan, tasks: int) -> list[str] | None:
    """SQL by which a shuffle brings the rows of one (partition, bucket) to one task; None where there is none."""
    schema, sources = plan.table.schema, plan.mapping.sources
    if schema.bucket_mode is not BucketMode.HASH_FIXED:
        return None
    positions = dict(zip(schema.field_names, sources, strict=True))
    partitions = _columns_as_stored(plan, schema.partition_keys, positions)
    keys = _columns_as_stored(plan, schema.bucket_keys, positions)
    if partitions is None or keys is None:
        return None
    bucket = bucket_expression(schema, dict(zip(schema.bucket_keys, keys, strict=True)))
    return None if bucket is None else clustering(partitions, bucket, tasks, schema.core_options.bucket)


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
