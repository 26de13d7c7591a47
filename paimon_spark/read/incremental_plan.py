"""The plan of an incremental read: files of the changes between two snapshots, or of two states to be compared.

Equals Java's ``IncrementalDeltaStartingScanner.scan`` and ``SnapshotReaderImpl.readIncrementalDiff``. Runs on the
driver, once per read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.change_range import ChangeRange, ChangeSource, snapshots_of
from paimon_spark.read.diff_plan import diff_splits, files_of_state, only_in_later
from paimon_spark.read.incremental_read import read_changed, read_written
from paimon_spark.read.index_pruning import index_masks
from paimon_spark.read.plan import ReadPlan, ReadSplit, residual_filter
from paimon_spark.read.postponed_read import refuse_changes
from paimon_spark.read.pruning import bucket_groups, bucket_mask
from paimon_spark.read.sections import pack_ordered
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.read.split_generator import enough_splits, fair_share, generate_splits, split_files
from paimon_spark.read.stats_pruning import stats_mask
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import Always, Predicate, implied_by
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.deletion_vectors import vectors_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.table_scan import TableScan
    from paimon_spark.table.table import FileStoreTable


def plan_changes(scan: TableScan) -> ReadPlan:
    """Plan the read of a scan's changes, of its own branch alone.

    Args:
        scan: its source is a range of changes, its columns are columns of the table.

    Raises:
        SnapshotNotFoundError: a snapshot of the range is gone.
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    table, changes, predicate = scan.table, scan.source, scan.predicate
    assert isinstance(changes, ChangeRange)
    if not scan.view.name:
        refuse_changes(table)
    residual = residual_filter(table.schema, predicate)
    splits: Sequence[DataSplit] = ()
    read: ReadSplit = read_written
    if predicate == Always(False):
        residual = predicate
    elif changes.source is not ChangeSource.DIFF:
        splits = _written_splits(table, changes, predicate, scan.parallelism)
        if scan.limit is not None and residual is None:
            splits = enough_splits(splits, scan.limit, has_keys=False)
    elif changes.after is not None and table.schema.kind.is_keyed:
        read = read_changed
        splits = diff_splits(table, changes.before, changes.after, predicate)
    elif changes.after is not None:
        before = (
            ManifestColumns.concat(()) if changes.before is None else files_of_state(table, changes.before, predicate)
        )
        files = only_in_later(table, before, files_of_state(table, changes.after, predicate))
        vectors = vectors_of(table, changes.after)
        splits = generate_splits(table, changes.after.id, files, scan.parallelism, vectors=vectors)
    return ReadPlan(changes.after, table.schema, scan.columns, tuple(splits), residual, table, read)


def _written_splits(
    table: FileStoreTable, changes: ChangeRange, predicate: Predicate | None, parallelism: int
) -> list[DataSplit]:
    """Splits of files that are read as they were written, commit by commit."""
    wanted = (CommitKind.APPEND,) if changes.source is ChangeSource.DELTA else tuple(set(CommitKind) - _OVERWRITES)
    parts = [
        _added_files(table, snapshot, changes.source, predicate)
        for snapshot in snapshots_of(table, changes)
        if snapshot.commit_kind in wanted
    ]
    if not table.schema.kind.is_keyed:
        return generate_splits(table, changes.end_id, ManifestColumns.concat(parts), parallelism)
    buckets: dict[tuple[bytes, int, int], list[list[SplitFile]]] = {}
    for part in parts:
        files = split_files(table, part)
        for group in bucket_groups(part):
            first = group[0]
            key = part.partitions[first], int(part.buckets[first]), int(part.total_buckets[first])
            here = [files[i] for i in group]
            # a changelog's -U and the +U behind it must come to one task: its files are not torn apart
            units = [here] if changes.source is ChangeSource.CHANGELOG else [[file] for file in here]
            buckets.setdefault(key, []).extend(units)
    target, cost = table.options.split_target_size_bytes, table.options.split_open_file_cost_bytes
    every = [file for units in buckets.values() for unit in units for file in unit]
    share = fair_share([file.size for file in every], target, cost, parallelism) if parallelism > 1 else target
    return [
        DataSplit(changes.end_id, partition, bucket, total, tuple(file for unit in bin_ for file in unit), True)
        for (partition, bucket, total), units in buckets.items()
        for bin_ in pack_ordered(units, lambda unit: sum(max(file.size, cost) for file in unit), share)
    ]


_OVERWRITES = {CommitKind.OVERWRITE}


def _added_files(
    table: FileStoreTable, snapshot: Snapshot, source: ChangeSource, predicate: Predicate | None
) -> ManifestColumns:
    """The files of one commit's changes that may hold rows for which the predicate is true."""
    of_commit = table.manifests.delta_manifests if source is ChangeSource.DELTA else table.manifests.changelog_manifests
    partition_predicate = implied_by(predicate, table.schema.partition_keys)
    keep = table.manifests.partition_filter(partition_predicate)
    manifests = table.manifests.prune_manifests(of_commit(snapshot), partition_predicate)
    files = ManifestColumns.concat(list(table.manifests.read_columns(manifests, statistics=predicate is not None)))
    check_only_added(table, snapshot, files)
    files = files.filter(np.array(keep(files.partitions), dtype=bool))
    if source is ChangeSource.DELTA and table.schema.kind.is_keyed and table.options.batch_scan_skips_level_0:
        files = files.filter(files.levels > 0)  # as every batch scan of such tables, Java's too
    bucket = table.options.value("scan.bucket")
    if bucket is not None:
        files = files.filter(files.buckets == int(bucket))
    return files.filter(rows_may_match(table, files, predicate))


def check_only_added(table: FileStoreTable, snapshot: Snapshot, files: ManifestColumns) -> None:
    """Check that the changes of a commit delete no files.

    Raises:
        CorruptTableError: they do.
    """
    if (files.kinds != FileKind.ADD).any():
        raise CorruptTableError(
            f"Delta or changelog should only have ADD files, but snapshot {snapshot.id} of {table.path} deletes some."
        )


def rows_may_match(table: FileStoreTable, files: ManifestColumns, predicate: Predicate | None) -> npt.NDArray[np.bool_]:
    """Return which files, whose rows are read as they were written, may hold rows for which a predicate is true."""
    if predicate is None or not len(files):
        return np.ones(len(files), dtype=bool)
    may_match = bucket_mask(table, files, predicate) & stats_mask(table, files, predicate, keys=False)
    by_index, _ = index_masks(table, files, predicate, may_match)
    return may_match & by_index
