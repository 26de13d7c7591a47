"""Going back to an earlier snapshot or a tag: what came later is forgotten.

Equals Java's ``RollbackHelper`` and the ``tags`` procedures (docs/internals/format.md §9). Data files are not
deleted: those of the forgotten commits become orphan files (`remove_orphan_files`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import republish_iceberg
from paimon_spark.commit.succession import changes_only
from paimon_spark.errors import CatalogServerError, CommitError, SnapshotNotFoundError
from paimon_spark.maintain.files.changelog_files import changelog_ids
from paimon_spark.maintain.files.lost_snapshot import check_nothing_lost
from paimon_spark.maintain.files.one_at_a_time import one_at_a_time
from paimon_spark.table.commit_times import count_until
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.time_travel import time_text
from paimon_spark.table.watchers import changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.table import FileStoreTable

_NO_WATERMARK = -(2**63)
_FOLLOWERS_SECONDS = 60.0
_MOST_FOLLOWERS = 1000
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did."""

    previous_snapshot_id: int
    current_snapshot_id: int


@one_at_a_time("a rollback")
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
    name = next(name for name, tag in table.tags.list().items() if tag.snapshot.id == snapshot_id)
    return _go_back(table, previous, tagged[0], tag=name)


@one_at_a_time("a rollback")
def rollback_to_tag(table: FileStoreTable, name: str) -> Rollback:
    """Make the snapshot that a tag holds the latest one again, whether it has expired or not.

    Raises:
        SnapshotNotFoundError: there is no such tag; the message names those there are.
        CommitError: somebody else committed meanwhile.
    """
    return _go_back(table, _latest_id(table), table.tags.get(name).snapshot, tag=name)


@one_at_a_time("a rollback")
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


@one_at_a_time("a rollback")
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


def _go_back(table: FileStoreTable, previous: int, kept: Snapshot, *, tag: str | None = None) -> Rollback:
    server = table.server
    if server is not None:
        return _go_back_by_server(table, server, previous, kept, tag)
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
    delete_later(table, kept.id, [snapshot_id for snapshot_id in ids if snapshot_id > kept.id])
    forget_changelogs(table, kept.id)
    later = [name for name, tag in table.tags.list().items() if tag.snapshot.id > kept.id]
    left = [name for name in later if not io.delete_quietly(paths.tag_path(name))]
    latest = max(table.snapshots.ids(), default=None)
    changed(table)
    republish_iceberg(table)
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


def _go_back_by_server(
    table: FileStoreTable, server: TableServer, previous: int, kept: Snapshot, tag: str | None
) -> Rollback:
    """Let the server go back, unless somebody has committed since ``previous``."""
    branch = "" if table.branch == MAIN_BRANCH else table.branch
    try:
        server.roll_back(branch, snapshot_id=kept.id, tag=tag, previous_id=previous)
    except CatalogServerError as error:
        if error.status == 404:
            what = f"tag '{tag}'" if tag is not None else f"snapshot '{kept.id}'"
            raise SnapshotNotFoundError(
                f"Rollback {what} doesn't exist: the table's server does not have it."
            ) from None
        raise CommitError(f"Table {server.address} is not rolled back to snapshot {kept.id}: {error}") from error
    changed(table)
    republish_iceberg(table)
    return Rollback(previous, kept.id)


def delete_later(table: FileStoreTable, kept_id: int, later: Sequence[int], *, final_id: int | None = None) -> None:
    """Delete snapshots from the latest down, and those of commits that followed one of them meanwhile.

    Those would bring the files of a deleted snapshot back. Each commit looks, after it was published, whether the
    snapshot before it is still there. So the followers come to an end as soon as the deletions are ahead of them.

    Args:
        table: the branch; `SnapshotStore.take_back` has moved LATEST already.
        kept_id: the latest snapshot that stays.
        later: the snapshots after it, ascending.
        final_id: the latest snapshot when all is done, if it is another one (fast-forward).
    """
    for _ in range(_MOST_FOLLOWERS if later else 0):
        for snapshot_id in reversed(later):
            table.file_io.delete_quietly(table.paths.snapshot_path(snapshot_id))
        end = time.monotonic() + _FOLLOWERS_SECONDS  # however long the deletions took
        while True:
            last_id, later = _followers(table, kept_id)
            if not later or time.monotonic() > end:
                return
            try:
                table.snapshots.take_back(last_id, later[-1], later_id=final_id)
                break
            except OSError:  # a commit has just written its hint
                time.sleep(_PAUSE_SECONDS)


def _followers(table: FileStoreTable, kept_id: int) -> tuple[int, list[int]]:
    """Return the last snapshot that holds no file of a deleted one, and those after it, ascending."""
    ids = [snapshot_id for snapshot_id in table.snapshots.ids() if snapshot_id > kept_id]
    last_id, before = kept_id, table.snapshots.find(kept_id)
    for at, snapshot_id in enumerate(ids):
        found = table.snapshots.find(snapshot_id)
        if snapshot_id != last_id + 1 or (before and found and not changes_only(table, found, before, unread=True)):
            return last_id, ids[at:]
        last_id, before = snapshot_id, found
    return last_id, []


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
