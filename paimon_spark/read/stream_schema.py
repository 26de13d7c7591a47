"""Whether rows that were written with a later schema can be shown with the columns that a stream began with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paimon_spark.spec import data_types as t

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


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
