"""Expiring partitions: those whose time, or whose last change, is too long ago are dropped.

Equals Java's ``NormalPartitionExpire`` with its two strategies (docs/internals/format.md §9). Runs on the driver; each
batch of partitions is one ordinary commit, so it may be killed at any point and run again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from paimon_spark.commit.file_store_commit import BATCH, OverwriteSpec, commit
from paimon_spark.errors import OptionError
from paimon_spark.options import OPTIONS
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.partitions import partition_texts, time_of_partition

if TYPE_CHECKING:
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_STRATEGIES = ("values-time", "update-time")
_NEXT_CHECK: dict[tuple[str, str, str], float] = {}
"""When a stream of this process checks next, by store, table and branch: seconds of the monotonic clock."""


def expire_partitions(table: FileStoreTable) -> list[dict[str, str]]:
    """Drop the partitions that are too old; return them as texts by column, in the order of their names.

    Args:
        table: the branch; its options ``partition.expiration-*`` and ``partition.timestamp-*`` say what is too old.

    Raises:
        OptionError: there is no ``partition.expiration-time``, the table has no partitions, or an option cannot be
            used.
        CommitConflictError: rivals won too often; the partitions of earlier batches are dropped.
    """
    options = table.options
    age: timedelta | None = options.get(OPTIONS["partition.expiration-time"])
    if age is None or not table.schema.partition_keys:
        raise OptionError(
            "Both the partition expiration time and partition field can not be null: give expiration_time or set the "
            f"option 'partition.expiration-time' of the partitioned table ({table.path})."
        )
    strategy = options.get(OPTIONS["partition.expiration-strategy"])
    if strategy not in _STRATEGIES:
        raise OptionError(f"Unknown partitionExpireStrategy: {strategy}. Known are {' and '.join(_STRATEGIES)}.")
    latest = table.snapshots.latest_to_follow()
    if latest is None:
        return []
    try:
        before = datetime.now() - age
    except OverflowError:
        return []
    live = table.manifests.live_columns(latest, statistics=False)
    chosen = _old_values(table, live, before) if strategy == "values-time" else _unchanged(live, before)
    layout = DataLayout.of(table.schema)
    named = [(partition_texts(layout, partition), partition) for partition in chosen]
    found = sorted(named, key=lambda item: ",".join(item[0].values()))[
        : options.get(OPTIONS["partition.expiration-max-num"])
    ]
    _drop(table, layout, [partition for _, partition in found])
    return [texts for texts, _ in found]


def expire_partitions_if_due(table: FileStoreTable, identifier: int) -> list[dict[str, str]]:
    """Drop old partitions after a commit, if the table's options ask for it and a check is due.

    As in Java, a stream checks every ``partition.expiration-check-interval``. A batch write checks only if that is 0,
    or with the option ``end-input.check-partition-expire``.
    """
    options = table.options
    if options.get(OPTIONS["partition.expiration-time"]) is None or not table.schema.partition_keys:
        return []
    interval = options.get(OPTIONS["partition.expiration-check-interval"]).total_seconds()
    if interval and not _is_time(table, interval, identifier):
        return []
    return expire_partitions(table)


def _is_time(table: FileStoreTable, interval: float, identifier: int) -> bool:
    if identifier == BATCH:
        return bool(table.options.get(OPTIONS["end-input.check-partition-expire"]))
    now, key = time.monotonic(), table.place
    due = _NEXT_CHECK.setdefault(key, now + random.random() * interval)
    if now < due:
        return False
    _NEXT_CHECK[key] = now + interval
    return True


def _old_values(table: FileStoreTable, live: ManifestColumns, before: datetime) -> list[bytes]:
    """Return the partitions whose values stand for a time before ``before``."""
    layout = DataLayout.of(table.schema)
    old = []
    for partition in dict.fromkeys(live.partitions):
        stands_for = time_of_partition(layout, table.options, partition)
        if stands_for is None:
            _LOG.warning(
                "%s: partition %s is no time and does not expire; drop it by hand, or set "
                "'partition.expiration-strategy' to 'update-time'",
                table.path,
                partition_texts(layout, partition),
            )
        elif stands_for < before:
            old.append(partition)
    return old


def _unchanged(live: ManifestColumns, before: datetime) -> list[bytes]:
    """Return the partitions whose newest file was made before ``before``."""
    newest: dict[bytes, int] = {}
    times = live.file_values("_CREATION_TIME")
    for partition, millis in zip(live.partitions, times, strict=True):
        newest[partition] = max(newest.get(partition, 0), millis or 0)
    epoch = datetime(1970, 1, 1)
    limit = (before - epoch) // timedelta(milliseconds=1)  # both are wall clocks
    return [partition for partition, millis in newest.items() if millis < limit]


def _drop(table: FileStoreTable, layout: DataLayout, partitions: Sequence[bytes]) -> None:
    size = table.options.get(OPTIONS["partition.expiration-batch-size"]) or len(partitions)
    for start in range(0, len(partitions), max(1, size)):
        specs: list[Mapping[str, Any]] = [
            dict(zip(layout.partition_keys, layout.partition_values(partition), strict=True))
            for partition in partitions[start : start + size]
        ]
        _LOG.info("%s: %s partitions expire: %s", table.path, len(specs), specs)
        commit(table, [], overwrite=OverwriteSpec.truncate(*specs))
