"""Incoming Arrow rows become rows of the table: columns by name, safe casts, defaults, NOT NULL, row kinds, filters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, OptionError, SchemaError, SchemaMismatchError
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.casts import cast_default
from paimon_spark.spec.data_types import CharType, DataField, DataType, VarCharType
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind, is_retract, short_strings
from paimon_spark.storage.blob_descriptor import HEADER, VIEW_HEADER
from paimon_spark.write.store_cast import check_store_cast, match_names, needs_store_cast, store_cast


@dataclass(frozen=True, slots=True)
class MappedRows:
    """Rows in the table's columns and types."""

    rows: pa.Table
    kinds: npt.NDArray[np.int8] | None
    """Row kind of each row; None when all are inserts."""
    locations: npt.NDArray[np.int64] | None = None
    """Where each row belongs (`bucket_assignment`); None where nobody has said it before."""


@dataclass(frozen=True, slots=True)
class RowMapping:
    """How columns of the data become columns of the table; made on the driver by ``map_columns``, used in tasks."""

    fields: tuple[DataField, ...]
    sources: tuple[int | None, ...]
    """For each field the position of its column in the data; None when the data does not have it."""
    kind_source: int | None
    """Position of the column of row kinds in the data."""
    kind_field: str | None
    """``rowkind.field``: the string column of the table that gives the row kind."""
    ignore_delete: bool
    ignore_update_before: bool
    inserts_only: bool
    """True for tables without primary key."""
    data_names: tuple[str, ...]
    descriptors: frozenset[str] = frozenset()
    """BLOB columns that hold descriptors."""
    views: frozenset[str] = frozenset()
    """BLOB columns that hold names of values of other tables."""

    def apply(self, data: pa.Table, locations: npt.NDArray[np.int64] | None = None) -> MappedRows:
        """Map rows of the data, which have the schema that ``map_columns`` saw. Runs in tasks, once per chunk of rows.

        Args:
            data: the rows.
            locations: where each of them belongs, if that is known.

        Raises:
            DataError: a value does not fit its column, a NOT NULL column is null, a row kind is null or unknown.
            SchemaMismatchError: the rows do not have the planned columns.
        """
        rows = self.columns(self._without_values(data))
        return self._filter(rows, self._kinds(rows, data), locations)

    def _without_values(self, data: pa.Table) -> pa.Table:
        """Take the values of `descriptors` and `views` out of -U and -D rows, which may have what a read gave for them.

        Managed blob files have none of such rows either.
        """
        if self.kind_source is None or not self.descriptors | self.views:
            return data
        gone = is_retract(data.column(self.kind_source).cast(pa.int8()).fill_null(0).to_numpy())
        for field, source in zip(self.fields, self.sources, strict=True):
            if (
                source is not None
                and field.name in self.descriptors | self.views
                and field.type.nullable
                and gone.any()
            ):
                column = data.column(source).take(pa.array(np.arange(data.num_rows), mask=gone))
                data = data.set_column(source, data.field(source), column)
        return data

    def columns(self, data: pa.Table) -> pa.Table:
        """The columns of the table for all rows of the data, also for those that `apply` drops.

        Raises:
            DataError: a value does not fit its column, or a NOT NULL column is null.
            SchemaMismatchError: the rows do not have the planned columns.
        """
        if data.column_names != list(self.data_names):
            raise SchemaMismatchError(
                f"Rows with the columns {data.column_names} arrived, but the write was planned for "
                f"{list(self.data_names)}."
            )
        columns = [
            self._missing(field, data.num_rows) if source is None else self._column(field, data.column(source))
            for field, source in zip(self.fields, self.sources, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=to_arrow_schema(self.fields))

    def _column(self, field: DataField, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not field.type.nullable and column.null_count:
            raise DataError(f"Cannot write null to non-null column({field.name}).")
        for names, mark, what in ((self.descriptors, HEADER, _DESCRIPTORS), (self.views, VIEW_HEADER, _VIEWS)):
            if field.name in names and not _all_start_with(column, mark):
                raise DataError(f"Column '{field.name}' of option {what}")
        if needs_store_cast(column.type, field.type):
            chunks = [store_cast(chunk, field.type, field.name) for chunk in column.chunks]
            column = pa.chunked_array(chunks, type=to_arrow_type(field.type))
        if field.default_value is not None and column.null_count:
            column = pc.coalesce(column, default_scalar(field))
        return column

    def _missing(self, field: DataField, num_rows: int) -> pa.ChunkedArray:
        if field.default_value is None:
            return pa.chunked_array([pa.nulls(num_rows, to_arrow_type(field.type))])
        return pa.chunked_array([pa.repeat(default_scalar(field), num_rows)])

    def _kinds(self, rows: pa.Table, data: pa.Table) -> npt.NDArray[np.int8] | None:
        if self.kind_field is not None:
            return _kinds_of_names(rows.column(self.kind_field), self.kind_field)
        if self.kind_source is None:
            return None
        given = data.column(self.kind_source)
        if given.null_count:
            raise DataError("Row kind cannot be null.")
        kinds = given.cast(pa.int8()).to_numpy()
        if len(kinds) and (kinds.min() < RowKind.INSERT or kinds.max() > RowKind.DELETE):
            raise DataError(f"Unknown row kind {kinds.min() if kinds.min() < 0 else kinds.max()}; use 0 to 3.")
        return np.asarray(kinds, dtype=np.int8) if kinds.any() else None

    def _filter(
        self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None, locations: npt.NDArray[np.int64] | None
    ) -> MappedRows:
        if kinds is None:
            return MappedRows(rows, None, locations)
        if self.inserts_only:
            if not kinds.any():
                return MappedRows(rows, None)
            kind = RowKind(kinds[np.flatnonzero(kinds)[0]]).short_string
            raise DataError(
                f"A table without primary key takes inserts only, but a row of kind {kind} arrived. "
                f"Delete rows with DELETE, or give the table a primary key."
            )
        dropped: npt.NDArray[np.bool_] | None = None
        if self.ignore_delete:
            dropped = is_retract(kinds)
        elif self.ignore_update_before:
            dropped = RowKind.UPDATE_BEFORE.mask(kinds)
        if dropped is not None and dropped.any():
            rows, kinds = rows.filter(pa.array(~dropped)), kinds[~dropped]
            locations = None if locations is None else locations[~dropped]
        return MappedRows(rows, kinds if kinds.any() else None, locations)


def map_columns(schema: TableSchema, data_schema: pa.Schema, extra: tuple[DataField, ...] = ()) -> RowMapping:
    """Match the data's columns with the table's. Runs on the driver, once per write.

    Args:
        schema: the table's schema, dynamic options applied.
        data_schema: the data; a column ``_VALUE_KIND`` of it gives row kinds.
        extra: columns that files hold behind those of the table.

    Raises:
        SchemaMismatchError: a column is unknown, ambiguous, missing though NOT NULL, or of a type that could lose
            something.
        OptionError: ``rowkind.field`` names no string column.
    """
    names = list(data_schema.names)
    kind_source = names.index(VALUE_KIND.name) if VALUE_KIND.name in names else None
    if kind_source is not None and not pa.types.is_integer(data_schema.field(kind_source).type):
        raise SchemaMismatchError(
            f"Column {VALUE_KIND.name} gives row kinds, so it must be an integer (0 +I, 1 -U, 2 +U, 3 -D)."
        )
    given = [n for n in names if n != VALUE_KIND.name]
    positions = [i for i, n in enumerate(names) if n != VALUE_KIND.name]
    fields = (*schema.fields, *extra)
    found = match_names([f.name for f in fields], given, "The table")
    sources: list[int | None] = []
    for field in fields:
        if field.name in found:
            position = positions[found[field.name]]
            check_store_cast(data_schema.field(position).type, field.type, field.name)
            sources.append(position)
            continue
        if not field.type.nullable and field.default_value is None:
            raise SchemaMismatchError(
                f"Column '{field.name}' is NOT NULL and has no default value, but the data does not have it "
                f"(the data has {', '.join(given)})."
            )
        if field.default_value is not None:
            default_scalar(field)  # a default that cannot be read is an error now, not in a task
        sources.append(None)
    options = schema.core_options
    kind_field = options.rowkind_field
    if kind_field is not None:
        _check_kind_field(schema, kind_field)
    return RowMapping(
        fields=fields,
        sources=tuple(sources),
        kind_source=kind_source,
        kind_field=kind_field,
        ignore_delete=options.ignore_delete,
        ignore_update_before=options.ignore_update_before,
        inserts_only=not schema.kind.is_keyed,
        data_names=tuple(names),
        descriptors=frozenset(options.names("blob-descriptor-field")),
        views=frozenset(options.names("blob-view-field")),
    )


_DESCRIPTORS = (
    "'blob-descriptor-field' takes descriptors of blobs, and a value is none. Write descriptors that were read with "
    "'blob-as-descriptor' = 'true'."
)
_VIEWS = (
    "'blob-view-field' takes names of BLOB values of other tables, and a value is none. Write names that were read "
    "with 'blob-view.resolve.enabled' = 'false', or that another Paimon engine's sys.blob_view gives."
)


def _all_start_with(column: pa.ChunkedArray, mark: bytes) -> bool:
    return bool(pc.all(pc.starts_with(column.cast(pa.binary()), mark), min_count=0).as_py())


def default_scalar(field: DataField) -> pa.Scalar:
    """The default value of a column as an Arrow scalar (Java: ``DefaultValueUtils.convertDefaultValue``).

    Raises:
        SchemaMismatchError: the text is no value of the column's type.
    """
    try:
        value = cast_default(field.default_value or "", field.type)
    except (SchemaError, DataError) as error:
        raise SchemaMismatchError(
            f"The default value '{field.default_value}' of column '{field.name}' is no {field.type.sql()}: {error}"
        ) from error
    if not value.is_valid:
        raise SchemaMismatchError(
            f"The default value '{field.default_value}' of column '{field.name}' is no {field.type.sql()}."
        )
    return value


def _check_kind_field(schema: TableSchema, kind_field: str) -> None:
    types: dict[str, DataType] = {f.name: f.type for f in schema.fields}
    if kind_field not in types:
        raise OptionError(f"Rowkind field: '{kind_field}' can not be found in table schema.")
    if not isinstance(types[kind_field], CharType | VarCharType):
        raise OptionError(
            f"Only a string type is supported for rowkind, but {kind_field} is {types[kind_field].sql()}; "
            f"name a STRING column in rowkind.field."
        )


def _kinds_of_names(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.int8] | None:
    if column.null_count:
        raise DataError(f"Row kind cannot be null. (rowkind.field is {name})")
    kinds = pc.index_in(column, value_set=short_strings())
    if kinds.null_count:
        bad = pc.index(kinds.is_null(), True).as_py()
        raise DataError(f"Column {name} gives the row kind, but holds {column[bad].as_py()!r}; use +I, -U, +U or -D.")
    found = np.asarray(kinds.to_numpy(), dtype=np.int8)
    return found if found.any() else None
