"""One snapshot as a stream reads it: its files in an order of their own, in units that are never torn apart.

The order depends on the snapshot alone, never on filters, on the size of splits or on the machine, so a position in it
means the same after a restart. Equals Java's ``DeltaFollowUpScanner``, ``ChangelogFollowUpScanner`` and the full scans
of ``DataTableStreamScan.tryFirstPlan``. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.read.incremental_plan import check_only_added, rows_may_match
from paimon_spark.read.pruning import bucket_groups
from paimon_spark.read.sections import key_ranks, row_range_groups, sections_of
from paimon_spark.read.split import DataSplit
from paimon_spark.read.split_generator import created_since, generate_splits, scan_files, split_files
from paimon_spark.read.stream_split import OverwrittenSplit, WrittenSplit
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import Predicate, implied_by
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors
from paimon_spark.table.time_travel import CREATED_AFTER

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest import ManifestFileMeta
    from paimon_spark.table.table import FileStoreTable


class StepKind(Enum):
    """What is read of a snapshot."""

    STATE = "state"
    """All rows, merged."""
    DELTA = "delta"
    """Files that the commit added, as they were written."""
    CHANGELOG = "changelog"
    """Changelog files of the commit."""
    OVERWRITE = "overwrite"
    """Rows of the files that the commit deleted, as deletes, then those of files that it added."""


@dataclass(frozen=True)
class StreamStep:
    """What one snapshot gives to a stream."""

    table: FileStoreTable
    snapshot: Snapshot
    kind: StepKind
    files: ManifestColumns
    """In the order of the stream."""
    kept: npt.NDArray[np.bool_]
    """Files that are read: those that filters and options leave."""
    ends: npt.NDArray[np.int64]
    """Position behind each unit."""

    @classmethod
    def of(cls, table: FileStoreTable, snapshot: Snapshot, kind: StepKind, predicate: Predicate | None) -> StreamStep:
        """Read what a snapshot gives.

        Args:
            table: with the schema and the options of the stream.
            snapshot: which one.
            kind: what is read of it.
            predicate: over columns of the table; files without rows for which it is true are left out.

        Raises:
            SnapshotNotFoundError: the snapshot has expired meanwhile.
            CorruptTableError: a metadata file is missing or cannot be read.
        """
        with snapshot_expiry_errors(table, snapshot.id):
            if kind is StepKind.STATE:
                files = table.manifests.live_columns(snapshot, statistics=False)
                units = _state_units(table, files)
            else:
                files = _changed_files(table, snapshot, kind, statistics=predicate is not None)
                units = _change_units(table, files, kind)
            order = np.fromiter(chain.from_iterable(units), dtype=np.int64)
            files = files.take(order)
            ends = np.cumsum(np.fromiter(map(len, units), dtype=np.int64))
            if kind is StepKind.STATE:
                kept = _kept_of_state(table, snapshot, files, predicate)
            else:
                kept = _kept_of_changes(table, files, predicate)
        bucket = table.options.value("scan.bucket")
        if bucket is not None:
            kept &= files.buckets == int(bucket)
        return cls(table, snapshot, kind, files, kept, ends)

    def start_of_unit(self, position: int) -> int:
        """The start of the unit that holds a position, which is the position itself unless options have changed."""
        before = self.ends[self.ends <= position]
        return int(before[-1]) if len(before) else 0

    def weights(self, position: int) -> dict[str, npt.NDArray[np.int64]]:
        """Files, bytes and rows of each unit from a position on."""
        start = self.start_of_unit(position)
        ends = self.ends[self.ends > start]
        starts = np.concatenate(([start], ends[:-1])).astype(np.int64) if len(ends) else ends
        kept = self.kept.astype(np.int64)
        values = {"files": kept, "bytes": kept * self.files.file_sizes, "rows": kept * self.files.row_counts}
        return {name: np.add.reduceat(v, starts) if len(starts) else v[:0] for name, v in values.items()}

    def position_after(self, position: int, units: int) -> int:
        """The position behind so many units from a position on."""
        start = self.start_of_unit(position)
        return start if units == 0 else int(self.ends[self.ends > start][units - 1])

    def splits(self, start: int, end: int, parallelism: int) -> list[DataSplit]:
        """Splits of the files between two positions."""
        start = self.start_of_unit(start)
        chosen = np.flatnonzero(self.kept[start:end]) + start
        files, table = self.files.take(chosen), self.table
        if not len(files):
            return []
        if self.kind is StepKind.STATE:
            postponed = files.buckets == POSTPONE_BUCKET
            vectors = vectors_of(table, self.snapshot)
            splits = generate_splits(table, self.snapshot.id, files.filter(~postponed), parallelism, vectors=vectors)
            return [*splits, *self._as_written(files.filter(postponed))]
        if self.kind is StepKind.OVERWRITE and table.schema.kind.is_keyed:
            return list(self._overwritten(files))
        if table.schema.kind.is_keyed:
            return list(self._as_written(files))
        splits = generate_splits(table, self.snapshot.id, files, parallelism)
        return [WrittenSplit.of(split) for split in splits]

    def _as_written(self, files: ManifestColumns) -> Iterable[DataSplit]:
        every = split_files(self.table, files)
        for group in bucket_groups(files):
            yield WrittenSplit(*self._position(files, group), tuple(every[i] for i in group), True)

    def _overwritten(self, files: ManifestColumns) -> Iterable[DataSplit]:
        vectors = {**vectors_of(self.table, self._earlier()), **vectors_of(self.table, self.snapshot)}
        every = split_files(self.table, files, vectors)
        for group in bucket_groups(files):
            before = [every[i] for i in group if files.kinds[i] == FileKind.DELETE]
            after = [every[i] for i in group if files.kinds[i] == FileKind.ADD]
            yield OverwrittenSplit(*self._position(files, group), (*before, *after), False, None, len(before))

    def _earlier(self) -> Snapshot | None:
        """The snapshot before, whose vectors the deleted files have; None where it is gone."""
        snapshots = self.table.snapshots
        earlier = self.snapshot.id - 1
        return snapshots.get(earlier) if snapshots.exists(earlier) else None

    def _position(self, files: ManifestColumns, group: Sequence[int]) -> tuple[int, bytes, int, int]:
        first = group[0]
        return self.snapshot.id, files.partitions[first], int(files.buckets[first]), int(files.total_buckets[first])


def _sorted_buckets(files: ManifestColumns) -> list[list[int]]:
    """The files of each bucket, buckets in the order of their partitions' bytes and numbers."""
    return sorted(bucket_groups(files), key=lambda group: (files.partitions[group[0]], int(files.buckets[group[0]])))


def _in_sequence(files: ManifestColumns, group: Sequence[int]) -> list[int]:
    """Files by their sequence numbers; those of equal ones stay in the order of the manifests."""
    lowest = files.file_values("_MIN_SEQUENCE_NUMBER")
    return sorted(group, key=lambda i: lowest[i])


def _state_units(table: FileStoreTable, files: ManifestColumns) -> list[list[int]]:
    """Files that must be read together: sections of overlapping keys, columns of the same rows, else each alone."""
    units: list[list[int]] = []
    low = high = np.zeros(0, dtype=np.int64)
    if table.schema.kind.is_keyed and len(files):
        keys = files.file_values("_MIN_KEY"), files.file_values("_MAX_KEY")
        low, high = key_ranks(table, *keys, files.schema_ids.tolist())
    for group in _sorted_buckets(files):
        if table.schema.kind.is_keyed and files.buckets[group[0]] != POSTPONE_BUCKET:
            units += sections_of(group, low[group], high[group])
        else:
            units += _row_units(table, files, group)
    return units


def _change_units(table: FileStoreTable, files: ManifestColumns, kind: StepKind) -> list[list[int]]:
    """Files of changes that must be read together.

    A changelog's -U and the +U behind it may lie in two files, and an overwrite's deletes come before its rows.
    """
    if kind is StepKind.CHANGELOG or (kind is StepKind.OVERWRITE and table.schema.kind.is_keyed):
        return _sorted_buckets(files)
    return [unit for group in _sorted_buckets(files) for unit in _row_units(table, files, group)]


def _row_units(table: FileStoreTable, files: ManifestColumns, group: Sequence[int]) -> list[list[int]]:
    if not table.schema.kind.has_data_evolution:
        return [[i] for i in _in_sequence(files, group)]
    first_row_ids, counts = files.file_values("_FIRST_ROW_ID"), files.row_counts
    found = row_range_groups([first_row_ids[i] for i in group], [int(counts[i]) for i in group])
    return [[group[i] for i in unit] for unit in found]


def _changed_files(table: FileStoreTable, snapshot: Snapshot, kind: StepKind, *, statistics: bool) -> ManifestColumns:
    """The files of a commit's changes; of an overwrite also those that it deleted."""
    store = table.manifests
    manifests: Sequence[ManifestFileMeta] = (
        store.changelog_manifests(snapshot) if kind is StepKind.CHANGELOG else store.delta_manifests(snapshot)
    )
    files = ManifestColumns.concat(list(store.read_columns(manifests, statistics=statistics)))
    if kind is StepKind.OVERWRITE and table.schema.kind.is_keyed:
        return files
    if kind is not StepKind.OVERWRITE:
        check_only_added(table, snapshot, files)
    return files.filter(files.kinds == FileKind.ADD)


def _kept_of_changes(
    table: FileStoreTable, files: ManifestColumns, predicate: Predicate | None
) -> npt.NDArray[np.bool_]:
    partition_predicate = implied_by(predicate, table.schema.partition_keys)
    keep = table.manifests.partition_filter(partition_predicate)
    return np.array(keep(files.partitions), dtype=bool) & rows_may_match(table, files, predicate)


def _kept_of_state(
    table: FileStoreTable, snapshot: Snapshot, files: ManifestColumns, predicate: Predicate | None
) -> npt.NDArray[np.bool_]:
    """Which files of a state are read: those that later changes do not bring, and that the predicate leaves."""
    kept = np.ones(len(files), dtype=bool)
    producer = table.options.changelog_producer
    if table.schema.kind.is_keyed and producer != "none":
        kept &= files.buckets != POSTPONE_BUCKET
    if producer == "lookup":
        kept &= files.levels > 0  # compactions of level 0 will make changelogs
    elif producer == "full-compaction":
        kept &= files.levels == table.options.num_levels - 1
    option = CREATED_AFTER.get(table.options.get("scan.mode", "default").strip().lower())
    if option is not None:
        kept &= created_since(files, int(table.options[option]))
    if predicate is not None:
        hides = table.schema.kind.is_keyed and table.options.batch_scan_skips_level_0
        if hides:
            predicate = implied_by(predicate, table.schema.partition_keys)  # level 0 may hold newer rows of any key
        left = set(scan_files(table, snapshot, predicate).file_names)
        found = np.array([name in left for name in files.file_names], dtype=bool)
        kept &= (found | (files.levels == 0)) if hides else found
    return kept


def kind_of(table: FileStoreTable, snapshot: Snapshot) -> StepKind | None:
    """What a stream reads of the changes of a snapshot; None for nothing."""
    options = table.options
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        keyed = table.schema.kind.is_keyed
        if options.value("streaming-read-overwrite" if keyed else "streaming-read-append-overwrite"):
            return StepKind.OVERWRITE
    if options.changelog_producer != "none":
        return None if snapshot.changelog_manifest_list is None else StepKind.CHANGELOG
    return StepKind.DELTA if snapshot.commit_kind is CommitKind.APPEND else None
