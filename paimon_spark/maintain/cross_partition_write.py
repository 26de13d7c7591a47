"""What a write whose keys may be in other partitions looks at, and what it replaces. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.commit.overwrite import OutsideChanges, OverwriteSpec, PartitionScope
from paimon_spark.read.key_lookup import numbers_of_keys, plan_key_locations
from paimon_spark.write.bucket_filling import DynamicBucketPlan, KnownBucket
from paimon_spark.write.cross_partition_update import KeyRule, key_rule
from paimon_spark.write.plan import OverwriteMode, assignment_log

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.write.plan import WritePlan


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
