"""Which snapshot something was planned on, and whether it is still there.

The id alone is not enough: a rollback gives it to another snapshot. Where a file is missing, a snapshot that expired
while it was read is told from a damaged table: on the driver, or while a task reads its files; so is a stream whose
next snapshot has expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, ExpiredFileError, PaimonError, SnapshotNotFoundError

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.snapshot_store import SnapshotStore
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class SnapshotIdentity:
    """One snapshot of one table, distinct from every other with its id. Plain values, picklable."""

    id: int = 0
    """0 stands for a table without snapshots."""
    name: str = ""
    """Unique names: its uuid, which old snapshots lack, and its delta manifest list."""
    schema_id: int = field(default=0, compare=False)
    """The table's schema when it was made."""

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> SnapshotIdentity:
        """Return the identity of a snapshot; None is the state before the first one."""
        if snapshot is None:
            return cls()
        return cls(snapshot.id, f"{snapshot.uuid or ''}/{snapshot.delta_manifest_list}", snapshot.schema_id)

    def find(self, snapshots: SnapshotStore) -> Snapshot | None:
        """Return the snapshot; None for the state before the first one.

        Raises:
            SnapshotNotFoundError: it has expired, or was rolled back (another one may have its id).
        """
        if not self.id:
            return None
        found = snapshots.get(self.id)
        if SnapshotIdentity.of(found) != self:
            raise SnapshotNotFoundError(
                f"Snapshot {self.id} is not the one that was there before: the table was rolled back, restored or made "
                f"anew meanwhile."
            )
        return found

    def later(self, snapshots: SnapshotStore) -> Iterator[Snapshot]:
        """Yield the living snapshots after this one, the newest first; all of them where this one does not live.

        Raises:
            CorruptTableError: a snapshot cannot be read.
        """
        for snapshot in snapshots.newest_first():
            if SnapshotIdentity.of(snapshot) == self:
                return
            yield snapshot


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
