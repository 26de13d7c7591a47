"""What the metastore of a catalog learns of partitions after a commit, where it knows those of the table.

Java: ``AddPartitionCommitCallback``, ``PartitionStatisticsReporter``, ``HiveCatalog.dropPartitions``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.options import OPTIONS
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.partition_specs import data_root, partition_spec
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_REPORTED = OPTIONS["partition.idle-time-to-report-statistic"]


def report_partitions(table: FileStoreTable, snapshot: Snapshot, files: Sequence[ManifestEntry]) -> None:
    """Tell the metastore which partitions a commit has written and emptied; that never fails the commit.

    Java drops partitions by DROP PARTITION and expiry alone, and keeps one whose rows were deleted otherwise; here a
    partition without files leaves the metastore.
    """
    publisher = table.file_io.publisher
    if publisher is None or not publisher.knows_partitions(table.schema):
        return
    try:
        written = dict.fromkeys(entry.partition for entry in files if entry.kind == FileKind.ADD)
        maybe_empty = dict.fromkeys(entry.partition for entry in files if entry.partition not in written)
        if written:
            publisher.add_partitions([partition_spec(table, each) for each in written], data_root(table))
        empty = _without_files(table, snapshot, maybe_empty)
        if empty:
            publisher.drop_partitions([partition_spec(table, each) for each in empty])
        if written and table.options.get(_REPORTED):
            publisher.measure_partitions(_measured(table, snapshot, set(written)))
    except PaimonError as error:
        _LOG.warning(
            "Snapshot %s of table %s is committed, but the catalog's metastore was not informed of its partitions: %s "
            "CALL sys.repair tells it.",
            snapshot.id,
            table.address,
            error,
        )


def _without_files(table: FileStoreTable, snapshot: Snapshot, partitions: dict[bytes, None]) -> list[bytes]:
    """Those of the partitions that have files in no branch."""
    if not partitions:
        return []
    live: set[bytes] = set(table.manifests.live_columns(snapshot, statistics=False).partitions)
    for name in {MAIN_BRANCH, *table.branches.names()} - {table.branch}:
        other = table.on_branch(name)
        latest = other.snapshots.latest_to_follow()
        live |= set() if latest is None else set(other.manifests.live_columns(latest, statistics=False).partitions)
    return [each for each in partitions if each not in live]


def _measured(table: FileStoreTable, snapshot: Snapshot, partitions: set[bytes]) -> list[dict[str, Any]]:
    """The sums of files of partitions, as Java's ``PartitionStatistics``."""
    live = table.manifests.live_columns(snapshot, statistics=False)
    sums: dict[bytes, list[int]] = {each: [0, 0, 0, 0] for each in partitions}
    columns = (live.partitions, live.row_counts.tolist(), live.file_sizes.tolist(), live.total_buckets.tolist())
    for partition, rows, size, buckets in zip(*columns, strict=True):
        if partition in sums:
            own = sums[partition]
            sums[partition] = [own[0] + rows, own[1] + size, own[2] + 1, buckets]
    now = int(time.time() * 1000)
    return [
        {
            "spec": partition_spec(table, partition),
            "recordCount": rows,
            "fileSizeInBytes": size,
            "fileCount": count,
            "lastFileCreationTime": now,
            "totalBuckets": buckets,
        }
        for partition, (rows, size, count, buckets) in sums.items()
    ]
