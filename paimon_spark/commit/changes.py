"""What a commit changes: entries collected from the commit messages of all tasks.

Equals Java's ``ManifestEntryChanges`` and the order in which ``FileStoreCommitImpl`` takes a commit apart: first the
new files (APPEND or OVERWRITE), then what a compaction did (COMPACT).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DataFileMeta,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.write.message import CommitMessage, NewHashes, TaskMessage


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
