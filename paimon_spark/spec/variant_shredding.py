"""VARIANT columns whose values lie in typed columns of a Parquet file, put together again. No Python loop over rows.

Equals Java's ``ShreddingUtils.rebuild`` and how Parquet says shredded variants are read. The
metadata of a value stays as the file has it; a container's fields come in the order of their names.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_types import VARIANT_STRUCT
from paimon_spark.spec.variant_containers import ARRAY, OBJECT, Names, containers, fields_of, flags, longs
from paimon_spark.spec.variant_values import Ragged, constant, missing, scalar_values

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
