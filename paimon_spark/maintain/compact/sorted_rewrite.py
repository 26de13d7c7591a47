"""A compaction that sorts rows: which files it takes together, what its tasks do, and the commit.

Files of a table without buckets are chosen partition by partition, from metadata only, as by Java's
``IncrementalClusterManager``, ``IncrementalClusterStrategy`` and ``HistoryPartitionCluster`` for tables with
``clustering.incremental``, and by its ``CompactProcedure`` with ``order_strategy``.

The rows are cut into ranges of their order, by a sample; each range is small enough to be sorted in memory. Those of a
few ranges next to each other go to one task, which writes one file after the other. Rows never leave Arrow: what a file
holds (nanoseconds, the ids of rows) the new one holds as well. The commit deletes exactly the files that were read, so
rows that others append meanwhile stay (Java overwrites whole partitions in a sort compaction).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitError, CommitStateUnknownError, OptionError, PaimonError, UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.compact.levels import CompactStrategy, level_runs
from paimon_spark.maintain.compact.rewrite import OutputFiles, Rewrite, RewriteResult, appended_rows, output_spec
from paimon_spark.maintain.compact.row_order import clustering_columns
from paimon_spark.maintain.compact.scope import CompactScope, VectorChanges
from paimon_spark.maintain.compact.step import BucketFiles, split_files
from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.split_read import partition_scalars
from paimon_spark.spec.manifest import FileSource
from paimon_spark.write.message import CommitMessage
from paimon_spark.write.routing import positions_of, split_rows

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.row_order import RowOrder
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class SortUnit:
    """Files of one partition whose rows are sorted together."""

    bucket: BucketFiles
    """Where, with all of its files."""
    files: tuple[DataFileMeta, ...]
    level: int
    """Of the new files."""

    @property
    def size_bytes(self) -> int:
        """Bytes to read."""
        return sum(file.file_size for file in self.files)


def clusters_by_steps(table: FileStoreTable) -> bool:
    """Whether compactions of the table cluster its rows (``clustering.incremental``)."""
    return bool(table.options.value("clustering.incremental")) and not table.schema.kind.is_keyed


def check_sortable(table: FileStoreTable) -> None:
    """Check that the rows of a table may be put in another order.

    Raises:
        UnsupportedError: the table has keys, buckets or data evolution.
    """
    if table.schema.kind.has_buckets:
        raise UnsupportedError(
            "Sort compaction only supports unaware-bucket append-only tables: the rows of this one belong to buckets. "
            "Compact it without an order."
        )
    if table.schema.kind.has_data_evolution:
        raise UnsupportedError("Data Evolution table cannot be sorted!")


def all_of_each_partition(table: FileStoreTable, snapshot: Snapshot, scope: CompactScope) -> list[SortUnit]:
    """Return all files of each partition (``order_strategy``)."""
    buckets = scope.bucket_files(table, snapshot, only_small=False)
    return [SortUnit(bucket, bucket.files, 0) for bucket in buckets]


def clustering_units(table: FileStoreTable, snapshot: Snapshot, scope: CompactScope, *, full: bool) -> list[SortUnit]:
    """Return what is due of each partition of a table with ``clustering.incremental``.

    Args:
        table: with dynamic options.
        snapshot: its files.
        scope: which partitions.
        full: everything that is not clustered by these columns; otherwise what sorted runs make due.

    Raises:
        OptionError: there are no clustering columns, or they cannot be ordered.
    """
    if not clustering_columns(table.options):
        raise OptionError(
            "Option 'clustering.incremental' needs the columns to cluster by: set 'clustering.columns' for the table."
        )
    wider = scope if scope.partitions is None else replace(scope, partitions=None)
    buckets = scope.bucket_files(table, snapshot, only_small=False)
    units = [unit for bucket in buckets if (unit := _picked(table, bucket, full=full)) is not None]
    idle = table.options.value("clustering.history-partition.idle-to-full-sort")
    if idle is not None and scope.partitions is not None and table.schema.partition_keys:
        seen = {bucket.partition for bucket in buckets}
        units += _history(table, wider.bucket_files(table, snapshot, only_small=False), seen, idle)
    return units if _sorts_globally(table) else [part for unit in units for part in _local_parts(table, unit)]


def _sorts_globally(table: FileStoreTable) -> bool:
    return str(table.options.value("clustering.incremental.mode")) == "global-sort"


def _picked(table: FileStoreTable, bucket: BucketFiles, *, full: bool) -> SortUnit | None:
    # Java: no early full compaction, and level 0 is not forced up
    strategy = replace(
        CompactStrategy.of(table.options, full=False),
        force_level_0=False,
        full_interval_millis=None,
        total_size_threshold=None,
        incremental_size_threshold=None,
    )
    if not full:
        picked = strategy.pick(bucket.files)
        return None if picked is None else SortUnit(bucket, picked.files, picked.level)
    runs, top = level_runs(bucket.files), strategy.top_level(bucket.files)
    if len(runs) == 1 and runs[0].level == top:
        of_file = table.schemas.get(runs[0].files[0].schema_id).core_options
        if clustering_columns(of_file) == clustering_columns(table.options):
            return None
    return SortUnit(bucket, bucket.files, top)


def _history(
    table: FileStoreTable, buckets: Iterable[BucketFiles], seen: set[bytes], idle: timedelta
) -> list[SortUnit]:
    """Partitions alongside those asked for that nobody has written for long: a few, the oldest first, in full."""
    before = (datetime.now() - idle - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    top = table.options.num_levels - 1
    found = []
    for bucket in buckets:
        times = [file.creation_time_millis or 0 for file in bucket.files if file.level < top]
        if bucket.partition not in seen and times and max(times) < before:
            found.append((max(times), bucket))
    oldest = sorted(found, key=lambda one: one[0])[: int(table.options.value("clustering.history-partition.limit"))]
    units = [_picked(table, bucket, full=True) for _, bucket in oldest]
    return [unit for unit in units if unit is not None]


def _local_parts(table: FileStoreTable, unit: SortUnit) -> Iterable[SortUnit]:
    """Cut a unit into parts of about one file each, which are sorted by themselves (``local-sort``)."""
    target = table.options.target_file_size_bytes(False)
    part: list[DataFileMeta] = []
    for file in unit.files:
        if part and sum(each.file_size for each in part) + file.file_size > target:
            yield replace(unit, files=tuple(part))
            part = []
        part.append(file)
    yield replace(unit, files=tuple(part))


_LOG = logging.getLogger(__name__)
RANGE_BYTES = 32 << 20
"""Bytes of files whose rows are sorted at a time."""
_ROOM = 1.1
"""A task gets a little less than a file holds, so that no small rest of it makes another file."""
_SAMPLE_ROWS = 400
"""Of each range."""
_LEAST_SAMPLE_ROWS = 20_000
_CHUNK_BYTES = 64 << 20

Ranged = tuple[int, pa.Table]
"""Rows of one range, and its number."""


@dataclass(frozen=True, slots=True)
class SortedRewrite:
    """One unit of the work, as tasks know it. Picklable."""

    partition: bytes
    bucket: int
    level: int
    files: tuple[SplitFile, ...]
    order: RowOrder
    ranges: int
    """How many there are, at most."""
    tasks: int
    """Over how many tasks the ranges are spread."""
    first_sequence: int
    cuts: pa.Table | None = None
    """Keys at which ranges begin, but the first; None where there is one range."""

    @property
    def size_bytes(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)

    def task_of(self, number: int) -> int:
        """The task that writes a range; ranges of one task lie next to each other."""
        return number * self.tasks // self.ranges

    def of_file(self, file: SplitFile) -> Rewrite:
        """The rewrite of one file's rows."""
        return Rewrite(self.partition, self.bucket, self.level, ((file,),), first_sequence=self.first_sequence)


def sorted_rewrite(table: FileStoreTable, unit: SortUnit, order: RowOrder) -> SortedRewrite:
    """Return what tasks do for a unit; its ranges are not cut yet."""
    files = tuple(split_files(table, unit.bucket, unit.files))
    ranges = max(1, -(-unit.size_bytes // RANGE_BYTES))
    tasks = max(1, math.ceil(_ROOM * unit.size_bytes / table.options.target_file_size_bytes(False)))
    first = min(file.min_sequence_number for file in unit.files)
    location = (unit.bucket.partition, unit.bucket.bucket, unit.level)
    return SortedRewrite(*location, files, order, ranges, min(ranges, tasks), first)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of one file's rows, to be taken in a task."""

    rewrite: SortedRewrite
    file: SplitFile
    share: float

    @property
    def size_bytes(self) -> int:
        """About what is read: some of the columns."""
        return self.file.size // 4


def samples_of(rewrite: SortedRewrite) -> list[Sample]:
    """Return what must be looked at to cut a unit into ranges; nothing where there is one range."""
    if rewrite.ranges < 2:
        return []
    rows = sum(file.row_count for file in rewrite.files)
    share = min(1.0, max(_LEAST_SAMPLE_ROWS, rewrite.ranges * _SAMPLE_ROWS) / max(1, rows))
    return [Sample(rewrite, file, share) for file in rewrite.files]


def take_sample(table: FileStoreTable, sample: Sample) -> pa.Table:
    """Return the order's columns of some rows of a file, chosen evenly. Runs in tasks."""
    fields = sample.rewrite.order.fields(table)
    reader = FileRead(table, fields, partition_scalars(table, sample.rewrite.partition))
    step, start, parts = 1 / sample.share, 0.0, []
    for batch in reader.run((sample.file,), None):
        at = np.arange(start, batch.num_rows, step).astype(np.int64)
        start = max(0.0, start + len(at) * step - batch.num_rows)
        parts.append(batch.take(pa.array(at)))
    names = [field.name for field in fields]
    return pa.Table.from_batches(parts).select(names) if parts else pa.table({})


def ranged_rows(table: FileStoreTable, rewrite: SortedRewrite, file: SplitFile) -> Iterator[Ranged]:
    """Yield the rows of a file, those of each range together. Runs in tasks."""
    for chunk in _chunks(appended_rows(table, rewrite.of_file(file))):
        if rewrite.cuts is None:
            yield 0, chunk
            continue
        numbers = rewrite.order.range_numbers(rewrite.cuts, chunk)
        positions = positions_of(numbers, rewrite.cuts.num_rows + 1)
        filled = [number for number, chosen in enumerate(positions) if len(chosen)]
        yield from zip(filled, split_rows(chunk, [positions[number] for number in filled]), strict=True)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield pa.Table.from_batches(pending).combine_chunks()
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending).combine_chunks()


def write_ranges(table: FileStoreTable, rewrite: SortedRewrite, rows: Iterable[Ranged]) -> RewriteResult:
    """Write ranges, each in order, into files; on any error they are deleted. Runs in tasks.

    Args:
        table: with the schema and options that the new files get.
        rewrite: what is written.
        rows: in the order of their ranges; those of one range as they come.
    """
    directory = table.paths.bucket_dir(table.paths.partition_path(rewrite.partition), rewrite.bucket)
    spec = output_spec(table, rewrite.of_file(rewrite.files[0]))
    output = OutputFiles(table, spec, directory, FileSource.COMPACT, first_sequence=rewrite.first_sequence)
    try:
        for _, parts in groupby(rows, key=lambda ranged: ranged[0]):
            output.write(rewrite.order.sorted(pa.concat_tables([part for _, part in parts]).combine_chunks()))
        return RewriteResult(output.close())
    except BaseException:
        output.abort()
        raise


SortExecutor = Callable[["FileStoreTable", Sequence[SortedRewrite]], "list[list[DataFileMeta]]"]
"""Does the whole work of some units in tasks; returns the new files of each."""
Sampler = Callable[["FileStoreTable", Sequence[Sample]], "list[pa.Table]"]


def samples_here(table: FileStoreTable, samples: Sequence[Sample]) -> list[pa.Table]:
    """Take samples in this process."""
    return [take_sample(table, sample) for sample in samples]


def sort_here(table: FileStoreTable, rewrites: Sequence[SortedRewrite]) -> list[list[DataFileMeta]]:
    """Sort in this process: for what fits into its memory."""
    made: list[list[DataFileMeta]] = []
    try:
        for rewrite in rewrites:
            ranged = [part for file in rewrite.files for part in ranged_rows(table, rewrite, file)]
            ranged.sort(key=lambda part: part[0])
            made.append(list(write_ranges(table, rewrite, ranged).files))
    except BaseException:
        discard(table, rewrites, made)
        raise
    return made


def discard(table: FileStoreTable, rewrites: Sequence[SortedRewrite], made: Sequence[Sequence[DataFileMeta]]) -> None:
    """Delete new files: no snapshot refers to them."""
    pairs = zip(rewrites, made, strict=False)
    delete_written(table, [(rewrite.partition, rewrite.bucket, file) for rewrite, files in pairs for file in files])


def sort_units(
    table: FileStoreTable,
    snapshot: Snapshot,
    units: Sequence[SortUnit],
    order: RowOrder,
    *,
    sample: Sampler = samples_here,
    execute: SortExecutor = sort_here,
) -> int | None:
    """Write units anew, in order, and commit; return the id of the new snapshot, None where there is nothing to do.

    Runs on the driver.

    Raises:
        CommitConflictError: another commit took away a file that was read; nothing is changed and no file is left.
        CommitStateUnknownError: it is not known whether the commit took place.
    """
    if not units:
        return None
    vectors = VectorChanges(table, snapshot)
    assigned = [SortUnit(_with_vectors(unit, vectors), unit.files, unit.level) for unit in units]
    rewrites = _cut(table, [sorted_rewrite(table, unit, order) for unit in assigned], sample)
    size = sum(rewrite.size_bytes for rewrite in rewrites)
    _LOG.info("Sorting %s by %s: %d units of %d bytes.", table.path, ", ".join(order.columns), len(rewrites), size)
    made = execute(table, rewrites)
    try:
        _check_rows(table, assigned, made)
        vectors.apply([], [(u.bucket.partition, u.bucket.bucket, file.file_name) for u in assigned for file in u.files])
        vectors.discard(superseded=True)
        return commit(table, _messages(assigned, made, vectors), after_commit=maintenance(table))
    except CommitStateUnknownError:
        raise
    except (CommitError, PaimonError):
        discard(table, rewrites, made)
        vectors.discard(superseded=False)
        raise


def _with_vectors(unit: SortUnit, vectors: VectorChanges) -> BucketFiles:
    return replace(unit.bucket, vectors=vectors.locations)


def _cut(table: FileStoreTable, rewrites: Sequence[SortedRewrite], sample: Sampler) -> list[SortedRewrite]:
    wanted = [(at, one) for at, rewrite in enumerate(rewrites) for one in samples_of(rewrite)]
    found: dict[int, list[pa.Table]] = {}
    for (at, _), rows in zip(wanted, sample(table, [one for _, one in wanted]) if wanted else [], strict=True):
        if rows.num_rows:
            found.setdefault(at, []).append(rows)
    cut = []
    for at, rewrite in enumerate(rewrites):
        if at not in found:
            cut.append(replace(rewrite, ranges=1, tasks=1))
            continue
        rows = pa.concat_tables(found[at])
        order = rewrite.order.fitted(rows)
        cuts = order.cuts(rows, rewrite.ranges)
        ranges = cuts.num_rows + 1
        cut.append(replace(rewrite, order=order, cuts=cuts, ranges=ranges, tasks=min(ranges, rewrite.tasks)))
    return cut


def _check_rows(table: FileStoreTable, units: Sequence[SortUnit], made: Sequence[Sequence[DataFileMeta]]) -> None:
    """Check that no row was lost or doubled."""
    for unit, files in zip(units, made, strict=True):
        locations = [unit.bucket.vector_of(file) for file in unit.files]
        if any(location is not None and location.cardinality is None for location in locations):
            continue
        before = sum(file.row_count for file in unit.files)
        before -= sum((location.cardinality or 0) for location in locations if location is not None)
        after = sum(file.row_count for file in files)
        if before != after:
            raise PaimonError(
                f"Sorting {before} rows of table {table.path} gave {after} rows, and nothing was committed. This is a "
                "defect of paimon_spark."
            )


def _messages(
    units: Sequence[SortUnit], made: Sequence[Sequence[DataFileMeta]], vectors: VectorChanges
) -> list[CommitMessage]:
    messages, seen = [], set[tuple[bytes, int]]()
    for unit, files in zip(units, made, strict=True):
        location = (unit.bucket.partition, unit.bucket.bucket)
        index = () if location in seen else vectors.changes(*location)
        seen.add(location)
        messages.append(
            CommitMessage(
                *location,
                unit.bucket.total_buckets,
                (),
                compact_before=unit.files,
                compact_after=tuple(files),
                compact_index_changes=index,
            )
        )
    return messages
