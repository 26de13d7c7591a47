"""Merging of manifests, so that a table of many commits keeps few of them.

Equals Java's ``ManifestFileLegacyMerger`` (docs/format.md §8): a full compaction drops deleted files once enough bytes
lie in small manifests or in manifests with deletes; else runs of small manifests are joined (minor). Order is
preserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paimon_spark.spec.manifest import FileIdentifier, FileKind, ManifestEntry, ManifestFileMeta, merge_entries


@dataclass(frozen=True, slots=True)
class ManifestMergeOptions:
    """The options of manifest merging."""

    target_size_bytes: int
    """``manifest.target-file-size``."""
    full_threshold_bytes: int
    """``manifest.full-compaction-threshold-size``."""
    min_count: int
    """``manifest.merge-min-count``."""


@dataclass(frozen=True, slots=True)
class ManifestAccess:
    """How manifests are read, written and pruned; merging itself knows no storage."""

    read: Callable[[ManifestFileMeta], list[ManifestEntry]]
    write: Callable[[Sequence[ManifestEntry]], list[ManifestFileMeta]]
    may_hold: Callable[[Sequence[ManifestFileMeta], frozenset[bytes]], list[ManifestFileMeta]]
    """Gives those manifests that may have entries of any of the partitions, judged by their partition statistics."""


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
    return access.write(merge_entries(entry for manifest in group for entry in access.read(manifest)))


def _full_compaction(
    manifests: Sequence[ManifestFileMeta], options: ManifestMergeOptions, access: ManifestAccess
) -> list[ManifestFileMeta] | None:
    """Rewrite what is small or has deletes, with live files only; None when there is not enough of it."""

    def must_change(manifest: ManifestFileMeta) -> bool:
        return manifest.num_deleted_files > 0 or manifest.file_size < options.target_size_bytes

    if sum(manifest.file_size for manifest in manifests if must_change(manifest)) < options.full_threshold_bytes:
        return None
    entries_of = {m.file_name: access.read(m) for m in manifests if m.num_deleted_files > 0}
    deleted = _deleted_files(entry for entries in entries_of.values() for entry in entries)
    partitions = frozenset(identifier.partition for identifier in deleted)
    large = [m for m in manifests if not must_change(m)]
    suspects = {m.file_name for m in access.may_hold(large, partitions)} if deleted and large else set()
    candidates = [m for m in manifests if must_change(m) or m.file_name in suspects]
    if len(candidates) <= 1:
        return None
    rewritten = {m.file_name for m in candidates}
    kept = [m for m in manifests if m.file_name not in rewritten]
    live: list[ManifestEntry] = []
    for manifest in candidates:
        entries = entries_of[manifest.file_name] if manifest.file_name in entries_of else access.read(manifest)
        remaining = [e for e in entries if e.kind == FileKind.ADD and e.identifier() not in deleted]
        if len(remaining) == len(entries) and not must_change(manifest):
            kept.append(manifest)
        else:
            live += remaining
    return kept + access.write(live)


def _deleted_files(entries: Iterable[ManifestEntry]) -> set[FileIdentifier]:
    return {entry.identifier() for entry in entries if entry.kind == FileKind.DELETE}
