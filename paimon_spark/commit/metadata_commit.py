"""Commits that change no file: manifests are merged, or statistics of the rows are given to the table.

Equals Java's ``FileStoreCommitImpl.compactManifest`` and ``commitStatistics``. Both run on the driver.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from paimon_spark.commit.changes import Changes
from paimon_spark.commit.file_store_commit import BATCH, commit_part
from paimon_spark.commit.manifest_write import ManifestWriter
from paimon_spark.commit.settings import CommitSettings
from paimon_spark.commit.snapshot_builder import CommitPart, SnapshotBuilder
from paimon_spark.commit.undo import undone_where_void
from paimon_spark.spec.file_names import STATISTICS_PREFIX
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.write.plan import new_user

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.spec.statistics_file import Statistics
    from paimon_spark.table.table import FileStoreTable


_LOG = logging.getLogger(__name__)


def compact_manifests(table: FileStoreTable, *, dry_run: bool = False) -> int | None:
    """Merge all small manifests of a table, and those with deleted files; return the new snapshot's id.

    The thresholds of the table's options do not count. None is returned when there is nothing to merge.

    Args:
        table: with its dynamic options.
        dry_run: only log what there is to merge.

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

    Args:
        table: with its dynamic options.
        statistics: of one of its snapshots.

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
