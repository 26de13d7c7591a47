"""What a write task hands to the commit: names and metadata of new files, nothing that is large.

Equals Java's ``CommitMessageImpl`` (its ``newFilesIncrement``), cut to what a write can produce. Messages are plain,
picklable and small: a task may return thousands of files, but never rows; key hashes beyond a few kilobytes travel in a
side file (:class:`NewHashes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, IndexManifestEntry

INLINE_HASHES = 8192
"""Number of key hashes (32 kB) that a message carries itself; more of them go to a side file."""


@dataclass(frozen=True, slots=True)
class NewHashes:
    """Key hashes that a task assigned to one dynamic bucket and that the hash index did not hold at planning time.

    Small sets travel in ``data``; larger ones in ``file_name``, a file of the table's index directory in the very
    format of a HASH index file (big-endian int32, see `spec.hashing`), so that the commit may adopt the file as it
    is when the bucket had no index and no other message speaks of it. A side file that is not adopted is an orphan file
    (the commit may delete it after success).
    """

    count: int
    """Number of hashes; they are distinct and sorted ascending (as signed int32)."""
    data: bytes = b""
    """``count`` little-endian int32; empty when the hashes are in ``file_name``."""
    file_name: str | None = None
    """Name of the side file, to be looked up with ``TablePaths.index_path``; None when the hashes are in ``data``."""
    file_size: int = 0
    """Size of the side file in bytes (4 per hash); 0 without one."""

    @classmethod
    def inline(cls, hashes: npt.NDArray[np.int32]) -> NewHashes:
        """Pack distinct, sorted ``hashes`` into the message itself."""
        return cls(count=len(hashes), data=np.ascontiguousarray(hashes, dtype="<i4").tobytes())

    def hashes(self, read_index_file: Callable[[str], bytes]) -> npt.NDArray[np.int32]:
        """Return the hashes, shape (count,).

        Args:
            read_index_file: reads a file of the table's index directory by its name; called only for a side file.

        Raises:
            CorruptTableError: the side file does not hold ``count`` hashes.
        """
        if self.file_name is None:
            return np.frombuffer(self.data, dtype="<i4").astype(np.int32)
        found = read_index_file(self.file_name)
        if len(found) != 4 * self.count:
            raise CorruptTableError(
                f"Index file {self.file_name} holds {len(found)} bytes, but {4 * self.count} were written to it.",
                path=self.file_name,
            )
        return np.frombuffer(found, dtype=">i4").astype(np.int32)


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Changes of one (partition, bucket), made by one task: new files; of compactions and row changes, old ones too."""

    partition: bytes
    """Serialized BinaryRow of the partition values, as in manifests (4-byte arity in front)."""
    bucket: int
    total_buckets: int
    """Number of buckets of the partition; -1 for dynamic and unaware buckets."""
    new_files: tuple[DataFileMeta, ...]
    """Data files to add, in the order they were written."""
    new_index: NewHashes | None = None
    """New key hashes of a dynamic bucket; None for every other bucket mode and when no hash is new."""
    deleted_files: tuple[DataFileMeta, ...] = ()
    """Data files to take out in the same snapshot (row-level changes); with any, the commit is an OVERWRITE."""
    changelog_files: tuple[DataFileMeta, ...] = ()
    """Changelog files of the new rows (``changelog-producer`` input)."""
    index_changes: tuple[IndexManifestEntry, ...] = ()
    """Deletion-vector or global index files to add and to delete, deletes first; never HASH (that is `new_index`)."""
    compact_before: tuple[DataFileMeta, ...] = ()
    """Files that a compaction read: deleted by a COMPACT snapshot, after the snapshot of the new files."""
    compact_after: tuple[DataFileMeta, ...] = ()
    """Files that a compaction wrote or upgraded to another level."""
    compact_changelog_files: tuple[DataFileMeta, ...] = ()
    """Changelog files that a compaction wrote (``changelog-producer`` full-compaction and lookup)."""
    compact_index_changes: tuple[IndexManifestEntry, ...] = ()
    """Like `index_changes`, in the COMPACT snapshot."""


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """All that one successful task attempt wrote."""

    messages: tuple[CommitMessage, ...]
    rows: int
    """Rows that came in, before input filters and before merging."""
    assignment_log: tuple[str, int] | None = None
    """The assignment log of a write to dynamic buckets, and its number of records: the commit deletes them."""
    blob_files: tuple[str, ...] = ()
    """Paths of the managed blob files that the task made: the rows of its files name them, the commit does not."""
    by_kind: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Rows by the number of their `RowKind`, after input filters and before merging."""
