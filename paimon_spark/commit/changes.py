"""What a commit changes: entries collected from the commit messages of all tasks, and the order of commits on them.

Equals Java's ``ManifestEntryChanges`` and the order in which ``FileStoreCommitImpl`` takes a commit apart: first the
new files (APPEND or OVERWRITE), then what a compaction did (COMPACT).

The order of commits is stamped on files of level 0 whose rows may have the sequence numbers of a rival's rows. A write
takes its sequence numbers behind those of the snapshot on which it was planned. Two writers that did not see each other
take the same ones, and of two rows with one key and one number the row of the newer file is the newer one. So the
creation time of a file is raised above that of each file of level 0 that others have committed to the same bucket since
the plan: reads and compactions then put them in the order of their commits, whatever the clocks say. Java has no such
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DataFileMeta,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.table.partitions import range_predicate
from paimon_spark.write.message import CommitMessage, NewHashes, TaskMessage

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class AssignedHashes:
    """New key hashes of one dynamic bucket, as one task reported them."""

    partition: bytes
    bucket: int
    hashes: NewHashes


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one snapshot. The order of entries is the order in which they were written."""

    files: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: tuple[IndexManifestEntry, ...] = ()
    """Index files to add and to delete; HASH files only with kind DELETE (an overwrite), new hashes are in `hashes`."""
    hashes: tuple[AssignedHashes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.changelog or self.index or self.hashes)

    @property
    def makes_overwrite(self) -> bool:
        """Whether files go or deletion vectors change: then an append becomes an OVERWRITE and is checked."""
        return any(entry.kind == FileKind.DELETE for entry in self.files) or any(
            entry.index_type == DELETION_VECTORS_INDEX for entry in self.index
        )

    @property
    def holds_columns(self) -> bool:
        """Whether a new file holds columns of rows that are there: it names their ids (data evolution)."""
        return any(entry.kind == FileKind.ADD and entry.file.first_row_id is not None for entry in self.files)

    def changed_partitions(self) -> frozenset[bytes]:
        """Return the partitions whose rows change; a hash index alone changes no rows."""
        changed = {entry.partition for entry in self.files}
        changed.update(entry.partition for entry in self.index if entry.index_type != HASH_INDEX)
        return frozenset(changed)


@dataclass(frozen=True, slots=True)
class CollectedChanges:
    """The one or two snapshots that a commit makes."""

    append: Changes
    compact: Changes


def collect_changes(messages: Iterable[TaskMessage | CommitMessage]) -> CollectedChanges:
    """Sort the files of all ``messages`` into the snapshots that they belong to.

    Raises:
        PaimonError: a message lists HASH index files; new hashes travel in ``CommitMessage.new_index``.
        UnsupportedError: a message adds global index files.
    """
    flat = list(_commit_messages(messages))
    for message in flat:
        if any(entry.index_type == HASH_INDEX for entry in (*message.index_changes, *message.compact_index_changes)):
            raise PaimonError("A commit message lists a HASH index file; its hashes must be given as new_index.")
        if any(
            entry.global_index is not None and entry.kind == FileKind.ADD
            for entry in (*message.index_changes, *message.compact_index_changes)
        ):
            raise UnsupportedError("Global index files cannot be committed yet. Build the index with another engine.")
    append = Changes(
        files=tuple(
            entry
            for message in flat
            for entry in (
                *_entries(FileKind.ADD, message, message.new_files),
                *_entries(FileKind.DELETE, message, message.deleted_files),
            )
        ),
        changelog=tuple(entry for m in flat for entry in _entries(FileKind.ADD, m, m.changelog_files)),
        index=tuple(entry for message in flat for entry in message.index_changes),
        hashes=tuple(
            AssignedHashes(message.partition, message.bucket, message.new_index)
            for message in flat
            if message.new_index is not None and message.new_index.count
        ),
    )
    compact = Changes(
        files=tuple(
            entry
            for message in flat
            for entry in (
                *_entries(FileKind.DELETE, message, message.compact_before),
                *_entries(FileKind.ADD, message, message.compact_after),
            )
        ),
        changelog=tuple(entry for m in flat for entry in _entries(FileKind.ADD, m, m.compact_changelog_files)),
        index=tuple(entry for message in flat for entry in message.compact_index_changes),
    )
    return CollectedChanges(append, compact)


def _commit_messages(messages: Iterable[TaskMessage | CommitMessage]) -> Iterator[CommitMessage]:
    for message in messages:
        if isinstance(message, CommitMessage):
            yield message
        else:
            yield from message.messages


def _entries(kind: FileKind, message: CommitMessage, files: Sequence[DataFileMeta]) -> Iterator[ManifestEntry]:
    return (ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files)


class CommitOrder:
    """The files of level 0 that came after the plan of a commit, each snapshot looked at once for all attempts."""

    def __init__(self, table: FileStoreTable, planned_on: SnapshotIdentity, files: Iterable[ManifestEntry]) -> None:
        """Look at nothing yet.

        Args:
            table: to commit to.
            planned_on: the latest snapshot when the sequence numbers of the write were taken.
            files: of the commit.
        """
        self._table = table
        self._read_to = planned_on.id
        self._oldest: dict[tuple[bytes, int], int] = {}
        """Of each bucket the oldest creation time of the commit's own files."""
        for entry in files if table.schema.kind.is_keyed else ():
            if _is_new_at_level_0(entry):
                bucket, millis = (entry.partition, entry.bucket), entry.file.creation_time_millis or 0
                self._oldest[bucket] = min(self._oldest.get(bucket, millis), millis)
        self._newest = dict.fromkeys(self._oldest, 0)
        """Of each bucket the newest creation time of the others' files."""

    def stamped(self, files: tuple[ManifestEntry, ...], latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Return the files with creation times that follow those of all files that were committed since the plan.

        Those of one bucket are raised by as much, and so keep their own order.
        """
        if latest is None or not self._newest:
            return files
        for snapshot_id in range(self._read_to + 1, latest.id + 1):
            self._look_at(snapshot_id)
        self._read_to = max(self._read_to, latest.id)
        return tuple(map(self._stamped, files))

    def _look_at(self, snapshot_id: int) -> None:
        manifests = self._table.manifests
        try:
            snapshot = self._table.snapshots.get(snapshot_id)
        except SnapshotNotFoundError:  # expired: the write took longer than snapshots are kept
            return
        within = range_predicate(self._table, frozenset(partition for partition, _ in self._newest))
        added = manifests.prune_manifests(manifests.delta_manifests(snapshot), within)
        for part in manifests.read_columns(added, statistics=False):
            buckets = zip(part.partitions, part.buckets.tolist(), strict=True)
            facts = zip(part.kinds.tolist(), part.levels.tolist(), part.file_values("_CREATION_TIME"), strict=True)
            for bucket, (kind, level, millis) in zip(buckets, facts, strict=True):
                if bucket in self._newest and kind == FileKind.ADD and level == 0 and millis is not None:
                    self._newest[bucket] = max(self._newest[bucket], millis)

    def _stamped(self, entry: ManifestEntry) -> ManifestEntry:
        if not _is_new_at_level_0(entry):
            return entry
        bucket = (entry.partition, entry.bucket)
        late = self._newest[bucket] + 1 - self._oldest[bucket]
        if late <= 0:
            return entry
        millis = (entry.file.creation_time_millis or 0) + late
        return replace(entry, file=replace(entry.file, creation_time_millis=millis))


def _is_new_at_level_0(entry: ManifestEntry) -> bool:
    return entry.kind == FileKind.ADD and entry.file.level == 0
