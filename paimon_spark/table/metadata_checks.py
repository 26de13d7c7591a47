"""Checks of metadata files against what manifest lists and snapshots record: bytes and numbers of entries.

They find a file that was truncated, exchanged or overwritten before its entries are used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.avro_container import index_container
from paimon_spark.spec.manifest import FileKind

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import FileChange, RecordedFile
    from paimon_spark.spec.manifest_columns import Identity, ManifestColumns
    from paimon_spark.spec.snapshot import Snapshot


def check_size(path: str, data: bytes, expected: int | None, *, what: str, by: str) -> None:
    """Check a file's bytes against the size that is recorded of it; None is not recorded.

    Raises:
        CorruptTableError: they differ.
    """
    if expected is not None and expected != len(data):
        raise CorruptTableError(
            f"{what} has {len(data)} bytes, but {by} says {expected}: the file was damaged or exchanged for another.",
            path=path,
        )


def check_list_size(path: str, data: bytes, expected: int | None) -> None:
    """Check a manifest list's bytes against the size that its snapshot says, if it does; errors as of `check_size`."""
    check_size(path, data, expected, what="The manifest list", by="its snapshot")


def check_manifest_size(path: str, data: bytes, expected: int | None) -> None:
    """Check a manifest's bytes against the size that its manifest list says; errors as of `check_size`."""
    check_size(path, data, expected, what="The manifest", by="its manifest list")


def check_manifest(path: str, data: bytes, recorded: RecordedFile) -> None:
    """Check a manifest's bytes and number of entries against what the manifest list says.

    Raises:
        CorruptTableError: they differ, or the bytes are no Avro file.
    """
    check_manifest_size(path, data, recorded.size)
    check_entries(path, sum(count for count, _, _ in index_container(data, path=path).blocks), recorded)


def check_entries(path: str, entries: int, recorded: RecordedFile) -> None:
    """Check how many entries a manifest has.

    Raises:
        CorruptTableError: not as many as the manifest list says.
    """
    expected = (recorded.added or 0) + (recorded.deleted or 0)
    if recorded.added is not None and entries != expected:
        raise CorruptTableError(
            f"The manifest has {entries} entries, but its manifest list says {expected}: "
            "one of the two was damaged or exchanged for another.",
            path=path,
        )


def checked_manifests(
    files: Iterable[tuple[str, bytes]], manifests: Iterable[RecordedFile]
) -> Iterator[tuple[str, bytes]]:
    """Paths and bytes of manifests, each checked against what is recorded of it."""
    for (path, data), recorded in zip(files, manifests, strict=True):
        check_manifest(path, data, recorded)
        yield path, data


def check_kinds(path: str, added: int, expected: int | None) -> None:
    """Check how many entries of a manifest are ADD.

    Raises:
        CorruptTableError: not as many as the manifest list says.
    """
    if expected is not None and added != expected:
        raise CorruptTableError(
            f"{added} entries of the manifest add a file, but its manifest list says {expected}: "
            "one of the two was damaged or exchanged for another.",
            path=path,
        )


def checked_kinds(
    found: Iterable[ManifestColumns], manifests: Sequence[RecordedFile], path_of: Callable[[str], str]
) -> Iterator[ManifestColumns]:
    """The entries of manifests, counted; as `check_kinds` after the last of them."""
    added = 0
    for columns in found:
        added += int(np.count_nonzero(columns.kinds == FileKind.ADD))
        yield columns
    expected = sum(recorded.added or 0 for recorded in manifests)
    if added != expected:
        check_kinds(path_of(manifests[0].name), added, expected)


def checked_changes(path: str, changes: list[FileChange], recorded: RecordedFile) -> list[FileChange]:
    """The entries of one manifest, counted; errors as of `check_entries` and `check_kinds`."""
    check_entries(path, len(changes), recorded)
    check_kinds(path, sum(change.kind == FileKind.ADD for change in changes), recorded.added)
    return changes


def checked_rows(found: Iterable[ManifestColumns], snapshot: Snapshot, path: str) -> Iterator[ManifestColumns]:
    """All entries of a snapshot; after the last one, their rows are checked against the snapshot's count.

    Raises:
        CorruptTableError: the rows of all files are not as many as the snapshot says; 0 is not recorded.
    """
    rows = 0
    for columns in found:
        rows += int(np.where(columns.kinds == FileKind.ADD, columns.row_counts, -columns.row_counts).sum())
        yield columns
    if snapshot.total_record_count not in (0, rows):
        raise CorruptTableError(
            f"The files of snapshot {snapshot.id} have {rows} rows, but the snapshot says "
            f"{snapshot.total_record_count}: one of its manifests, or its list of them, was damaged or exchanged.",
            path=path,
        )


def may_repeat(found: Iterable[ManifestColumns]) -> bool:
    """Return whether some file may be added once more than it is deleted, or anew at the level that it has left.

    Holds 24 bytes for each entry.
    """
    hashes, changes, locations = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for columns in found:
        names = np.fromiter(map(hash, columns.file_names), np.int64, len(columns))
        hashes.append(names)
        changes.append(np.where(columns.kinds == FileKind.ADD, 1, -1))
        locations.append((names ^ columns.levels)[columns.kinds == FileKind.ADD])
    _, location = np.unique(np.concatenate(hashes), return_inverse=True)
    _, additions = np.unique(np.concatenate(locations), return_counts=True)
    return bool((np.bincount(location, np.concatenate(changes)) > 1).any() or (additions > 1).any())


def check_none_revived(found: Collection[Identity], path: str) -> None:
    """Check that no file came back after it was deleted: readers, which collect deletes first, would miss its rows.

    Java's ``rollbackToAsLatest`` followed by a compaction leaves such files.

    Raises:
        CorruptTableError: there is one.
    """
    for name, *_ in found:
        raise CorruptTableError(
            f"Data file {name} is deleted and then added again, so readers of Java would miss its rows: its level was "
            "lowered by a rollback of Java and raised by a compaction. CALL sys.compact_manifest "
            "(PaimonTable.compact_manifest) mends the table.",
            path=path,
        )


def check_once(names: Sequence[str], path: str) -> None:
    """Check that no data file is there twice (Java: ``FileEntry.mergeEntries``).

    Raises:
        CorruptTableError: one is.
    """
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    hashes.sort()  # a set of a million names takes 60 MB
    if (hashes[1:] == hashes[:-1]).any() and len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise CorruptTableError(
            f"Trying to add file {twice} which is already added: one of the snapshot's manifests, or its list of them, "
            "was damaged or exchanged.",
            path=path,
        )
