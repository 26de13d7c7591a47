"""Whether the table that a read was described for is still there, with columns that show its rows. Runs on the driver.

A DataFrame of a catalog is read as its table is when it runs, with the columns of the moment when it was made. By then
another process may have changed the columns, or made another table in the same place.

Whether rows that were written with a later schema can be shown with the columns that a stream began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import SchemaMismatchError, TableNotFoundError
from paimon_spark.spec import data_types as t

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

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
