"""Ways to look at the rows of a table: the rows themselves, or each with what happened to it (`audit_log`, `binlog`).

A view has columns of its own and is planned like the table: on a snapshot, or on changes. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.read.change_range import ChangeRange, asks_for_changes, resolve_changes
from paimon_spark.read.fallback import plan_branches, plan_changed_branches
from paimon_spark.read.plan import ReadPlan
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.nullability import fields_as_stored
from paimon_spark.table.support import check_readable
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

ReadSource = Snapshot | ChangeRange | None
"""What a read looks at: a snapshot (None: the table has none yet), or changes."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a view is asked for."""

    columns: tuple[DataField, ...]
    """Of the view, in order."""
    predicate: Predicate | None = None
    """Over columns of the view: rows of the result are those for which it is true."""
    parallelism: int = 1
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RowView:
    """One way to look at the rows of a table."""

    name: str
    """As behind the ``$``; empty for the rows themselves."""
    fields: Callable[[FileStoreTable], tuple[DataField, ...]]
    """Its columns, of a table with the schema of the read."""
    plan: Callable[[FileStoreTable, ReadSource, PlanRequest], ReadPlan]


def resolve_source(table: FileStoreTable) -> tuple[FileStoreTable, ReadSource]:
    """Return the table with the columns that a read with its options has, and what is read.

    Raises:
        OptionError: scan options contradict each other.
        SnapshotNotFoundError: a snapshot or tag does not exist.
        UnsupportedError: the scan mode is not supported.
    """
    if asks_for_changes(table.options):
        return table, resolve_changes(table)
    return travel(table)


def plan_source(table: FileStoreTable, source: ReadSource, request: PlanRequest) -> ReadPlan:
    """Plan the read of the rows themselves.

    Raises:
        CorruptTableError: a metadata file is missing or cannot be read.
        SnapshotNotFoundError: the other branch has not the changes asked for.
    """
    columns = request.columns
    predicate, parallelism, limit = request.predicate, request.parallelism, request.limit
    if isinstance(source, ChangeRange):
        return plan_changed_branches(table, source, columns, predicate=predicate, parallelism=parallelism, limit=limit)
    return plan_branches(table, source, columns, predicate=predicate, parallelism=parallelism, limit=limit)


ROWS = RowView("", fields_as_stored, plan_source)
"""The rows of the table themselves."""


def plan_view(
    table: FileStoreTable,
    view: RowView = ROWS,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    parallelism: int = 1,
    limit: int | None = None,
    snapshot_id: int | None = None,
) -> ReadPlan:
    """Plan a batch read as the table's `scan.*` and `incremental-*` options say. Arguments as of `plan_read`.

    With ``snapshot_id`` that snapshot is read, with the columns that the table has now and whatever its options say.

    Raises:
        UnsupportedError: the table has a feature that is not supported yet.
        OptionError: options contradict each other, or a column does not exist.
        SnapshotNotFoundError: the snapshot or tag does not exist.
        CorruptTableError: a metadata file is missing or cannot be read.
    """
    check_readable(table.schema)
    if snapshot_id is None:
        table, source = resolve_source(table)
    else:
        source = table.snapshots.get(snapshot_id)
    known = {field.name: field for field in view.fields(table)}
    wanted = list(known) if columns is None else list(columns)
    judged = () if predicate is None else sorted(fields(predicate))
    unknown = next((name for name in (*wanted, *judged) if name not in known), None)
    if unknown is not None:
        raise OptionError(f"Column '{unknown}' does not exist; the columns are {', '.join(known)}.")
    chosen = tuple(known[name] for name in wanted)
    return view.plan(table, source, PlanRequest(chosen, predicate, parallelism, limit))
