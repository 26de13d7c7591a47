"""A write whose rows are shuffled first: each bucket has one writer, and gets one file instead of one of every task.

Spark gives a Python data source no say in how rows are distributed, so this is a job of its own: a shuffle brings each
row to the task of its bucket, which an SQL expression or Python computes; that packs the rows; a pass writes,
and answers with the task's commit message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.maintain.compact.row_order import clusters_writes
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.jobs.bucket_shuffle import write_to_buckets
from paimon_spark.spark.jobs.cross_partition import write_cross_partition
from paimon_spark.spark.jobs.postponed import write_postponed
from paimon_spark.spark.jobs.write_tasks import run_write
from paimon_spark.spark.source.table_write import planned
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.routing import partitions_together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.commit.file_store_commit import StreamBatch
    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.spark.jobs.keyed_merges import KeyedMerge
    from paimon_spark.spec.snapshot import Operation
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage


def is_shuffled(table: FileStoreTable) -> bool:
    """Whether rows of the table belong together, or in an order."""
    schema = table.schema
    shared = schema.bucket_mode is not BucketMode.BUCKET_UNAWARE or partitions_together(schema)
    return shared or clusters_writes(schema)


def write_as_is(
    df: DataFrame, table: FileStoreTable, overwrite: OverwriteSpec | None, *, operation: Operation | None = None
) -> int | None:
    """Write rows where they are, of tables that `is_shuffled` says no of; else as `write_shuffled`."""
    write = planned(table, spark_arrow_schema(df.schema), overwrite, operation=operation)
    return run_write(numbered(df), write)


def write_shuffled(
    df: DataFrame,
    table: FileStoreTable,
    overwrite: OverwriteSpec | None,
    *,
    operation: Operation | None = None,
    rows_of: SnapshotIdentity | None = None,
    stream: StreamBatch | None = None,
    together: bool = False,
    accepts: Callable[[Sequence[TaskMessage]], bool] | None = None,
    merge: KeyedMerge | None = None,
) -> int | None:
    """Write the rows and commit them; return the id of the new snapshot. Runs on the driver.

    Args:
        df: the rows; columns are matched by name.
        table: the table with the options of this write.
        overwrite: what to replace; None to append.
        operation: what the snapshot says about the statement; None for a write or an overwrite.
        rows_of: the snapshot that the rows are made of; None where they are new.
        stream: the micro-batch that the rows are; None of a batch write.
        together: the rows are in one partition of Spark's, and few: one task writes them, without a shuffle.
        accepts: looks at what the tasks wrote before it is committed; where it says no, that is deleted, and nothing
            is committed. Only where each key has a bucket of its own.
        merge: what tasks make of the rows, whose columns it names; only where each key has a bucket of its own.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
    """
    if table.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return write_cross_partition(df, table, overwrite, operation=operation, rows_of=rows_of, stream=stream)
    if table.schema.bucket_mode is BucketMode.POSTPONE_MODE:
        return write_postponed(df, table, overwrite, operation=operation, rows_of=rows_of, stream=stream)
    return write_to_buckets(
        df,
        table,
        overwrite,
        operation=operation,
        rows_of=rows_of,
        stream=stream,
        together=together,
        accepts=accepts,
        merge=merge,
    )
