"""Giving a table, or some of its partitions, another number of buckets: all rows are read and written anew.

Equals Java's ``RescaleProcedure``. One OVERWRITE commit; a commit of others to the same partitions meanwhile is a
conflict, so that none of it is lost.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.jobs.bucket_shuffle import write_to_buckets
from paimon_spark.spark.jobs.cross_partition import write_cross_partition
from paimon_spark.spark.jobs.snapshot_rows import table_rows
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spec.schema import BucketMode
from paimon_spark.table.partitions import exact_predicate
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.two_branches import partitions_with_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

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
