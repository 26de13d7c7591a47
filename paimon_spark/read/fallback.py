"""Reads that take partitions from two branches: `scan.fallback-branch` and `scan.primary-branch`.

Equals Java's ``FallbackReadFileStoreTable.FallbackReadScan``: of the two branches one comes first, and gives every
partition it has, by whatever rows; the other gives the partitions that the first lacks. Of changes, a partition counts
as had by a branch when the changes touch it, or, where two states are compared, when the later state has it; the ids,
tags or times between which changes are read are looked up in each branch by itself. Planning runs on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.read.change_range import CHANGE_KEYS, ChangeRange, ChangeSource, resolve_changes
from paimon_spark.read.incremental import plan_changes
from paimon_spark.read.plan import ReadPlan, ReadSplit, plan_snapshot
from paimon_spark.spec.predicate import Always, Predicate, project
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
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


PlanOfChanges = Callable[["FileStoreTable", ChangeRange, Predicate | None], ReadPlan]
"""Plans the read of the changes of one branch for which a predicate is true."""


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


def read_of_plan(plan: ReadPlan, read_of: Callable[[FileStoreTable], ReadSplit]) -> ReadSplit:
    """Return a read for the splits of a plan, be they of one branch or two, in place of the plan's own.

    Args:
        plan: of `plan_branches` or `plan_changed_branches`.
        read_of: what reads the splits of a branch.
    """
    if isinstance(plan.read, BranchRead):
        return BranchRead(read_of(plan.table), plan.read.table, read_of(plan.read.table))
    return read_of(plan.table)


def plan_branches(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    read_fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
    level_of: Callable[[FileStoreTable], int | None] | None = None,
) -> ReadPlan:
    """Plan the read of a snapshot, and of the partitions of the other branch that belong to it. As `plan_snapshot`.

    Args:
        table: with the schema of the read.
        snapshot: None plans nothing of this branch.
        read_fields: of the result, in order.
        predicate: rows of the result are those for which it is true.
        parallelism: as in `plan_read`.
        limit: as in `plan_read`.
        level_of: says of each branch which level alone is read.

    Raises:
        PaimonError: the branches have not the same columns.
        UnsupportedError: the other branch has a feature that is not supported yet.
        CorruptTableError: a metadata file is missing or cannot be read.
    """

    def planned(branch: FileStoreTable, its: Snapshot | None, said: Predicate | None, most: int | None) -> ReadPlan:
        level = None if level_of is None else level_of(branch)
        return plan_snapshot(
            branch, its, read_fields, predicate=said, parallelism=parallelism, limit=most, only_level=level
        )

    both = two_branches(table, snapshot)
    own = planned(table, snapshot, predicate, limit)
    if both is None:
        return own
    other = planned(*both.other, predicate, limit)
    if level_of is None:
        complete = partitions_with_files(both.first, predicate)
    else:
        plan = planned(*both.first, _of_partitions(table, predicate), None)
        complete = {split.partition for split in plan.splits}
    return _joined(own, other, complete, own_first=both.own_first)


def plan_changed_branches(
    table: FileStoreTable,
    changes: ChangeRange,
    read_fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
    plan_of: PlanOfChanges | None = None,
) -> ReadPlan:
    """Plan the read of changes, and of those of the other branch in partitions that the first one has none of.

    Args:
        table: as in `plan_changes`, like the rest.
        changes: of the table.
        read_fields: of the result, in order.
        predicate: rows of the result are those for which it is true.
        parallelism: as in `plan_changes`.
        limit: as in `plan_changes`.
        plan_of: plans the changes of one branch, in place of `plan_changes`.

    Raises:
        PaimonError: the branches have not the same columns.
        SnapshotNotFoundError: a snapshot or tag of the range is gone, or the other branch has none of that name.
        UnsupportedError: the other branch has a feature that is not supported yet.
        CorruptTableError: a metadata file is missing or cannot be read.
    """

    def planned(branch: FileStoreTable, its: ChangeRange, said: Predicate | None, most: int | None) -> ReadPlan:
        if plan_of is not None:
            return plan_of(branch, its, said)
        return plan_changes(branch, its, read_fields, predicate=said, parallelism=parallelism, limit=most)

    own = planned(table, changes, predicate, limit)
    name = other_branch(table)
    if name is None:
        return own
    asked = {key: table.options[key] for key in CHANGE_KEYS if key in table.options}
    other = open_other(table, name).with_options(asked)
    check_same_columns(table, other)
    try:
        theirs = resolve_changes(other)
    except SnapshotNotFoundError as error:
        raise SnapshotNotFoundError(
            f"Changes are read of branch '{name}' as well (option '{option_of_other(table)}'), between the same two "
            f"points of its own history: {error}"
        ) from error
    own_first = bool(table.options.get(FALLBACK))
    first, range_ = (table, changes) if own_first else (other, theirs)
    said = _of_partitions(table, predicate)
    if range_.source is ChangeSource.DIFF:
        complete = partitions_with_files((first, range_.after), said)
    else:
        complete = {split.partition for split in planned(first, range_, said, None).splits}
    return _joined(own, planned(other, theirs, predicate, limit), complete, own_first=own_first)


def _joined(own: ReadPlan, other: ReadPlan, complete: set[bytes], *, own_first: bool) -> ReadPlan:
    """Put the splits of two branches together: all of the first, of the second those of other partitions."""
    marked = [replace(split, branch=other.table.branch) for split in other.splits]
    if own_first:
        splits = [*own.splits, *(split for split in marked if split.partition not in complete)]
    else:
        splits = [*marked, *(split for split in own.splits if split.partition not in complete)]
    read = BranchRead(own.read, other.table, other.read)
    return replace(own, splits=tuple(splits), residual=own.residual or other.residual, read=read)


def _of_partitions(table: FileStoreTable, predicate: Predicate | None) -> Predicate | None:
    """Return what a predicate says of the partition columns alone; None for nothing."""
    said = None if predicate is None else project(predicate, table.schema.partition_keys)
    return None if said == Always(True) else said
