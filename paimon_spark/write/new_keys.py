"""Buckets of new keys of tables whose keys move between partitions: buckets are filled one after the other.

Java: ``crosspartition.BucketAssigner``. There is no index file: which keys there are, and where, the write has read
before. All rows of one key come to one task. Tasks fill the same buckets, in the order of the write's placement log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.write.bucket_filling import DynamicBucketPlan, candidate_buckets, fill
from paimon_spark.write.dynamic_bucket import LOG_RECORDS
from paimon_spark.write.hash_runs import Buckets
from paimon_spark.write.packed_rows import CHUNK_BYTES, mapping_of, pack_chunk
from paimon_spark.write.placed_keys import PLACE
from paimon_spark.write.placement_log import PlacementLog, PlacementRecord, Placements, StoredPlacementLog
from paimon_spark.write.plan import WritePlan
from paimon_spark.write.routing import Codes, bucket_tasks, partition_groups, positions_of
from paimon_spark.write.task_write import combine_batches

OLD_BUCKET = "_eb"
"""The bucket in which a key is; null where it is new."""
FLAG = "_new"
"""The column that says where the bucket of a row comes from: one of the four below."""
KNOWN, NEW, MOVES, AS_BEFORE = range(4)
"""It is `OLD_BUCKET`; a new one; the key would move, but its table ignores deletes; that of the row before."""


@dataclass(slots=True)
class _Partition:
    counts: dict[int, int]
    """Keys of each bucket: of the planned snapshot and of all records."""
    reserved: dict[int, int] = field(default_factory=dict)
    """Places that an earlier attempt of this task has taken."""

    def add(self, numbers: Mapping[int, int], *, reserve: bool) -> None:
        for bucket, number in numbers.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + number
            if reserve:
                self.reserved[bucket] = self.reserved.get(bucket, 0) + number


class NewKeys:
    """Places new keys in one task."""

    def __init__(self, plan: DynamicBucketPlan, log: PlacementLog | None, task_id: int) -> None:
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

    def place(self, groups: Sequence[tuple[bytes, int]]) -> list[Buckets]:
        """The buckets of new keys.

        Args:
            groups: partition bytes and a number of new keys, each partition once.

        Returns:
            Of each group the buckets of its keys, shape (keys,).

        Raises:
            OptionError: all buckets are full and no id is left.
        """
        while self._log is not None and self._records < LOG_RECORDS:
            placed = self._place_next(self._log, groups)
            if placed is not None:
                return placed
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

    def _place_next(self, log: PlacementLog, groups: Sequence[tuple[bytes, int]]) -> list[Buckets] | None:
        """Place keys after all records known here; None when there are others, and nothing is changed then."""
        placed, sections = [], []
        for partition, number in groups:
            state = self._partition(partition)
            reserved = dict(state.reserved)
            keys = np.arange(number, dtype=np.int32)
            buckets, newly = fill(self._plan, partition, state.counts, reserved, keys)
            numbers = np.bincount(buckets[newly]) if newly.any() else np.zeros(0, dtype=np.int64)
            ids = np.flatnonzero(numbers)
            placed.append((state, buckets, reserved, dict(zip(ids.tolist(), numbers[ids].tolist(), strict=True))))
            if len(ids):
                sections.append(Placements(partition, numbers[ids].astype(np.int32), ids.astype(np.int16)))
        if sections:
            if not log.append(self._records, PlacementRecord(self._task_id, True, tuple(sections))):
                return None
            self._records += 1
        for state, _, reserved, numbers_of in placed:
            state.reserved = reserved
            state.add(numbers_of, reserve=False)
        return [buckets for _, buckets, *_ in placed]

    def _follow(self, log: PlacementLog) -> None:
        """Read all records that are new here."""
        while self._records < LOG_RECORDS and (record := log.read(self._records)) is not None:
            self._records += 1
            for section in record.sections:
                numbers = dict(zip(section.buckets.tolist(), section.numbers.tolist(), strict=True))
                self._partition(section.partition).add(numbers, reserve=record.task == self._task_id)


def pack_placed(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], task_id: int, targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Place the rows of one task, and pack them for the tasks that write them (`packed_rows`).

    Args:
        plan: of the write, with the number of keys of each bucket.
        batches: the columns of the plan's data, behind them `FLAG` and `OLD_BUCKET`. Rows of one key, that is not
            known, come one after the other.
        task_id: the same for all attempts of a task.
        targets: for each writing task the number that leads to it.

    Raises:
        DataError: a key would move, but its table ignores deletes.
    """
    placing = _Placing(plan, task_id)
    schema = plan.data_schema.append(pa.field(FLAG, pa.int32())).append(pa.field(OLD_BUCKET, pa.int32()))
    for chunk in combine_batches(batches, schema, CHUNK_BYTES):
        places, ids = placing.place(chunk, len(targets))
        rows = chunk.select(range(len(plan.data_schema))).append_column(pa.field(PLACE, pa.int64()), pa.array(places))
        yield from pack_chunk(rows, ids, targets)


class _Placing:
    """The places of the rows of one task."""

    def __init__(self, plan: WritePlan, task_id: int) -> None:
        dynamic, table = plan.dynamic, plan.table
        assert dynamic is not None
        log = None if dynamic.log is None else StoredPlacementLog(table.file_io, table.paths, dynamic.log)
        self._keys = NewKeys(dynamic, log, task_id)
        self._fields = [table.schema.field(name) for name in table.schema.partition_keys]
        self._mapping = mapping_of(plan, table.schema.partition_keys)
        self._last = -1

    def place(self, rows: pa.Table, num_tasks: int) -> tuple[Codes, npt.NDArray[np.int32]]:
        """The place of each row, and its task."""
        flags = rows.column(FLAG).to_numpy()
        if (flags == MOVES).any():
            raise DataError(
                "A row has another partition than the one in which its key is, so the old row would be deleted "
                "there; but the table ignores deletes ('ignore-delete'). Keep the partition of the key, or give "
                "the table a primary key with all partition columns."
            )
        stored = self._mapping.columns(rows.select(self._mapping.data_names))
        codes, partitions = partition_groups(stored, self._fields)
        buckets = rows.column(OLD_BUCKET).fill_null(-1).to_numpy().astype(np.int64)
        new = np.flatnonzero(flags == NEW)
        if len(new):
            buckets[new] = self._new(None if codes is None else codes[new], partitions, len(new))
        buckets = self._carried(buckets, flags == AS_BEFORE)
        return buckets << 32, bucket_tasks(codes, partitions, buckets.astype(np.int32), num_tasks)

    def _new(self, codes: Codes | None, partitions: Sequence[bytes], count: int) -> Codes:
        if codes is None:
            return self._keys.place([(partitions[0], count)])[0].astype(np.int64)
        positions = positions_of(codes, len(partitions))
        groups = [(partition, len(rows)) for partition, rows in zip(partitions, positions, strict=True) if len(rows)]
        buckets = np.empty(count, dtype=np.int64)
        buckets[np.concatenate(positions)] = np.concatenate(self._keys.place(groups))
        return buckets

    def _carried(self, buckets: Codes, as_before: npt.NDArray[np.bool_]) -> Codes:
        """The buckets, where a row is like the one before that row's."""
        if as_before.any():
            last = np.maximum.accumulate(np.where(as_before, -1, np.arange(len(buckets))))
            buckets = np.where(last < 0, self._last, buckets[np.maximum(last, 0)])
        self._last = int(buckets[-1])
        return buckets
