"""Buckets of keys in tables with dynamic buckets: a known key stays where it is, new keys fill bucket after bucket.

Assignment is Java's (``PartitionIndex.assign``): a new key goes to the first bucket that is not full; when all are full
a new bucket is made. Java gives a residue class of hashes to each assigner; here all tasks fill the same buckets, in
the order of the write's assignment log, so that buckets are full whatever the number of tasks. The assigners that
``dynamic-bucket.initial-buckets`` or ``dynamic-bucket.assigner-parallelism`` asks for are kept: each has buckets and
hashes of its own.

Two tasks, or two attempts of one, never assign a key differently:

- where tasks may have rows of one hash, records of the log say the hashes themselves, and whoever meets a hash that is
  assigned follows;
- where all rows of one hash come to one task, records say how many keys each bucket got, and an attempt takes over the
  rows of buckets that an earlier one of its task has reserved;
- where the log is full (`LOG_RECORDS`, `LOG_HASHES`), or the store can create no file exclusively, a new key's bucket
  is a pure function of its hash and of what the log, or the planned snapshot, says.

Hashes are those of the trimmed primary key (docs/internals/format.md §5), int32.

New keys of cross-partition updates have no index: buckets are filled one after the other.

Java: ``crosspartition.BucketAssigner``. Which keys there are, and where, the write has read
before. All rows of one key come to one task. Tasks fill the same buckets, in the order of the write's assignment log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paimon_spark.write.bucket_filling import (
    AssignmentLog,
    AssignmentRecord,
    Assignments,
    Buckets,
    DynamicBucketPlan,
    Hashes,
    HashRuns,
    KnownBucket,
    candidate_buckets,
    distinct_hashes,
    fill,
)

LOG_RECORDS = 1024
"""Records of a log; after them assigning is a function of the hash, as each task reads them all."""
LOG_HASHES = 32 << 20
"""Key hashes of a log, 8 bytes of memory each in every task that reads them."""


@dataclass(frozen=True, slots=True)
class _RecordedAssignment:
    """What a record says of one partition, whether it is counts, and whether this task wrote it."""

    assigned: Assignments
    counts: bool
    own_task: bool


@dataclass(slots=True)
class _Partition:
    """One partition in one task."""

    counts: dict[int, int]
    """Keys of each bucket: of the planned snapshot and of all records."""
    index: HashRuns
    """Keys of the planned snapshot."""
    own: HashRuns = field(default_factory=HashRuns)
    """New keys that this task has met."""
    others: HashRuns = field(default_factory=HashRuns)
    """New keys that other tasks have assigned."""
    reserved: dict[int, int] = field(default_factory=dict)
    """Rows of buckets that an earlier attempt of this task has reserved."""

    def take(self, records: Sequence[_RecordedAssignment]) -> None:
        """Take over what records say that this attempt did not write."""
        for assigned, own_task in ((r.assigned, r.own_task) for r in records if r.counts):
            for bucket, number in zip(assigned.buckets.tolist(), assigned.numbers.tolist(), strict=True):
                self.counts[bucket] = self.counts.get(bucket, 0) + number
                if own_task:
                    self.reserved[bucket] = self.reserved.get(bucket, 0) + number
        keys = [r.assigned for r in records if not r.counts]
        if keys:
            buckets = np.concatenate([k.buckets for k in keys])
            self.others.add(np.concatenate([k.numbers for k in keys]), buckets)
            self.count(buckets)

    def count(self, buckets: npt.NDArray[np.integer]) -> None:
        """Count keys that were assigned."""
        numbers = np.bincount(buckets)
        for bucket in np.flatnonzero(numbers).tolist():
            self.counts[bucket] = self.counts.get(bucket, 0) + int(numbers[bucket])


@dataclass(slots=True)
class _NewKeys:
    """Distinct hashes of one partition that must get a bucket, in the order of their arrival."""

    partition: bytes
    state: _Partition
    hashes: Hashes
    buckets: Buckets
    """-1 where none is known yet."""


class DynamicBuckets:
    """The buckets of all partitions in one task."""

    def __init__(
        self,
        plan: DynamicBucketPlan,
        load: Callable[[KnownBucket], Hashes],
        log: AssignmentLog | None = None,
        task_id: int = 0,
    ) -> None:
        """Remember how to read index files.

        Args:
            plan: made on the driver.
            load: reads the hash index file of a bucket; called once per bucket of each partition that rows go to.
            log: of this write; None where there is none.
            task_id: the same for all attempts of a task.
        """
        self._plan = plan
        self._load = load
        self._log = log
        self._task_id = task_id
        self._partitions: dict[bytes, _Partition] = {}
        self._unseen: dict[bytes, list[_RecordedAssignment]] = {}
        self._logged_hashes = 0
        self.records = 0
        """Records of the log that this task knows."""

    def assign(self, groups: Sequence[tuple[bytes, Hashes]]) -> list[Buckets]:
        """The bucket of each row of several partitions.

        Args:
            groups: partition bytes and the key hash of each row, in the order of arrival, shape (rows,).

        Returns:
            Bucket ids of each group, shape (rows,).

        Raises:
            OptionError: all buckets are full and no id is left.
        """
        found: list[tuple[Buckets, npt.NDArray[np.int64]]] = []
        new: list[tuple[Buckets, npt.NDArray[np.int64], _NewKeys]] = []
        for partition, hashes in groups:
            state = self._partition(partition)
            distinct, first, inverse = distinct_hashes(hashes)
            buckets = _known(distinct, state.index, state.own)
            found.append((buckets, inverse))
            unknown = np.flatnonzero(buckets < 0)
            if len(unknown):
                buckets[unknown] = state.others.find(distinct[unknown])
                arrives = np.zeros(len(hashes), dtype=np.bool_)
                arrives[first[unknown]] = True
                at = inverse[arrives]
                new.append((buckets, at, _NewKeys(partition, state, distinct[at], buckets[at])))
        self._assign([keys for *_, keys in new])
        for buckets, at, keys in new:
            buckets[at] = keys.buckets
            keys.state.own.add(keys.hashes, keys.buckets)
        return [buckets[inverse] for buckets, inverse in found]

    def _partition(self, partition: bytes) -> _Partition:
        state = self._partitions.get(partition)
        if state is None:
            known = self._plan.known.get(partition, ())
            state = _Partition({k.bucket: k.rows for k in known}, _load_index(known, self._load))
            state.take(self._unseen.pop(partition, ()))
            self._partitions[partition] = state
        return state

    def _assign(self, keys: list[_NewKeys]) -> None:
        """Assign what is unknown, all partitions in one record."""
        while True:
            open_keys = [k for k in keys if np.any(k.buckets < 0)]
            if not open_keys:
                return
            if self._log is None or self._is_full:
                for k in open_keys:
                    unknown = k.buckets < 0
                    ids = candidate_buckets(k.state.counts, self._plan, more_to_come=self._log is not None)
                    k.buckets[unknown] = ids[k.hashes[unknown].view(np.uint32) % np.uint32(len(ids))]
                return
            if self._assign_in_order(self._log, open_keys):
                return
            self._follow(self._log)
            for k in open_keys:
                open_ones = np.flatnonzero(k.buckets < 0)
                k.buckets[open_ones] = k.state.others.find(k.hashes[open_ones])

    @property
    def _is_full(self) -> bool:
        return self.records >= LOG_RECORDS or self._logged_hashes >= LOG_HASHES

    def _assign_in_order(self, log: AssignmentLog, keys: list[_NewKeys]) -> bool:
        """Assign keys after all records known here; False when there are others, and nothing is changed then."""
        assigned = []
        sections = []
        for k in keys:
            unknown = np.flatnonzero(k.buckets < 0)
            reserved = dict(k.state.reserved)
            buckets, newly = fill(self._plan, k.partition, k.state.counts, reserved, k.hashes[unknown])
            assigned.append((unknown, buckets, newly, reserved))
            section = _section(k.partition, k.hashes[unknown], buckets, newly, counts=self._plan.keys_apart)
            if len(section.numbers):
                sections.append(section)
        record = AssignmentRecord(self._task_id, self._plan.keys_apart, tuple(sections))
        if sections:
            if not log.append(self.records, record):
                return False
            self._count_record(record)
        for k, (unknown, buckets, newly, reserved) in zip(keys, assigned, strict=True):
            k.buckets[unknown] = buckets
            k.state.reserved = reserved
            k.state.count(buckets[newly])
        return True

    def _count_record(self, record: AssignmentRecord) -> None:
        self.records += 1
        if not record.counts:
            self._logged_hashes += sum(len(section.numbers) for section in record.sections)

    def _follow(self, log: AssignmentLog) -> None:
        """Read all records that are new here."""
        while not self._is_full and (record := log.read(self.records)) is not None:
            self._count_record(record)
            for section in record.sections:
                recorded = _RecordedAssignment(section, record.counts, record.task == self._task_id)
                self._unseen.setdefault(section.partition, []).append(recorded)
        for partition in self._unseen.keys() & self._partitions.keys():
            self._partitions[partition].take(self._unseen.pop(partition))

    def new_hashes(self) -> dict[tuple[bytes, int], Hashes]:
        """Hashes that the planned snapshot did not know, by (partition, bucket), each sorted and distinct."""
        return {
            (partition, bucket): hashes
            for partition, state in self._partitions.items()
            for bucket, hashes in state.own.by_bucket().items()
        }


def _known(hashes: Hashes, index: HashRuns, own: HashRuns) -> Buckets:
    """The bucket of each row's hash, -1 where it is new."""
    buckets = index.find(hashes)
    if len(own):
        unknown = np.flatnonzero(buckets < 0)
        buckets[unknown] = own.find(hashes[unknown])
    return buckets


def _section(
    partition: bytes, hashes: Hashes, buckets: Buckets, newly: npt.NDArray[np.bool_], *, counts: bool
) -> Assignments:
    """The section of a record about the keys of a partition."""
    if not counts:
        return Assignments(partition, hashes, buckets.astype(np.int16))
    numbers = np.bincount(buckets[newly])
    ids = np.flatnonzero(numbers)
    return Assignments(partition, numbers[ids].astype(np.int32), ids.astype(np.int16))


def _load_index(known: Sequence[KnownBucket], load: Callable[[KnownBucket], Hashes]) -> HashRuns:
    runs = HashRuns()
    parts = [load(k) for k in known]
    if parts:
        ids = np.repeat(np.array([k.bucket for k in known], dtype=np.int16), [len(p) for p in parts])
        runs.add(np.concatenate(parts), ids)
    return runs


@dataclass(slots=True)
class _OfPartition:
    counts: dict[int, int]
    """Keys of each bucket: of the planned snapshot and of all records."""
    reserved: dict[int, int] = field(default_factory=dict)
    """Rows of buckets that an earlier attempt of this task has reserved."""

    def add(self, numbers: Mapping[int, int], *, reserve: bool) -> None:
        for bucket, number in numbers.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + number
            if reserve:
                self.reserved[bucket] = self.reserved.get(bucket, 0) + number


class NewKeys:
    """Assigns new keys in one task."""

    def __init__(self, plan: DynamicBucketPlan, log: AssignmentLog | None, task_id: int) -> None:
        """Know nothing of other tasks yet.

        Args:
            plan: with the number of keys of each bucket.
            log: of this write; None where there is none.
            task_id: the same for all attempts of a task.
        """
        self._plan = plan
        self._log = log
        self._task_id = task_id
        self._partitions: dict[bytes, _OfPartition] = {}
        self._records = 0

    def assign(self, groups: Sequence[tuple[bytes, int]]) -> list[Buckets]:
        """The buckets of new keys.

        Args:
            groups: partition bytes and a number of new keys, each partition once.

        Returns:
            Of each group the buckets of its keys, shape (keys,).

        Raises:
            OptionError: all buckets are full and no id is left.
        """
        while self._log is not None and self._records < LOG_RECORDS:
            assigned = self._assign_next(self._log, groups)
            if assigned is not None:
                return assigned
            self._follow(self._log)
        found = []
        for partition, number in groups:
            ids = candidate_buckets(self._partition(partition).counts, self._plan, more_to_come=self._log is not None)
            found.append(np.resize(ids, number))
        return found

    def _partition(self, partition: bytes) -> _OfPartition:
        state = self._partitions.get(partition)
        if state is None:
            known = self._plan.known.get(partition, ())
            state = self._partitions[partition] = _OfPartition({k.bucket: k.rows for k in known})
        return state

    def _assign_next(self, log: AssignmentLog, groups: Sequence[tuple[bytes, int]]) -> list[Buckets] | None:
        """Assign keys after all records known here; None when there are others, and nothing is changed then."""
        assigned, sections = [], []
        for partition, number in groups:
            state = self._partition(partition)
            reserved = dict(state.reserved)
            first = sum(state.counts.values()) % self._plan.assigners  # so that each assigner gets as many keys
            keys = np.arange(first, first + number, dtype=np.int32)
            buckets, newly = fill(self._plan, partition, state.counts, reserved, keys)
            numbers = np.bincount(buckets[newly]) if newly.any() else np.zeros(0, dtype=np.int64)
            ids = np.flatnonzero(numbers)
            assigned.append((state, buckets, reserved, dict(zip(ids.tolist(), numbers[ids].tolist(), strict=True))))
            if len(ids):
                sections.append(Assignments(partition, numbers[ids].astype(np.int32), ids.astype(np.int16)))
        if sections:
            if not log.append(self._records, AssignmentRecord(self._task_id, True, tuple(sections))):
                return None
            self._records += 1
        for state, _, reserved, numbers_of in assigned:
            state.reserved = reserved
            state.add(numbers_of, reserve=False)
        return [buckets for _, buckets, *_ in assigned]

    def _follow(self, log: AssignmentLog) -> None:
        """Read all records that are new here."""
        while self._records < LOG_RECORDS and (record := log.read(self._records)) is not None:
            self._records += 1
            for section in record.sections:
                numbers = dict(zip(section.buckets.tolist(), section.numbers.tolist(), strict=True))
                self._partition(section.partition).add(numbers, reserve=record.task == self._task_id)
