"""Buckets of new keys, said before the shuffle: one pass assigns the keys, each bucket then has one task.

As Java's dynamic bucket sink does it: assigners first, a shuffle by (partition, bucket), then writers. A location is
one BIGINT: the bucket in the high 32 bits, the key's hash in the low ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.hashing import decode_hash_index, key_hashes
from paimon_spark.write.bucket_filling import (
    DynamicBucketPlan,
    Hashes,
    KnownBucket,
    StoredAssignmentLog,
    distinct,
    record_name,
)
from paimon_spark.write.dynamic_bucket import DynamicBuckets
from paimon_spark.write.plan import WritePlan
from paimon_spark.write.routing import bucket_tasks, partition_groups, positions_of, whole

LOCATION = "_PAIMON_LOCATION"
"""The column of locations in the batches of an assigned write, behind all others."""

_COMPACT_AT = 1 << 22
Locations = npt.NDArray[np.int64]
Tasks = npt.NDArray[np.int32]


class BucketAssignment:
    """Assigns the keys of one task, a chunk of rows after the other."""

    def __init__(self, plan: WritePlan, task_id: int) -> None:
        """Know no key yet."""
        dynamic, table = plan.dynamic, plan.table
        assert dynamic is not None
        schema = table.schema
        log = None if dynamic.log is None else StoredAssignmentLog(table.file_io, table.paths, dynamic.log)
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._key_fields = [schema.field(name) for name in schema.trimmed_primary_keys]
        self._buckets = DynamicBuckets(dynamic, hash_loader(plan), log, task_id)
        self._ranges = plan.key_ranges

    def assign(self, rows: pa.Table, num_tasks: int) -> tuple[Locations, Tasks]:
        """Assign the keys of rows, at least one.

        Args:
            rows: columns of the table in the table's types, at least those of the primary key.
            num_tasks: number of tasks of the write.

        Returns:
            The location of each row and the task that its bucket has (`routing.bucket_tasks`), both of shape (rows,).

        Raises:
            OptionError: all buckets are full and no id is left.
        """
        hashes = key_hashes([whole(rows, f.name) for f in self._key_fields], [f.type for f in self._key_fields])
        codes, partitions = partition_groups(rows, self._partition_fields)
        buckets = np.empty(len(hashes), dtype=np.int64)
        if codes is None:
            (found,) = self._buckets.assign([(partitions[0], hashes)])
            buckets[:] = found
        else:
            positions = positions_of(codes, len(partitions))
            groups = [(partition, hashes[chosen]) for partition, chosen in zip(partitions, positions, strict=True)]
            buckets[np.concatenate(positions)] = np.concatenate(self._buckets.assign(groups))
        numbers = buckets if self._ranges is None else self._ranges.numbered(buckets, rows, codes, partitions)
        tasks = bucket_tasks(codes, partitions, numbers, num_tasks)
        return buckets << 32 | hashes.view(np.uint32), tasks


def hash_loader(plan: WritePlan) -> Callable[[KnownBucket], Hashes]:
    """What reads the hash index file of a bucket."""
    table = plan.table

    def load(known: KnownBucket) -> Hashes:
        return decode_hash_index(table.file_io.read_bytes(known.path), path=known.path)

    return load


def assignment_records(plan: WritePlan) -> tuple[str, int] | None:
    """The assignment log of a write, and its number of records; the commit deletes them. Runs on the driver."""
    log = None if plan.dynamic is None or not plan.assigned else plan.dynamic.log
    if log is None:
        return None
    there = plan.table.file_io.exists
    paths = plan.table.paths
    low, high = -1, 0  # record `low` is there, `high` is not, once found
    while there(paths.index_path(record_name(log, high))):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if there(paths.index_path(record_name(log, middle))) else (low, middle)
    return (log, high) if high else None


class AssignedKeys:
    """The keys that one task of an assigned write meets: which of them the hash index does not have yet."""

    def __init__(self, plan: DynamicBucketPlan, load: Callable[[KnownBucket], Hashes]) -> None:
        self._known = plan.known
        self._load = load
        self._locations: dict[bytes, list[Locations]] = {}
        self._counts: dict[bytes, int] = {}

    def note(self, partition: bytes, locations: Locations) -> None:
        """Take the positions of rows of a partition."""
        parts = self._locations.setdefault(partition, [])
        parts.append(locations)
        self._counts[partition] = count = self._counts.get(partition, 0) + len(locations)
        if count > _COMPACT_AT:
            merged = distinct(np.concatenate(parts))
            self._locations[partition] = [merged]
            self._counts[partition] = len(merged) // 2  # so that the next turn comes after as many rows

    def new_hashes(self) -> dict[tuple[bytes, int], Hashes]:
        """Hashes that the planned snapshot did not know, by (partition, bucket), each sorted and distinct."""
        found: dict[tuple[bytes, int], Hashes] = {}
        for partition, parts in self._locations.items():
            locations = distinct(np.concatenate(parts))
            buckets = (locations >> 32).astype(np.int64)
            borders = np.flatnonzero(np.diff(buckets)) + 1
            known = {bucket.bucket: bucket for bucket in self._known.get(partition, ())}
            for part in np.split(locations, borders):
                bucket = int(part[0] >> 32)
                hashes = np.sort((part & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
                if bucket in known:
                    hashes = np.setdiff1d(hashes, self._load(known[bucket]), assume_unique=True)
                if len(hashes):
                    found[partition, bucket] = hashes
        return found
