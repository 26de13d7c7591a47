"""Spark's ANSI store assignment: how the columns of a query are cast to those of the target table.

A value that the column's type cannot hold is an error, whatever ``spark.sql.ansi.enabled`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql import types as t

from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.sql.warehouses import analysis_error, quoted
from paimon_spark.spec.sql_text import spark_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DATETIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)
_NOT_ATOMIC = (t.ArrayType, t.MapType, t.StructType, t.VariantType, t.NullType)


def assigned(
    rows: DataFrame, fields: Sequence[t.StructField], table: Sequence[str], *, ansi: bool, by_name: bool = False
) -> list[Column]:
    """Return the columns of rows, named 0, 1, 2, …, as columns of the table, by position.

    Args:
        rows: the query, with its own names.
        fields: the table's columns.
        table: its name, for messages.
        ansi: whether the session's casts fail where a value is lost.
        by_name: whether fields of STRUCTs are matched by their names, as in UPDATE and MERGE.

    Raises:
        AnalysisException: a column cannot be stored in one of that type.
    """
    if by_name:
        named = enumerate(zip(fields, rows.schema.fields, strict=True))
        return [
            stored_value(sf.col(str(number)), source.dataType, field, table, ansi=ansi).alias(field.name)
            for number, (field, source) in named
        ]
    for field, source in zip(fields, rows.schema.fields, strict=True):
        _check_assignable(source.dataType, field, table)
    pairs = enumerate(zip(fields, rows.schema.fields, strict=True))
    return [
        _cast(sf.col(str(number)), source.dataType, field, ansi=ansi).alias(field.name)
        for number, (field, source) in pairs
    ]


@dataclass(frozen=True, slots=True)
class Filling:
    """What the fields become that a STRUCT lacks."""

    old: Column | None = None
    """The value whose fields they keep; None makes them null."""

    def of(self, field: t.StructField) -> Column:
        """The value of a field."""
        return sf.lit(None).cast(field.dataType) if self.old is None else self.old.getField(field.name)

    def inside(self, field: t.StructField) -> Filling:
        """That of the fields of a field."""
        return self if self.old is None else Filling(self.old.getField(field.name))


def lacks_fields(source: t.DataType, target: t.DataType) -> bool:
    """Whether a STRUCT, at any depth outside of arrays and maps, lacks a field of the target's."""
    if not isinstance(source, t.StructType) or not isinstance(target, t.StructType):
        return False
    given = {field.name.lower(): field for field in source.fields}
    return any(
        field.name.lower() not in given or lacks_fields(given[field.name.lower()].dataType, field.dataType)
        for field in target.fields
    )


def stored_value(
    value: Column,
    source: t.DataType,
    field: t.StructField,
    table: Sequence[str],
    *,
    ansi: bool,
    filling: Filling | None = None,
) -> Column:
    """Return a value of some type as a column of the table; fields of STRUCTs are matched by name.

    Arguments and errors as of `assigned`; `filling` says what becomes of fields that are lacking, which is an error
    without it.
    """
    if isinstance(field.dataType, t.StructType | t.ArrayType | t.MapType) and not _in_order(source, field.dataType):
        return _by_name(value, source, field.dataType, (*table, field.name), filling).cast(field.dataType)
    _check_assignable(source, field, table)
    return _cast(value, source, field, ansi=ansi)


def _check_assignable(source: t.DataType, field: t.StructField, table: Sequence[str]) -> None:
    if not can_assign(source, field.dataType):
        raise analysis_error(
            "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
            f"Cannot write incompatible data for the table {quoted(table)}: Cannot safely cast "
            f'{quoted([field.name])} "{source.simpleString().upper()}" to '
            f'"{field.dataType.simpleString().upper()}".',
        )


def fields_by_name(
    rows: DataFrame, fields: Sequence[t.StructField], table: Sequence[str], *, fills: bool = False
) -> DataFrame:
    """Return the rows with the fields of their STRUCTs in the order of the table's, as INSERT … BY NAME means them.

    Args:
        rows: the query, its columns in the order of `fields`; others may follow.
        fields: the table's columns.
        table: its name, for messages.
        fills: whether fields that a STRUCT lacks become null, as with `write.merge-schema`.

    Raises:
        AnalysisException: a STRUCT has other fields than the table's.
    """
    pairs = list(zip(fields, rows.schema.fields, strict=False))
    if all(_in_order(source.dataType, field.dataType) for field, source in pairs):
        return rows
    named = numbered(rows)
    filling = Filling() if fills else None
    columns = [
        _by_name(sf.col(str(number)), source.dataType, field.dataType, (*table, field.name), filling).alias(source.name)
        for number, (field, source) in enumerate(pairs)
    ]
    others = enumerate(rows.columns[len(pairs) :], start=len(pairs))
    return named.select(*columns, *(sf.col(str(number)).alias(name) for number, name in others))


def _in_order(source: t.DataType, target: t.DataType) -> bool:
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return _in_order(source.elementType, target.elementType)
        case t.MapType(), t.MapType():
            return _in_order(source.keyType, target.keyType) and _in_order(source.valueType, target.valueType)
        case t.StructType(), t.StructType():
            same = [name.lower() for name in source.names] == [name.lower() for name in target.names]
            pairs = zip(source.fields, target.fields, strict=False)
            return same and all(_in_order(a.dataType, b.dataType) for a, b in pairs)
    return True


def _by_name(
    column: Column, source: t.DataType, target: t.DataType, path: Sequence[str], filling: Filling | None = None
) -> Column:
    if _in_order(source, target):
        return column
    deep = None if filling is None else Filling()
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return sf.transform(column, lambda item: _by_name(item, source.elementType, target.elementType, path, deep))
        case t.MapType(), t.MapType():
            keyed = sf.transform_keys(column, lambda key, _: _by_name(key, source.keyType, target.keyType, path))
            return sf.transform_values(
                keyed, lambda _, item: _by_name(item, source.valueType, target.valueType, path, deep)
            )
        case t.StructType(), t.StructType():
            given = {field.name.lower(): field for field in source.fields}
            names = {name.lower() for name in target.names}
            fits = given.keys() == names if filling is None else given.keys() <= names
            _refuse_ambiguous(source, path)
            if not fits:
                raise analysis_error(
                    "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",
                    f"Cannot write incompatible data: the STRUCT {quoted(path)} has the fields "
                    f"{', '.join(target.names)}, and the data has {', '.join(source.names)}.",
                )
            parts = []
            for field in target.fields:
                own = given.get(field.name.lower())
                if own is None and filling is not None:
                    part = filling.of(field)
                else:
                    assert own is not None
                    inside = None if filling is None else filling.inside(field)
                    part = _by_name(
                        column.getField(own.name), own.dataType, field.dataType, (*path, field.name), inside
                    )
                parts.append(part.alias(field.name))
            is_there = column.isNotNull()
            if filling is not None and filling.old is not None and lacks_fields(source, target):
                is_there |= filling.old.isNotNull()
            return sf.when(is_there, sf.struct(*parts))
    return column


def _refuse_ambiguous(source: t.StructType, path: Sequence[str]) -> None:
    names = [name.lower() for name in source.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise analysis_error(
            "INCOMPATIBLE_DATA_FOR_TABLE.AMBIGUOUS_COLUMN_NAME",
            f"Cannot write incompatible data: the STRUCT {quoted(path)} of the data has several fields of one name, "
            f"{', '.join(twice)}.",
        )


def assigned_literal(expression: str, field: t.StructField, *, ansi: bool) -> Column:
    """Return the value of a PARTITION clause as a column."""
    return _cast(sf.expr(expression), None, field, ansi=ansi).alias(field.name)


def can_assign(source: t.DataType, target: t.DataType) -> bool:
    """Whether Spark's ANSI store assignment takes a value of one type for a column of another."""
    if source == target or isinstance(source, t.NullType):
        return True
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return can_assign(source.elementType, target.elementType)
        case t.MapType(), t.MapType():
            return can_assign(source.keyType, target.keyType) and can_assign(source.valueType, target.valueType)
        case t.StructType(), t.StructType():
            pairs = zip(source.fields, target.fields, strict=False)
            same = len(source.fields) == len(target.fields)
            return same and all(can_assign(a.dataType, b.dataType) for a, b in pairs)
        case t.NumericType(), t.NumericType():
            return True
        case _, t.StringType():
            return not isinstance(source, _NOT_ATOMIC)
    return isinstance(source, _DATETIMES) and isinstance(target, _DATETIMES)


def _cast(column: Column, source: t.DataType | None, field: t.StructField, *, ansi: bool) -> Column:
    if source == field.dataType:
        return column
    if ansi:
        return column.cast(field.dataType)
    message = f"[CAST_OVERFLOW_IN_TABLE_INSERT] A value of column {field.name} cannot be stored as "
    message += f"{field.dataType.simpleString().upper()}."
    tried = column.try_cast(field.dataType)
    failed = column.isNotNull() & tried.isNull()
    return sf.when(failed, sf.expr(f"raise_error({spark_literal(message)})")).otherwise(tried)
