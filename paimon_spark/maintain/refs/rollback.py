"""Going back to an earlier snapshot or a tag: what came later is forgotten, or its rows become a new snapshot.

Equals Java's ``RollbackHelper`` and the ``tags`` procedures (docs/internals/format.md §9). Data files are not
deleted: those of the forgotten commits become orphan files (`remove_orphan_files`). Without forgetting: Java's
``FileStoreCommitImpl.rollbackToAsLatest`` and Flink's ``RollbackToAsLatestProcedure`` (§8).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import refresh_iceberg, republish_iceberg
from paimon_spark.commit.metadata_commit import WholeState, commit_state
from paimon_spark.commit.publish import changes_only, name_at_any_level, tell_watchers
from paimon_spark.errors import (
    CatalogServerError,
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    OptionError,
    SnapshotNotFoundError,
    StorageError,
)
from paimon_spark.maintain.files.lease import one_at_a_time
from paimon_spark.maintain.files.needed_files import changelog_ids
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.maintain.refs.tags import create_due_tags, delete_tag
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.time_travel import count_until, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.table import FileStoreTable

_NO_WATERMARK = -(2**63)
_FOLLOWERS_SECONDS = 60.0
_FEWEST_TRIES = 5
"""However long each takes: on a store that stalls, one look can take a minute."""
_MOST_FOLLOWERS = 1000
_PAUSE_SECONDS = 0.01
_MOST_FAILED = 3
"""So often it is tried to delete snapshots that stay, as where a right is missing."""


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
    tell_watchers(table)
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
    tell_watchers(table)
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

    Raises:
        CommitError: the store does not answer what deletes; the same call, run again, continues.
    """
    failed = 0
    for _ in range(_MOST_FOLLOWERS if later else 0):
        paths = [table.paths.snapshot_path(snapshot_id) for snapshot_id in reversed(later)]
        left = [path for path in paths if not table.file_io.delete_quietly(path)]
        failed += bool(left)
        if left:
            _check_answered(table, kept_id, left[0])
        if failed == _MOST_FAILED:
            return
        end, tries = time.monotonic() + _FOLLOWERS_SECONDS, 0  # however long the deletions took
        while True:
            last_id, later = _followers(table, kept_id)
            if not later:
                return
            try:
                table.snapshots.take_back(last_id, later[-1], later_id=final_id)
                break
            except OSError:  # a commit has just written its hint
                tries += 1
                if tries >= _FEWEST_TRIES and time.monotonic() > end:
                    return
                time.sleep(_PAUSE_SECONDS)


def _check_answered(table: FileStoreTable, kept_id: int, path: str) -> None:
    try:
        table.file_io.check_deletes(path)
    except StorageError as error:
        raise CommitError(
            f"Snapshots of {table.path} after snapshot {kept_id} are not all deleted: {error}. Run the same again when "
            "the store answers: that goes on where this has stopped"
        ) from error


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


_PREFIX = "rollback-to-as-latest-"


@dataclass(frozen=True, slots=True)
class RollbackAsLatest:
    """What such a rollback did."""

    previous_snapshot_id: int
    rolled_back_snapshot_id: int
    """The snapshot whose rows are the table's again."""
    current_snapshot_id: int
    """The new snapshot."""


@one_at_a_time("a rollback")
def rollback_to_as_latest(
    table: FileStoreTable, *, snapshot_id: int | None = None, tag: str | None = None
) -> RollbackAsLatest:
    """Commit the state of an earlier snapshot or tag once more; snapshots, tags and history stay.

    Expiry by other engines looks for files that a snapshot deleted in the nearest earlier tag only, and would delete
    files that are live again. So, as in Java, a snapshot given without a tag gets the tag
    ``rollback-to-as-latest-<id>-<uuid>``. The new snapshot gets the tag ``rollback-to-as-latest-<id>-as-<new id>`` (not
    in Java): it protects the files when they are deleted once more. Keep these tags, the given one too, as long as the
    rows.

    Args:
        table: the branch.
        snapshot_id: the snapshot, or one that only a tag still holds.
        tag: the tag; exactly one of them must be given.

    Raises:
        OptionError: not exactly one of them is given.
        SnapshotNotFoundError: there is no such snapshot or tag, or no snapshot at all.
        CommitConflictError: rivals won too often; nothing was committed.
        CommitStateUnknownError: the store gave no clear answer.
        CommitError: it is done, but a tag could not be made, as the message says.
    """
    if (snapshot_id is None) == (tag is None):
        raise OptionError("Must specify exactly one of tag and snapshot_id.")
    latest = table.snapshots.latest_to_follow()
    if latest is None:
        raise SnapshotNotFoundError(f"Latest snapshot is null, can not roll back: {table.path} has no snapshot yet.")
    created = None
    if tag is not None:
        target = table.tags.get(tag).snapshot
    else:
        assert snapshot_id is not None
        target, created = _protected(table, snapshot_id)
    try:
        done = _commit(table, target)
    except CommitStateUnknownError:
        raise
    except BaseException:
        if created is not None:
            delete_tag(table, created, ignore_if_missing=True)
        raise
    name = f"{_PREFIX}{target.id}-as-{done.current_snapshot_id}"
    try:
        table.tags.create(name, table.snapshots.get(done.current_snapshot_id), ignore_if_exists=True)
        refresh_iceberg(table)
        if not table.options.value("write-only"):
            create_due_tags(table)
    except Exception as error:
        raise CommitError(
            f"Table {table.path} is rolled back: snapshot {done.current_snapshot_id} has the rows of snapshot "
            f"{target.id}; do not run it again. Only its tags were not all made: {error}. Make the tag '{name}' of "
            f"snapshot {done.current_snapshot_id} (create_tag), which keeps its files."
        ) from error
    return done


def _protected(table: FileStoreTable, snapshot_id: int) -> tuple[Snapshot, str | None]:
    """Return a snapshot, and the name of the tag that was made to hold it; an earlier call's tag serves as well."""
    held = {name: tag.snapshot for name, tag in table.tags.list().items() if tag.snapshot.id == snapshot_id}
    if any(name.startswith(f"{_PREFIX}{snapshot_id}-") for name in held):
        return next(iter(held.values())), None
    if table.snapshots.exists(snapshot_id):
        target = table.snapshots.get(snapshot_id)
    elif held:
        target = next(iter(held.values()))
    else:
        ids = table.snapshots.ids()
        raise SnapshotNotFoundError(
            f"Rollback snapshot '{snapshot_id}' doesn't exist: there are {ids[0]} to {ids[-1]}, and no tag holds it."
        )
    name = f"{_PREFIX}{snapshot_id}-{uuid.uuid4()}"
    table.tags.create(name, target)
    return target, name


def _commit(table: FileStoreTable, target: Snapshot) -> RollbackAsLatest:
    """Publish the snapshot that leads from the latest one to the target's files.

    Its manifests are new: a manifest that deletes a file of the target would cancel its new ADD, as readers ignore the
    order. For the same reason a file that is in both states, at another level, goes without a DELETE: a compaction will
    bring it back to that level (Java: it does have one, and readers then miss the file).
    """

    def state(latest: Snapshot) -> WholeState:
        row_ids = [number for number in (latest.next_row_id, target.next_row_id) if number is not None]
        base, delta, moved = _difference(table, latest, target)
        return WholeState(target, base, delta, max(row_ids, default=None), moved)

    try:
        made = commit_state(table, f"{_PREFIX}{uuid.uuid4()}", state)
    except CommitConflictError as error:
        raise CommitConflictError(f"Failed to roll back to snapshot {target.id} as latest: {error}") from error
    return RollbackAsLatest(made.id - 1, target.id, made.id)


def _difference(
    table: FileStoreTable, latest: Snapshot, target: Snapshot
) -> tuple[list[ManifestEntry], list[ManifestEntry], list[ManifestEntry]]:
    """Return the latest files, the DELETE and ADD entries that turn them into the target's, and those left out of both.

    These are files of the target, at other levels: its ADD entries have them as they are there.
    """
    here = {entry.identifier(): entry for entry in table.manifests.live_entries(latest)}
    there = {entry.identifier(): entry for entry in table.manifests.live_entries(target)}
    names = {name_at_any_level(entry) for key, entry in there.items() if key not in here}
    moved = {key: entry for key, entry in here.items() if key not in there and name_at_any_level(entry) in names}
    base = {key: entry for key, entry in here.items() if key not in moved}
    deleted = [replace(entry, kind=FileKind.DELETE) for key, entry in base.items() if key not in there]
    added = [entry for key, entry in there.items() if key not in here]
    return list(base.values()), [*deleted, *added], list(moved.values())
