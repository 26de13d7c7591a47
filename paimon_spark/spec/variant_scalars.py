"""Scalars of binary VARIANT values as typed columns. No Python loop over rows.

Equals Java's ``VariantShreddingWriter.tryTypedShred``: numbers may change their scale where no digit is lost.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.variant_values import Ragged

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

    Args:
        values: binary ones; missing ones are not typed.
        kind: of the column.

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
        found[rows] = _payload(values, rows, 1, type_)
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
    numbers[rows] = _payload(values, rows, 1, type_)
    return ok, _column(numbers, ok, target)


def _column(numbers: npt.NDArray[np.generic], ok: Bools, target: pa.DataType) -> pa.Array:
    array = pa.array(numbers, mask=None if ok.all() else ~ok)
    return array if array.type == target else array.cast(target) if pa.types.is_boolean(target) else array.view(target)


def _payload(values: Ragged, rows: Longs, at: int, type_: type) -> npt.NDArray[np.generic]:
    dtype = np.dtype(type_).newbyteorder("<")
    raw = np.ascontiguousarray(_bytes(values, rows, at, dtype.itemsize))
    return raw.view(dtype).reshape(-1)


def _bytes(values: Ragged, rows: Longs, at: int, width: int) -> npt.NDArray[np.uint8]:
    """Some bytes of each row."""
    if (values.lengths[rows] < at + width).any():
        raise DataError("a VARIANT is damaged: a value is cut")
    found: npt.NDArray[np.uint8] = values.data[(values.starts[rows] + at)[:, None] + np.arange(width)]
    return found
