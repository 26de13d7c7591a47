"""Which buckets new keys fill: the first one that is not full, then a new one (Java: ``PartitionIndex.assign``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import OptionError
from paimon_spark.spec.binary_row_encoder import BinaryRows
from paimon_spark.spec.hashing import murmur_hash_rows
from paimon_spark.write.hash_runs import Buckets, Hashes

MAX_BUCKETS = 32_767
"""Buckets of a partition when ``dynamic-bucket.max-buckets`` is -1 (Java: ``Short.MAX_VALUE``)."""


@dataclass(frozen=True, slots=True)
class KnownBucket:
    """A bucket that has a hash index file in the planned snapshot."""

    bucket: int
    path: str
    """Of the file."""
    rows: int
    """Number of key hashes in the file."""


@dataclass(frozen=True, slots=True)
class DynamicBucketPlan:
    """What tasks must know to assign keys; made on the driver."""

    known: Mapping[bytes, tuple[KnownBucket, ...]]
    """Buckets by partition bytes, ascending; empty for an overwrite."""
    target_rows: int
    max_buckets: int
    """-1 for no limit of the table's."""
    assigners: int = 1
    """Residue classes of hashes, each with buckets of its own."""
    keys_apart: bool = False
    """Whether all rows of one key hash come to one task."""
    log: str | None = None
    """Name of the write's assignment log; None where the store can create no file exclusively."""

    @property
    def bucket_limit(self) -> int:
        """Bucket ids of a partition are below this."""
        return MAX_BUCKETS if self.max_buckets == -1 else self.max_buckets


def residue_classes(partition: bytes, hashes: npt.NDArray[np.integer], assigners: int) -> npt.NDArray[np.int32]:
    """The assigner of each key (Java: ``BucketAssigner.computeAssigner`` with as many channels as assigners).

    Args:
        partition: partition bytes.
        hashes: shape (rows,).
        assigners: number of assigners, at least 1.

    Returns:
        Values from 0 to ``assigners`` - 1, shape (rows,).
    """
    start = abs(int(np.fmod(_row_hash(partition), assigners)))
    own = np.abs(np.fmod(hashes.astype(np.int64), assigners))
    return ((start + own) % assigners).astype(np.int32)


def _row_hash(serialized: bytes) -> int:
    data = np.frombuffer(serialized, dtype=np.uint8)[4:]
    offsets = np.array([0, len(data)], dtype=np.int64)
    return int(murmur_hash_rows(BinaryRows(data, offsets, int.from_bytes(serialized[:4], "big")))[0])


def candidate_buckets(counts: Mapping[int, int], plan: DynamicBucketPlan, *, more_to_come: bool) -> Buckets:
    """Buckets that take new keys where assigning is a function of the hash.

    Args:
        counts: keys of each bucket, as all tasks know them.
        plan: target, limits.
        more_to_come: add as many new buckets as there are, though some are not full.

    Returns:
        Bucket ids, ascending, at least one. A new key goes to ``ids[unsigned hash % len(ids)]``.

    Raises:
        OptionError: all buckets are full and no id is left.
    """
    found = [b for b in sorted(counts) if counts[b] < plan.target_rows]
    new = max(plan.assigners, len(counts)) if more_to_come or not found else 0
    if new:
        taken = [b for b in counts if b < plan.bucket_limit]
        found = sorted([*found, *np.delete(np.arange(plan.bucket_limit), taken)[:new].tolist()])
    if not found:
        if plan.max_buckets == -1:
            raise _too_many_buckets(plan)
        found = sorted(counts)
    return np.array(found, dtype=np.int32)


def _too_many_buckets(plan: DynamicBucketPlan) -> OptionError:
    return OptionError(
        f"Too many buckets ({plan.bucket_limit - 1}), you should increase the target bucket row number "
        f"{plan.target_rows} (option dynamic-bucket.target-row-num)."
    )


def fill(
    plan: DynamicBucketPlan, partition: bytes, counts: Mapping[int, int], reserved: dict[int, int], hashes: Hashes
) -> tuple[Buckets, npt.NDArray[np.bool_]]:
    """Fill bucket after bucket.

    Args:
        plan: target, limits, assigners.
        partition: partition bytes.
        counts: keys of each bucket.
        reserved: rows of buckets to be filled first, which `counts` holds already; what is taken goes.
        hashes: distinct new hashes, in the order of their arrival, shape (keys,).

    Returns:
        The bucket of each key, and whether it fills one that was not reserved, both of shape (keys,).

    Raises:
        OptionError: all buckets are full and no id is left.
    """
    assigners = plan.assigners
    if assigners == 1:
        return _fill_class(plan, 0, counts, reserved, hashes)
    classes = residue_classes(partition, hashes, assigners)
    buckets = np.empty(len(hashes), dtype=np.int32)
    newly = np.ones(len(hashes), dtype=np.bool_)
    for assigner in np.flatnonzero(np.bincount(classes)).tolist():
        mine = classes == assigner
        buckets[mine], newly[mine] = _fill_class(plan, assigner, counts, reserved, hashes[mine])
    return buckets, newly


def _fill_class(
    plan: DynamicBucketPlan, assigner: int, counts: Mapping[int, int], reserved: dict[int, int], hashes: Hashes
) -> tuple[Buckets, npt.NDArray[np.bool_]]:
    buckets = np.empty(len(hashes), dtype=np.int32)
    newly = np.ones(len(hashes), dtype=np.bool_)
    done = 0
    for bucket in [b for b in sorted(reserved) if b % plan.assigners == assigner]:
        number = min(reserved[bucket], len(hashes) - done)
        buckets[done : done + number] = bucket
        newly[done : done + number] = False
        reserved[bucket] -= number
        if not reserved[bucket]:
            del reserved[bucket]
        done += number
    for bucket, room in _free_slots(plan, assigner, counts) if done < len(hashes) else ():
        number = min(room, len(hashes) - done)
        buckets[done : done + number] = bucket
        done += number
        if done == len(hashes):
            break
    if done < len(hashes):  # Java: picks a bucket at random; the hash decides here
        if plan.max_buckets == -1:
            raise _too_many_buckets(plan)
        own = [b for b in range(plan.bucket_limit) if b % plan.assigners == assigner]
        ids = np.array(own or sorted(counts), dtype=np.int32)
        buckets[done:] = ids[hashes[done:].view(np.uint32) % np.uint32(len(ids))]
    return buckets, newly


def _free_slots(plan: DynamicBucketPlan, assigner: int, counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Buckets of an assigner that take keys, and how many: those not full, then new ones."""
    for bucket in sorted(counts):
        if bucket % plan.assigners == assigner and counts[bucket] < plan.target_rows:
            yield bucket, plan.target_rows - counts[bucket]
    for bucket in range(assigner, plan.bucket_limit, plan.assigners):
        if bucket not in counts:
            yield bucket, plan.target_rows
