"""Buckets of keys in tables with dynamic buckets: a known key stays where it is, a new key goes where the plan says.

Two ways, chosen by the plan:

- tasks share buckets (plain data source): a new key's bucket is a pure function of its hash and of what was known when
  the write was planned, so that two tasks, or two attempts of one, can never place a key differently;
- rows were shuffled so that one task sees all hashes of a residue class: Java's ``HashBucketAssigner`` and
  ``PartitionIndex``, which fill one bucket after the other.

Hashes are those of the trimmed primary key (format.md §5), int32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import OptionError
from paimon_spark.spec.binary_row import BinaryRows
from paimon_spark.spec.hashing import murmur_hash_rows
from paimon_spark.write.hash_runs import HashRuns

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int32]

_COMPACT_HASHES = 8 << 20  # 32 MB of hashes are kept with repetitions before they are made distinct

MAX_BUCKETS = 32_767
"""Buckets of a partition when ``dynamic-bucket.max-buckets`` is -1 (Java: ``Short.MAX_VALUE``)."""


@dataclass(frozen=True, slots=True)
class KnownBucket:
    """A bucket that has a hash index file in the planned snapshot."""

    bucket: int
    file_name: str
    rows: int
    """Number of key hashes in the file."""


@dataclass(frozen=True, slots=True)
class DynamicBucketPlan:
    """What tasks must know to place keys; made on the driver."""

    known: Mapping[bytes, tuple[KnownBucket, ...]]
    """Buckets by partition bytes, ascending; empty for an overwrite."""
    target_rows: int
    max_buckets: int
    """-1 for no limit of the table's."""
    initial_buckets: int
    assigners: int | None
    """Number of residue classes of a shuffled write; None when tasks share buckets."""
    expected_rows: Mapping[bytes, int] | int | None = None

    def expected(self, partition: bytes) -> int | None:
        """Rows to come for a partition, None when nobody knows."""
        if isinstance(self.expected_rows, int) or self.expected_rows is None:
            return self.expected_rows
        return self.expected_rows.get(partition)

    @property
    def bucket_limit(self) -> int:
        """Bucket ids of a partition are below this."""
        return MAX_BUCKETS if self.max_buckets == -1 else self.max_buckets


def residue_classes(partition: bytes, hashes: Hashes, assigners: int) -> npt.NDArray[np.int32]:
    """The assigner of each key (Java: ``BucketAssigner.computeAssigner`` with as many channels as assigners).

    Args:
        partition: partition bytes.
        hashes: shape (rows,).
        assigners: number of assigners, at least 1.

    Returns:
        Values from 0 to ``assigners`` - 1, shape (rows,). All rows of one value and partition belong to one task.
    """
    start = abs(int(np.fmod(_row_hash(partition), assigners)))
    own = np.abs(np.fmod(hashes.astype(np.int64), assigners))
    return ((start + own) % assigners).astype(np.int32)


def _row_hash(serialized: bytes) -> int:
    data = np.frombuffer(serialized, dtype=np.uint8)[4:]
    offsets = np.array([0, len(data)], dtype=np.int64)
    return int(murmur_hash_rows(BinaryRows(data, offsets, int.from_bytes(serialized[:4], "big")))[0])


def candidate_buckets(counts: Mapping[int, int], plan: DynamicBucketPlan, expected: int | None) -> Buckets:
    """Buckets that take new keys of a partition when tasks share buckets: a pure function of the plan.

    Args:
        counts: rows of each bucket in the planned snapshot.
        plan: target, limits.
        expected: rows to come, None when unknown.

    Returns:
        Bucket ids, ascending, at least one. A new key goes to ``ids[unsigned hash % len(ids)]``.

    Raises:
        OptionError: all buckets are full and no id is left.
    """
    open_buckets = [b for b in sorted(counts) if counts[b] < plan.target_rows]
    if expected is not None:
        room = sum(plan.target_rows - counts[b] for b in open_buckets)
        new = -(-max(0, expected - room) // plan.target_rows)
        if not counts:
            new = max(new, plan.initial_buckets)
        elif not open_buckets:
            new = max(new, 1)
    elif open_buckets:
        new = 0
    else:
        new = len(counts) if counts else plan.initial_buckets
    ids = np.arange(plan.bucket_limit)
    taken = [b for b in counts if b < plan.bucket_limit]
    free = np.delete(ids, taken)[:new]
    found = sorted([*open_buckets, *free.tolist()])
    if not found:
        if plan.max_buckets == -1:
            raise _too_many_buckets(plan)
        found = sorted(counts)
    return np.array(found, dtype=np.int32)


def _too_many_buckets(plan: DynamicBucketPlan) -> OptionError:
    return OptionError(
        f"Too more bucket {plan.bucket_limit - 1}, you should increase target bucket row number {plan.target_rows} "
        f"(option dynamic-bucket.target-row-num)."
    )


class _FillingAssigner:
    """One assigner of one partition, shuffled: fills bucket after bucket (Java: ``PartitionIndex.assign``)."""

    def __init__(self, plan: DynamicBucketPlan, counts: Mapping[int, int], assigner: int, assigners: int) -> None:
        self._plan = plan
        self._own = [b for b in sorted(counts) if b % assigners == assigner]
        self._open = [(b, plan.target_rows - counts[b]) for b in self._own if counts[b] < plan.target_rows]
        taken = set(counts)
        self._free = iter(b for b in range(assigner, plan.bucket_limit, assigners) if b not in taken)
        self._all = sorted(counts)

    def place(self, hashes: Hashes) -> Buckets:
        """Place distinct new hashes, in the order of their arrival."""
        buckets = np.empty(len(hashes), dtype=np.int32)
        done = 0
        while done < len(hashes):
            if not self._open and not self._open_new_bucket():
                buckets[done:] = self._beyond_limit(hashes[done:])
                return buckets
            bucket, room = self._open[0]
            count = min(room, len(hashes) - done)
            buckets[done : done + count] = bucket
            done += count
            if count == room:
                self._open.pop(0)
            else:
                self._open[0] = (bucket, room - count)
        return buckets

    def _open_new_bucket(self) -> bool:
        bucket = next(self._free, None)
        if bucket is None:
            if self._plan.max_buckets == -1:
                raise _too_many_buckets(self._plan)
            return False
        self._own.append(bucket)
        self._open.append((bucket, self._plan.target_rows))
        return True

    def _beyond_limit(self, hashes: Hashes) -> Buckets:
        # Java: picks one of its own buckets at random; the hash decides here, so that a retry places alike
        ids = np.array(self._own or self._all or range(self._plan.bucket_limit), dtype=np.int32)
        return ids[hashes.view(np.uint32) % len(ids)]


class _SharedPartition:
    """The keys of one partition in one of several tasks that share its buckets."""

    def __init__(self, plan: DynamicBucketPlan, partition: bytes, load: Callable[[KnownBucket], Hashes]) -> None:
        known = plan.known.get(partition, ())
        self._index = _load_index(known, load)
        self._plan = plan
        self._partition = partition
        self._ids: Buckets | None = None
        self._new: list[Hashes] = []
        self._new_count = 0
        self._compacted_count = 0

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each row, shape (rows,)."""
        if not len(self._index):
            self._note(hashes)
            return self._place(hashes)
        buckets = self._index.find(hashes).astype(np.int32)
        unknown = np.flatnonzero(buckets < 0)
        if len(unknown):
            new = hashes[unknown]
            self._note(new)
            buckets[unknown] = self._place(new)
        return buckets

    def _place(self, hashes: Hashes) -> Buckets:
        if self._ids is None:
            counts = {k.bucket: k.rows for k in self._plan.known.get(self._partition, ())}
            self._ids = candidate_buckets(counts, self._plan, self._plan.expected(self._partition))
        if len(self._ids) == 1:
            return np.full(len(hashes), self._ids[0])
        buckets: Buckets = self._ids[hashes.view(np.uint32) % np.uint32(len(self._ids))]
        return buckets

    def _note(self, hashes: Hashes) -> None:
        self._new.append(hashes)
        self._new_count += len(hashes)
        if self._new_count > max(_COMPACT_HASHES, 2 * self._compacted_count):
            self._new = [_distinct(np.concatenate(self._new))]
            self._new_count = self._compacted_count = len(self._new[0])

    def new_hashes(self) -> dict[int, Hashes]:
        """The hashes that the index did not know, by bucket, each sorted and distinct."""
        if not self._new:
            return {}
        hashes = _distinct(np.concatenate(self._new))
        return _by_bucket(hashes, self._place(hashes))


class _ShuffledPartition:
    """The keys of one partition in the only task that sees their residue classes."""

    def __init__(self, plan: DynamicBucketPlan, partition: bytes, load: Callable[[KnownBucket], Hashes]) -> None:
        self._plan = plan
        self._partition = partition
        known = plan.known.get(partition, ())
        self._counts = {k.bucket: k.rows for k in known}
        self._placed = _load_index(known, load)
        self._assigners: dict[int, _FillingAssigner] = {}
        self._new: list[tuple[Hashes, Buckets]] = []

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each row, shape (rows,)."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = self._placed.find(distinct).astype(np.int32)
        unknown = np.flatnonzero(buckets < 0)
        if len(unknown):
            arrival = unknown[np.argsort(first[unknown], kind="stable")]
            buckets[arrival] = self._place(distinct[arrival])
            new = distinct[unknown], buckets[unknown]
            self._placed.add(new[0], new[1].astype(np.int16))
            self._new.append(new)
        return buckets[inverse]

    def _place(self, hashes: Hashes) -> Buckets:
        """Place distinct new hashes, in the order of their arrival."""
        assigners = self._plan.assigners or 1
        classes = residue_classes(self._partition, hashes, assigners)
        buckets = np.empty(len(hashes), dtype=np.int32)
        for assigner in np.flatnonzero(np.bincount(classes)).tolist():
            if assigner not in self._assigners:
                self._assigners[assigner] = _FillingAssigner(self._plan, self._counts, assigner, assigners)
            mine = classes == assigner
            buckets[mine] = self._assigners[assigner].place(hashes[mine])
        return buckets

    def new_hashes(self) -> dict[int, Hashes]:
        """The hashes that the index did not know, by bucket, each sorted and distinct."""
        if not self._new:
            return {}
        hashes = np.concatenate([h for h, _ in self._new])
        buckets = np.concatenate([b for _, b in self._new])
        order = np.argsort(hashes, kind="stable")
        return _by_bucket(hashes[order], buckets[order])


def _load_index(known: tuple[KnownBucket, ...], load: Callable[[KnownBucket], Hashes]) -> HashRuns:
    runs = HashRuns()
    parts = [load(k) for k in known]
    if parts:
        ids = np.repeat(np.array([k.bucket for k in known], dtype=np.int16), [len(p) for p in parts])
        runs.add(np.concatenate(parts), ids)
    return runs


def _distinct(hashes: Hashes) -> Hashes:
    """Sorted, each once (numpy's own ``unique`` goes through a hash table, which is many times slower)."""
    hashes = np.sort(hashes)
    keep = np.ones(len(hashes), dtype=np.bool_)
    keep[1:] = hashes[1:] != hashes[:-1]
    return hashes[keep]


def _by_bucket(hashes: Hashes, buckets: Buckets) -> dict[int, Hashes]:
    """Cut sorted hashes by bucket."""
    order = np.argsort(buckets.astype(np.uint16), kind="stable")  # 16 bits: a radix sort
    counts = np.bincount(buckets)
    ids = np.flatnonzero(counts)
    if len(ids) == 1:
        return {int(ids[0]): hashes}
    return dict(zip(ids.tolist(), np.split(hashes[order], np.cumsum(counts[ids])[:-1]), strict=True))


class DynamicBuckets:
    """The buckets of all partitions in one task."""

    def __init__(self, plan: DynamicBucketPlan, load: Callable[[KnownBucket], Hashes]) -> None:
        """Remember how to read index files.

        Args:
            plan: made on the driver.
            load: reads the hash index file of a bucket; called once per bucket of each partition that rows go to.
        """
        self._plan = plan
        self._load = load
        self._partitions: dict[bytes, _SharedPartition | _ShuffledPartition] = {}

    def assign(self, partition: bytes, hashes: Hashes) -> Buckets:
        """The bucket of each row of one partition.

        Args:
            partition: partition bytes.
            hashes: key hash of each row, in the order of arrival, shape (rows,).

        Returns:
            Bucket ids, shape (rows,).

        Raises:
            OptionError: all buckets are full and no id is left.
        """
        found = self._partitions.get(partition)
        if found is None:
            kind = _SharedPartition if self._plan.assigners is None else _ShuffledPartition
            found = self._partitions[partition] = kind(self._plan, partition, self._load)
        return found.assign(hashes)

    def new_hashes(self) -> dict[tuple[bytes, int], Hashes]:
        """New hashes by (partition, bucket), each sorted and distinct."""
        return {
            (partition, bucket): hashes
            for partition, buckets in self._partitions.items()
            for bucket, hashes in buckets.new_hashes().items()
        }
