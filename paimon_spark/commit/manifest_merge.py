"""Merging of manifests, so that a table of many commits keeps few of them.

Equals Java's ``ManifestFileLegacyMerger`` (docs/internals/format.md §8): a full compaction drops deleted files once
enough bytes lie in small manifests or in manifests with deletes; else runs of small manifests are joined (minor). Order
is preserved. Entries are copied as bytes, some manifests at a time: memory holds the entries of a manifest, and of the
other manifests only the names of deleted files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from paimon_spark.errors import PaimonError
from paimon_spark.spec.manifest import FileKind, ManifestFileMeta
from paimon_spark.spec.manifest_raw import Identity, RawEntries


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
