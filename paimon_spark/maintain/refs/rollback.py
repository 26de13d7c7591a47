"""Going back to an earlier snapshot or a tag: what came later is forgotten.

Equals Java's ``RollbackHelper`` and the ``rollback`` procedures (docs/format.md §9). Data files are not deleted: those
of the forgotten commits become orphan files (`remove_orphan_files`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import CommitError, SnapshotNotFoundError
from paimon_spark.maintain.files.changelog_files import changelog_ids
from paimon_spark.maintain.files.lost_snapshot import check_nothing_lost
from paimon_spark.table.commit_times import count_until
from paimon_spark.table.time_travel import time_text

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_NO_WATERMARK = -(2**63)
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did."""

    previous_snapshot_id: int
    current_snapshot_id: int


def rollback_to_snapshot(table: FileStoreTable, snapshot_id: int) -> Rollback:
    """Make ``snapshot_id`` the latest snapshot again; when it has expired, a tag of it serves as well.

    Raises:
        SnapshotNotFoundError: neither the snapshot nor a tag of it exists.
        CommitError: somebody else committed meanwhile.
    """
    previous = _latest_id(table)
    if table.snapshots.exists(snapshot_id):
        return _go_back(table, previous, table.snapshots.get(snapshot_id))
    tagged = [tag.snapshot for tag in table.tags.list().values() if tag.snapshot.id == snapshot_id]
    if not tagged:
        ids = table.snapshots.ids()
        raise SnapshotNotFoundError(
            f"Rollback snapshot '{snapshot_id}' doesn't exist: there are {ids[0]} to {ids[-1]}, and no tag holds it."
        )
    return _go_back(table, previous, tagged[0])


def rollback_to_tag(table: FileStoreTable, name: str) -> Rollback:
    """Make the snapshot that a tag holds the latest one again, whether it has expired or not.

    Raises:
        SnapshotNotFoundError: there is no such tag; the message names those there are.
        CommitError: somebody else committed meanwhile.
    """
    return _go_back(table, _latest_id(table), table.tags.get(name).snapshot)


def rollback_to_timestamp(table: FileStoreTable, time_millis: int) -> Rollback:
    """Go back to the latest living snapshot that was committed at or before a time.

    Raises:
        SnapshotNotFoundError: no living snapshot is that old.
        CommitError: somebody else committed meanwhile.
    """
    previous, ids, get = _latest_id(table), table.snapshots.ids(), table.snapshots.get
    found = count_until(table.snapshots, ids, time_millis)
    if not found:
        raise SnapshotNotFoundError(f"Cannot find a snapshot earlier than {time_text(time_millis)}.")
    return _go_back(table, previous, get(ids[found - 1]))


def rollback_to_watermark(table: FileStoreTable, watermark: int) -> Rollback:
    """Go back to the latest living snapshot whose watermark is ``watermark`` or earlier.

    Raises:
        SnapshotNotFoundError: no living snapshot has such a watermark.
        CommitError: somebody else committed meanwhile.
    """
    previous = _latest_id(table)
    for snapshot in table.snapshots.newest_first():
        if snapshot.watermark is not None and _NO_WATERMARK < snapshot.watermark <= watermark:
            return _go_back(table, previous, snapshot)
    raise SnapshotNotFoundError(f"Cannot find a snapshot earlier than {watermark}: none has such a watermark.")


def _latest_id(table: FileStoreTable) -> int:
    latest = table.snapshots.latest_id()
    if latest is None:
        raise SnapshotNotFoundError(f"Latest snapshot is null, can not rollback: {table.path} has no snapshot yet.")
    return latest


def _go_back(table: FileStoreTable, previous: int, kept: Snapshot) -> Rollback:
    check_nothing_lost(table)
    io, paths, ids = table.file_io, table.paths, table.snapshots.ids()
    gone = kept.id not in ids
    if gone and all(tag.snapshot.id != kept.id for tag in table.tags.list().values()):
        raise CommitError(
            f"Table {table.path} is not rolled back to snapshot {kept.id}, and nothing was deleted: that snapshot is "
            "gone, by another rollback or by expiry meanwhile. See which are left ($snapshots), then try again."
        )
    # Java: writes the snapshot of an expired tag last; written first, the table is never without a snapshot
    made = gone and io.create_exclusive(paths.snapshot_path(kept.id), kept.to_json().encode())
    try:
        table.snapshots.take_back(kept.id, max([kept.id, *ids]))
    except OSError as error:
        if made:
            io.delete_quietly(paths.snapshot_path(kept.id))
        raise CommitError(
            f"Table {table.path} is not rolled back to snapshot {kept.id}, and nothing was deleted: the hint LATEST "
            f"could not be written ({error}). See that {paths.snapshot_dir} can be written and that nobody commits "
            "meanwhile, then roll back again."
        ) from error
    if made:
        table.snapshots.write_earliest_hint(min([kept.id, *ids]))
    for snapshot_id in reversed(ids):
        if snapshot_id > kept.id:
            io.delete_quietly(paths.snapshot_path(snapshot_id))
    _delete_followers(table, kept.id)
    forget_changelogs(table, kept.id)
    later = [name for name, tag in table.tags.list().items() if tag.snapshot.id > kept.id]
    left = [name for name in later if not io.delete_quietly(paths.tag_path(name))]
    latest = max(table.snapshots.ids(), default=None)
    if left:
        raise CommitError(
            f"Rollback of {table.path} to snapshot {kept.id} is not complete: tags of later snapshots could not be "
            f"deleted: {', '.join(left)}. See that the directory of the tags can be written, then try again."
        )
    if latest is not None and latest < kept.id:  # another rollback went further back; it may be done already
        table.snapshots.write_latest_hint(latest)
    if latest != kept.id:
        raise CommitError(
            f"Rollback of {table.path} to snapshot {kept.id} is not complete: its latest snapshot is {latest} now. "
            "Another writer has committed meanwhile, or a file could not be deleted. Stop other writers and try again"
        )
    return Rollback(previous, kept.id)


def _delete_followers(table: FileStoreTable, kept_id: int) -> None:
    """Delete the snapshots of commits that followed one that is deleted now: they would bring its files back.

    Commits look whether the snapshot before theirs is still there, so none comes after those that are found.
    """
    for _ in range(_ROUNDS):
        ids = [snapshot_id for snapshot_id in table.snapshots.ids() if snapshot_id > kept_id]
        others = [snapshot_id for at, snapshot_id in enumerate(ids) if snapshot_id != kept_id + 1 + at]
        if not others:
            return
        try:
            table.snapshots.take_back(ids[-len(others) - 1] if len(ids) > len(others) else kept_id, others[-1])
        except OSError:
            continue  # a commit has just written its hint
        for snapshot_id in reversed(others):
            table.file_io.delete_quietly(table.paths.snapshot_path(snapshot_id))


def forget_changelogs(table: FileStoreTable, kept_id: int) -> None:
    """Delete the long-lived changelogs after a snapshot, from the latest down."""
    ids = changelog_ids(table, table.paths)
    later = [changelog_id for changelog_id in ids if changelog_id > kept_id]
    if not later:
        return
    remaining = kept_id if len(later) < len(ids) else -1
    hint = f"{table.paths.changelog_dir}/LATEST"
    table.file_io.write_bytes(hint, str(remaining).encode("ascii"), overwrite=True)
    for changelog_id in reversed(later):
        table.file_io.delete_quietly(table.paths.changelog_path(changelog_id))
