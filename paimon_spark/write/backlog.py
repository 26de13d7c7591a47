"""What each bucket has left to compact, counted when a write is planned: so that its commit need not look again.

Counts as Java's ``Levels.numberOfSortedRuns`` and ``BucketedAppendCompactManager.pickCompactBefore`` do. No file is
opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema


def compaction_backlog(schema: TableSchema, files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    """Return of each partition and bucket what counts for the next compaction.

    Args:
        schema: with the options of the write.
        files: the live files of a table with buckets; statistics are not needed.

    Returns:
        Of a table with keys the sorted runs: files of level 0, and levels above. Of one without, how many of the newest
        files a compaction may join with the next one.
    """
    return _sorted_runs(files) if schema.kind.is_keyed else _files_to_join(schema, files)


def _sorted_runs(files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    found: dict[bytes, dict[int, int]] = {}
    seen = set[tuple[bytes, int, int]]()
    for place in zip(files.partitions, files.buckets.tolist(), files.levels.tolist(), strict=True):
        partition, bucket, level = place
        if level == 0 or place not in seen:
            seen.add(place)
            buckets = found.setdefault(partition, {})
            buckets[bucket] = buckets.get(bucket, 0) + 1
    return found


def _files_to_join(schema: TableSchema, files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    most_files = int(schema.core_options.value("compaction.min.file-num")) - 1
    most_bytes = 2 * schema.core_options.target_file_size_bytes(False)
    found: dict[bytes, dict[int, int]] = {}
    sizes: dict[tuple[bytes, int], int] = {}
    newest_first = np.argsort(-np.array(files.file_values("_MIN_SEQUENCE_NUMBER"), dtype=np.int64), kind="stable")
    partitions, buckets, bytes_ = files.partitions, files.buckets, files.file_sizes
    for at in newest_first.tolist():
        place = partitions[at], int(buckets[at])
        size = sizes[place] = sizes.get(place, 0) + int(bytes_[at])
        counts = found.setdefault(place[0], {})
        count = counts.setdefault(place[1], 0)
        if size < most_bytes and count < most_files:
            counts[place[1]] = count + 1
    return found
