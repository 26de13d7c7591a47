"""Which buckets keys have: a growing map from key hash to bucket, and the buckets that new keys fill.

The map is sorted runs of doubling size, looked up and extended by whole arrays. A new key goes to the first bucket that
is not full, then to a new one (Java: ``PartitionIndex.assign``).

The assignment log of one write says where its tasks put new keys of dynamic buckets, in one order for all tasks. Tasks
of one write cannot communicate, and the number of rows is not known. Before a task writes rows of new keys, it adds a
record to the log: a file with the next number, created exclusively as snapshots are. A task that loses the race reads
the winner's record, and assigns what is left. So each key hash is assigned once in a write, by whichever attempt of
whichever task comes first, and all others follow. Records lie in the table's index directory. The commit deletes them;
those of a failed write are orphan files.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.binary_row_encoder import BinaryRows
from paimon_spark.spec.hashing import murmur_hash_rows
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import TablePaths

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int32]

_BUCKET_BITS = 16
_LOW = 0xFFFFFFFF
_PREFIXES_PER_HASH = 8
_FEWEST_PREFIXES, _MOST_PREFIXES = 1 << 12, 1 << 25
_Integers = TypeVar("_Integers", np.int32, np.int64)


def distinct(values: npt.NDArray[_Integers]) -> npt.NDArray[_Integers]:
    """The values, each once, ascending. By a sort: ``numpy.unique`` of integers takes a hash table, far slower."""
    ordered = np.sort(values)
    return ordered[_first_of_runs(ordered)]


def distinct_hashes(hashes: Hashes) -> tuple[Hashes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The hashes, each once, ascending; where each occurs first; and for each row the number of its hash.

    As ``numpy.unique`` with both indexes gives them, by one sort of 8-byte words instead of an indirect one.
    """
    packed = np.sort((hashes.astype(np.int64) << 32) | np.arange(len(hashes), dtype=np.int64))
    ordered, position = (packed >> 32).astype(np.int32), packed & _LOW
    starts = _first_of_runs(ordered)
    inverse = np.empty(len(hashes), dtype=np.int64)
    inverse[position] = np.cumsum(starts) - 1
    return ordered[starts], position[starts], inverse


def _first_of_runs(ordered: npt.NDArray[_Integers]) -> npt.NDArray[np.bool_]:
    """Which values of an ascending array differ from the one before."""
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


class HashRuns:
    """Key hashes (int32) and their buckets (below 2^15), 8 bytes each: the hash in the high bits, so that they sort.

    New hashes come as a run of their own; runs of similar size are merged, so that n hashes in k calls cost
    O(n log k) and a look-up visits O(log k) runs. A table of prefixes, a byte for each of some leading bits of hashes,
    tells most hashes that are not there without a search; it takes 32 MB at most.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.int64]] = []
        self._prefixes = np.zeros(_FEWEST_PREFIXES, dtype=np.bool_)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, hashes: Hashes, buckets: npt.NDArray[np.integer]) -> None:
        """Add hashes that are not there yet, each once, in any order."""
        if not len(hashes):
            return
        run = (hashes.astype(np.int64) << _BUCKET_BITS) | buckets.astype(np.int64)
        run.sort()
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            merged = np.concatenate([self._runs.pop(-2), self._runs.pop()])
            merged.sort(kind="stable")  # of two sorted halves: one merge
            self._runs.append(merged)
        self._note_prefixes(run)

    def _note_prefixes(self, run: npt.NDArray[np.int64]) -> None:
        wanted = min(_PREFIXES_PER_HASH * len(self), _MOST_PREFIXES)
        if wanted <= len(self._prefixes):
            self._prefixes[self._slots(run >> _BUCKET_BITS)] = True
            return
        self._prefixes = np.zeros(min(1 << (2 * wanted - 1).bit_length(), _MOST_PREFIXES), dtype=np.bool_)
        for known in self._runs:
            self._prefixes[self._slots(known >> _BUCKET_BITS)] = True

    def _slots(self, hashes: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
        """The prefixes of hashes, their leading bits: sorted hashes go through the table in order."""
        return hashes.astype(np.int32).view(np.uint32) >> np.uint32(33 - len(self._prefixes).bit_length())

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash, -1 where it is unknown, shape (hashes,)."""
        found = np.full(len(hashes), -1, dtype=np.int32)
        if not self._runs:
            return found
        hit = np.flatnonzero(self._prefixes[self._slots(hashes)])
        if len(hit) < len(hashes):
            found[hit] = self._search(hashes[hit])
            return found
        return self._search(hashes)

    def _search(self, hashes: Hashes) -> Buckets:
        found = np.full(len(hashes), -1, dtype=np.int32)
        wanted = hashes.astype(np.int64) << _BUCKET_BITS
        if np.any(wanted[1:] < wanted[:-1]):  # ascending, each search starts where the one before it ended
            order = np.argsort(hashes)
            found[order] = self._search(hashes[order])
            return found
        for run in self._runs:
            position = np.searchsorted(run, wanted)
            position[position == len(run)] = 0
            at = run[position]
            hit = (at ^ wanted) >> _BUCKET_BITS == 0
            found[hit] = at[hit] & ((1 << _BUCKET_BITS) - 1)
        return found

    def by_bucket(self) -> dict[int, Hashes]:
        """The hashes of each bucket, sorted."""
        if not self._runs:
            return {}
        packed = np.sort(np.concatenate(self._runs), kind="stable")
        hashes = (packed >> _BUCKET_BITS).astype(np.int32)
        buckets = (packed & ((1 << _BUCKET_BITS) - 1)).astype(np.uint16)
        counts = np.bincount(buckets)
        ids = np.flatnonzero(counts)
        if len(ids) == 1:
            return {int(ids[0]): hashes}
        order = np.argsort(buckets, kind="stable")  # 16 bits: a radix sort
        return dict(zip(ids.tolist(), np.split(hashes[order], np.cumsum(counts[ids])[:-1]), strict=True))


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


_MAGIC = b"PPL1"
_HEADER = struct.Struct("<4s16siiI")  # magic, token, task, whether numbers are counts, sections
_SECTION = struct.Struct("<II")  # bytes of the partition, assignments


@dataclass(frozen=True, slots=True)
class Assignments:
    """The assignments of one partition in one record."""

    partition: bytes
    numbers: npt.NDArray[np.int32]
    """Key hashes; in a record of counts the number of new keys of each bucket. Shape (assignments,)."""
    buckets: npt.NDArray[np.int16]
    """The bucket of each, shape (assignments,)."""


@dataclass(frozen=True, slots=True)
class AssignmentRecord:
    """What one task assigned at one time."""

    task: int
    counts: bool
    """Whether only numbers of keys are recorded: enough if all rows of one hash come to one task."""
    sections: tuple[Assignments, ...]


class AssignmentLog(Protocol):
    """Records by number, from 0 on, without gaps."""

    def read(self, number: int) -> AssignmentRecord | None:
        """The record, None when there is none yet."""

    def append(self, number: int, record: AssignmentRecord) -> bool:
        """Add a record after all others; False when another one has this number."""


def record_name(log: str, number: int) -> str:
    """The name of the file of a record."""
    return f"placement-{log}-{number}"


class StoredAssignmentLog:
    """The log in the table's index directory."""

    def __init__(self, file_io: FileIO, paths: TablePaths, log: str) -> None:
        self._file_io = file_io
        self._paths = paths
        self._log = log

    def read(self, number: int) -> AssignmentRecord | None:
        """The record, None when there is none yet."""
        path = self._path(number)
        try:
            data = self._file_io.read_bytes(path)
        except FileNotFoundError:
            return None
        return decode_record(data, path=path)

    def append(self, number: int, record: AssignmentRecord) -> bool:
        """Add a record; after an unclear answer of the store, its file is read back."""
        path = self._path(number)
        data = encode_record(record)
        try:
            return self._file_io.create_exclusive(path, data)
        except OSError:
            try:
                return self._file_io.read_bytes(path) == data
            except FileNotFoundError:
                pass
            raise

    def _path(self, number: int) -> str:
        return self._paths.index_path(record_name(self._log, number))


def encode_record(record: AssignmentRecord) -> bytes:
    """The bytes of a record; no two encodings are equal."""
    head = _HEADER.pack(_MAGIC, uuid.uuid4().bytes, record.task, int(record.counts), len(record.sections))
    sizes = b"".join(_SECTION.pack(len(s.partition), len(s.numbers)) for s in record.sections)
    partitions = b"".join(s.partition for s in record.sections)
    numbers = b"".join(s.numbers.astype("<i4").tobytes() for s in record.sections)
    buckets = b"".join(s.buckets.astype("<i2").tobytes() for s in record.sections)
    return b"".join((head, sizes, partitions, numbers, buckets))


def decode_record(data: bytes, *, path: str) -> AssignmentRecord:
    """The record in a file.

    Raises:
        CorruptTableError: the bytes are no record.
    """
    message = f"The assignment record {path} of a running write is damaged: run the write again."
    damaged = CorruptTableError(message, path=path)
    if len(data) < _HEADER.size:
        raise damaged
    magic, _, task, counts, count = _HEADER.unpack_from(data)
    if magic != _MAGIC or len(data) < _HEADER.size + count * _SECTION.size:
        raise damaged
    sizes = np.frombuffer(data, "<u4", 2 * count, _HEADER.size).astype(np.int64).reshape(count, 2)
    widths, assignments = sizes[:, 0], sizes[:, 1]
    start = _HEADER.size + count * _SECTION.size
    total = int(assignments.sum())
    if len(data) != start + int(widths.sum()) + 6 * total:
        raise damaged
    at = start + int(widths.sum())
    numbers = np.frombuffer(data, "<i4", total, at).astype(np.int32)
    buckets = np.frombuffer(data, "<i2", total, at + 4 * total).astype(np.int16)
    if total and int(buckets.min()) < 0:
        raise damaged
    ends, edges = np.cumsum(assignments), start + np.cumsum(widths)
    sections = tuple(
        Assignments(data[edge - width : edge], numbers[end - n : end], buckets[end - n : end])
        for edge, width, end, n in zip(
            edges.tolist(), widths.tolist(), ends.tolist(), assignments.tolist(), strict=True
        )
    )
    return AssignmentRecord(task, bool(counts), sections)


def record_paths(paths: TablePaths, seen: Sequence[tuple[str, int]]) -> list[str]:
    """The files of logs.

    Args:
        paths: of the table.
        seen: of each log its name and how many records a task has seen.
    """
    most: dict[str, int] = {}
    for log, count in seen:
        most[log] = max(count, most.get(log, 0))
    return [paths.index_path(record_name(log, number)) for log, count in most.items() for number in range(count)]
