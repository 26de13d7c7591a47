"""Cutting the files of a read into splits, which tasks read.

Equals Java's split generators (``AppendOnlySplitGenerator``, ``MergeTreeSplitGenerator``; docs/internals/format.md §7).
Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.read.data_evolution import groups_of_rows
from paimon_spark.read.index_pruning import WITH_ROWS
from paimon_spark.read.key_ranks import key_ranks
from paimon_spark.read.pruning import bucket_groups
from paimon_spark.read.sections import has_no_deletes, is_raw_bucket, pack_ordered, sections_of
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.spec.file_names import POSTPONE_BUCKET, is_blob_file
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.deletion_vectors import NO_VECTORS, Vectors
from paimon_spark.table.file_indexes import index_location

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.table.table import FileStoreTable

Positions = npt.NDArray[np.int64]

_FILES_AT_ONCE = 20_000
_MOST_SMALL_SLICES = 16
_SMALL_SLICE_BYTES = 4 << 20
"""Slices below this size are at most so many of a file."""
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
) -> list[DataSplit]:
    """Cut the files of every bucket into splits, buckets in the order in which they appear."""
    groups = [g for g in bucket_groups(files) if files.buckets[g[0]] != POSTPONE_BUCKET]
    one_row_per_key = table.options.one_row_per_key_above_level_0
    target = table.options.split_target_size_bytes
    cost = table.options.split_open_file_cost_bytes
    count_blobs = counts_blobs(table.options)
    share = (
        fair_share(_weighed(files, count_blobs=count_blobs), target, cost, parallelism) if parallelism > 1 else target
    )
    result: list[DataSplit] = []
    ranks = None
    for group, bucket in _files_of(table, files, groups, vectors):
        if table.schema.kind.has_data_evolution:
            bins = _data_evolution_bins(bucket, share, cost, count_blobs=count_blobs)
        elif not table.schema.kind.is_keyed:
            bins = [(b, True) for b in _append_bins(bucket, target, share, cost)]
        elif is_raw_bucket(bucket, one_row_per_key=one_row_per_key):
            bins = [(b, True) for b in pack_ordered(bucket, lambda f: max(f.size, cost), share)]
        else:
            if ranks is None:
                ranks = key_ranks(
                    table, files.file_values("_MIN_KEY"), files.file_values("_MAX_KEY"), files.schema_ids.tolist()
                )
            sections = sections_of(bucket, ranks[0][group], ranks[1][group])
            packed = pack_ordered(sections, lambda s: max(sum(f.size for f in s), cost), target)
            flat = [[file for section in sections_here for file in section] for sections_here in packed]
            bins = [(b, len(b) == 1 and has_no_deletes(b[0])) for b in flat]
        first = group[0]
        partition, bucket_id = files.partitions[first], int(files.buckets[first])
        total = int(files.total_buckets[first])
        result.extend(DataSplit(snapshot_id, partition, bucket_id, total, _slim(b, raw), raw) for b, raw in bins)
    return result


def _files_of(
    table: FileStoreTable, files: ManifestColumns, groups: Sequence[list[int]], vectors: Vectors
) -> Iterator[tuple[list[int], list[SplitFile]]]:
    """Yield the positions and the files of each bucket; files of some buckets are made at a time."""
    at = 0
    while at < len(groups):
        some = [groups[at]]
        count = len(groups[at])
        while (at := at + 1) < len(groups) and count < _FILES_AT_ONCE:
            some.append(groups[at])
            count += len(groups[at])
        made = iter(split_files(table, files.take(list(chain.from_iterable(some))), vectors))
        for group in some:
            yield group, list(islice(made, len(group)))


def _weighed(files: ManifestColumns, *, count_blobs: bool) -> Positions:
    """The sizes of the files whose bytes a read takes from the store."""
    if count_blobs:
        return files.file_sizes
    return files.file_sizes[[not is_blob_file(name) for name in files.file_names]]


def _slim(files: Sequence[SplitFile], raw: bool) -> tuple[SplitFile, ...]:
    """Leave out the keys of files that are read without merging."""
    if not raw:
        return tuple(files)
    return tuple(file._replace(min_key=b"", max_key=b"") if file.min_key or file.max_key else file for file in files)


def _append_bins(files: Sequence[SplitFile], target: int, share: int, cost: int) -> list[list[SplitFile]]:
    """Pack the files of an append bucket by sequence number, large Parquet files cut into slices of row groups."""
    ordered = sorted(files, key=lambda file: file.min_seq)
    pieces = [piece for file in ordered for piece in _sliced(file, target)]
    return pack_ordered(pieces, lambda file: max(file.size // file.share, cost), share)


def counts_blobs(options: CoreOptions) -> bool:
    """Whether blob files count by their size: where their values are read, unless the option says otherwise."""
    given = options.value("blob.split-by-file-size")
    return not options.value("blob-as-descriptor") if given is None else bool(given)


def _data_evolution_bins(
    files: Sequence[SplitFile], share: int, cost: int, *, count_blobs: bool
) -> list[tuple[list[SplitFile], bool]]:
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
    return [file._replace(row_groups=(i, count)) for i in range(count)]


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


def enough_splits(splits: Sequence[DataSplit], limit: int, *, has_keys: bool) -> list[DataSplit]:
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
