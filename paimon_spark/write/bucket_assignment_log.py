"""The assignment log of one write: where its tasks put new keys of dynamic buckets, in one order for all tasks.

Tasks of one write cannot communicate, and the number of rows is not known. Before a task writes rows of new keys, it
adds a record to the log: a file with the next number, created exclusively as snapshots are. A task that loses the race
reads the winner's record, and assigns what is left. So each key hash is assigned once in a write, by whichever attempt
of whichever task comes first, and all others follow.

Records lie in the table's index directory. The commit deletes them; those of a failed write are orphan files.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import TablePaths

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
