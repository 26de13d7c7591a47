"""The files that a read must look at: live in the snapshot, and not ruled out by the predicate.

Equals Java's ``AbstractFileStoreScan.plan`` with its subclasses for append and primary-key tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.read.data_evolution import data_evolution_mask
from paimon_spark.read.pruning import WITH_ROWS, bucket_groups, bucket_mask, index_masks, stats_mask
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.predicate import implied_by
from paimon_spark.table.time_travel import files_since

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.manifest_store import FileFilter
    from paimon_spark.table.table import FileStoreTable


def created_since(files: ManifestColumns, millis: int) -> npt.NDArray[np.bool_]:
    """Which files were created at a time (epoch milliseconds) or later; those that do not say it count as old."""
    times = [-1 if time is None else int(time) for time in files.file_values("_CREATION_TIME")]
    return np.array(times, dtype=np.int64) >= millis


def reads_all_files(table: FileStoreTable) -> bool:
    """Whether options leave out no file: neither `scan.bucket` nor a scan of the files after some time."""
    return table.options.value("scan.bucket") is None and files_since(table) is None


_MAY_MATCH = "may match"


def scan_files(
    table: FileStoreTable,
    snapshot: Snapshot,
    predicate: Predicate | None,
    *,
    statistics: bool = False,
    row_ids: Predicate | None = None,
) -> ManifestColumns:
    """Return the files of ``snapshot`` that may hold rows for which ``predicate`` is true. Runs on the driver.

    Level 0 is left out where rows are hidden until they are compacted (deletion vectors, first-row).

    Args:
        table: with the schema of the read.
        snapshot: what to read.
        predicate: over the table's columns; None keeps every file.
        statistics: whether the caller wants the statistics of the files that are left.
        row_ids: see `TableScan.row_ids`.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    partition_predicate = implied_by(predicate, table.schema.partition_keys)
    bucket = table.options.value("scan.bucket")
    data_evolution = table.schema.kind.has_data_evolution
    files = table.manifests.live_columns(
        snapshot,
        predicate=partition_predicate,
        bucket=None if bucket is None else int(bucket),
        statistics=statistics or predicate is not None,
        file_filter=None
        if predicate is None or data_evolution
        else _file_filter(table, predicate, statistics=statistics),
        row_ids=row_ids,
    )
    since = files_since(table)
    if since is not None and len(files):
        files = files.filter(created_since(files, since))
    if data_evolution and predicate is not None and len(files):
        return files.filter(data_evolution_mask(table, files, predicate))
    if table.schema.kind.is_keyed and table.options.batch_scan_skips_level_0 and len(files):
        files = files.filter(files.levels > 0)
    if predicate is None or not len(files):
        return files
    if not table.schema.kind.is_keyed:
        keep, some = index_masks(table, files, predicate, np.ones(len(files), dtype=bool))
        return files.with_mask(WITH_ROWS, some).filter(keep)
    return _of_tables_with_keys(table, files, predicate)


def _file_filter(table: FileStoreTable, predicate: Predicate, *, statistics: bool) -> FileFilter:
    """Return the filter that drops files by their bucket or statistics, each file for itself.

    In a primary-key table the whole predicate only marks files: whether they are dropped depends on the other files of
    the bucket.
    """
    key_predicate = implied_by(predicate, table.schema.trimmed_primary_keys)

    def file_filter(files: ManifestColumns) -> ManifestColumns:
        files = files.filter(bucket_mask(table, files, predicate) | (files.kinds == FileKind.DELETE))
        if table.schema.kind.is_keyed and key_predicate is not None:
            by_key = stats_mask(table, files, key_predicate, keys=True)
            files = files.filter(by_key | (files.kinds == FileKind.DELETE))
        may_match = stats_mask(table, files, predicate, keys=False)
        if table.schema.kind.is_keyed:
            files = files.with_mask(_MAY_MATCH, may_match)
        else:
            files = files.filter(may_match | (files.kinds == FileKind.DELETE))
        return files if statistics else files.without_statistics()

    return file_filter


def _of_tables_with_keys(table: FileStoreTable, files: ManifestColumns, predicate: Predicate) -> ManifestColumns:
    """Return the files of a primary-key table that its predicate leaves, decided by buckets.

    If no two files of a bucket can hold the same key, each file is decided alone; so it is where level 0 is left out,
    since then above it each key has one row. Otherwise a bucket is dropped as a whole, if none of its files can match;
    with partial-update it never is, since a row is merged from several files. Indexes decide as statistics do, and
    those of the key decide each file alone.
    """
    may_match = files.mask(_MAY_MATCH)
    groups = [np.array(group, dtype=np.int64) for group in bucket_groups(files)]
    alone, whole = _decided_alone(table, files, groups), table.options.one_row_wins
    keep, some = index_masks(table, files, predicate, may_match & (alone | whole))
    may_match = may_match & keep
    key_predicate = implied_by(predicate, table.schema.trimmed_primary_keys)
    by_key = np.ones(len(files), dtype=bool)
    if key_predicate is not None:
        by_key, some_keys = index_masks(table, files, key_predicate, ~alone)
        some |= some_keys
    keep = np.where(alone, may_match, True)
    for at in groups:
        if whole and not alone[at[0]] and not bool(may_match[at].any()):
            keep[at] = False
    return files.with_mask(WITH_ROWS, some).filter(keep & by_key)


def _decided_alone(
    table: FileStoreTable, files: ManifestColumns, groups: Sequence[npt.NDArray[np.int64]]
) -> npt.NDArray[np.bool_]:
    """Return which files lie in buckets no two files of which can hold the same key."""
    once = table.options.one_row_per_key_above_level_0
    if table.options.batch_scan_skips_level_0:
        return np.ones(len(files), dtype=bool)
    alone = np.zeros(len(files), dtype=bool)
    levels = files.levels
    for at in groups:
        sorted_once = bool((levels[at] > 0).all()) and (once or bool((levels[at] == levels[at[0]]).all()))
        alone[at] = len(at) == 1 or sorted_once
    return alone
