"""Schema evolution on read: which column of a file becomes which column of the read, by what cast; which hold nulls.

Equals Java's ``SchemaEvolutionUtil`` and ``FormatReaderMapping``: columns are the same by field id, at every depth;
a column that the file's schema does not have is null; types are cast last. Runs once per file schema of a split.

Java lets ``ALTER`` make a nullable column NOT NULL (``alter-column-null-to-not-null.disabled`` = false) without
checking the rows, and reads the nulls as they are. Spark does not look for nulls in a column that it knows to be NOT
NULL: it fails, or takes the bytes in the value's slot.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.data_types import ArrayType, MapType, RowType, VariantType
from paimon_spark.spec.predicate import Predicate, implied_by, rename

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where one column of the read comes from."""

    target: DataField
    source: DataField | None
    """The file's column; None when the file has none and no constant."""
    constant: pa.Scalar | None = None
    """The partition value, for partition columns."""
    same_type: bool = True
    """No cast is needed."""


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """How the columns of one file schema become those of the read."""

    columns: tuple[ColumnSource, ...]
    file_fields: tuple[DataField, ...]
    """What to read from the file: its own names and types, each once."""
    schema: pa.Schema
    """The Arrow schema of the read columns."""

    @classmethod
    def of(
        cls, file_fields: Sequence[DataField], read_fields: Sequence[DataField], constants: Mapping[str, pa.Scalar]
    ) -> FieldMapping:
        """Map ``read_fields`` onto the columns of a file by field id.

        Args:
            file_fields: the columns that the file holds, as the schema has them that it was written with.
            read_fields: columns of the read, in order.
            constants: partition values by column name of the read; those columns are not read from the file.
        """
        by_id = {field.id: field for field in file_fields}
        columns = []
        for target in read_fields:
            source = by_id.get(target.id)
            constant = constants.get(target.name)
            if constant is not None:
                columns.append(ColumnSource(target, None, constant))
            elif source is None:
                columns.append(ColumnSource(target, None))
            else:
                kind = _as_far_as_wanted(source.type, target.type)
                source = source if kind is source.type else replace(source, type=kind)
                same = source.type.with_nullable(True) == target.type.with_nullable(True)
                columns.append(ColumnSource(target, source, None, same))
        needed = {column.source.id: column.source for column in columns if column.source is not None}
        return cls(tuple(columns), tuple(needed.values()), to_arrow_schema(read_fields))

    def batch(self, file_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Turn a batch of `file_fields` into one of the read columns."""
        if not self.columns:
            return file_batch.select([])
        rows = file_batch.num_rows
        arrays = [_column(column, file_batch, rows) for column in self.columns]
        schema = self.schema
        if any(pa.types.is_dictionary(array.type) for array in arrays):
            schema = pa.schema([field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def unchanged(self, names: Container[str]) -> frozenset[str]:
        """Return the file's names of those columns that need no cast."""
        columns = (c for c in self.columns if c.target.name in names and c.same_type)
        return frozenset(column.source.name for column in columns if column.source is not None)

    def file_predicate(self, predicate: Predicate | None) -> Predicate | None:
        """Return the conjuncts of ``predicate`` that the file can evaluate, in its own names; None when there are none.

        These are over columns whose type did not change. The others are evaluated after the cast.
        """
        names = {c.target.name: c.source.name for c in self.columns if c.source is not None and c.same_type}
        projected = implied_by(predicate, names)
        return None if projected is None else rename(projected, names)


def _as_far_as_wanted(source: DataType, target: DataType) -> DataType:
    """Return the file's type without the nested fields that the read does not need, by their ids."""
    match source, target:
        case RowType(), RowType():
            wanted = {field.id: field for field in target.fields}
            kept = tuple(
                replace(field, type=_as_far_as_wanted(field.type, wanted[field.id].type))
                for field in source.fields
                if field.id in wanted
            )
            return replace(source, fields=kept or source.fields)
        case ArrayType(), ArrayType():
            return replace(source, element=_as_far_as_wanted(source.element, target.element))
        case MapType(), MapType():
            return replace(source, value=_as_far_as_wanted(source.value, target.value))
        case VariantType(), VariantType():
            return replace(source, paths=target.paths)
    return source


def _column(column: ColumnSource, batch: pa.RecordBatch, rows: int) -> pa.Array:
    target_type = to_arrow_type(column.target.type)
    if column.constant is not None:
        return pa.repeat(column.constant, rows)
    if column.source is None:
        return pa.nulls(rows, target_type)
    array = batch.column(column.source.name)
    if column.same_type:
        return array
    return cast_array(array, column.source.type, column.target.type)


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
