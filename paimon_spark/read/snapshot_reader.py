"""Planning the read of one snapshot: of one branch, or of partitions that are taken from two branches. On the driver.

Equals Java's ``SnapshotReaderImpl`` (docs/internals/format.md §7), which runs once per read and branch, and
``FallbackReadFileStoreTable.FallbackReadScan`` (options `scan.fallback-branch` and `scan.primary-branch`): one of the
two branches comes first and gives all partitions that it has. The other gives the partitions that the first lacks. In a
read of changes, a branch has a partition if the changes touch it, or, where two states are compared, if the later state
has it. The ids, tags or times between which changes are read are looked up in each branch by itself. Tasks read each
split with the schemas and the merge engine of its branch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import OptionError, SnapshotNotFoundError
from paimon_spark.memory import give_back
from paimon_spark.read.change_range import CHANGE_KEYS, ChangeRange, ChangeSource, resolve_changes
from paimon_spark.read.incremental_plan import plan_changes
from paimon_spark.read.postponed_read import merges_postponed, postponed_splits, read_postponed
from paimon_spark.read.split_generator import enough_splits, generate_splits, scan_files
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan, residual_filter
from paimon_spark.spec.option_validation import validate_merge_engine, validate_sequence_field
from paimon_spark.spec.predicate import Always, implied_by
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors
from paimon_spark.table.two_branches import (
    FALLBACK,
    check_same_columns,
    open_other,
    option_of_other,
    other_branch,
    partitions_with_files,
    two_branches,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadSplit, TableScan
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
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
    residual = residual_filter(table.schema, predicate)
    limit = scan.limit if residual is None else None
    with _without_gc(), snapshot_expiry_errors(table, snapshot.id):
        postponed = None
        if not scan.view.name and merges_postponed(table):
            postponed = postponed_splits(table, snapshot, predicate, scan.parallelism)
        if postponed is not None:
            _check_no_full_scan(table, snapshot, len({file.path for split in postponed for file in split.files}))
        splits = _splits(scan, snapshot, limit) if postponed is None else postponed
    if limit is not None and postponed is not None:
        splits = enough_splits(splits, limit, has_keys=has_keys)
    read = read_split if postponed is None else read_postponed
    return ReadPlan(snapshot, table.schema, scan.columns, tuple(splits), residual, table, read)


def _splits(scan: TableScan, snapshot: Snapshot, limit: int | None) -> list[DataSplit]:
    table = scan.table
    files = scan_files(table, snapshot, scan.predicate, row_ids=scan.row_ids)
    if len(files) >= _MANY_FILES:
        give_back(kept_bytes=0)  # what the bytes of their manifests took
    _check_no_full_scan(table, snapshot, len(files))
    if scan.top_level_only and table.schema.kind.is_keyed:
        files = files.filter(files.levels == table.options.num_levels - 1)
    kind = table.schema.kind
    if scan.file_names is not None and not kind.is_keyed and not kind.has_data_evolution:
        wanted = zip(files.file_names, files.file_values("_EXTERNAL_PATH"), strict=True)
        named = [name in scan.file_names or external is not None for name, external in wanted]
        files = files.filter(np.array(named, dtype=bool))
    vectors = vectors_of(table, snapshot)
    whole_files = scan.whole_files or scan.limit is not None
    return generate_splits(
        table,
        snapshot.id,
        files,
        scan.parallelism,
        vectors=vectors,
        whole_files=whole_files,
        keeps_keys=scan.keeps_keys,
        limit=limit,
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


@dataclass(frozen=True)
class BranchRead:
    """Reads the splits of two branches, each with its own schemas and merge engine. Picklable."""

    own: ReadSplit
    """Reads the splits of the plan's table."""
    table: FileStoreTable
    """The other branch, whose splits carry its name."""
    other: ReadSplit
    """Reads the splits of the other branch."""

    def __call__(
        self,
        table: FileStoreTable,
        split: DataSplit,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read one split, as `read_split` does."""
        return self.of(split)(table if split.branch is None else self.table, split, plan_fields, predicate)

    def of(self, split: DataSplit) -> ReadSplit:
        """Return what reads a split."""
        return self.own if split.branch is None else self.other


def plan_own_branch(scan: TableScan) -> ReadPlan:
    """Plan the read of a scan's snapshot or changes, of its own branch alone."""
    return plan_changes(scan) if isinstance(scan.source, ChangeRange) else plan_snapshot(scan)


def plan_rows(scan: TableScan, plan_branch: Callable[[TableScan], ReadPlan] = plan_own_branch) -> ReadPlan:
    """Plan the read of the rows themselves, with the partitions of the other branch that belong to it.

    Args:
        scan: of the table's own branch; its columns are columns of the table.
        plan_branch: plans the read of one branch.

    Raises:
        PaimonError: the branches have not the same columns.
        SnapshotNotFoundError: a snapshot or tag of the source is gone, or the other branch has none of that name.
        UnsupportedError: the other branch has a feature that is not supported yet.
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    own = plan_branch(scan)
    other = _scan_of_other(scan)
    if other is None:
        return own
    own_first = bool(scan.table.options.get(FALLBACK))
    complete = _partitions(scan if own_first else other, plan_branch)
    return _joined(own, plan_branch(other), complete, own_first=own_first)


def read_of_plan(plan: ReadPlan, read_of: Callable[[FileStoreTable], ReadSplit]) -> ReadSplit:
    """Return a read for the splits of a plan of one or two branches, in place of the plan's own."""
    if isinstance(plan.read, BranchRead):
        return BranchRead(read_of(plan.table), plan.read.table, read_of(plan.read.table))
    return read_of(plan.table)


def _scan_of_other(scan: TableScan) -> TableScan | None:
    """Return the same scan of the other branch; None when only the table's own is read."""
    table = scan.table
    if not isinstance(scan.source, ChangeRange):
        both = two_branches(table, scan.source)
        return None if both is None else replace(scan, table=both.other[0], source=both.other[1])
    name = other_branch(table)
    if name is None:
        return None
    range_options = {key: table.options[key] for key in CHANGE_KEYS if key in table.options}
    other = open_other(table, name).with_options(range_options, given=False)
    check_same_columns(table, other)
    try:
        changes = resolve_changes(other)
    except SnapshotNotFoundError as error:
        raise SnapshotNotFoundError(
            f"Changes are read of branch '{name}' as well (option '{option_of_other(table)}'), between the same two "
            f"points of its own history: {error}"
        ) from error
    return replace(scan, table=other, source=changes)


def _partitions(scan: TableScan, plan_branch: Callable[[TableScan], ReadPlan]) -> set[bytes]:
    """Return the partitions that a branch has, of those that the scan's predicate leaves."""
    predicate = implied_by(scan.predicate, scan.table.schema.partition_keys)
    state: Snapshot | None
    if isinstance(scan.source, ChangeRange):
        is_state, state = scan.source.source is ChangeSource.DIFF, scan.source.after
    else:
        is_state, state = not scan.top_level_only, scan.source
    if is_state:
        return partitions_with_files((scan.table, state), predicate)
    return {split.partition for split in plan_branch(replace(scan, predicate=predicate, limit=None)).splits}


def _joined(own: ReadPlan, other: ReadPlan, complete: set[bytes], *, own_first: bool) -> ReadPlan:
    """Put the splits of two branches together: all of the first, of the second those of other partitions."""
    marked = [replace(split, branch=other.table.branch) for split in other.splits]
    if own_first:
        splits = [*own.splits, *(split for split in marked if split.partition not in complete)]
    else:
        splits = [*marked, *(split for split in own.splits if split.partition not in complete)]
    read = BranchRead(own.read, other.table, other.read)
    return replace(own, splits=tuple(splits), residual=own.residual or other.residual, read=read)
