"""VARIANT columns taken apart into typed columns of a file, for writing. No Python loop over rows.

Equals Java's ``VariantShreddingWriter`` with ``allowNumericScaleChanges``: a value that has the type of its column, or
is numerically equal to one, is typed; any other stays binary. Fields that the schema does not name stay in an object.
The schema comes from the option (``PaimonShreddingUtils.variantShreddingSchema``, ``VariantShreddingWritePlan``).

Scalars of binary VARIANT values as typed columns. No Python loop over rows.

Equals Java's ``VariantShreddingWriter.tryTypedShred``: numbers may change their scale where no digit is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, OptionError, SchemaError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.spec.variant_values import ARRAY, OBJECT, Names, Ragged, containers, elements_of, fields_of, flags

if TYPE_CHECKING:
    from collections.abc import Sequence

Longs = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

TRUE, FALSE, INT1, INT8, DOUBLE, DECIMAL4, DECIMAL16, DATE, FLOAT, LONG_STRING = (
    1, 2, 3, 6, 7, 8, 10, 11, 14, 16,
)  # fmt: skip
_SHORT: Final = 1
"""The basic type of short strings."""
NO_SCALAR: Final = -1
SHORT_STRING: Final = 64
"""Kind of short strings, beyond those of primitives."""
_MOST_SCALE: Final = 38


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
        kind = parse_type(json.loads(text))
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


def scalar_kinds(values: Ragged) -> Longs:
    """The kind of each value: the number of its primitive type, `SHORT_STRING`, or `NO_SCALAR`."""
    found = np.full(len(values), NO_SCALAR, np.int64)
    there = np.flatnonzero(values.present & (values.lengths > 0))
    heads = values.data[values.starts[there]].astype(np.int64)
    kinds = np.where(heads & 3 == 0, heads >> 2, np.where(heads & 3 == _SHORT, SHORT_STRING, NO_SCALAR))
    found[there] = kinds
    return found


def typed_scalars(values: Ragged, kind: t.DataType) -> tuple[Bools, pa.Array]:
    """Which values can be typed, and a column of them; null elsewhere.

    Raises:
        DataError: a value is damaged.
    """
    kinds = scalar_kinds(values)
    target = to_arrow_type(kind)
    match kind:
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return _integers(values, kinds, target)
        case t.DecimalType():
            return _decimals(values, kinds, kind)
        case t.BooleanType():
            ok = (kinds == TRUE) | (kinds == FALSE)
            return ok, _column(kinds == TRUE, ok, target)
        case t.CharType() | t.VarCharType():
            return _texts(values, kinds)
        case t.DoubleType():
            return _fixed(values, kinds == DOUBLE, np.float64, target)
        case t.FloatType():
            return _fixed(values, kinds == FLOAT, np.float32, target)
        case t.DateType():
            return _fixed(values, kinds == DATE, np.int32, target)
    raise TypeError(f"{kind.sql()} is no type of a shredded value")


def integers(values: Ragged, kinds: Longs) -> Longs:
    """The values of integers; 0 elsewhere."""
    found = np.zeros(len(values), np.int64)
    for level, type_ in enumerate((np.int8, np.int16, np.int32, np.int64)):
        rows = np.flatnonzero(kinds == INT1 + level)
        found[rows] = _payload(values, rows, type_)
    return found


def decimals(values: Ragged, kinds: Longs) -> tuple[Longs, npt.NDArray[np.uint8], Longs]:
    """Rows of decimals, their unscaled values as 16 bytes, the lowest first, and their scales.

    Raises:
        DataError: a scale is not in 0 to 38.
    """
    rows = np.flatnonzero((kinds >= DECIMAL4) & (kinds <= DECIMAL16))
    raw = np.zeros((len(rows), 16), np.uint8)
    for level, width in enumerate((4, 8, 16)):
        some = np.flatnonzero(kinds[rows] == DECIMAL4 + level)
        parts = _bytes(values, rows[some], 2, width)
        raw[some, :width] = parts
        raw[some, width:] = np.where(parts[:, -1:] >= 128, 255, 0)
    scales = _bytes(values, rows, 1, 1)[:, 0].astype(np.int64)
    if (scales > _MOST_SCALE).any():
        raise DataError("a VARIANT is damaged: a decimal has more than 38 digits")
    return rows, raw, scales


def _integers(values: Ragged, kinds: Longs, target: pa.DataType) -> tuple[Bools, pa.Array]:
    info = np.iinfo(target.to_pandas_dtype())
    found = integers(values, kinds)
    ok = (kinds >= INT1) & (kinds <= INT8) & (found >= info.min) & (found <= info.max)
    rows, raw, scales = decimals(values, kinds)
    for scale in np.unique(scales):
        some = np.flatnonzero(scales == scale)
        fits, numbers = _rescaled(raw[some], int(scale), 19, 0)
        whole = numbers.cast(pa.decimal128(19, 0)) if len(numbers) else numbers
        bounded = pc.and_(pc.greater_equal(whole, _decimal(info.min)), pc.less_equal(whole, _decimal(info.max)))
        fits &= np.asarray(pc.fill_null(bounded, False).to_numpy(zero_copy_only=False), bool)
        good = rows[some[fits]]
        ok[good] = True
        found[good] = whole.filter(pa.array(fits)).cast(pa.int64()).to_numpy()
    return ok, _column(np.where(ok, found, 0).astype(target.to_pandas_dtype()), ok, target)


def _decimal(value: int) -> pa.Scalar:
    return pa.scalar(int(value), pa.int64()).cast(pa.decimal128(19, 0))


def _decimals(values: Ragged, kinds: Longs, kind: t.DecimalType) -> tuple[Bools, pa.Array]:
    target = pa.decimal128(kind.precision, kind.scale)
    own, raw, scales = decimals(values, kinds)
    whole = np.flatnonzero((kinds >= INT1) & (kinds <= INT8))
    wide = np.zeros((len(whole), 16), np.uint8)
    numbers = integers(values, kinds)[whole]
    wide[:, :8] = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    wide[:, 8:] = np.where(numbers < 0, 255, 0)[:, None]
    rows = np.concatenate([own, whole])
    raw = np.concatenate([raw, wide])
    scales = np.concatenate([scales, np.zeros(len(whole), np.int64)])
    ok = np.zeros(len(values), bool)
    out = np.zeros((len(values), 16), np.uint8)
    for scale in np.unique(scales):
        some = np.flatnonzero(scales == scale)
        fits, found = _rescaled(raw[some], int(scale), kind.precision, kind.scale)
        good = rows[some[fits]]
        ok[good] = True
        plain = found.filter(pa.array(fits)).cast(target)
        out[good] = np.frombuffer(plain.buffers()[1], np.uint8, len(plain) * 16, plain.offset * 16).reshape(-1, 16)
    return ok, _decimal_column(out, ok, target)


def _rescaled(raw: npt.NDArray[np.uint8], scale: int, precision: int, wanted: int) -> tuple[Bools, pa.Array]:
    """Which decimals of one scale are equal to one of another type, and these as ``decimal256``; null elsewhere."""
    count = len(raw)
    exact = pa.Array.from_buffers(pa.decimal128(38, scale), count, [None, pa.py_buffer(np.ascontiguousarray(raw))])
    wide = exact.cast(pa.decimal256(76, scale), safe=False)
    moved = wide.cast(pa.decimal256(76, wanted), safe=False)
    same = moved.cast(pa.decimal256(76, scale), safe=False) if wanted < scale else wide
    fits = pc.equal(same, wide)
    digits = precision - wanted
    if digits + scale <= _MOST_SCALE:
        fits = pc.and_(fits, pc.less(pc.abs(wide), pa.scalar(Decimal(10) ** digits, pa.decimal256(76, scale))))
    return np.asarray(fits.to_numpy(zero_copy_only=False), bool), pc.if_else(fits, moved, None)


def _decimal_column(raw: npt.NDArray[np.uint8], ok: Bools, target: pa.DataType) -> pa.Array:
    array = pa.Array.from_buffers(target, len(raw), [None, pa.py_buffer(raw)])
    return array if ok.all() else pc.if_else(pa.array(ok), array, None)


def _texts(values: Ragged, kinds: Longs) -> tuple[Bools, pa.Array]:
    ok = (kinds == SHORT_STRING) | (kinds == LONG_STRING)
    found = _sized(values, ok, np.where(kinds == LONG_STRING, 5, 1)).to_arrow(ok)
    try:
        return ok, found.cast(pa.string())
    except pa.ArrowInvalid:  # no UTF-8: such values stay as they are
        none = np.zeros(len(values), bool)
        return none, pa.nulls(len(values), pa.string())


def _sized(values: Ragged, ok: Bools, heads: Longs) -> Ragged:
    """What lies behind the heads of some values; their lengths are checked."""
    rows = np.flatnonzero(ok)
    lengths = values.lengths[rows] - heads[rows]
    long = rows[heads[rows] > 1]
    reported = values.take(long).number(np.ones(len(long), np.int64), np.full(len(long), 4))
    short = rows[heads[rows] == 1]
    inside = (values.data[values.starts[short]] >> 2).astype(np.int64)
    found = np.zeros(len(values), np.int64)
    found[long], found[short] = reported, inside
    if (lengths < 0).any() or (found[rows] != lengths).any():
        raise DataError("a VARIANT is damaged: a text or binary value has another length than it says")
    return Ragged(values.data, values.starts + np.where(ok, heads, 0), found, ok)


def _fixed(values: Ragged, ok: Bools, type_: type, target: pa.DataType) -> tuple[Bools, pa.Array]:
    rows = np.flatnonzero(ok)
    numbers: npt.NDArray[np.generic] = np.zeros(len(values), type_)
    numbers[rows] = _payload(values, rows, type_)
    return ok, _column(numbers, ok, target)


def _column(numbers: npt.NDArray[np.generic], ok: Bools, target: pa.DataType) -> pa.Array:
    array = pa.array(numbers, mask=None if ok.all() else ~ok)
    return array if array.type == target else array.cast(target) if pa.types.is_boolean(target) else array.view(target)


def _payload(values: Ragged, rows: Longs, type_: type) -> npt.NDArray[np.generic]:
    """The number behind the first byte of each row."""
    dtype = np.dtype(type_).newbyteorder("<")
    raw = np.ascontiguousarray(_bytes(values, rows, 1, dtype.itemsize))
    return raw.view(dtype).reshape(-1)


def _bytes(values: Ragged, rows: Longs, at: int, width: int) -> npt.NDArray[np.uint8]:
    """Some bytes of each row."""
    if (values.lengths[rows] < at + width).any():
        raise DataError("a VARIANT is damaged: a value is cut")
    found: npt.NDArray[np.uint8] = values.data[(values.starts[rows] + at)[:, None] + np.arange(width)]
    return found
