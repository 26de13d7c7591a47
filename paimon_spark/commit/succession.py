"""Whether one snapshot is built on another one: it has the files of that one, but for its own changes.

A commit looks after its publication whether the snapshot before it is still there, and withdraws its own if that was
rolled back; then it names its snapshot in LATEST. So a snapshot that LATEST does not name yet may be withdrawn, and
whatever follows it would bring back what was rolled back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.errors import PaimonError
from paimon_spark.spec.manifest import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_UNCERTAIN_SECONDS: Final = 0.3
_DOUBTFUL_SECONDS: Final = 5.0
_FEW_FILES: Final = 50_000


def snapshot_to_follow(table: FileStoreTable) -> Snapshot | None:
    """Return the snapshot that a commit follows, None when it is the first.

    One that LATEST does not name is taken at once if it is built on the one before it. Else it is waited for, since its
    own commit is about to withdraw it; shortly where nobody can tell with little work.

    Raises:
        TableNotFoundError: the table was dropped.
        CorruptTableError: the latest snapshot is lost, so that the commit would take its id.
    """
    return table.snapshots.latest_to_follow(lambda latest, waited: waited >= _doubtful_seconds(table, latest))


def _doubtful_seconds(table: FileStoreTable, latest: Snapshot) -> float:
    """How long a snapshot is waited for that LATEST does not name."""
    try:
        before = table.snapshots.find(latest.id - 1)
        if before is None:
            older = any(snapshot_id < latest.id for snapshot_id in table.snapshots.ids())
            return _DOUBTFUL_SECONDS if older else 0
        if latest.total_record_count - latest.delta_record_count != before.total_record_count:
            return _DOUBTFUL_SECONDS
        base, before_base = table.manifests.base_manifests(latest), table.manifests.data_manifests(before)
    except (OSError, PaimonError):
        return _UNCERTAIN_SECONDS
    if {meta.file_name for meta in before_base} <= {meta.file_name for meta in base}:
        return 0
    if sum(meta.num_added_files + meta.num_deleted_files for meta in (*base, *before_base)) > _FEW_FILES:
        return _UNCERTAIN_SECONDS
    return 0 if changes_only(table, latest, before, unread=True) else _DOUBTFUL_SECONDS


def holds_files(table: FileStoreTable, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
    """Tell whether a snapshot holds one of the files that these entries add.

    Raises:
        CorruptTableError: its manifests cannot be read.
    """
    names = {entry.file.file_name for entry in entries if entry.kind == FileKind.ADD}
    if not names:
        return False
    partitions = frozenset(entry.partition for entry in entries)
    return any(entry.file.file_name in names for entry in table.manifests.live_entries(snapshot, partitions=partitions))


def changes_only(table: FileStoreTable, snapshot: Snapshot, before: Snapshot, *, unread: bool) -> bool:
    """Tell whether a snapshot differs from the one before it by its own changes only.

    Args:
        table: the branch of both.
        snapshot: the later one.
        before: with the id before its id.
        unread: the answer where that cannot be read.
    """
    try:
        files = {_name(entry) for entry in table.manifests.live_entries(snapshot)}
        files_before = {_name(entry) for entry in table.manifests.live_entries(before)}
        manifests = table.manifests.delta_manifests(snapshot)
        changes = {_name(entry) for meta in manifests for entry in table.manifests.read_manifest(meta)}
    except (OSError, PaimonError):
        return unread
    return files ^ files_before <= changes


def _name(entry: ManifestEntry) -> tuple[bytes, int, str]:
    """Name a file at whatever level: a rollback as the latest snapshot changes levels without an entry."""
    return entry.partition, entry.bucket, entry.file.file_name
