"""Snapshots that are given as a whole, with all files of the table, not by what changes: rollbacks, new row ids.

Published as every commit is; equals the ends of Java's ``rollbackToAsLatest`` and ``DataEvolutionRowIdReassigner``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.commit.changes import Changes
from paimon_spark.commit.file_store_commit import BATCH, commit_part
from paimon_spark.commit.manifest_write import ManifestWriter
from paimon_spark.commit.settings import CommitSettings, writer_version
from paimon_spark.commit.snapshot_builder import CommitPart
from paimon_spark.errors import CommitError
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.commit_times import next_commit_millis

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class WholeState:
    """What a snapshot holds."""

    like: Snapshot
    """The snapshot whose schema, index files, number of rows, watermark, statistics and properties it has."""
    base: Sequence[ManifestEntry]
    """The files before its own changes, but for those that `moved` names."""
    delta: Sequence[ManifestEntry]
    """Its own changes."""
    next_row_id: int | None
    moved: Sequence[ManifestEntry] = ()
    """Files that only change their level, as they were: no entry says that they leave it (`rollback_to_as_latest`)."""


class _StateBuilder:
    """Builds the next snapshot, once for each attempt."""

    def __init__(
        self, table: FileStoreTable, user: str, settings: CommitSettings, state: Callable[[Snapshot], WholeState]
    ) -> None:
        self.writer = ManifestWriter(table, settings)
        self.names: set[str] = set()
        self.files: Sequence[ManifestEntry] = ()
        self.has_all_changes = False  # files that only change their level are not among its own changes
        self._user = user
        self._state = state

    def next_snapshot(self, latest: Snapshot | None) -> Snapshot:
        if latest is None:
            raise CommitError("All snapshots of the table are gone meanwhile. Nothing was committed.")
        state = self._state(latest)
        self.files = state.delta
        base, delta = self.writer.write_manifests(state.base), self.writer.write_manifests(state.delta)
        base_name, base_size = self.writer.write_list(base)
        delta_name, delta_size = self.writer.write_list(delta)
        self.names = {base_name, delta_name, *(meta.file_name for meta in (*base, *delta))}
        return Snapshot(
            id=latest.id + 1,
            uuid=str(uuid.uuid4()),
            schema_id=state.like.schema_id,
            base_manifest_list=base_name,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_name,
            delta_manifest_list_size=delta_size,
            index_manifest=state.like.index_manifest,
            commit_user=self._user,
            writer_version=writer_version(),
            commit_identifier=BATCH,
            commit_kind=CommitKind.OVERWRITE,
            time_millis=next_commit_millis(latest),
            total_record_count=state.like.total_record_count,
            delta_record_count=sum(e.row_change for e in state.delta) - sum(e.row_change for e in state.moved),
            watermark=state.like.watermark,
            statistics=state.like.statistics,
            properties=state.like.properties,
            next_row_id=state.next_row_id,
        )


def commit_state(table: FileStoreTable, user: str, state: Callable[[Snapshot], WholeState]) -> Snapshot:
    """Publish a snapshot that holds a given state; return it. Runs on the driver.

    Args:
        table: the branch, with dynamic options.
        user: who commits.
        state: what the snapshot after the given one is to hold; asked again whenever another commit was faster. What
            it raises ends the commit.

    Raises:
        CommitConflictError: rivals won too often; nothing was committed.
        CommitStateUnknownError: the store gave no clear answer; nothing may be deleted.
        CommitError: nothing was committed, for the reason given.
    """
    settings = CommitSettings.of(table.options)
    part = CommitPart(CommitKind.OVERWRITE, Changes(), user, BATCH, watermark=None, properties=None, operation=None)
    return commit_part(table, part, settings, _StateBuilder(table, user, settings, state))
