"""The end of each write: its commit, the compaction that it makes due, the wait for its rows. Runs on the driver.

What a write whose keys may be in other partitions looks at, and what it replaces. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OutsideChanges, OverwriteSpec, PartitionScope
from paimon_spark.commit.row_counts import report_written
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import CommittedError, PaimonError
from paimon_spark.maintain.after_commit import maintenance, wait_until_visible
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.maintain.files.deletion import delete_messages
from paimon_spark.read.key_lookup import numbers_of_keys, plan_key_locations
from paimon_spark.write.bucket_filling import DynamicBucketPlan, KnownBucket
from paimon_spark.write.cross_partition_update import KeyRule, key_rule
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import OverwriteMode, assignment_log

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.compaction import Executor
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import CommitMessage
    from paimon_spark.write.plan import WritePlan


def commit_write(
    table: FileStoreTable,
    plan: WritePlan,
    messages: Sequence[TaskMessage],
    *,
    commit_user: str,
    others: Sequence[TaskMessage | CommitMessage] = (),
    overwrite: OverwriteSpec | None = None,
    operation: str | None = None,
    put: Callable[..., int | None] = commit,
    micro_batch: int | None = None,
    execute: Executor | None = None,
) -> int | None:
    """Make what the tasks of a write wrote one snapshot; return its id, or that of the compaction which followed.

    Where nothing was committed, for certain, the files of the tasks are deleted.

    Args:
        table: the table to commit to.
        plan: of the write.
        messages: of all tasks.
        commit_user: who commits.
        others: what the same commit takes in besides: files that are replaced; messages of tasks, such as logs.
        overwrite: what is replaced; None appends.
        operation: what the snapshot says; None: whether rows were added or replaced, as in Java.
        put: makes the snapshot, with the arguments of `commit`.
        micro_batch: its number, where the rows are one of a stream.
        execute: does the rewriting of the compaction in tasks; None: this process does.

    Raises:
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
        CommitStateUnknownError: it is not known whether the commit took place.
        CommittedError: the rows are committed, but reads do not see them in time, or that cannot be found out.
    """
    written = [*messages, *(other for other in others if isinstance(other, TaskMessage))]
    with undone_where_void(lambda: delete_messages(table, written)):
        made = put(
            table,
            [*messages, *others],
            commit_user=commit_user,
            overwrite=overwrite,
            operation=operation or ("WRITE" if overwrite is None else "OVERWRITE"),
            planned_on=plan.snapshot,
            rows_read=plan.rows_read,
            after_commit=maintenance(table),
        )
    report_written(table, messages, operation, made)
    compacted = None
    if plan.postponed_user is None:
        compacted = compact_after_write(
            table,
            messages,
            commit_user=commit_user,
            backlog=plan.backlog,
            micro_batch=micro_batch,
            changelog=overwrite is None,
            execute=execute,
        )
    if micro_batch is None:
        try:
            wait_until_visible(table, messages, made)
        except CommittedError:
            raise
        except PaimonError as error:
            raise CommittedError(
                f"Snapshot {made} of {table.path} holds the rows; do not write them again. Whether reads see them is "
                f"not known: {error}"
            ) from error
    return compacted or made


def kept_keys(plan: WritePlan, overwrite: OverwriteSpec | None, parallelism: int) -> list[DataSplit]:
    """The files of the keys that there are, and stay.

    Args:
        plan: of the write, which says the snapshot.
        overwrite: what is replaced; its keys do not count. None appends.
        parallelism: how many tasks can run at once.
    """
    table = plan.table
    snapshot = plan.snapshot.find(table.snapshots)
    if snapshot is None:
        return []
    left_out = None
    if overwrite is not None:
        specs = [*([overwrite.partition] if overwrite.partition else ()), *overwrite.partitions]
        scope = PartitionScope(table, specs, exactly=overwrite.exactly, condition=overwrite.condition)
        left_out = scope.contains
    return plan_key_locations(table, snapshot, left_out=left_out, parallelism=parallelism)


def with_named_partitions(
    plan: WritePlan, overwrite: OverwriteSpec, found: Callable[[], frozenset[bytes]]
) -> OverwriteSpec:
    """The overwrite with its partitions by name: rows that keys leave behind belong to no partition in the data.

    Args:
        plan: of the write.
        overwrite: what is replaced.
        found: gives the partitions of the rows; asked only where they say what is replaced.
    """
    outside = OutsideChanges.DELETES if key_rule(plan.table.schema) is KeyRule.DELETE_OLD else OutsideChanges.ROWS
    if overwrite.kind is not OverwriteMode.DYNAMIC:
        return replace(overwrite, outside=outside)
    return OverwriteSpec(OverwriteMode.STATIC, exactly=found(), outside=outside)


def bucket_plan(
    plan: WritePlan,
    splits: Sequence[DataSplit],
    count: Callable[[Sequence[DataSplit]], Iterable[tuple[bytes, int, int]]],
) -> DynamicBucketPlan:
    """How many keys each bucket has: as its files say, or counted where they do not say whether it is full.

    Args:
        plan: of the write.
        splits: the files of the keys.
        count: reads the keys of some of them; gives partition, bucket and number, each as often as it likes.
    """
    options = plan.table.options
    target = int(options.value("dynamic-bucket.target-row-num"))
    counts, exact = numbers_of_keys(splits)
    unclear = [
        split
        for split in splits
        if (split.partition, split.bucket) not in exact and 2 * counts[split.partition, split.bucket] >= target
    ]
    if unclear:
        counts |= dict.fromkeys(((split.partition, split.bucket) for split in unclear), 0)
        for partition, bucket, rows in count(unclear):
            counts[partition, bucket] += rows
    known: dict[bytes, list[KnownBucket]] = {}
    for (partition, bucket), rows in sorted(counts.items()):
        known.setdefault(partition, []).append(KnownBucket(bucket, "", rows))
    return DynamicBucketPlan(
        known={partition: tuple(buckets) for partition, buckets in known.items()},
        target_rows=target,
        max_buckets=-1,
        assigners=max(1, int(options.value("dynamic-bucket.assigner-parallelism") or 1)),
        keys_apart=True,
        log=assignment_log(plan.table),
    )
