"""Merging of manifests: of data files, so that a table of many commits keeps few of them, and of indexes.

Equals Java's ``ManifestFileLegacyMerger`` (docs/internals/format.md §8): a full compaction drops deleted files once
enough bytes lie in small manifests or in manifests with deletes; else runs of small manifests are joined (minor). Order
is preserved. Entries are copied as bytes, some manifests at a time: memory holds the entries of a manifest, and of the
other manifests only the names of deleted files.

The index manifest after a commit is the latest one combined with the changes, as in Java's ``IndexManifestFileHandler``
(docs/internals/format.md §4.1). Hash indexes differ from Java on purpose: the writer of Java hands over whole index
files of its buckets, so that two concurrent writers lose one's hashes; ours hands over new hashes only (``NewHashes``),
which are merged here into what the latest snapshot holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CommitConflictError, PaimonError
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    FileKind,
    IndexManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.manifest_raw import Identity, RawEntries
from paimon_spark.write.bucket_filling import HashRuns, distinct

if TYPE_CHECKING:
    from paimon_spark.commit.changes import AssignedHashes


@dataclass(frozen=True, slots=True)
class ManifestMergeOptions:
    """The options of manifest merging."""

    target_size_bytes: int
    """``manifest.target-file-size``."""
    full_threshold_bytes: int
    """``manifest.full-compaction-threshold-size``."""
    min_count: int
    """``manifest.merge-min-count``."""
    always: bool = False
    """Whether all deleted files are dropped, however few and small the manifests are."""


@dataclass(frozen=True, slots=True)
class ManifestAccess:
    """How manifests are read, written and pruned; merging itself does no I/O."""

    read: Callable[[Sequence[ManifestFileMeta]], Iterator[RawEntries]]
    """Gives the entries of manifests in their order, some at a time."""
    write: Callable[[Iterable[RawEntries]], list[ManifestFileMeta]]
    """Writes entries in their order, while they come."""
    may_hold: Callable[[Sequence[ManifestFileMeta], frozenset[bytes]], list[ManifestFileMeta]]
    """Gives those manifests that may have entries of any of the partitions, by their partition statistics."""


def merge_manifests(
    manifests: Sequence[ManifestFileMeta], options: ManifestMergeOptions, access: ManifestAccess
) -> list[ManifestFileMeta]:
    """Return the manifests to use instead of ``manifests``: the same live files in fewer manifests.

    Args:
        manifests: base and delta manifests of the latest snapshot, in their order.
        options: when to merge.
        access: reads and writes manifests.
    """
    compacted = _full_compaction(manifests, options, access)
    return _minor_compaction(manifests, options, access) if compacted is None else compacted


def _minor_compaction(
    manifests: Sequence[ManifestFileMeta], options: ManifestMergeOptions, access: ManifestAccess
) -> list[ManifestFileMeta]:
    result: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        group.append(manifest)
        size += manifest.file_size
        if size >= options.target_size_bytes:
            result += _joined(group, access)
            group, size = [], 0
    return result + (_joined(group, access) if len(group) >= options.min_count else group)


def _joined(group: Sequence[ManifestFileMeta], access: ManifestAccess) -> list[ManifestFileMeta]:
    """Write the entries of ``group`` anew; a DELETE whose ADD lies in an older manifest stays a DELETE."""
    if len(group) <= 1:
        return list(group)
    parts = list(access.read(group))
    kept = merged_positions(parts)
    return access.write(part.take(at) for part, at in zip(parts, kept, strict=True))


def merged_positions(parts: Sequence[RawEntries]) -> list[list[int]]:
    """Cancel ADDs against later DELETEs of the same file (Java: ``FileEntry.mergeEntries``).

    An ADD behind a DELETE whose own ADD lies in an older manifest cancels it (Java: an error, for ever).

    Returns:
        For each part the entries that stay, ascending. A DELETE without its ADD stays.

    Raises:
        PaimonError: a file is added that is already there.
    """
    merged: dict[Identity, tuple[int, int, int]] = {}
    for number, part in enumerate(parts):
        for at, (identity, kind) in enumerate(zip(part.identities, part.kinds.tolist(), strict=True)):
            known = merged.get(identity)
            if kind == FileKind.ADD:
                if known is not None and known[2] == FileKind.DELETE:
                    del merged[identity]
                    continue
                if known is not None:
                    _, bucket, level, name = identity[:4]
                    raise PaimonError(
                        f"Trying to add file {name} (bucket {bucket}, level {level}) which is already added."
                    )
                merged[identity] = number, at, kind
            elif known is not None and known[2] == FileKind.ADD:
                del merged[identity]
            else:
                merged[identity] = number, at, kind
    kept: list[list[int]] = [[] for _ in parts]
    for number, at, _ in merged.values():
        kept[number].append(at)
    return [sorted(positions) for positions in kept]


def _full_compaction(
    manifests: Sequence[ManifestFileMeta], options: ManifestMergeOptions, access: ManifestAccess
) -> list[ManifestFileMeta] | None:
    """Rewrite what is small or has deletes, with live files only; None when there is not enough of it."""

    def must_change(manifest: ManifestFileMeta) -> bool:
        return manifest.num_deleted_files > 0 or manifest.file_size < options.target_size_bytes

    size = sum(manifest.file_size for manifest in manifests if must_change(manifest))
    if size < options.full_threshold_bytes and not options.always:
        return None
    ahead = Counter[Identity]()
    for entries in access.read([m for m in manifests if m.num_deleted_files > 0]):
        ahead.update(entries.identities[i] for i in np.flatnonzero(entries.kinds == FileKind.DELETE).tolist())
    partitions = frozenset(identity[0] for identity in ahead)
    large = [m for m in manifests if not must_change(m)]
    suspects = {m.file_name for m in access.may_hold(large, partitions)} if partitions and large else set()
    candidates = [m for m in manifests if must_change(m) or m.file_name in suspects]
    if len(candidates) <= (0 if options.always else 1):
        return None
    rewritten = {m.file_name for m in candidates}
    kept = [m for m in manifests if m.file_name not in rewritten]

    def live() -> Iterator[RawEntries]:
        for changes, some in groupby(candidates, must_change):
            if changes:
                yield from (_without(entries, ahead) for entries in access.read(list(some)))
                continue
            for manifest in some:
                parts = list(access.read([manifest]))
                remaining = [_without(entries, ahead) for entries in parts]
                if sum(map(len, remaining)) == sum(map(len, parts)):
                    kept.append(manifest)
                else:
                    yield from remaining

    written = access.write(live())
    return kept + written


def _without(entries: RawEntries, ahead: Counter[Identity]) -> RawEntries:
    """Return the ADD entries of files that are not deleted by these or later entries.

    Java drops files that are added once more behind their DELETE, as its rollback as latest and the next compaction
    leave them.

    Args:
        entries: the next ones of all.
        ahead: how many DELETE entries of each file are still to come; those of `entries` are taken off.
    """
    remaining = []
    for i, (identity, kind) in enumerate(zip(entries.identities, entries.kinds.tolist(), strict=True)):
        if kind == FileKind.DELETE:
            ahead[identity] -= 1
            if not ahead[identity]:
                del ahead[identity]
        elif identity not in ahead:
            remaining.append(i)
    return entries if len(remaining) == len(entries) else entries.take(remaining)


Hashes = npt.NDArray[np.int32]
BucketId = tuple[bytes, int]
"""Partition bytes and bucket."""


@dataclass(frozen=True, slots=True)
class HashIndexFiles:
    """How hash index files are read and written; the merge itself does no I/O."""

    read_side_file: Callable[[str], bytes]
    """Reads a file in which a task handed over hashes, by its name."""
    load: Callable[[IndexManifestEntry], Hashes]
    """Reads a HASH index file."""
    write: Callable[[Hashes, bytes, int], tuple[str, int]]
    """Writes the HASH index file of a partition's bucket; returns its name and its size in bytes."""
    adopts: bool = True
    """Whether a side file lies where index files do, and may become one."""


def combine_index_entries(
    previous: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, bucketed: bool
) -> list[IndexManifestEntry]:
    """Apply ``changes`` to the index files of the latest snapshot.

    Args:
        previous: entries of the latest index manifest, all ADD.
        changes: entries to add and to delete, in their order.
        bucketed: False for append tables without buckets, whose deletion-vector files are known by name and not by
            bucket.

    Raises:
        CommitConflictError: an index file is added twice, or one to delete is not there any more.
    """
    by_bucket: dict[tuple[bytes, int, str], IndexManifestEntry] = {}
    by_name: dict[str, IndexManifestEntry] = {}
    for entry in previous:
        if _keyed_by_bucket(entry, bucketed):
            by_bucket[entry.partition, entry.bucket, entry.index_type] = entry
        else:
            by_name[entry.file_name] = entry
    for entry in sorted(changes, key=lambda change: change.kind != FileKind.DELETE):  # stable: deletes first
        if _keyed_by_bucket(entry, bucketed):
            location = (entry.partition, entry.bucket, entry.index_type)
            if entry.kind == FileKind.ADD:
                by_bucket[location] = entry
            else:
                by_bucket.pop(location, None)
        elif entry.kind == FileKind.DELETE:
            if by_name.pop(entry.file_name, None) is None:
                raise CommitConflictError(
                    f"Trying to delete file {entry.file_name} which does not exist: another commit has replaced this "
                    f"index file. None of this commit's changes took place; run it again."
                )
        else:
            _add_by_name(by_name, entry)
    return [*by_bucket.values(), *by_name.values()]


def _keyed_by_bucket(entry: IndexManifestEntry, bucketed: bool) -> bool:
    return entry.index_type == HASH_INDEX or (entry.index_type == DELETION_VECTORS_INDEX and bucketed)


def _add_by_name(by_name: dict[str, IndexManifestEntry], entry: IndexManifestEntry) -> None:
    if entry.file_name in by_name:
        raise CommitConflictError(
            f"Trying to add file {entry.file_name} which is already added to the table's indexes."
        )
    covered = {vector.data_file_name for vector in entry.deletion_vectors or ()}
    for other in by_name.values() if covered else ():
        twice = covered.intersection(vector.data_file_name for vector in other.deletion_vectors or ())
        if twice:
            raise CommitConflictError(
                f"Trying to add dv for data file {min(twice)} which is already added: another commit has deleted rows "
                f"of the same file. None of this commit's changes took place; run it again."
            )
    by_name[entry.file_name] = entry


def merge_hash_indexes(
    previous: Iterable[IndexManifestEntry], assigned: Sequence[AssignedHashes], files: HashIndexFiles
) -> list[IndexManifestEntry]:
    """Merge new key hashes into the hash indexes of the latest snapshot and write the new index files.

    Args:
        previous: index entries of the latest snapshot (those that this commit deletes left out).
        assigned: new hashes of each bucket, as tasks assigned them when the write was planned.
        files: reads and writes index files.

    Returns:
        ADD entries of the buckets whose index changes; each replaces the bucket's former entry.

    Raises:
        CommitConflictError: a key is assigned to one bucket here and in another one by the table as it is now.
    """
    by_bucket: dict[BucketId, list[AssignedHashes]] = {}
    for new in assigned:
        by_bucket.setdefault((new.partition, new.bucket), []).append(new)
    known: dict[BucketId, IndexManifestEntry] = {
        (entry.partition, entry.bucket): entry for entry in previous if entry.index_type == HASH_INDEX
    }
    changed = []
    for partition in dict.fromkeys(bucket_id[0] for bucket_id in by_bucket):
        ours = {
            bucket_id[1]: _distinct(new.hashes.hashes(files.read_side_file) for new in news)
            for bucket_id, news in by_bucket.items()
            if bucket_id[0] == partition
        }
        theirs = {
            bucket: files.load(entry) for (of_partition, bucket), entry in known.items() if of_partition == partition
        }
        _check_one_bucket_per_hash(ours, theirs)
        for bucket, hashes in ours.items():
            entry = _merged_index((partition, bucket), by_bucket[partition, bucket], hashes, theirs.get(bucket), files)
            if entry is not None:
                changed.append(entry)
    return changed


def _distinct(parts: Iterable[Hashes]) -> Hashes:
    found = list(parts)
    return found[0] if len(found) == 1 else distinct(np.concatenate(found))


def _merged_index(
    bucket_id: BucketId, news: Sequence[AssignedHashes], ours: Hashes, theirs: Hashes | None, files: HashIndexFiles
) -> IndexManifestEntry | None:
    """Return the bucket's new index entry; None when the table's index has all of our hashes already."""
    side_file = news[0].hashes
    if theirs is None and len(news) == 1 and side_file.file_name is not None and files.adopts:
        name, size, united = side_file.file_name, side_file.file_size, ours
    else:
        missing = ours if theirs is None else ours[~np.isin(ours, theirs)]
        if not len(missing):
            return None
        united = missing if theirs is None else np.concatenate([theirs, missing])
        name, size = files.write(united, *bucket_id)
    return IndexManifestEntry(FileKind.ADD, bucket_id[0], bucket_id[1], HASH_INDEX, name, size, len(united))


def _check_one_bucket_per_hash(ours: Mapping[int, Hashes], theirs: Mapping[int, Hashes]) -> None:
    """Check that no hash of ours lies in another bucket, of ours or of the table. Of one bucket each comes once."""
    ordered = np.sort(np.concatenate(list(ours.values())))
    if np.any(ordered[1:] == ordered[:-1]):
        raise CommitConflictError(
            "Two tasks of this write assigned the same key to different buckets. None of its changes took "
            "place; run the write again."
        )
    if not theirs:
        return
    assigned = HashRuns()
    assigned.add(*_flatten(ours))
    their_hashes, their_buckets = _flatten(theirs)
    our_buckets = assigned.find(their_hashes)
    moved = np.flatnonzero((our_buckets >= 0) & (our_buckets != their_buckets))
    if len(moved):
        raise CommitConflictError(
            f"Another commit has assigned a key of this write to bucket {their_buckets[moved[0]]}, which this write "
            f"assigned to bucket {our_buckets[moved[0]]} (dynamic buckets). None of its changes took place; run "
            f"the write again."
        )


def _flatten(by_bucket: Mapping[int, Hashes]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    hashes = np.concatenate(list(by_bucket.values()))
    lengths = [len(part) for part in by_bucket.values()]
    return hashes, np.repeat(np.fromiter(by_bucket, dtype=np.int64, count=len(by_bucket)), lengths)
