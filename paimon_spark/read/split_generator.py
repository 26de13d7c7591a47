"""The files that a read must look at, and how they are cut into splits, which tasks read.

Files are live in the snapshot, and not ruled out by the predicate. Equals Java's ``AbstractFileStoreScan.plan`` with
its subclasses for append and primary-key tables, and its split generators (``AppendOnlySplitGenerator``,
``MergeTreeSplitGenerator``; docs/internals/format.md §7). Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.read.pruning import WITH_ROWS, bucket_groups, bucket_mask, index_masks, stats_mask
from paimon_spark.read.sections import (
    data_evolution_mask,
    groups_of_rows,
    has_no_deletes,
    is_raw_bucket,
    key_ranks,
    pack_ordered,
    sections_of,
)
from paimon_spark.read.split import DataSplit, FileBlock, PackedFiles, RowGroups, SplitFile
from paimon_spark.spec.file_names import POSTPONE_BUCKET, is_blob_file
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.predicate import implied_by
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.deletion_vectors import NO_VECTORS, Vectors
from paimon_spark.table.file_indexes import index_location
from paimon_spark.table.time_travel import files_since

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.spec.table_kind import TableKind
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


Positions = npt.NDArray[np.int64]

_FILES_AT_ONCE = 20_000
_FIRST_FILES = 500
"""Of a LIMIT: mostly they have rows enough."""
_MANY_FILES = 100_000
"""Files of a plan, from which on they are packed."""
_FILES_OF_BLOCK = 4_000
_MOST_SMALL_SLICES = 16
_SMALL_SLICE_BYTES = 4 << 20
"""Slices below this size are at most so many of a file."""
_LEAST_SLICE_BYTES = 8 << 20
"""A file is not cut into smaller slices to give every task work: each slice reads the footer."""
_SLACK = 1.05
"""Files of one size must not miss an even share by a few bytes."""


def fair_share(sizes: Sequence[int] | Positions, target: int, cost: int, parallelism: int) -> int:
    """The weight of a split that leaves none of the tasks that can run at once without work, `target` at most.

    Args:
        sizes: bytes of each file, shape (files,).
        target: the largest weight of a split.
        cost: the least weight of a file.
        parallelism: how many tasks can run at once.
    """
    weight = int(np.maximum(np.asarray(sizes, dtype=np.int64), cost).sum())
    return min(target, max(cost, int(_SLACK * weight / max(1, parallelism))))


def generate_splits(
    table: FileStoreTable,
    snapshot_id: int,
    files: ManifestColumns,
    parallelism: int = 1,
    *,
    vectors: Vectors = NO_VECTORS,
    whole_files: bool = True,
    keeps_keys: bool = False,
    limit: int | None = None,
) -> list[DataSplit]:
    """Cut the files of every bucket into splits, buckets in the order in which they appear.

    Args:
        table: with the options of the read.
        snapshot_id: whose files they are.
        files: of manifests.
        parallelism: how many tasks can run at once.
        vectors: the deletion vectors of the snapshot.
        whole_files: only files larger than `source.split.target-size` are cut. Otherwise files that need no merging
            are cut where there are fewer than tasks.
        keeps_keys: whether files that are read without merging have their smallest and largest keys, too.
        limit: no more splits are made than hold so many rows for certain (`enough_splits`); None makes all.
    """
    numbers = files.buckets
    groups = [g for g in bucket_groups(files) if numbers[g[0]] != POSTPONE_BUCKET]
    cutter = _Cutter.of(table, files, parallelism, whole_files=whole_files)

    def splits_of(some: Sequence[list[int]]) -> Iterator[DataSplit]:
        these = files.take(list(chain.from_iterable(some)))
        made = split_files(table, these, vectors)
        ranks = _LazyRanks(table, made)
        partitions, buckets, totals = these.partitions, these.buckets.tolist(), these.total_buckets.tolist()
        first = 0
        for group in some:
            partition, bucket, total = partitions[first], buckets[first], totals[first]
            for files_, raw in cutter.bins(made, slice(first, first + len(group)), ranks):
                slim = _slim(files_, raw and not keeps_keys)
                yield DataSplit(snapshot_id, partition, bucket, total, slim, raw)
            first += len(group)

    at_once = _FILES_AT_ONCE if limit is None else _FIRST_FILES
    splits: Iterable[DataSplit] = chain.from_iterable(map(splits_of, _some_at_once(groups, at_once)))
    if limit is not None:
        splits = enough_splits(splits, limit, has_keys=table.schema.kind.is_keyed)
    if len(files) < _MANY_FILES:
        return list(splits)
    return list(chain.from_iterable(map(_packed, _blocks_of(splits))))


@dataclass(frozen=True, slots=True)
class _Cutter:
    """How the files of each bucket are cut into splits. The options are asked once for all buckets."""

    kind: TableKind
    one_row_per_key: bool
    """Above level 0; see `is_raw_bucket`."""
    count_blobs: bool
    cost: int
    """The least weight of a file."""
    target: int
    """The most bytes of files that are merged."""
    share: int
    """The most bytes of files that are not."""
    slice_bytes: int
    """Files that are not merged, and are larger, are cut to give every task work; 0 for none."""

    @classmethod
    def of(cls, table: FileStoreTable, files: ManifestColumns, parallelism: int, *, whole_files: bool) -> _Cutter:
        """Ask the options; the arguments are those of `generate_splits`."""
        options = table.options
        target, cost = options.split_target_size_bytes, options.split_open_file_cost_bytes
        count_blobs = counts_blobs(options)
        share = target
        if parallelism > 1:
            share = fair_share(_weighed(files, count_blobs=count_blobs), target, cost, parallelism)
        slice_bytes = 0 if whole_files else max(share, _LEAST_SLICE_BYTES)
        once = options.one_row_per_key_above_level_0
        return cls(table.schema.kind, once, count_blobs, cost, target, share, slice_bytes)

    def bins(self, made: Sequence[SplitFile], at: slice, ranks: _LazyRanks) -> list[tuple[Sequence[SplitFile], bool]]:
        """Return the files of each split of one bucket, and whether they are read without merging."""
        bucket, is_keyed = made[at], self.kind.is_keyed
        if len(bucket) == 1 and self._is_whole(bucket[0]):
            return [(bucket, not is_keyed or has_no_deletes(bucket[0]))]
        if self.kind.has_data_evolution:
            return _data_evolution_bins(bucket, self.share, self.cost, count_blobs=self.count_blobs)
        if not is_keyed:
            ordered = sorted(bucket, key=lambda file: file.min_seq)
            return [(files, True) for files in _sliced_bins(ordered, self._most, self.share, self.cost)]
        if is_raw_bucket(bucket, one_row_per_key=self.one_row_per_key):
            return [(files, True) for files in _sliced_bins(bucket, self.slice_bytes, self.share, self.cost)]
        low, high = ranks.found
        sections = sections_of(bucket, low[at], high[at])
        packed = pack_ordered(sections, lambda s: max(sum(f.size for f in s), self.cost), self.target)
        flat = [list(chain.from_iterable(sections_here)) for sections_here in packed]
        return [(files, len(files) == 1 and has_no_deletes(files[0])) for files in flat]

    def _is_whole(self, file: SplitFile) -> bool:
        if self.kind.has_data_evolution:
            return file.first_row_id is not None
        return file.size <= self._most

    @property
    def _most(self) -> int:
        """Files that are not merged are cut if they are larger; of tables with keys maybe."""
        return min(self.target, self.slice_bytes or self.target)


@dataclass
class _LazyRanks:
    """The ranks of the keys of some files, once a bucket asks for them."""

    table: FileStoreTable
    files: Sequence[SplitFile]

    @cached_property
    def found(self) -> tuple[Positions, Positions]:
        low, high = [file.min_key for file in self.files], [file.max_key for file in self.files]
        return key_ranks(self.table, low, high, [file.schema_id for file in self.files])


def _some_at_once(groups: Sequence[list[int]], files: int) -> Iterator[Sequence[list[int]]]:
    """Yield buckets of so many files that making them together is quick, and does not take much memory."""
    start = count = 0
    for end, group in enumerate(groups, 1):
        count += len(group)
        if count >= files or end == len(groups):
            yield groups[start:end]
            start, count = end, 0


def _blocks_of(splits: Iterable[DataSplit]) -> Iterator[list[DataSplit]]:
    """Yield splits some at a time, whose files make a block."""
    block: list[DataSplit] = []
    files = 0
    for split in splits:
        block.append(split)
        files += len(split.files)
        if files >= _FILES_OF_BLOCK:
            yield block
            block, files = [], 0
    if block:
        yield block


def _packed(splits: Sequence[DataSplit]) -> list[DataSplit]:
    """Return the same splits, whose files lie in one block."""
    block = FileBlock([file for split in splits for file in split.files])
    counts = [len(split.files) for split in splits]
    packed = map(PackedFiles, repeat(block), accumulate(counts, initial=0), counts)
    return [split.with_files(files) for split, files in zip(splits, packed, strict=True)]


def _weighed(files: ManifestColumns, *, count_blobs: bool) -> Positions:
    """The sizes of the files whose bytes a read takes from the store."""
    if count_blobs:
        return files.file_sizes
    return files.file_sizes[[not is_blob_file(name) for name in files.file_names]]


def _slim(files: Sequence[SplitFile], without_keys: bool) -> tuple[SplitFile, ...]:
    """Leave out the keys of files that need none, such as those that are read without merging."""
    if not without_keys:
        return tuple(files)
    return tuple(file._replace(min_key=b"", max_key=b"") if file.min_key or file.max_key else file for file in files)


def _sliced_bins(files: Sequence[SplitFile], target: int, share: int, cost: int) -> list[list[SplitFile]]:
    """Pack files in their order; Parquet files larger than `target`, if that is not 0, are cut into slices."""
    pieces = [piece for file in files for piece in _sliced(file, target)]
    return pack_ordered(pieces, lambda file: max(file.share(file.size), cost), share)


def counts_blobs(options: CoreOptions) -> bool:
    """Whether blob files count by their size: where their values are read, unless the option says otherwise."""
    given = options.value("blob.split-by-file-size")
    return not options.value("blob-as-descriptor") if given is None else bool(given)


def _data_evolution_bins(
    files: Sequence[SplitFile], share: int, cost: int, *, count_blobs: bool
) -> list[tuple[Sequence[SplitFile], bool]]:
    """Pack the files of a bucket by row ids; files that hold columns of the same rows stay together."""

    def weight(group: Sequence[SplitFile]) -> int:
        return max(sum(file.size if count_blobs or not is_blob_file(file.name) else cost for file in group), cost)

    packed = pack_ordered(groups_of_rows(files), weight, share)
    return [([file for group in bin_ for file in group], all(len(group) == 1 for group in bin_)) for bin_ in packed]


def _sliced(file: SplitFile, target: int) -> list[SplitFile]:
    """Cut a large Parquet file into equal slices of its row groups.

    How many it has is not known here. A small target does not cut a file into slices that mostly hold no row group.
    """
    count = round(file.size / target) if target > 0 else 1
    count = min(count, file.row_count, max(_MOST_SMALL_SLICES, file.size // _SMALL_SLICE_BYTES))
    if file.format != "parquet" or count < 2:
        return [file]
    return [file._replace(row_groups=RowGroups(i, i + 1, count)) for i in range(count)]


def split_files(table: FileStoreTable, files: ManifestColumns, vectors: Vectors = NO_VECTORS) -> list[SplitFile]:
    """Turn manifest records into files of splits, in the same order; names and external paths are checked.

    Args:
        table: with the schema of the read.
        files: of manifests.
        vectors: the deletion vectors of the snapshot, which the files get.
    """
    directories = DataLayout.of(table.schema).data_file_directories(table.path, files)
    result = SplitFile.of_columns(files, directories, has_keys=table.schema.kind.is_keyed)
    if files.has_mask(WITH_ROWS):
        embedded, extra = files.file_values("_EMBEDDED_FILE_INDEX"), files.file_values("_EXTRA_FILES")
        for i in np.flatnonzero(files.mask(WITH_ROWS)).tolist():
            result[i] = result[i]._replace(file_index=index_location(embedded[i], extra[i], result[i].path))
    if not vectors:
        return result
    positions = map(vectors.get, zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True))
    return [
        file if position is None else file._replace(deletion_vector=position)
        for file, position in zip(result, positions, strict=True)
    ]


def enough_splits(splits: Iterable[DataSplit], limit: int, *, has_keys: bool) -> list[DataSplit]:
    """Return the first splits that hold ``limit`` rows for certain, all of them when they cannot be counted on.

    Merged splits cannot be counted, nor slices of files, nor old files with keys that may hold deletes, nor vectors
    without a cardinality.
    """
    chosen: list[DataSplit] = []
    rows = 0
    for split in splits:
        if rows >= limit:
            break
        chosen.append(split)
        if split.raw_convertible and all(
            file.row_groups is None and (file.delete_row_count == 0 or not has_keys) and file.kept_rows is not None
            for file in split.files
        ):
            rows += split.row_count
    return chosen
