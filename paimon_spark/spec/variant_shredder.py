"""VARIANT columns taken apart into typed columns of a file, for writing. No Python loop over rows.

Equals Java's ``VariantShreddingWriter`` with ``allowNumericScaleChanges``: a value that has the type of its column, or
is numerically equal to one, is typed; any other stays binary. Fields that the schema does not name stay in an object.
The schema comes from the option (``PaimonShreddingUtils.variantShreddingSchema``, ``VariantShreddingWritePlan``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, OptionError, SchemaError
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


def shredded(array: pa.Array, physical: t.RowType) -> pa.StructArray:
    """Return the columns of a file for values of a VARIANT column.

    Args:
        array: a struct of ``value`` and ``metadata``.
        physical: the file's type of the column (`shredded_type`).

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


OPTION: Final = "variant.shreddingSchema"

VALUE, TYPED, METADATA = "value", "typed_value", "metadata"

_SCALARS: Final = (
    *(t.CharType, t.VarCharType, t.BooleanType, t.BinaryType, t.VarBinaryType, t.DecimalType, t.TinyIntType),
    *(t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DateType),
    *(t.LocalZonedTimestampType, t.TimestampType),
)


def configured_schemas(text: str) -> Mapping[str, t.DataType]:
    """The types by which columns are shredded, by their names.

    Args:
        text: value of `variant.shreddingSchema`: a ROW type as schema files have it, with a field for each column.

    Raises:
        OptionError: it is no such type, or has types that VARIANTs do not have.
    """
    try:
        kind = t.parse_type(json.loads(text))
    except (ValueError, RecursionError, SchemaError) as error:
        raise OptionError(f"{_NEEDED} It cannot be read: {error}") from None
    if not isinstance(kind, t.RowType):
        raise OptionError(f"{_NEEDED} It is {kind.sql()}.")
    for field in kind.fields:
        _check(field.type, field.name)
    return {field.name: field.type for field in kind.fields}


_NEEDED: Final = (
    f"The option '{OPTION}' must be a ROW type in JSON whose fields are VARIANT columns and the types of their values, "
    'such as {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": '
    '[{"id": 1, "name": "age", "type": "INT"}]}}]}.'
)


def _check(kind: t.DataType, path: str) -> None:
    match kind:
        case t.RowType():
            if not kind.fields:
                raise OptionError(f"{_NEEDED} The ROW at '{path}' has no fields.")
            names = [field.name for field in kind.fields]
            if len(set(names)) < len(names):
                raise OptionError(f"{_NEEDED} The ROW at '{path}' has a field twice.")
            for field in kind.fields:
                _check(field.type, f"{path}.{field.name}")
        case t.ArrayType():
            _check(kind.element, f"{path}[]")
        case t.VariantType():
            pass
        case _ if not isinstance(kind, _SCALARS):
            raise OptionError(f"{_NEEDED} '{path}' is {kind.sql()}, which values of VARIANTs cannot be.")


def shredded_type(kind: t.DataType, *, nullable: bool) -> t.RowType:
    """The columns of a file for a VARIANT whose values are expected to be of a type.

    Args:
        kind: of the values; VARIANT where nothing is known of them.
        nullable: whether the column is.
    """
    return replace(
        _value_group(kind, (t.DataField(0, METADATA, _BYTES.with_nullable(False)),), of_field=False), nullable=nullable
    )


_BYTES: Final = t.VarBinaryType(t.VarBinaryType.MAX)


def _value_group(kind: t.DataType, first: tuple[t.DataField, ...], *, of_field: bool) -> t.RowType:
    """A value, and next to it a typed one; in a field of an object both may be missing."""
    at = len(first)
    typed: t.DataType
    match kind:
        case t.VariantType() | t.BinaryType() | t.VarBinaryType() | t.TimestampType() | t.LocalZonedTimestampType():
            # Java: types bytes and timestamps as well, but its reader up to 1.4 refuses files with such columns
            return t.RowType((*first, t.DataField(at, VALUE, _BYTES.with_nullable(of_field))))
        case t.ArrayType():
            typed = replace(kind, element=_value_group(kind.element, (), of_field=False))
        case t.RowType():
            inner = [replace(f, type=_value_group(f.type, (), of_field=True).with_nullable(False)) for f in kind.fields]
            typed = replace(kind, fields=tuple(inner))
        case _:
            typed = kind
    fields = (t.DataField(at, VALUE, _BYTES), t.DataField(at + 1, TYPED, typed.with_nullable(True)))
    return t.RowType((*first, *fields))
