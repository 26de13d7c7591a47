"""Paimon fields as physical Parquet columns, as Java writes them: names, field ids, types; and which get a dictionary.

Must equal Java's ``ParquetSchemaConverter`` and the id formulas of ``SpecialFields``; pyarrow turns these Arrow fields
into the Parquet schema. Pure functions.

Which columns are worth a dictionary is seen by a sample of the first row group. pyarrow tries a dictionary on every
column and falls back to plain values only when the dictionary is full: on columns of many values that costs a third of
the encoding and makes the file larger. Java's writer looks at its first page instead and goes back to plain where the
dictionary did not pay. Run in tasks, once per file.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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


_PARTS: Final = 64
_PART_ROWS: Final = 256
LEAST_ROWS: Final = _PARTS * _PART_ROWS
"""With fewer rows no sample is taken: every column gets a dictionary."""

_INTEGERS: Final = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
_WORTH: Final = 0.45
"""Dictionary entries by row up to which a dictionary pays."""


def dictionary_columns(rows: pa.Table, limit_bytes: int) -> bool | list[str]:
    """What pyarrow's ``use_dictionary`` should be for a file that starts with these rows.

    Args:
        rows: the rows of the first row group, in the file's physical types.
        limit_bytes: the size beyond which a dictionary is given up (``parquet.dictionary.page.size``).

    Returns:
        True for every column, or the paths of the columns that get a dictionary. Nested columns always do.
    """
    if rows.num_rows < LEAST_ROWS:
        return True
    sample = _sample(rows)
    plain = {
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if _mostly_distinct(column, rows.num_rows, limit_bytes)
    }
    if not plain:
        return True
    return [path for field in rows.schema if field.name not in plain for path in _leaf_paths(field.name, field.type)]


def _sample(rows: pa.Table) -> pa.Table:
    """Short runs of rows, one from each of equally long stretches: neighbours tell of repetition in sorted columns."""
    stretch = rows.num_rows // _PARTS
    within = np.random.default_rng(0).integers(0, stretch - _PART_ROWS + 1, _PARTS)
    starts = np.arange(_PARTS) * stretch + within
    return pa.concat_tables([rows.slice(start, _PART_ROWS) for start in starts.tolist()])


def _mostly_distinct(column: pa.ChunkedArray, rows: int, limit_bytes: int) -> bool:
    """Whether nearly half of a column's rows would be dictionary entries, or the dictionary would be given up."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    known = len(column) - column.null_count
    if known < LEAST_ROWS // 4:
        return False
    whole = column.combine_chunks()
    # values that stand next to their like (a changelog has each key twice) tell only how long the runs are
    runs = known - _equal_neighbours(whole)
    repeated = runs - distinct_values(whole)
    # that many draws from n equally likely values collide about runs² / 2n times
    distinct = min(runs * runs / (2 * repeated) if repeated > 0 else float("inf"), rows * runs / len(whole))
    width = _value_bytes(whole, known)
    return bool(distinct > _WORTH * rows * known / len(whole) or distinct * width > 2 * limit_bytes)


def distinct_values(column: pa.Array) -> int:
    """How many values a column has, nulls not counted. Numbers are compared by their bits, as in a dictionary."""
    width = column.type.bit_width // 8 if pa.types.is_primitive(column.type) else 0
    if width not in (1, 2, 4, 8):
        return int(pc.count_distinct(column).as_py())
    # numpy sorts some thousand numbers in a tenth of the time that Arrow takes to hash them
    bits = np.sort(column.drop_null().view(_INTEGERS[width]).to_numpy())
    return int(np.count_nonzero(bits[1:] != bits[:-1])) + (len(bits) > 0)


def _equal_neighbours(column: pa.Array) -> int:
    equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
    return int(equal.true_count)


def _value_bytes(column: pa.Array, known: int) -> float:
    kind = column.type
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return float(kind.bit_width / 8)
    return 4 + float(pc.sum(pc.binary_length(column)).as_py()) / known


def _leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """Parquet paths of a column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_paths(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaf_paths(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_paths(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaf_paths(f"{path}.list.element", kind.value_type)
    else:
        yield path


def dictionary_coded(metadata: pq.FileMetaData, groups: Sequence[int], columns: Container[str]) -> list[str]:
    """Which columns of strings some row groups of a file hold as dictionaries, nearly throughout.

    pyarrow would make a dictionary of the others by hashing each value, which takes longer than reading them.

    Args:
        metadata: the footer.
        groups: row groups.
        columns: columns to choose from; fields of ROWs are not.
    """
    found = []
    wanted = [at for at in range(metadata.num_columns) if metadata.schema.column(at).path in columns]
    for at in wanted:
        column = metadata.schema.column(at)
        if column.physical_type != "BYTE_ARRAY" or column.logical_type.type != "STRING":
            continue
        chunks = [metadata.row_group(group).column(at) for group in groups]
        # the length alone of a value that is not in the dictionary takes four bytes
        if chunks and all(c.has_dictionary_page and c.total_uncompressed_size < 4 * c.num_values for c in chunks):
            found.append(column.path)
    return found
