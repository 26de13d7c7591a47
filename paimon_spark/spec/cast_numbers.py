"""Casts between numbers as in Java: integers wrap, floats saturate, decimals round half up and overflow to null."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.cast_rules import FLOATS, INTEGERS
from paimon_spark.spec.cast_values import from_numpy, map_distinct
from paimon_spark.spec.data_types import BooleanType, DataType, DecimalType, FloatType
from paimon_spark.spec.java_text import double_text

_WIDE = 76
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def cast_number(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """An array of numbers or booleans as numbers or booleans.

    Raises:
        DataError: NaN or an infinity as DECIMAL.
    """
    arrow_type = to_arrow_type(target)
    if isinstance(target, BooleanType):
        return pc.not_equal(array, pa.scalar(0, array.type))
    if isinstance(source, BooleanType):
        array = pc.cast(array, pa.int32())
    if isinstance(target, DecimalType):
        if isinstance(source, FLOATS):
            return map_distinct(array, lambda value: _float_to_decimal(value, target), arrow_type)
        if not isinstance(source, DecimalType):
            array = pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
        return _fit_decimal(array, target)
    if isinstance(source, DecimalType):
        return _from_decimal(array, source, target)
    values = _numpy(array)
    if isinstance(target, INTEGERS) and isinstance(source, FLOATS):
        return from_numpy(_float_to_int(values.astype(np.float64), arrow_type), array, arrow_type)
    with np.errstate(over="ignore"):
        return from_numpy(values.astype(arrow_type.to_pandas_dtype()), array, arrow_type)


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = np.asarray(pc.fill_null(array, pa.scalar(0, array.type)))
    return result


def _float_to_int(values: npt.NDArray[np.float64], target: pa.DataType) -> npt.NDArray[Any]:
    """Java: NaN is 0, too large numbers become the greatest long (or int, whose low bits a smaller type takes)."""
    whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
    if target == pa.int64():
        result = np.clip(whole, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)
        return np.where(whole >= 2.0**63, np.int64(2**63 - 1), result)
    result = np.clip(whole, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    return result.astype(target.to_pandas_dtype())


def round_decimal(value: Decimal, target: DecimalType) -> Decimal | None:
    """The number with the type's scale, rounded half up; None when it has too many digits."""
    if value and value.adjusted() > 80:
        return None
    if value and value.adjusted() < -80:
        value = Decimal(0)
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), context=_EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _float_to_decimal(value: float | None, target: DecimalType) -> Decimal | None:
    if value is None:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"Cannot cast {double_text(value)} to {target}: it has no decimal value.")
    return round_decimal(Decimal(repr(value)), target)


def _fit_decimal(array: pa.Array, target: DecimalType) -> pa.Array:
    scale = array.type.scale
    wide = pc.cast(array, pa.decimal256(_WIDE, scale if scale > target.scale else target.scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        wide = pc.cast(wide, pa.decimal256(_WIDE, target.scale))
    limit = pa.scalar(Decimal(10 ** (target.precision - target.scale)), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), to_arrow_type(target))


def _from_decimal(array: pa.Array, source: DecimalType, target: DataType) -> pa.Array:
    arrow_type = to_arrow_type(target)
    if isinstance(target, INTEGERS):
        whole = pc.cast(pc.trunc(pc.cast(array, pa.decimal256(_WIDE, source.scale))), pa.decimal256(_WIDE, 0))
        low_words = _words(pc.cast(whole, pa.decimal128(38, 0)))
        return from_numpy(low_words.astype(arrow_type.to_pandas_dtype()), array, arrow_type)
    if source.is_compact:
        doubles = from_numpy(_words(array).astype(np.float64) / 10.0**source.scale, array, pa.float64())
    else:
        doubles = map_distinct(array, lambda value: None if value is None else float(value), pa.float64())
    if not isinstance(target, FloatType):
        return doubles
    with np.errstate(over="ignore"):
        return from_numpy(_numpy(doubles).astype(np.float32), array, arrow_type)


def _words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The low 64 bits of each unscaled value of a decimal128 array."""
    both = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return both[::2].copy()
