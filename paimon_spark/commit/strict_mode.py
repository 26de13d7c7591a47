"""Strict mode: a commit is given up when others changed the same partitions since a given snapshot.

Equals Java's ``StrictModeChecker`` (option ``commit.strict-mode.last-safe-snapshot``, docs/internals/format.md §8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.snapshot import CommitKind

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot

OPTION = "commit.strict-mode.last-safe-snapshot"


@dataclass(frozen=True, slots=True)
class CommittedChanges:
    """How the changes of a snapshot are looked up."""

    snapshot: Callable[[int], Snapshot]
    """Gives a living snapshot by its id."""
    files: Callable[[Snapshot], set[tuple[bytes, int]]]
    """Gives the (partition, bucket) of every file in the delta of a snapshot."""
    index: Callable[[Snapshot], set[bytes]]
    """Gives the partitions of the index files of a snapshot; empty when it changed no index."""


def check_strict(
    safe_id: int, new_id: int, *, kind: CommitKind, partitions: frozenset[bytes], user: str, locations: CommittedChanges
) -> None:
    """Check the snapshots after ``safe_id`` and before ``new_id`` made by other users.

    Args:
        safe_id: the last snapshot known to be harmless.
        new_id: id of the snapshot to be.
        kind: its kind.
        partitions: partitions that it changes.
        user: our commit user.
        locations: looks up what others changed.

    Raises:
        CommitConflictError: a COMPACT or OVERWRITE changed one of `partitions`, or an APPEND did (to real buckets)
            while we overwrite.
        SnapshotNotFoundError: a snapshot after ``safe_id`` has expired.
    """
    for snapshot_id in range(safe_id + 1, new_id):
        snapshot = locations.snapshot(snapshot_id)
        if snapshot.commit_user == user:
            continue
        if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
            changed = {partition for partition, _ in locations.files(snapshot)}
            if partitions & changed or partitions & locations.index(snapshot):
                raise _given_up(snapshot, new_id, user, "which modified the same partition")
        elif snapshot.commit_kind is CommitKind.APPEND and kind is CommitKind.OVERWRITE:
            changed = {partition for partition, bucket in locations.files(snapshot) if bucket >= 0}
            if partitions & changed:
                raise _given_up(snapshot, new_id, user, "which committed files to fixed bucket on the same partition")


def _given_up(snapshot: Snapshot, new_id: int, user: str, action: str) -> CommitConflictError:
    return CommitConflictError(
        f"When trying to commit snapshot {new_id}, commit user {user} has found a {snapshot.commit_kind.value} "
        f"snapshot (id: {snapshot.id}) by another user {snapshot.commit_user} {action}. Giving up committing as "
        f"{OPTION} is set, by the writer or since the rows are made of the table that they replace. "
        "None of this commit's changes took place: read the table anew and run the write again."
    )
