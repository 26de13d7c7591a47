"""Commits that change no file: manifests are merged, or statistics of the rows are given to the table.

Equals Java's ``FileStoreCommitImpl.compactManifest`` and ``commitStatistics``. Both run on the driver.

Snapshots that are given as a whole, with all files of the table, not by what changes: rollbacks, new row ids.

Published as every commit is; equals the ends of Java's ``rollbackToAsLatest`` and ``DataEvolutionRowIdReassigner``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from paimon_spark.commit.changes import Changes
from paimon_spark.commit.file_store_commit import BATCH, commit_part
from paimon_spark.commit.manifest_write import ManifestWriter
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.commit.settings import CommitSettings, writer_version
from paimon_spark.commit.snapshot_builder import CommitPart, SnapshotBuilder
from paimon_spark.errors import CommitError
from paimon_spark.spec.file_names import STATISTICS_PREFIX
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.time_travel import next_commit_millis
from paimon_spark.write.plan import new_user

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.table.statistics import Statistics
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


def compact_manifests(table: FileStoreTable, *, dry_run: bool = False) -> int | None:
    """Merge all small manifests of a table, and those with deleted files; return the new snapshot's id.

    The thresholds of the table's options do not count. None is returned when there is nothing to merge.

    Raises:
        CommitConflictError: rivals won too often; nothing was committed.
        CommitStateUnknownError: the store gave no clear answer; nothing may be deleted.
    """
    settings = CommitSettings.of(table.options)
    forced = replace(settings.manifest_merge, min_count=1, full_threshold_bytes=1)
    settings = replace(settings, manifest_merge=forced)
    part = _part(table, CommitKind.COMPACT, keeps_properties=True)
    latest = table.snapshots.latest_to_follow()
    if latest is None:
        return None
    if dry_run:
        _log_manifests(table, latest, forced.target_size_bytes)
        return None
    writer = ManifestWriter(table, settings)
    builder = SnapshotBuilder(table, part, settings, writer)
    try:
        merged = not builder.keeps_manifests(latest)
    except BaseException:
        writer.discard()
        raise
    if merged:
        return commit_part(table, part, settings, builder).id
    writer.discard()
    return None


def _log_manifests(table: FileStoreTable, latest: Snapshot, target_bytes: int) -> None:
    """Log what Java's ``ManifestCompactDryRun`` tells."""
    found = table.manifests.data_manifests(latest)
    _LOG.info(
        "Dry run: %d manifest files (%d bytes), %d deleted entries in %d files, %d undersized files (< %d bytes).",
        len(found),
        sum(meta.file_size for meta in found),
        sum(meta.num_deleted_files for meta in found),
        sum(meta.num_deleted_files > 0 for meta in found),
        sum(meta.file_size < target_bytes for meta in found),
        target_bytes,
    )


def commit_statistics(table: FileStoreTable, statistics: Statistics) -> int:
    """Write a statistics file and commit it as an ANALYZE snapshot; return the snapshot's id.

    Raises:
        CommitConflictError: rivals won too often; nothing was committed.
        CommitStateUnknownError: the store gave no clear answer; nothing may be deleted.
    """
    name = f"{STATISTICS_PREFIX}{uuid4()}-0"
    path = table.paths.statistics_path(name)
    table.file_io.write_bytes(path, statistics.to_json().encode(), overwrite=False)
    part = replace(_part(table, CommitKind.ANALYZE), statistics=name)
    with undone_where_void(lambda: table.file_io.delete_quietly(path)):
        return commit_part(table, part, CommitSettings.of(table.options)).id


def _part(table: FileStoreTable, kind: CommitKind, *, keeps_properties: bool = False) -> CommitPart:
    return CommitPart(
        kind,
        Changes(),
        user=new_user(table.options),
        identifier=BATCH,
        watermark=None,
        properties=None if keeps_properties else {},
        operation=None,
    )


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
