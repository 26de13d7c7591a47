"""Publishing: ``snapshot-N`` is created exclusively, so that exactly one commit gets the id.

Java: ``RenamingSnapshotCommit`` looks whether the file exists and then renames, which loses commits when processes
race; here the store's own exclusive create decides (``FileIO.create_exclusive``). After an unclear answer the file is
read back and its ``uuid`` tells whose it is (docs/internals/format.md §2, docs/internals/design.md §4). Then the table
is looked at once more: a snapshot in a table that was dropped meanwhile, or dropped and made again, is withdrawn, and
so is one that follows a snapshot that was rolled back meanwhile.

Whether one snapshot is built on another one: it has the files of that one, but for its own changes.

A commit looks after its publication whether the snapshot before it is still there, and withdraws its own if that was
rolled back; then it names its snapshot in LATEST. So a snapshot that LATEST does not name yet may be withdrawn, and
whatever follows it would bring back what was rolled back.

Whoever keeps rows of tables in this process hears when a table has other rows. Runs on the driver.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from paimon_spark.commit.conflict_detection import another_table
from paimon_spark.commit.metastore_publish import publish_by_server, report_partitions
from paimon_spark.errors import (
    CommitError,
    CommitStateUnknownError,
    PaimonError,
    TableBusyError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.spec.json_text import json_bytes
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.storage.store_errors import FINAL_ERRNOS
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from paimon_spark.commit.settings import Retries
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.table.table import FileStoreTable

LONGEST_UNCLEAR_SECONDS: Final = 30
"""So long a store is asked what became of a snapshot, where `commit.timeout` says nothing else."""

_UNCERTAIN_SECONDS: Final = 0.3
_DOUBTFUL_SECONDS: Final = 5.0
_FEW_FILES: Final = 50_000
_LOG = logging.getLogger(__name__)


class Publication(Enum):
    """What became of a snapshot that was to be published."""

    DONE = "done"
    """It is the table's."""
    TAKEN = "taken"
    """Another commit has its id: it has to be made anew."""
    WITHDRAWN = "withdrawn"
    """It was there for a moment; the snapshot before it was rolled back meanwhile. It has to be made anew."""


class _Owner(Enum):
    OURS = "ours"
    OTHERS = "others"
    NOBODY = "nobody"


def publish_snapshot(
    table: FileStoreTable,
    snapshot: Snapshot,
    retries: Retries,
    *,
    follows: Snapshot | None = None,
    files: Sequence[ManifestEntry] = (),
) -> Publication:
    """Publish a snapshot: by the table's server where it has one, else by its file.

    Args:
        table: where to publish.
        snapshot: has a uuid that no other attempt ever had.
        retries: waits between attempts; shared with the commit's own loop.
        follows: the snapshot before it, whose files it has; None: it is the first one.
        files: what it changes; a server learns how much that is.

    Raises:
        CommitError: nothing was committed, for a reason that stays.
        CommitStateUnknownError: nobody gave a clear answer; nothing may be deleted.
        CommitConflictError: the table was dropped and made again meanwhile; the new one does not have the snapshot.
        TableNotFoundError: the table was dropped meanwhile.
    """
    server = table.server
    if server is None:
        outcome = _publish_file(table, snapshot, retries, follows=follows)
        if outcome is Publication.DONE:
            report_partitions(table, snapshot, files)
        return outcome
    if not publish_by_server(table, server, snapshot, retries, follows=follows, files=files):
        return Publication.TAKEN
    tell_watchers(table)
    return Publication.DONE


def _refusal(snapshot: Snapshot, path: str, failure: Exception | None) -> CommitError:
    """Say that the store, or the holder of the catalog's lock, let no snapshot be written."""
    if isinstance(failure, TableBusyError):
        return CommitError(f"Nothing was committed. {failure}")
    return CommitError(
        f"Snapshot {snapshot.id} could not be written: {failure}. Nothing was committed. See that the table's "
        f"snapshot directory can be written, then run the write again (file: {path})."
    )


def _publish_file(
    table: FileStoreTable, snapshot: Snapshot, retries: Retries, *, follows: Snapshot | None
) -> Publication:
    """Create the snapshot's file exclusively.

    Creating the same bytes again after an unclear answer is safe: if the first attempt arrived late, the second finds a
    file with our uuid.

    Args:
        table: where to publish.
        snapshot: has a uuid that no other attempt ever had.
        retries: waits between attempts; shared with the commit's own loop.
        follows: the snapshot before it, whose files it has; None: it is the first one.

    Returns:
        `WITHDRAWN` where the snapshot before it was rolled back meanwhile: this one would bring that back.

    Raises:
        CommitError: the store refused for good and the file is not there; nothing was committed.
        CommitStateUnknownError: neither creating nor reading back gave a clear answer; nothing may be deleted.
        CommitConflictError: the table was dropped and made again meanwhile; the new one does not have the snapshot.
        TableNotFoundError: the table was dropped meanwhile.
    """
    path = table.paths.snapshot_path(snapshot.id)
    data = json_bytes(snapshot.to_json(), "The snapshot (its commit user or properties)")
    begun = time.monotonic()
    while True:
        failure: Exception | None = None
        try:
            if table.file_io.create_exclusive(path, data):
                break
        except Exception as error:  # noqa: BLE001 - whatever it was, only reading back tells the outcome
            failure = error
        owner = _owner(table, snapshot, retries, failure, begun)
        if owner is _Owner.OURS:
            break
        if owner is _Owner.OTHERS:
            return Publication.TAKEN
        refused = isinstance(failure, PermissionError | UnsupportedError | TableBusyError)
        if refused or (isinstance(failure, OSError) and failure.errno in FINAL_ERRNOS):
            raise _refusal(snapshot, path, failure) from failure
        if _is_given_up(retries, begun):
            raise _unknown(table, snapshot, failure) from failure
        retries.wait()
    gone = _table_gone(table)
    if gone is not None:
        _withdraw(table, snapshot)
        raise gone
    before = None if follows is None else _read_again(table, follows)
    if follows is not None and _is_rolled_back(table, follows, before):
        is_followed = table.snapshots.exists(snapshot.id + 1)
        if not is_followed:
            _withdraw(table, snapshot)
        if _owner(table, snapshot, retries, None, begun) is not _Owner.OURS:  # the rollback may have deleted it, too
            return Publication.WITHDRAWN
        if not is_followed:
            raise _unknown(table, snapshot, None)
    if follows is not None and before is None and _may_be_overtaken(table, snapshot):
        raise CommitStateUnknownError(
            f"It is unknown whether the rows of snapshot {snapshot.id} are in table {table.path}: others "
            f"committed meanwhile and snapshot {follows.id} expired, so that its id may have been given twice. No file "
            f"was deleted. Look whether the rows are there; if not, run the write again. Keep snapshots for longer "
            f"than a commit takes (snapshot.time-retained, snapshot.num-retained.min)."
        )
    with contextlib.suppress(Exception):  # published: the commit has taken place even if the hint cannot be written
        table.snapshots.announce(snapshot.id)
    tell_watchers(table)
    return Publication.DONE


def _table_gone(table: FileStoreTable) -> PaimonError | None:
    """Say what became of the table, if it is no longer the one that the commit was planned for; None if it is."""
    try:
        if table.schemas.is_still(table.schema.id):
            return None
        dropped = not table.schemas.ids()
    except OSError:
        return None  # it was there a moment ago, and nothing says otherwise
    if dropped:
        return TableNotFoundError(f"The table {table.path} was dropped while it was written: no schema file.")
    return another_table(table.path, table.schema.id)


def _read_again(table: FileStoreTable, follows: Snapshot) -> Snapshot | None:
    """What has the id of a snapshot now; None where nothing has."""
    try:
        return table.snapshots.find(follows.id)
    except (OSError, PaimonError):
        return follows  # it was there a moment ago, and nothing says otherwise


def _is_rolled_back(table: FileStoreTable, follows: Snapshot, found: Snapshot | None) -> bool:
    """Whether a snapshot was rolled back; one that has expired went after all that were before it."""
    if found is not None:
        return SnapshotIdentity.of(found) != SnapshotIdentity.of(follows)
    try:
        return any(snapshot_id < follows.id for snapshot_id in table.snapshots.ids())
    except (OSError, PaimonError):
        return False


def _may_be_overtaken(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Whether a snapshot of the same id, after one that has expired, may have been published and have expired too.

    It has not, if the next one is built on ours and all up to the latest are there.
    """
    try:
        ids = [number for number in table.snapshots.ids() if number >= snapshot.id]
        if ids == [snapshot.id]:
            return table.snapshots.latest_id() != snapshot.id
        ours, following = table.snapshots.find(snapshot.id), table.snapshots.find(snapshot.id + 1)
        if ours is None or following is None or ours.uuid != snapshot.uuid or len(ids) != ids[-1] - ids[0] + 1:
            return True
        return not changes_only(table, following, ours, unread=False)
    except (OSError, PaimonError):
        return False


def _withdraw(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Delete the snapshot's file from a table that it does not belong to."""
    path, directory = table.paths.snapshot_path(snapshot.id), table.paths.snapshot_dir
    with contextlib.suppress(OSError, PaimonError):  # what cannot be read is not ours
        if Snapshot.from_json(table.file_io.read_bytes(path), path=path).uuid == snapshot.uuid:
            table.file_io.delete_quietly(path)
            table.file_io.delete_empty_directory(directory)


def publish_again(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Put back a snapshot that was withdrawn although another one, which stays, was built on it."""
    with contextlib.suppress(Exception):  # its rows are the table's all the same; only the history lacks it
        table.file_io.create_exclusive(table.paths.snapshot_path(snapshot.id), snapshot.to_json().encode())
        tell_watchers(table)


def _is_given_up(retries: Retries, begun: float) -> bool:
    """Whether a store that gives no clear answer is asked no more: a silent one takes most of a minute each time."""
    waited = time.monotonic() - begun
    return retries.exhausted or (retries.timeout_millis is None and waited > LONGEST_UNCLEAR_SECONDS)


def _owner(
    table: FileStoreTable, snapshot: Snapshot, retries: Retries, failure: Exception | None, begun: float
) -> _Owner:
    """Read the snapshot file back and tell whose it is."""
    path = table.paths.snapshot_path(snapshot.id)
    while True:
        try:
            found = Snapshot.from_json(table.file_io.read_bytes(path), path=path)
        except FileNotFoundError:
            return _Owner.NOBODY
        except (OSError, PaimonError) as error:
            if _is_given_up(retries, begun):
                raise _unknown(table, snapshot, failure or error) from error
            retries.wait()
        else:
            return _Owner.OURS if found.uuid == snapshot.uuid else _Owner.OTHERS


def _unknown(table: FileStoreTable, snapshot: Snapshot, cause: Exception | None) -> CommitStateUnknownError:
    path = table.paths.snapshot_path(snapshot.id)
    reason = f" ({type(cause).__name__}: {cause})" if cause else ""
    return CommitStateUnknownError(
        f"It is unknown whether snapshot {snapshot.id} of table {table.path} was committed: the store gave no clear "
        f"answer{reason}. No file was deleted. To find out, look at {path} (or the row of snapshot {snapshot.id} in "
        f"the table's $snapshots): if it holds uuid {snapshot.uuid} (commit user {snapshot.commit_user}, commit "
        f"identifier {snapshot.commit_identifier}, kind {snapshot.commit_kind.value}), the commit took place and must "
        f"not be repeated; if it holds another uuid or is still missing after some minutes, the commit is void: run "
        f"the write again."
    )


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
    """Tell whether a snapshot holds one of the files that these entries add; a file at another level is another one.

    Raises:
        CorruptTableError: its manifests cannot be read.
    """
    kept, added = (
        {(entry.file.file_name, entry.file.level) for entry in entries if entry.kind == kind}
        for kind in (FileKind.DELETE, FileKind.ADD)
    )
    new = added - kept
    if not new:
        return False
    partitions = frozenset(entry.partition for entry in entries)
    live = table.manifests.live_entries(snapshot, partitions=partitions)
    return any((entry.file.file_name, entry.file.level) in new for entry in live)


def changes_only(table: FileStoreTable, snapshot: Snapshot, before: Snapshot, *, unread: bool) -> bool:
    """Tell whether a snapshot differs from the one before it by its own changes only."""
    try:
        files = {name_at_any_level(entry) for entry in table.manifests.live_entries(snapshot)}
        files_before = {name_at_any_level(entry) for entry in table.manifests.live_entries(before)}
        manifests = table.manifests.delta_manifests(snapshot)
        changes = {name_at_any_level(entry) for meta in manifests for entry in table.manifests.read_manifest(meta)}
    except (OSError, PaimonError):
        return unread
    return files ^ files_before <= changes


def name_at_any_level(entry: ManifestEntry) -> tuple[bytes, int, str]:
    """Name a file at whatever level: a rollback as the latest snapshot changes levels without an entry."""
    return entry.partition, entry.bucket, entry.file.file_name


WATCHERS: Final[dict[Hashable, Callable[[FileStoreTable], None]]] = {}
"""By who watches: it is informed of a table whose latest snapshot is another one, by this process."""


def tell_watchers(table: FileStoreTable) -> None:
    """Tell those who keep rows of a table that they are others; an error of theirs is logged, since it is done."""
    for watcher in [*WATCHERS.values()]:
        try:
            watcher(table)
        except Exception as error:  # noqa: BLE001 - what was committed stays committed
            _LOG.warning("Rows of %s that are cached may be old: %s", table.path, error)
