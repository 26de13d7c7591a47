"""Which columns may hold nulls: a column that is NOT NULL now may have nulls in files of older schemas.

Java lets ``ALTER`` make a nullable column NOT NULL (``alter-column-null-to-not-null.disabled`` = false) without
checking the rows, and reads the nulls as they are. Spark does not look for nulls in a column that it knows to be NOT
NULL: it fails, or takes the bytes in the value's slot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.spec.data_types import ArrayType, MapType, RowType

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.table.table import FileStoreTable


def fields_as_stored(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the table, nullable where any schema of the table up to its own lets them be null.

    Raises:
        CorruptTableError: an older schema file is missing or cannot be read.
    """
    schema = table.schema
    fields = tuple(schema.fields)
    own = [field for field in fields if field.name not in schema.primary_keys]
    if schema.id == 0 or not any(_forbids_nulls(field.type) for field in own):
        return fields
    known = {field.id: field for field in own}
    for schema_id in range(schema.id):
        for old in table.schemas.get(schema_id).fields:
            if old.id in known:
                known[old.id] = replace(known[old.id], type=_widened(known[old.id].type, old.type))
    return tuple(known.get(field.id, field) for field in fields)


def _forbids_nulls(data_type: DataType) -> bool:
    return not data_type.nullable or any(map(_forbids_nulls, _parts(data_type)))


def _parts(data_type: DataType) -> tuple[DataType, ...]:
    match data_type:
        case RowType():
            return tuple(field.type for field in data_type.fields)
        case ArrayType():
            return (data_type.element,)
        case MapType():
            return (data_type.value,)  # keys are never null
    return ()


def _widened(shown: DataType, stored: DataType) -> DataType:
    """The type that is shown, nullable wherever the stored one is."""
    match shown, stored:
        case RowType(), RowType():
            by_id = {field.id: field.type for field in stored.fields}
            inner = [replace(f, type=_widened(f.type, by_id[f.id])) if f.id in by_id else f for f in shown.fields]
            shown = replace(shown, fields=tuple(inner))
        case ArrayType(), ArrayType():
            shown = replace(shown, element=_widened(shown.element, stored.element))
        case MapType(), MapType():
            shown = replace(shown, value=_widened(shown.value, stored.value))
    return shown.with_nullable(True) if stored.nullable else shown
