"""VARIANT columns taken apart into typed columns of a file, for writing. No Python loop over rows.

Equals Java's ``VariantShreddingWriter`` with ``allowNumericScaleChanges``: a value that has the type of its column, or
is numerically equal to one, is typed; any other stays binary. Fields that the schema does not name stay in an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.variant_containers import (
    ARRAY,
    OBJECT,
    Names,
    containers,
    elements_of,
    fields_of,
    flags,
)
from paimon_spark.spec.variant_scalars import typed_scalars
from paimon_spark.spec.variant_values import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def shredded(array: pa.Array, physical: t.RowType) -> pa.StructArray:
    """Return the columns of a file for values of a VARIANT column.

    Args:
        array: a struct of ``value`` and ``metadata``.
        physical: the file's type of the column (`variant_schema.shredded_type`).

    Raises:
        DataError: a value is damaged.
    """
    valid = flags(array.is_valid())
    metadata = array.field("metadata").fill_null(b"")
    values = Ragged.of(array.field("value"))
    values = Ragged(values.data, values.starts, np.where(valid, values.lengths, 0), valid)
    if (values.lengths[valid] == 0).any():
        raise DataError("a VARIANT is damaged: it has no value")
    names = Names.of(metadata if valid.all() else pc.if_else(pa.array(valid), metadata, None))
    fields = physical.fields[1:]
    children = [metadata.cast(pa.binary()), *_group(values, names, np.arange(len(array)), fields)]
    mask = None if valid.all() else pa.array(~valid)
    return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(physical)), mask=mask)


def _group(values: Ragged, names: Names, rows: Longs, fields: Sequence[t.DataField]) -> list[pa.Array]:
    """The binary values, and the typed ones if the file has such.

    Args:
        values: to be shredded; missing ones are null in both.
        names: of all rows of the column.
        rows: for each value the row of the column.
        fields: of the group.
    """
    if len(fields) == 1:
        return [_binary(values, fields[0].type.nullable)]
    kind = fields[1].type
    if isinstance(kind, t.RowType):
        left, typed = _objects(values, names, rows, kind)
    elif isinstance(kind, t.ArrayType):
        left, typed = _arrays(values, names, rows, kind)
    else:
        ok, typed = typed_scalars(values, kind)
        left = Ragged(values.data, values.starts, np.where(ok, 0, values.lengths), values.present & ~ok)
    return [_binary(left, nullable=True), typed]


def _binary(values: Ragged, nullable: bool) -> pa.Array:
    shown = Ragged(values.data, values.starts, np.where(values.present, values.lengths, 0), values.present)
    return shown.to_arrow(values.present if nullable else None)


def _objects(values: Ragged, names: Names, rows: Longs, kind: t.RowType) -> tuple[Ragged, pa.Array]:
    """What stays binary, and the typed fields of objects."""
    count = len(values)
    own = np.flatnonzero(_basic(values) == OBJECT)
    owner, ids, parts = fields_of(values.take(own))
    owner = own[owner]
    codes = names.codes_of(ids, rows[owner])
    order = np.argsort(codes, kind="stable")
    by_code = codes[order]
    taken = np.zeros(len(codes), bool)
    numbers = {name: number for number, name in enumerate(names.names)}
    children = []
    for field in kind.fields:
        code = numbers.get(field.name, -1)
        start, stop = np.searchsorted(by_code, [code, code + 1])
        here = order[start:stop]
        if len(here) > 1 and (np.diff(owner[here]) == 0).any():
            raise DataError(f"a VARIANT has the field '{field.name}' twice")
        taken[here] = True
        inner = _spread(parts.take(here), owner[here], count)
        assert isinstance(field.type, t.RowType)
        arrays = _group(inner, names, rows, field.type.fields)
        children.append(pa.StructArray.from_arrays(arrays, fields=list(to_arrow_type(field.type))))
    is_object = np.zeros(count, bool)
    is_object[own] = True
    mask = None if is_object.all() else pa.array(~is_object)
    typed = pa.StructArray.from_arrays(children, fields=list(to_arrow_type(kind)), mask=mask)
    others = np.flatnonzero(~taken)
    has_others = np.zeros(count, bool)
    has_others[owner[others]] = True
    whole = Ragged(values.data, values.starts, values.lengths, values.present & ~is_object)
    if not len(others):
        return whole, typed
    return whole.replaced(containers(OBJECT, has_others, owner[others], ids[others], parts.take(others))), typed


def _arrays(values: Ragged, names: Names, rows: Longs, kind: t.ArrayType) -> tuple[Ragged, pa.Array]:
    """What stays binary, and the elements of arrays."""
    is_array = _basic(values) == ARRAY
    own = np.flatnonzero(is_array)
    sizes, parts = elements_of(values.take(own))
    assert isinstance(kind.element, t.RowType)
    arrays = _group(parts, names, np.repeat(rows[own], sizes), kind.element.fields)
    elements = pa.StructArray.from_arrays(arrays, fields=list(to_arrow_type(kind.element)))
    counts = np.zeros(len(values), np.int64)
    counts[own] = sizes
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    mask = None if is_array.all() else pa.array(~is_array)
    typed = pa.ListArray.from_arrays(pa.array(offsets), elements, type=to_arrow_type(kind), mask=mask)
    return Ragged(values.data, values.starts, values.lengths, values.present & ~is_array), typed


def _basic(values: Ragged) -> Longs:
    """The basic type of each value; -1 of missing ones."""
    found = np.full(len(values), -1, np.int64)
    there = np.flatnonzero(values.present)
    found[there] = values.data[values.starts[there]] & 3
    return found


def _spread(parts: Ragged, owners: Longs, count: int) -> Ragged:
    """Values in their rows; the others are missing."""
    starts, lengths, present = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, bool)
    starts[owners], lengths[owners], present[owners] = parts.starts, parts.lengths, True
    return Ragged(parts.data, starts, lengths, present)
