"""Compaction of a table as a Spark job: rows that wait for their buckets are taken in first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spark.jobs.compact_job import executor_of
from paimon_spark.spark.jobs.postponed import take_in_waiting
from paimon_spark.spec.schema import BucketMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.maintain.compact.scope import CompactScope
    from paimon_spark.table.table import FileStoreTable


def compact_table(
    spark: SparkSession, table: FileStoreTable, scope: CompactScope | None = None, *, full: bool = True
) -> int | None:
    """Compact a table in tasks, or on the driver where there is little to do; see `maintain.compact`.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        scope: which part of it; all when not given.
        full: every bucket becomes one sorted run; otherwise what a writer would compact by itself.
    """
    taken = None
    if table.schema.bucket_mode is BucketMode.POSTPONE_MODE:
        taken = take_in_waiting(spark, table)
    return compact(table, scope, full=full, execute=executor_of(spark)) or taken
