"""What a compaction that sorts rows takes together: files of a table without buckets, partition by partition.

Equals Java's ``IncrementalClusterManager``, ``IncrementalClusterStrategy`` and ``HistoryPartitionCluster`` for tables
with ``clustering.incremental``, and its ``CompactProcedure`` with ``order_strategy``. From metadata only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.compact.levels import CompactStrategy, level_runs
from paimon_spark.maintain.compact.row_order import clustering_columns
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.step import BucketFiles

if TYPE_CHECKING:
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
