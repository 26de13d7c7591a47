"""The plan of an incremental read: files of the changes between two snapshots, or of two states to be compared.

Equals Java's ``IncrementalDeltaStartingScanner.scan`` and ``SnapshotReaderImpl.readIncrementalDiff``. Runs on the
driver, once per read.

Which files tell the difference of two states of a table.

Equals Java's ``SnapshotReaderImpl.readIncrementalDiff``: files that both states have are left out. Where a row is put
together from several files (any engine but deduplicate and first-row), those that touch changed ones stay: without
them Java gives rows that lack what the common files hold. Where partitions were rescaled, which Java refuses, all
buckets of the partition are compared at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.change_range import ChangeRange, ChangeSource, snapshots_of
from paimon_spark.read.incremental_read import read_changed, read_written
from paimon_spark.read.postponed_read import refuse_changes
from paimon_spark.read.pruning import bucket_groups, bucket_mask, index_masks, stats_mask
from paimon_spark.read.sections import key_ranks, pack_ordered, row_range_groups, sections_of
from paimon_spark.read.split import DataSplit, DiffSplit, SplitFile
from paimon_spark.read.split_generator import enough_splits, fair_share, generate_splits, scan_files, split_files
from paimon_spark.read.table_scan import ReadPlan, ReadSplit, residual_filter
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import Always, Predicate, implied_by
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.deletion_vectors import NO_VECTORS, VectorLocation, Vectors, vectors_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.table_scan import TableScan
    from paimon_spark.table.table import FileStoreTable

Identity = tuple[bytes, int, str, int, int | VectorLocation]


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


def files_of_state(table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None) -> ManifestColumns:
    """Return the files of one of two states that are compared.

    Only what is the same in both states of a row may rule out files: its partition and its primary key; in a table
    without keys the whole predicate may, since there only whole files differ.
    """
    schema = table.schema
    if schema.kind.is_keyed:
        predicate = implied_by(predicate, [*schema.partition_keys, *schema.trimmed_primary_keys])
    files = scan_files(table.reading_level_0(), snapshot, predicate)
    return files.filter(files.buckets != POSTPONE_BUCKET)


def only_in_later(table: FileStoreTable, before: ManifestColumns, after: ManifestColumns) -> ManifestColumns:
    """Return the files that only the later state has; with data evolution all files of their rows."""
    known = set(_identities(before))
    new = np.array([identity not in known for identity in _identities(after)], dtype=bool)
    if table.schema.kind.has_data_evolution:
        for group in row_range_groups(after.file_values("_FIRST_ROW_ID"), after.row_counts.tolist()):
            new[group] = new[group].any()
    return after.filter(new)


def diff_splits(
    table: FileStoreTable, before: Snapshot | None, after: Snapshot, predicate: Predicate | None
) -> list[DiffSplit]:
    """Pair the files of two states of a primary-key table, bucket by bucket. Runs on the driver.

    Args:
        table: with the schema of the read.
        before: the earlier state; None is an empty table.
        after: the later state.
        predicate: over the table's columns.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    earlier = ManifestColumns.concat(()) if before is None else files_of_state(table, before, predicate)
    later = files_of_state(table, after, predicate)
    states = [(earlier, vectors_of(table, before)), (later, vectors_of(table, after))]
    common = set(_identities(*states[0])) & set(_identities(*states[1]))
    sides = [_by_partition(table, files, vectors, common) for files, vectors in states]
    result = []
    for partition in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = (side.get(partition, {}) for side in sides)
        for buckets in _compared_together(old, new):
            parts = [[(number, side[number]) for number in buckets if number in side] for side in (old, new)]
            split = _split(table, partition, after.id, parts[0], parts[1])
            if split is not None:
                result.append(split)
    return result


_ComparedFile = tuple[SplitFile, bool, int]
"""A file, whether both states have it, and the bucket count it was written with."""


def _by_partition(
    table: FileStoreTable, files: ManifestColumns, vectors: Vectors, common: set[Identity]
) -> dict[bytes, dict[int, list[_ComparedFile]]]:
    result: dict[bytes, dict[int, list[_ComparedFile]]] = {}
    paths, identities = split_files(table, files, vectors), _identities(files, vectors)
    compared_files = zip(paths, identities, files.buckets.tolist(), files.total_buckets.tolist(), strict=True)
    for file, identity, bucket, total in compared_files:
        found = result.setdefault(identity[0], {}).setdefault(bucket, [])
        found.append((file, identity in common, total))
    return result


def _compared_together(old: dict[int, list[_ComparedFile]], new: dict[int, list[_ComparedFile]]) -> list[list[int]]:
    """Buckets of a partition that may hold the same keys: each alone, or all where their number has changed."""
    everywhere = list(dict.fromkeys([*old, *new]))
    totals = {total for side in (old, new) for files in side.values() for _, _, total in files if total > 0}
    return [everywhere] if len(totals) > 1 else [[number] for number in everywhere]


def _split(
    table: FileStoreTable,
    partition: bytes,
    snapshot_id: int,
    old: Sequence[tuple[int, list[_ComparedFile]]],
    new: Sequence[tuple[int, list[_ComparedFile]]],
) -> DiffSplit | None:
    every = [compared_files for _, files in (*old, *new) for compared_files in files]
    kept = _needed(table, every)
    if not any(kept):
        return None
    chosen: list[SplitFile] = []
    counts: list[list[int]] = []
    position = 0
    for side in (old, new):
        counts.append([])
        for _, files in side:
            here = [file for (file, _, _), keep in zip(files, kept[position:], strict=False) if keep]
            position += len(files)
            counts[-1].append(len(here))
            chosen += here
    bucket, total = (new or old)[0][0], every[-1][2]
    return DiffSplit(snapshot_id, partition, bucket, total, tuple(chosen), False, None, *map(tuple, counts))


def _needed(table: FileStoreTable, files: Sequence[_ComparedFile]) -> npt.NDArray[np.bool_]:
    """Which files must be read: those that one state has; and with engines that put rows together, those they touch."""
    alone = np.array([not common for _, common, _ in files], dtype=bool)
    if table.options.one_row_wins or alone.all() or not alone.any():
        return alone
    plain = [file for file, _, _ in files]
    low, high = key_ranks(table, [f.min_key for f in plain], [f.max_key for f in plain], [f.schema_id for f in plain])
    locations: dict[int, list[int]] = {}
    for location, file in enumerate(plain):
        locations.setdefault(id(file), []).append(location)
    for section in sections_of(plain, low, high):
        inside = [location for file in section for location in locations[id(file)]]
        alone[inside] = bool(alone[inside].any())
    return alone


def _identities(files: ManifestColumns, vectors: Vectors = NO_VECTORS) -> list[Identity]:
    """What distinguishes files: partition, bucket, name, level, and how many rows a vector deletes of it.

    Java does not look at vectors: rows of a file that both states have, and that only the later one deletes, are not
    seen there.
    """
    keys = list(zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True))
    locations = map(vectors.get, keys)
    deleted = (0 if location is None else (location.cardinality or location) for location in locations)
    return [(*key, level, rows) for key, level, rows in zip(keys, files.levels.tolist(), deleted, strict=True)]
