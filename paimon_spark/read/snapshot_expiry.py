"""Tells a snapshot that expired while it was read from a damaged table: in both a file is missing.

The error of a stream whose next snapshot has expired: on the driver, or while a task reads its files.
"""

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


def expired_error(table: FileStoreTable, snapshot_id: int, *, full: bool) -> SnapshotNotFoundError:
    """Return the error that names the options by which a stream keeps its snapshots.

    Args:
        table: of the stream.
        snapshot_id: that was to be read.
        full: whether its state was to be read, not its changes.
    """
    ids = table.snapshots.ids()
    what = "state at" if full else "changes of"
    living = f"{ids[0]} to {ids[-1]}" if ids else "none"
    return SnapshotNotFoundError(
        f"The {what} snapshot {snapshot_id} of table {table.path}, which the stream is to read next, cannot be read "
        f"any more: it has expired. The snapshots are {living}. Option 'consumer-id' = '<a name>' of a stream keeps "
        "the snapshots that it has not read; the table's options 'snapshot.time-retained' and "
        "'snapshot.num-retained.min' keep snapshots longer, 'changelog.time-retained' their changelogs. To go on "
        "without what is lost, start with a new checkpoint directory, with 'scan.mode' = 'latest-full' or with "
        f"'scan.snapshot-id' = '{ids[0] if ids else 1}'."
    )


@contextmanager
def stream_expiry_errors(table: FileStoreTable, snapshot_id: int, *, full: bool) -> Iterator[None]:
    """Raise `expired_error` where a file is missing because the snapshot has expired; arguments as of `expired_error`.

    Raises:
        CorruptTableError: the file is missing although the snapshot is there.
    """
    try:
        with snapshot_expiry_errors(table, snapshot_id):
            yield
    except SnapshotNotFoundError as error:
        raise expired_error(table, snapshot_id, full=full) from error
