"""What the metastore of a table takes part in: a server publishes snapshots itself, others learn of partitions.

A REST catalog takes a snapshot made on its latest one, and only such a one (Java: ``CatalogSnapshotCommit``); after an
unclear answer the server is asked what has the id of the snapshot. A metastore that knows the partitions of the table
hears of theirs after a commit (Java: ``AddPartitionCommitCallback``, ``PartitionStatisticsReporter``,
``HiveCatalog.dropPartitions``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import (
    CatalogServerError,
    CommitError,
    CommitStateUnknownError,
    PaimonError,
    TableNotFoundError,
)
from paimon_spark.options import OPTIONS
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.partitions import data_root, partition_spec
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.commit.settings import Retries
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.table import FileStoreTable

_LONGEST_UNCLEAR_SECONDS: Final = 30
_REFUSALS: Final = (400, 401, 403, 404, 405, 501)
"""The server did nothing, and would do nothing if it were asked again."""


class _Holder(Enum):
    US = "us"
    OTHERS = "others"
    NOBODY = "nobody"


def publish_by_server(
    table: FileStoreTable,
    server: TableServer,
    snapshot: Snapshot,
    retries: Retries,
    *,
    follows: Snapshot | None,
    files: Sequence[ManifestEntry],
) -> bool:
    """Let the server publish a snapshot.

    Sending it again after an unclear answer is safe: the server takes an id once.

    Args:
        table: where to publish.
        server: of the table.
        snapshot: not yet published.
        retries: waits between attempts; shared with the commit's own loop.
        follows: the snapshot before it; None: it is the first one.
        files: what it changes, for the statistics of partitions.

    Returns:
        True when the snapshot is ours; False when it has to be made anew on the server's latest one.

    Raises:
        CommitError: the server refused for good; nothing was committed.
        CommitStateUnknownError: it gave no clear answer; nothing may be deleted.
        TableNotFoundError: the table was dropped, or dropped and made again.
    """
    statistics, branch = partition_statistics(table, files), _branch(table)
    begun = time.monotonic()
    unclear: Exception | None = None
    while True:
        failure: Exception | None = None
        try:
            if server.commit(branch, snapshot, None if follows is None else follows.uuid, statistics):
                return True
        except CatalogServerError as error:
            if unclear is None and error.status in _REFUSALS:
                raise CommitError(f"Snapshot {snapshot.id} was not committed: {error} Nothing was changed.") from error
            failure = unclear = error
        except TableNotFoundError as error:
            if unclear is None:
                raise
            raise _unknown(table, snapshot, unclear) from error
        except Exception as error:  # noqa: BLE001 - whatever it was, only asking the server tells the outcome
            failure = unclear = error
        holder = _holder(table, server, snapshot, retries, unclear, begun)
        if holder is _Holder.US:
            return True
        if holder is _Holder.OTHERS:
            return False
        if failure is None:
            if unclear is None:
                return False
            raise _unknown(table, snapshot, unclear)  # the first request may still be on its way
        if _is_given_up(retries, begun):
            raise _unknown(table, snapshot, failure) from failure
        retries.wait()


def _branch(table: FileStoreTable) -> str:
    return "" if table.branch == MAIN_BRANCH else table.branch


def _is_given_up(retries: Retries, begun: float) -> bool:
    waited = time.monotonic() - begun
    return retries.exhausted or (retries.timeout_millis is None and waited > _LONGEST_UNCLEAR_SECONDS)


def _holder(
    table: FileStoreTable,
    server: TableServer,
    snapshot: Snapshot,
    retries: Retries,
    unclear: Exception | None,
    begun: float,
) -> _Holder:
    """Ask whose the snapshot with the id is."""
    while True:
        try:
            latest = server.latest(_branch(table))
            if latest is None or latest.id < snapshot.id:
                return _Holder.NOBODY
            found = latest if latest.id == snapshot.id else server.snapshot(_branch(table), snapshot.id)
        except PaimonError as error:
            if unclear is None and isinstance(error, TableNotFoundError):
                raise
            if _is_given_up(retries, begun):
                raise _unknown(table, snapshot, unclear or error) from error
            retries.wait()
        else:
            if found is None and unclear is not None:  # it has expired meanwhile
                raise _unknown(table, snapshot, unclear)
            return _Holder.US if found is not None and _is_same(found, snapshot) else _Holder.OTHERS


def _is_same(found: Snapshot, ours: Snapshot) -> bool:
    """Whether a snapshot is the one that was sent; old servers forget its uuid, its manifest lists are unique too."""
    if found.uuid is not None:
        return found.uuid == ours.uuid
    lists = (found.base_manifest_list, found.delta_manifest_list)
    return lists == (ours.base_manifest_list, ours.delta_manifest_list)


def _unknown(table: FileStoreTable, snapshot: Snapshot, cause: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"It is unknown whether snapshot {snapshot.id} of table {table.address} was committed: {cause} No file was "
        f"deleted. Look at the row of snapshot {snapshot.id} in the table's $snapshots: if its commit user is "
        f"{snapshot.commit_user} and its delta manifest list is {snapshot.delta_manifest_list}, the commit took place "
        "and must not be repeated; otherwise run the write again."
    )


def partition_statistics(table: FileStoreTable, files: Sequence[ManifestEntry]) -> list[dict[str, Any]]:
    """What a commit changes of each partition, as Java's ``PartitionStatistics`` writes it."""
    found: dict[bytes, dict[str, Any]] = {}
    for entry in files:
        sign = 1 if entry.kind == FileKind.ADD else -1
        known = found.get(entry.partition)
        if known is None:
            known = found[entry.partition] = {
                "spec": _spec(table, entry.partition),
                "recordCount": 0,
                "fileSizeInBytes": 0,
                "fileCount": 0,
                "lastFileCreationTime": 0,
                "totalBuckets": entry.total_buckets,
            }
        known["recordCount"] += sign * entry.file.row_count
        known["fileSizeInBytes"] += sign * entry.file.file_size
        known["fileCount"] += sign
        known["lastFileCreationTime"] = max(
            known["lastFileCreationTime"], _epoch_millis(entry.file.creation_time_millis)
        )
    return list(found.values())


def _spec(table: FileStoreTable, partition: bytes) -> dict[str, str]:
    layout = table.paths.layout
    return partition_spec(table, partition) if layout is not None and layout.partition_keys else {}


def _epoch_millis(local_millis: int | None) -> int:
    """Milliseconds since the epoch of a wall clock time here, which files keep without a zone."""
    if local_millis is None:
        return 0
    try:
        local = datetime.fromtimestamp(local_millis / 1000, UTC).replace(tzinfo=None)
        return int(local.timestamp() * 1000)
    except (OSError, OverflowError, ValueError) as error:
        raise PaimonError(f"A file was made at {local_millis}, which is no time.") from error


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
