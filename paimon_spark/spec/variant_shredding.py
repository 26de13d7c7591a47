"""Shredded VARIANT columns of a Parquet file, put together again, at any depth of other columns.

Equals Java's ``ShreddingUtils.rebuild`` and how Parquet says shredded variants are read; no Python loop over rows. The
metadata of a value stays as the file has it; a container's fields come in the order of their names. A read touches
parts of a shredded VARIANT: the columns of its paths, and what is not shredded. A value of these alone gives the same
at the touched paths as the whole value, and is null where that is. Elements of arrays are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import VARIANT_STRUCT
from paimon_spark.spec.variant_values import (
    ARRAY,
    OBJECT,
    Names,
    Ragged,
    constant,
    containers,
    fields_of,
    flags,
    longs,
    missing,
    scalar_values,
)

Longs = npt.NDArray[np.int64]

_NULL: Final = 0
_VALUE, _TYPED, _METADATA = "value", "typed_value", "metadata"


def is_shredded(column: pa.DataType) -> bool:
    """Whether a column of a file holds shredded variants: with typed values alongside the binary ones."""
    return bool(
        pa.types.is_struct(column) and column.get_field_index(_TYPED) >= 0 and column.get_field_index(_METADATA) >= 0
    )


def unshredded(array: pa.Array, *, in_part: bool = False) -> pa.Array:
    """Return the values of a shredded column as VARIANT has them: binary values with their metadata.

    Args:
        array: a struct of ``metadata``, ``value`` and ``typed_value``.
        in_part: typed values may have been left out (see `variant_touched`): a value of which nothing is there is a
            VARIANT null.

    Raises:
        DataError: a value is missing, or a typed value has no name in its metadata.
    """
    valid = flags(array.is_valid())
    names = Names.of(_child(array, _METADATA))
    values = _rebuilt(array, names, np.arange(len(array)))
    if in_part:
        values = constant(_NULL, ~values.present).replaced(values)
    elif not (values.present | ~valid).all():
        raise DataError("a shredded VARIANT has neither a value nor a typed one")
    binary = values.to_arrow(valid)
    metadata = _child(array, _METADATA).cast(pa.binary())
    by_name = {_VALUE: binary, _METADATA: metadata}
    mask = None if valid.all() else pa.array(~valid)
    children = [pc.fill_null(by_name[field.name], b"") for field in VARIANT_STRUCT]
    return pa.StructArray.from_arrays(children, fields=list(VARIANT_STRUCT), mask=mask)


def _rebuilt(group: pa.StructArray, names: Names, rows: Longs) -> Ragged:
    """The values of a group of ``value`` and ``typed_value``; those that have neither are not present.

    Args:
        group: one for each row of the result.
        names: of all rows of the column.
        rows: for each row of the group the row of the column.
    """
    plain = Ragged.of(_child(group, _VALUE)) if group.type.get_field_index(_VALUE) >= 0 else missing(len(group))
    if group.type.get_field_index(_TYPED) < 0:
        return plain
    typed = _child(group, _TYPED)
    kind = typed.type
    if pa.types.is_struct(kind):
        return plain.replaced(_objects(typed, plain, names, rows))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return plain.replaced(_arrays(typed, names, rows))
    return plain.replaced(scalar_values(typed))


def _arrays(typed: pa.Array, names: Names, rows: Longs) -> Ragged:
    valid = flags(typed.is_valid())
    counts = longs(pc.fill_null(pc.list_value_length(typed), 0))
    elements = _rebuilt(typed.flatten(), names, np.repeat(rows, counts))
    if not elements.present.all():
        raise DataError("an element of a shredded VARIANT has neither a value nor a typed one")
    owners = np.repeat(np.arange(len(typed)), counts)
    return containers(ARRAY, valid, owners, None, elements)


def _objects(typed: pa.StructArray, plain: Ragged, names: Names, rows: Longs) -> Ragged:
    valid = flags(typed.is_valid())
    owners, ids, codes, parts = [], [], [], []
    for field in typed.type:
        values = _rebuilt(_child(typed, field.name), names, rows)
        code, known = names.ids(field.name, rows)
        there = np.flatnonzero(values.present & valid)
        if (known[there] < 0).any():
            raise DataError(f"a shredded VARIANT has the field '{field.name}', which its metadata does not know")
        owners.append(there)
        ids.append(known[there])
        codes.append(np.full(len(there), code, np.int64))
        parts.append(values.take(there))
    left = np.flatnonzero(valid & plain.present)
    if len(left):
        row, field_ids, values = fields_of(plain.take(left))
        owners.append(left[row])
        ids.append(field_ids)
        codes.append(names.codes_of(field_ids, rows[left[row]]))
        parts.append(values)
    every = [np.concatenate([np.empty(0, np.int64), *part]) for part in (owners, ids, codes)]
    order = np.lexsort((names.ranks[every[2]] if len(every[2]) else every[2], every[0]))
    if len(order) > 1:
        same = (np.diff(every[0][order]) == 0) & (np.diff(every[2][order]) == 0)
        if same.any():
            raise DataError("a shredded VARIANT has a field twice")
    merged = Ragged.concat(parts).take(order)
    return containers(OBJECT, valid, every[0][order], every[1][order], merged)


def _child(array: pa.StructArray, name: str) -> pa.Array:
    """A field, null where the struct is."""
    return pc.struct_field(array, name)


Paths = Sequence[tuple[str, ...]]

_SEPARATOR: Final = "."
"""Names with it make the paths of a file's columns ambiguous."""


def touched(found: pa.DataType, paths: Paths) -> pa.DataType:
    """Return the type of a column of a file with only those typed columns that are needed for some paths.

    Args:
        found: a VARIANT as the file has it: shredded or not.
        paths: names of fields of objects, from the root; an empty one is the whole value.
    """
    return _touched(found, paths) if pa.types.is_struct(found) and found.get_field_index(_METADATA) >= 0 else found


def has_touched_parts(found: pa.DataType) -> bool:
    """Whether values of such a column may be missing after `touched`: those of files that are not shredded are not."""
    at = found.get_field_index(_VALUE) if pa.types.is_struct(found) else -1
    return at >= 0 and found.get_field_index(_METADATA) >= 0 and bool(found.field(at).nullable)


def _touched(group: pa.StructType, paths: Paths) -> pa.DataType:
    at = group.get_field_index(_TYPED)
    if at < 0 or group.get_field_index(_VALUE) < 0 or any(not path for path in paths):
        return group
    typed = group.field(at)
    if pa.types.is_struct(typed.type) and any(_SEPARATOR in field.name for field in typed.type):
        return group
    kept = []
    if pa.types.is_struct(typed.type):
        for field in typed.type:
            inner = [path[1:] for path in paths if path[0] == field.name]
            if inner:
                kept.append(field.with_type(_touched(field.type, inner)))
    # a typed value that is no object has no fields
    others = [field for field in group if field.name != _TYPED]
    return pa.struct([*others, typed.with_type(pa.struct(kept))] if kept else others)


def has_shredded(kind: t.DataType, found: pa.DataType) -> bool:
    """Whether a column of a file holds shredded VARIANTs.

    Args:
        kind: of the column in the table.
        found: its type in the file, which may have fewer fields of ROWs, and others.
    """
    if isinstance(kind, t.VariantType):
        return is_shredded(found) or (kind.paths is not None and has_touched_parts(found))
    return any(has_shredded(child, inner) for child, inner in _children(kind, found))


def without_shredding(kind: t.DataType, found: pa.DataType) -> pa.DataType:
    """Return the type that `unshredded_inside` gives for one of a file; arguments as of `has_shredded`."""
    if not has_shredded(kind, found):
        return found
    if isinstance(kind, t.VariantType):
        return VARIANT_STRUCT
    inner = [without_shredding(child, type_) for child, type_ in _children(kind, found)]
    if isinstance(kind, t.RowType):
        known = dict(zip((field.name for field in _common(kind, found)), inner, strict=True))
        return pa.struct([field.with_type(known.get(field.name, field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(found.key_field.with_type(inner[0]), found.item_field.with_type(inner[-1]))
    return pa.list_(found.value_field.with_type(inner[0]))


def unshredded_inside(kind: t.DataType, array: pa.Array) -> pa.Array:
    """Return a column of a file whose shredded VARIANTs are binary values with their metadata.

    Raises:
        DataError: a value is damaged.
    """
    found = array.type
    if not has_shredded(kind, found):
        return array
    if isinstance(kind, t.VariantType):
        return unshredded(array, in_part=kind.paths is not None)
    target = without_shredding(kind, found)
    if isinstance(kind, t.RowType):
        kinds = {field.name: field.type for field in kind.fields}
        # a field is null where its row is: what lies behind a null row is no value
        children = [pc.struct_field(array, [at]) for at in range(found.num_fields)]
        plain = [
            unshredded_inside(kinds[field.name], child) if field.name in kinds else child
            for field, child in zip(found, children, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(plain, fields=list(target), mask=mask)
    if pa.types.is_map(found):
        assert isinstance(kind, t.MapType)
        keys, items = unshredded_inside(kind.key, array.keys), unshredded_inside(kind.value, array.items)
        values = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    else:
        assert isinstance(kind, t.ArrayType)
        values = unshredded_inside(kind.element, array.values)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, array.offset, children=[values])


def _children(kind: t.DataType, found: pa.DataType) -> list[tuple[t.DataType, pa.DataType]]:
    if isinstance(kind, t.RowType) and pa.types.is_struct(found):
        return [(field.type, found.field(field.name).type) for field in _common(kind, found)]
    if isinstance(kind, t.MapType) and pa.types.is_map(found):
        return [(kind.key, found.key_type), (kind.value, found.item_type)]
    if isinstance(kind, t.ArrayType) and pa.types.is_list(found):
        return [(kind.element, found.value_type)]
    return []


def _common(kind: t.RowType, found: pa.DataType) -> list[t.DataField]:
    return [field for field in kind.fields if found.get_field_index(field.name) >= 0]
