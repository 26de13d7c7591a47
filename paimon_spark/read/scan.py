"""The files that a read must look at: live in the snapshot, and not ruled out by the predicate.

Equals Java's ``AbstractFileStoreScan.plan`` with its subclasses for append and primary-key tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.read.pruning import bucket_groups, bucket_mask
from paimon_spark.read.stats_pruning import stats_mask
from paimon_spark.spec.predicate import Always, project

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


def scan_files(table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None) -> ManifestColumns:
    """Return the files of ``snapshot`` that may hold rows for which ``predicate`` is true. Runs on the driver.

    Args:
        table: with the schema of the read.
        snapshot: what to read.
        predicate: over the table's columns; None keeps every file.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    partition_predicate = _project(predicate, table.schema.partition_keys)
    bucket = table.options.value("scan.bucket")
    files = table.manifests.live_columns(
        snapshot, predicate=partition_predicate, bucket=None if bucket is None else int(bucket)
    )
    if predicate is None or not len(files):
        return files
    files = files.filter(bucket_mask(table, files, predicate))
    if not table.schema.primary_keys:
        return files.filter(stats_mask(table, files, predicate, keys=False))
    key_predicate = _project(predicate, table.schema.trimmed_primary_keys)
    if key_predicate is not None:
        files = files.filter(stats_mask(table, files, key_predicate, keys=True))
    return files.filter(_value_mask(table, files, predicate))


def _value_mask(table: FileStoreTable, files: ManifestColumns, predicate: Predicate) -> npt.NDArray[np.bool_]:
    """Return which files of a primary-key table the whole predicate leaves, by buckets.

    Where the files of a bucket cannot hold the same key twice, each is judged alone; otherwise the bucket goes only if
    none of its files can match, and never with partial-update, where a row is put together from several files.
    """
    may_match = stats_mask(table, files, predicate, keys=False)
    keep = np.ones(len(files), dtype=bool)
    whole_rows = table.options.merge_engine in ("deduplicate", "first-row")
    levels = files.levels
    for group in bucket_groups(files):
        at = np.array(group, dtype=np.int64)
        if len(group) == 1 or (levels[at[0]] > 0 and bool((levels[at] == levels[at[0]]).all())):
            keep[at] = may_match[at]
        elif whole_rows and not bool(may_match[at].any()):
            keep[at] = False
    return keep


def _project(predicate: Predicate | None, names: tuple[str, ...]) -> Predicate | None:
    """Return the conjuncts over ``names`` alone; None when there are none."""
    if predicate is None or not names:
        return None
    said = project(predicate, names)
    return None if said == Always(True) else said
