"""Copying a table's files as a Spark job, or on the driver where there is little to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.maintain.copy_table import FileCopy, copy_file, copy_here
from paimon_spark.maintain.copy_table import copy_table as copy_by
from paimon_spark.spark.jobs.compact_job import fits_driver, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable


def copy_table(
    spark: SparkSession,
    source: FileStoreTable,
    path: str,
    options: Mapping[str, str],
    partitions: Predicate | None = None,
) -> FileStoreTable:
    """Copy the latest snapshot of a table; see `maintain.copy_table`.

    Args:
        spark: a classic or a Connect session.
        source: the branch that is copied.
        path: the target's directory.
        options: of the target's store.
        partitions: a condition over partition columns; all rows when not given.
    """
    return copy_by(source, path, options, partitions, execute=partial(_execute, spark))


def _execute(spark: SparkSession, source: FileStoreTable, target: FileStoreTable, copies: Sequence[FileCopy]) -> None:
    if fits_driver(spark, copies):
        copy_here(source, target, copies)
        return
    _, errors = in_tasks(spark, target, copies, partial(_copy, source))
    if errors:
        raise errors[0]


def _copy(source: FileStoreTable, target: FileStoreTable, copy: FileCopy) -> None:
    """Copy one file. Runs in tasks."""
    copy_file(source.file_io, target.file_io, copy)
