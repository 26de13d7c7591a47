"""The index manifest after a commit: the latest one combined with the changes, and hash indexes merged.

Equals Java's ``IndexManifestFileHandler`` (docs/internals/format.md §4.1). Hash indexes differ from Java on purpose:
Java's writer hands over whole index files of its buckets, so that two concurrent writers lose one's hashes; ours hands
over new hashes only (``NewHashes``), which are merged here into what the latest snapshot holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, HASH_INDEX, FileKind, IndexManifestEntry
from paimon_spark.write.hash_runs import HashRuns, distinct

if TYPE_CHECKING:
    from paimon_spark.commit.changes import AssignedHashes

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
