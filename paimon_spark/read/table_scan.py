"""One description of a read, from the caller to the planner (Java: ``ReadBuilder``, ``TableScan``). Runs on the driver.

A caller says what it wants and gets the plan, with the source looked up once::

    scan = TableScan.of(table, ROWS)  # resolves the scan.* and incremental-* options to a snapshot or to changes
    plan = scan.select(columns=["k", "v"], predicate=Leaf("eq", "k", (1,)), parallelism=4).plan()

`scan.columns` are the columns of the view until `select` narrows them. A caller that has resolved the source itself
makes the dataclass directly: ``TableScan(table, source, view, columns, ...)``. The views stand in `row_views`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.read.change_range import ChangeRange, asks_for_changes, resolve_changes
from paimon_spark.read.changed_table import check_still_shows
from paimon_spark.read.plan import ReadPlan
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.support import check_readable
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


ReadSource = Snapshot | ChangeRange | None
"""What a read looks at: a snapshot (None: the table has none yet), or changes."""


def describe_source(source: ReadSource) -> str:
    """For EXPLAIN."""
    if isinstance(source, ChangeRange):
        return f"changes={source.describe()}"
    return f"snapshot={'none' if source is None else source.id}"


@dataclass(frozen=True, slots=True)
class RowView:
    """One way to look at the rows of a table: the rows themselves, or a system table such as ``t$audit_log``."""

    name: str
    """As behind the ``$``; empty for the rows themselves."""
    fields: Callable[[FileStoreTable], tuple[DataField, ...]]
    """Its columns, of a table with the schema of the read."""
    plan: Callable[[TableScan], ReadPlan]
    """Plans a scan of the view."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """A read of one view of a table: which rows and which columns."""

    table: FileStoreTable
    """With the options and the schema of the read; columns that older files lack are null."""
    source: ReadSource
    view: RowView
    columns: tuple[DataField, ...]
    """Of the result, in order; without primary keys a ROW may have fewer fields than the table's."""
    predicate: Predicate | None = None
    """Over columns of the view: rows of the result are those for which it is true."""
    parallelism: int = 1
    """How many tasks can run at once.

    Files that need no merging are cut into at least so many splits, within `source.split.open-file-cost`.
    """
    limit: int | None = None
    """The caller needs no more rows than these.

    Fewer files are planned where they hold that many rows for certain. The caller still cuts the rows.
    """
    top_level_only: bool = False
    """Whether only files of the highest level are read, of tables with a primary key."""
    row_ids: Predicate | None = None
    """Over the row id of a table with data evolution: manifests of rows with other ids are not read."""

    @classmethod
    def of(cls, table: FileStoreTable, view: RowView, *, snapshot_id: int | None = None) -> TableScan:
        """Describe a read of all rows and columns, as the table's `scan.*` and `incremental-*` options say.

        Args:
            table: with its dynamic options.
            view: what is read of it.
            snapshot_id: read this snapshot for a statement that changes rows, or a rewrite: with the columns that the
                table has now, and the rows that batch reads leave out until they are compacted. The options are
                ignored.

        Raises:
            UnsupportedError: the table has a feature that is not supported yet.
            OptionError: scan options contradict each other.
            SnapshotNotFoundError: the snapshot or tag does not exist.
        """
        check_readable(table.schema)
        if snapshot_id is None:
            table, source = resolve_source(table)
        else:
            table, source = table.reading_level_0(), table.snapshots.get(snapshot_id)
        return cls(table, source, view, view.fields(table))

    def select(
        self,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        parallelism: int = 1,
        limit: int | None = None,
    ) -> TableScan:
        """Narrow a scan of all rows and columns.

        Args:
            columns: of the result, in order; None keeps all of them.
            predicate: over the columns that the scan has now.
            parallelism: see the field.
            limit: see the field.

        Raises:
            OptionError: a column does not exist.
        """
        known = {field.name: field for field in self.columns}
        wanted = list(known) if columns is None else list(columns)
        filtered = () if predicate is None else sorted(fields(predicate))
        unknown = next((name for name in (*wanted, *filtered) if name not in known), None)
        if unknown is not None:
            where = f"${self.view.name}" if self.view.name else f"schema {self.table.schema.id}"
            raise OptionError(f"Column '{unknown}' does not exist in {where}; its columns are {', '.join(known)}.")
        chosen = tuple(known[name] for name in wanted)
        return replace(self, columns=chosen, predicate=predicate, parallelism=parallelism, limit=limit)

    def plan(self) -> ReadPlan:
        """Plan the read.

        Raises:
            OptionError: an option of the reader names a column that the table has not.
            UnsupportedError: the view does not show such a source.
            SnapshotNotFoundError: the snapshot has expired meanwhile, or the other branch lacks the changes.
            CorruptTableError: a metadata file is missing or cannot be read.
        """
        return self.view.plan(self)


def resolve_source(table: FileStoreTable) -> tuple[FileStoreTable, ReadSource]:
    """Return the table with the columns that a read with its options has, and what is read.

    Raises:
        OptionError: scan options contradict each other.
        SnapshotNotFoundError: a snapshot or tag does not exist.
        UnsupportedError: the scan mode is not supported.
        SchemaMismatchError: the table's columns were changed since it was loaded.
        TableNotFoundError: another table is in its place.
    """
    if asks_for_changes(table.options):
        return table, resolve_changes(table)
    shown, snapshot = travel(table)
    check_still_shows(shown, snapshot)
    return shown, snapshot
