"""A write whose rows are shuffled first: each bucket has one writer, and gets one file instead of one of every task.

Spark gives a Python data source no say in how rows are distributed, so this is a job of its own: a shuffle brings each
row to the task of its bucket, which an SQL expression or Python computes; that packs the rows; a pass writes,
and answers with the task's commit message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.maintain.compact.row_order import clusters_writes
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.jobs.bucket_numbers import write_postponed
from paimon_spark.spark.jobs.bucket_shuffle import write_to_buckets
from paimon_spark.spark.jobs.cross_partition import write_cross_partition
from paimon_spark.spark.jobs.write_tasks import RowsToWrite, run_write
from paimon_spark.spark.source.table_write import planned
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.routing import partitions_together

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def is_shuffled(table: FileStoreTable) -> bool:
    """Whether rows of the table belong together, or in an order."""
    schema = table.schema
    shared = schema.bucket_mode is not BucketMode.BUCKET_UNAWARE or partitions_together(schema)
    return shared or clusters_writes(schema)


def write_as_is(rows: RowsToWrite) -> int | None:
    """Write rows where they are, of tables that `is_shuffled` says no of; else as `write_shuffled`."""
    given = spark_arrow_schema(rows.df.schema)
    write = planned(rows.table, given, rows.overwrite, operation=rows.operation)
    return run_write(numbered(rows.df), replace(write, stream=rows.stream))


def write_shuffled(rows: RowsToWrite) -> int | None:
    """Write the rows and commit them; return the id of the new snapshot. Runs on the driver.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
    """
    match rows.table.schema.bucket_mode:
        case BucketMode.KEY_DYNAMIC:
            return write_cross_partition(rows)
        case BucketMode.POSTPONE_MODE:
            return write_postponed(rows)
    return write_to_buckets(rows)
