"""Paimon fields as physical Parquet columns: names, field ids and types as Java writes them.

Must equal Java's ``ParquetSchemaConverter`` and the id formulas of ``SpecialFields``; pyarrow turns these Arrow fields
into the Parquet schema. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.special_fields import element_id, key_id
from paimon_spark.spec.variant_shredding import touched

MESSAGE_NAME: Final = "paimon_schema"
"""Name of the root of Java's Parquet schemas."""


def physical_schema(fields: Sequence[t.DataField], *, id_key: str, int96: bool = False) -> pa.Schema:
    """The Arrow schema whose file has Java's columns.

    Args:
        fields: Columns of the file.
        id_key: Metadata key under which the writing library looks for ids (`PARQUET:field_id`, `paimon.id`).
        int96: Whether the writer writes every Arrow timestamp as INT96, so that those of precision 6 and less must be
            handed to it as int64 (see `timestamp_columns`).

    Raises:
        UnsupportedError: a type that has no place in the file.
    """
    return pa.schema([_field(field, id_key, int96) for field in fields])


def has_int96(fields: Sequence[t.DataField]) -> bool:
    """Whether any column, nested ones included, is a timestamp that Java writes as INT96."""
    return any(precision > 6 for precision, _, _ in _timestamps(fields))


def timestamp_columns(fields: Sequence[t.DataField]) -> dict[tuple[str, ...], tuple[str, bool]]:
    """Parquet paths of int64 timestamps -> (unit `ms` or `us`, adjusted to UTC)."""
    return {
        path: ("ms" if precision <= 3 else "us", adjusted)
        for precision, adjusted, path in _timestamps(fields)
        if precision <= 6
    }


def _timestamps(fields: Sequence[t.DataField]) -> Iterator[tuple[int, bool, tuple[str, ...]]]:
    for field in fields:
        yield from _timestamps_of(field.type, (field.name,))


def _timestamps_of(kind: t.DataType, path: tuple[str, ...]) -> Iterator[tuple[int, bool, tuple[str, ...]]]:
    match kind:
        case t.TimestampType() | t.LocalZonedTimestampType():
            yield kind.precision, isinstance(kind, t.LocalZonedTimestampType), path
        case t.ArrayType():
            yield from _timestamps_of(kind.element, (*path, "list", "element"))
        case t.MapType():
            yield from _timestamps_of(kind.key, (*path, "key_value", "key"))
            yield from _timestamps_of(kind.value, (*path, "key_value", "value"))
        case t.MultisetType():
            yield from _timestamps_of(kind.element, (*path, "key_value", "key"))
        case t.RowType():
            for field in kind.fields:
                yield from _timestamps_of(field.type, (*path, field.name))


def _field(field: t.DataField, id_key: str, int96: bool) -> pa.Field:
    kind = _type(field.type, field.id, 0, id_key, int96)
    return pa.field(field.name, kind, nullable=field.type.nullable, metadata={id_key: str(field.id)})


def _type(kind: t.DataType, field_id: int, depth: int, id_key: str, int96: bool) -> pa.DataType:
    match kind:
        case t.ArrayType() | t.VectorType():
            return pa.list_(_child("element", kind.element, field_id, depth + 1, id_key, int96))
        case t.MapType():
            key, value = kind.key, kind.value
        case t.MultisetType():
            key, value = kind.element, t.IntType(nullable=False)
        case t.RowType():
            return pa.struct([_field(field, id_key, int96) for field in kind.fields])
        case t.VariantType():
            parts = ("value", "metadata")
            return pa.struct(
                [
                    pa.field(name, pa.binary(), nullable=False, metadata={id_key: str(at)})
                    for at, name in enumerate(parts)
                ]
            )
        case t.TimestampType() | t.LocalZonedTimestampType() if int96 and kind.precision <= 6:
            return pa.int64()
        case t.GeometryType() | t.GeographyType():
            raise UnsupportedError(f"Columns of the type {kind.sql()} cannot be written.")
        case _:
            return to_arrow_type(kind)
    key_field = pa.field(
        "key",
        _type(key, field_id, depth + 1, id_key, int96),
        nullable=False,
        metadata={id_key: str(key_id(field_id, depth + 1))},
    )
    return pa.map_(key_field, _child("value", value, field_id, depth + 1, id_key, int96))


def _child(name: str, kind: t.DataType, field_id: int, depth: int, id_key: str, int96: bool) -> pa.Field:
    return pa.field(
        name,
        _type(kind, field_id, depth, id_key, int96),
        nullable=kind.nullable,
        metadata={id_key: str(element_id(field_id, depth))},
    )


def narrowed_columns(
    stored: pa.Schema, names: Sequence[str], wanted: pa.Schema, fields: Sequence[t.DataField]
) -> tuple[pa.Schema, list[str]]:
    """Some columns of a file with only those parts that are wanted, and the paths of what is to be decoded.

    Parts are fields of ROWs, and what a read touches of shredded VARIANTs.
    """
    kinds = {field.name: field.type for field in fields}
    found = [stored.field(name) for name in names]
    narrowed = [
        field.with_type(_narrowed(field.type, wanted.field(field.name).type, kinds[field.name])) for field in found
    ]
    pairs = zip(found, narrowed, strict=True)
    return pa.schema(narrowed), [leaf for field, kept in pairs for leaf in _leaves(field.name, field.type, kept.type)]


def _narrowed(found: pa.DataType, wanted: pa.DataType, kind: t.DataType) -> pa.DataType:
    """A column's type in the file with only those parts that are wanted; what is in lists and maps stays whole."""
    if isinstance(kind, t.VariantType):
        return found if kind.paths is None else touched(found, kind.paths)
    if not (pa.types.is_struct(found) and pa.types.is_struct(wanted) and isinstance(kind, t.RowType)):
        return found
    kinds = {field.name: field.type for field in wanted}
    inner = {field.name: field.type for field in kind.fields}
    kept = [
        field.with_type(_narrowed(field.type, kinds[field.name], inner[field.name]))
        for field in found
        if field.name in kinds
    ]
    return pa.struct(kept) if kept else found


def _leaves(path: str, found: pa.DataType, narrowed: pa.DataType) -> list[str]:
    """Paths to decode of a column of type `found` to get it as `narrowed`."""
    if found == narrowed:
        return [path]
    there = {field.name: field.type for field in found}
    return [leaf for f in narrowed for leaf in _leaves(f"{path}.{f.name}", there[f.name], f.type)]
