"""Buckets of new keys of cross-partition updates: buckets are filled one after the other.

Java: ``crosspartition.BucketAssigner``. There is no index file: which keys there are, and where, the write has read
before. All rows of one key come to one task. Tasks fill the same buckets, in the order of the write's assignment log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paimon_spark.write.bucket_assignment_log import AssignmentLog, AssignmentRecord, Assignments
from paimon_spark.write.bucket_filling import DynamicBucketPlan, candidate_buckets, fill
from paimon_spark.write.dynamic_bucket import LOG_RECORDS
from paimon_spark.write.hash_runs import Buckets


@dataclass(slots=True)
class _Partition:
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
        self._partitions: dict[bytes, _Partition] = {}
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

    def _partition(self, partition: bytes) -> _Partition:
        state = self._partitions.get(partition)
        if state is None:
            known = self._plan.known.get(partition, ())
            state = self._partitions[partition] = _Partition({k.bucket: k.rows for k in known})
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
