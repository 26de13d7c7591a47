"""One description of a read, and the plan that it becomes (Java: ``ReadBuilder``, ``TableScan``). Runs on the driver.

A caller says what it wants and gets the plan, with the source looked up once::

    scan = TableScan.of(table, ROWS)  # resolves the scan.* and incremental-* options to a snapshot or to changes
    plan = scan.select(columns=["k", "v"], predicate=Leaf("eq", "k", (1,)), parallelism=4).plan()

`scan.columns` are the columns of the view until `select` narrows them. A caller that has resolved the source itself
makes the dataclass directly: ``TableScan(table, source, view, columns, ...)``. The views stand in `row_views`.

A DataFrame of a catalog is read as its table is when it runs, with the columns of the moment when it was made. By then
another process may have changed the columns, or made another table in the same place: a scan is refused if it cannot
show the rows with its columns any more. So is a stream, if rows were written with a later schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import OptionError, SchemaMismatchError, TableNotFoundError
from paimon_spark.read.change_range import ChangeRange, asks_for_changes, resolve_changes
from paimon_spark.read.split_read import read_split
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Always, Predicate, all_of, fields, split_and
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.support import check_readable
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
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
    whole_files: bool = True
    """False cuts files that need no merging where there are fewer than tasks; threads of one process share a budget."""
    keeps_keys: bool = False
    """Whether splits say the smallest and the largest key of each of their files, for who looks up keys."""
    top_level_only: bool = False
    """Whether only files of the highest level are read, of tables with a primary key."""
    row_ids: Predicate | None = None
    """Over the row id of a table with data evolution: manifests of rows with other ids are not read."""
    file_names: frozenset[str] | None = None
    """No other files are needed, of a table whose files are read each for itself; None for any."""

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


ReadSplit = Callable[
    ["FileStoreTable", "DataSplit", "Sequence[DataField]", "Predicate | None"], "Iterator[pa.RecordBatch]"
]
"""Reads one split in a task: called with the plan's table, the split, the plan's columns and residual."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a batch read does."""

    snapshot: Snapshot | None
    """The snapshot that is read; None when the table has none, which reads as empty."""
    schema: TableSchema
    """Schema of the read: of the snapshot travelled to, else the latest; its options are the ones in effect."""
    fields: tuple[DataField, ...]
    """Columns of the result, in order."""
    splits: tuple[DataSplit, ...]
    residual: Predicate | None
    """The filter that `read` must still apply to rows; None when partition pruning has applied all of it."""
    table: FileStoreTable
    """The table with `schema`, to be given to `read`."""
    read: ReadSplit = read_split
    """Reads a split, in a task. Picklable."""


def residual_filter(schema: TableSchema, predicate: Predicate | None) -> Predicate | None:
    """Return the conjuncts that partition pruning does not apply exactly; None when there are none."""
    if predicate is None:
        return None
    partition_keys = set(schema.partition_keys)
    rest = [part for part in split_and(predicate) if not (fields(part) and fields(part) <= partition_keys)]
    residual = all_of(rest)
    return None if residual == Always(True) else residual


_DECIDE_ROWS: Final = (
    "aggregation.",
    "deletion-vectors.enabled",
    "fields.",
    "ignore-",
    "merge-engine",
    "partial-update.",
    "sequence.",
)
"""Options, or how their names begin, by which files become other rows."""


def check_still_shows(table: FileStoreTable, snapshot: Snapshot | None) -> None:
    """Check that rows of a snapshot can be shown as a read of it was described.

    Args:
        table: of the read.
        snapshot: that is read; None where there is none.

    Raises:
        TableNotFoundError: the table is another one.
        SchemaMismatchError: its columns, or the options that decide about rows, were changed.
    """
    if snapshot is None:
        return
    if not table.schemas.is_fresh(table.latest.id) and not table.schemas.is_still(table.latest.id):
        raise TableNotFoundError(
            f"The table {table.path} was dropped or made anew since this read of it was described. Describe the read "
            "again (load the table, or make the DataFrame or view again): the columns may be others."
        )
    if snapshot.schema_id <= table.latest.id:
        return
    later = table.schemas.get(snapshot.schema_id)
    reason = why_unreadable(table.schema.fields, table.schema, later) or _changed_option(table.latest, later)
    if reason is not None:
        raise SchemaMismatchError(
            f"The table {table.path} was changed since this read of it was described: {reason}. Describe the read "
            "again (load the table, or make the DataFrame or view again)."
        )


def _changed_option(own: TableSchema, later: TableSchema) -> str | None:
    both = own.options.keys() | later.options.keys()
    changed = (key for key in sorted(both) if own.options.get(key) != later.options.get(key))
    found = next((key for key in changed if key.startswith(_DECIDE_ROWS)), None)
    return None if found is None else f"option '{found}' was changed"


def why_unreadable(columns: Iterable[t.DataField], own: TableSchema, later: TableSchema) -> str | None:
    """Return why columns cannot be read from rows of a later schema; None where they can.

    Columns are distinguished by their ids: a renamed column goes on under its old name, an added one is not read.

    Args:
        columns: that the stream shows; those that are none of the table's are left out.
        own: the schema of the stream.
        later: the schema of the rows.
    """
    there = {field.id: field for field in later.fields}
    ids = {field.name: field.id for field in own.fields}
    for column in columns:
        if column.name not in ids:
            continue
        found = there.get(ids[column.name])
        if found is None:
            return f"column {column.name} was dropped"
        if not _is_shown_by(column.type, found.type):
            return f"column {column.name} was changed from {column.type.sql()} to {found.type.sql()}"
    return None


def _is_shown_by(shown: t.DataType, written: t.DataType) -> bool:
    """Whether every value of a type is one of another type, ROWs perhaps with fewer fields."""
    if written.nullable and not shown.nullable:
        return False
    match shown, written:
        case t.RowType(), t.RowType():
            there = {field.id: field for field in written.fields}
            return all(f.id in there and _is_shown_by(f.type, there[f.id].type) for f in shown.fields)
        case t.ArrayType(), t.ArrayType():
            return _is_shown_by(shown.element, written.element)
        case t.MapType(), t.MapType():
            return _is_shown_by(shown.key, written.key) and _is_shown_by(shown.value, written.value)
    return shown.with_nullable(True) == written.with_nullable(True)
