"""Tells a snapshot that expired while it was read from a damaged table: in both a file is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, ExpiredFileError, PaimonError, SnapshotNotFoundError

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


@contextmanager
def snapshot_expiry_errors(table: FileStoreTable, snapshot_id: int) -> Iterator[None]:
    """Raise `SnapshotNotFoundError` where a file is missing because the snapshot that is read expires or has expired.

    Where the latest snapshot or a tag needs the file, the table is damaged: `CorruptTableError`.

    Args:
        table: the branch of the read.
        snapshot_id: of the snapshot that is read.
    """
    try:
        yield
    except ExpiredFileError as error:
        if _is_needed(table, snapshot_id, error.path or ""):
            raise CorruptTableError(str(error), path=error.path) from None
        raise SnapshotNotFoundError(
            f"Snapshot {snapshot_id} of table {table.path} has expired while it was read: {error.path} is deleted. "
            "Run the query again; to read that long, keep snapshots longer (snapshot.time-retained, "
            "snapshot.num-retained.min) or read a tag."
        ) from None


def _is_needed(table: FileStoreTable, snapshot_id: int, path: str) -> bool:
    """Whether a tag of the snapshot, or the latest snapshot, needs a file; assumed where that cannot be found out.

    The file of a snapshot is the last one that an expiry deletes, so a snapshot that is there may be expiring.
    """
    try:
        if any(tag.snapshot.id == snapshot_id for tag in table.tags.list().values()):
            return True
        if not table.snapshots.exists(snapshot_id):
            return False
        latest = table.snapshots.latest()
        return latest is None or latest.id <= snapshot_id or path.rpartition("/")[2] in _names(table, latest)
    except PaimonError:
        return True


def _names(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    """The names of all files of a snapshot."""
    store = table.manifests
    metas = [*store.data_manifests(snapshot), *store.changelog_manifests(snapshot)]
    names = {snapshot.base_manifest_list, snapshot.delta_manifest_list, *(meta.file_name for meta in metas)}
    if snapshot.index_manifest is not None:
        names |= {snapshot.index_manifest, *store.index_names(snapshot.index_manifest)}
    for entry in store.live_entries(snapshot):
        names |= {entry.file.file_name, *entry.file.extra_files}
    return names
