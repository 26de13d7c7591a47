"""Going back without forgetting: the rows of an earlier snapshot or tag become a new snapshot, after all others.

Equals Java's ``FileStoreCommitImpl.rollbackToAsLatest`` and Flink's ``RollbackToAsLatestProcedure``
(docs/internals/format.md §8).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import refresh_iceberg
from paimon_spark.commit.whole_state import WholeState, commit_state
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    OptionError,
    SnapshotNotFoundError,
)
from paimon_spark.maintain.files.one_at_a_time import one_at_a_time
from paimon_spark.maintain.refs.auto_tags import create_due_tags
from paimon_spark.maintain.refs.tags import delete_tag
from paimon_spark.spec.manifest import FileKind

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

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
    names = {_name(entry) for key, entry in there.items() if key not in here}
    moved = {key: entry for key, entry in here.items() if key not in there and _name(entry) in names}
    base = {key: entry for key, entry in here.items() if key not in moved}
    deleted = [replace(entry, kind=FileKind.DELETE) for key, entry in base.items() if key not in there]
    added = [entry for key, entry in there.items() if key not in here]
    return list(base.values()), [*deleted, *added], list(moved.values())


def _name(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name
