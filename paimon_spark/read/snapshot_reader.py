"""Planning the read of one snapshot of one branch.

Equals Java's ``SnapshotReaderImpl`` (docs/internals/format.md §7). Runs once per read and branch, on the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.memory import give_back
from paimon_spark.read.file_scan import scan_files
from paimon_spark.read.plan import ReadPlan, residual_filter
from paimon_spark.read.postponed_read import merges_postponed, postponed_splits, read_postponed
from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors
from paimon_spark.read.split_generator import enough_splits, generate_splits
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.option_validation import validate_merge_engine, validate_sequence_field
from paimon_spark.spec.predicate import Always
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.deletion_vectors import vectors_of

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import TableScan
    from paimon_spark.table.table import FileStoreTable

_MANY_FILES = 100_000


def plan_snapshot(scan: TableScan) -> ReadPlan:
    """Plan the read of a scan's snapshot, of its own branch alone.

    Args:
        scan: its source is a snapshot, or None, which reads as empty. Its `scan.*` options are not looked at.

    Raises:
        OptionError: an option of the reader names a column that the table has not.
        CorruptTableError: a metadata file is missing or cannot be read.
        SnapshotNotFoundError: a metadata file is missing because the snapshot has expired meanwhile.
    """
    table, snapshot, predicate = scan.table, scan.source, scan.predicate
    has_keys = table.schema.kind.is_keyed
    if has_keys and table.schema.options != table.latest.options:
        validate_sequence_field(table.schema)  # options of the reader; else a task would find out
        validate_merge_engine(table.schema)
    assert snapshot is None or isinstance(snapshot, Snapshot)
    if snapshot is None or predicate == Always(False):
        return ReadPlan(snapshot, table.schema, scan.columns, (), predicate, table)
    with _without_gc(), snapshot_expiry_errors(table, snapshot.id):
        postponed = None
        if not scan.view.name and merges_postponed(table):
            postponed = postponed_splits(table, snapshot, predicate, scan.parallelism)
        if postponed is not None:
            _check_no_full_scan(table, snapshot, len({file.path for split in postponed for file in split.files}))
        splits = _splits(scan, snapshot) if postponed is None else postponed
    residual = residual_filter(table.schema, predicate)
    if scan.limit is not None and residual is None:
        splits = enough_splits(splits, scan.limit, has_keys=has_keys)
    read = read_split if postponed is None else read_postponed
    return ReadPlan(snapshot, table.schema, scan.columns, tuple(splits), residual, table, read)


def _splits(scan: TableScan, snapshot: Snapshot) -> list[DataSplit]:
    table = scan.table
    files = scan_files(table, snapshot, scan.predicate, row_ids=scan.row_ids)
    if len(files) >= _MANY_FILES:
        give_back(kept_bytes=0)  # what the bytes of their manifests took
    _check_no_full_scan(table, snapshot, len(files))
    if scan.top_level_only and table.schema.kind.is_keyed:
        files = files.filter(files.levels == table.options.num_levels - 1)
    vectors = vectors_of(table, snapshot)
    return generate_splits(
        table, snapshot.id, files, scan.parallelism, vectors=vectors, whole_files=scan.limit is not None
    )


def _check_no_full_scan(table: FileStoreTable, snapshot: Snapshot, files: int) -> None:
    """Java: ``PaimonBaseScan.ensureNoFullScan``.

    Raises:
        OptionError: no file of a partitioned table is left out, and `read.allow.fullScan` does not allow that.
    """
    if table.options.value("read.allow.fullScan") or not table.schema.partition_keys or not files:
        return
    if files == len(table.manifests.live_columns(snapshot)):
        raise OptionError(
            f"Full scan is not supported. This read needs all files of {table.path}. Give a condition on its "
            f"partitions ({', '.join(table.schema.partition_keys)}), or set 'read.allow.fullScan' = 'true'."
        )


@contextmanager
def _without_gc() -> Iterator[None]:
    """Pause the cycle collector: 20,000 manifest records hold no cycles, but looking for them doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
