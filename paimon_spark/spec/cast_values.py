"""Casts between numbers, and between dates, times, timestamps and integers, as in Java.

Integers wrap, floats saturate, decimals round half up and overflow to null. TIMESTAMP WITH LOCAL TIME ZONE turns into
wall clock values (and back) in this machine's time zone. The building blocks of all casts stand here as well: arrays as
numpy integers and back, and functions of distinct values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.java_text import double_text
from paimon_spark.spec.schema_merge import FLOATS, INTEGERS, TIMESTAMPS

Ints = npt.NDArray[np.int64]


def map_distinct(array: pa.Array, function: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """A Python function applied once to each distinct value, for casts that Arrow does otherwise than Java.

    Raises:
        DataError: The function raised a ValueError; its message tells the value.
    """
    encoded = array.dictionary_encode()
    try:
        values = pa.array([function(value) for value in encoded.dictionary.to_pylist()], target)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise DataError(str(error)) from None
    return values.take(encoded.indices)


def to_ints(array: pa.Array) -> Ints:
    """The integers behind an integer, date, time or timestamp array; 0 for null."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.view(pa.int32())
    elif not pa.types.is_integer(array.type):
        array = array.view(pa.int64())
    return np.asarray(pc.fill_null(array, 0)).astype(np.int64)


def from_numpy(values: npt.NDArray[Any], like: pa.Array, target: pa.DataType) -> pa.Array:
    """An Arrow array of numpy numbers, null where another array is null, seen as a type of the same width."""
    mask = np.asarray(pc.is_null(like)) if like.null_count else None
    array = pa.array(values, mask=mask)
    return array if array.type == target else array.view(target)


def scaled(values: Ints, factor: int, what: str) -> Ints:
    """The integers times a factor.

    Raises:
        DataError: A product does not fit 64 bits.
    """
    limit = (2**63 - 1) // factor
    if len(values) and (values.max() > limit or values.min() < -limit):
        raise DataError(f"A value does not fit {what}: it is too far from 1970.")
    return values * np.int64(factor)


def trunc_div(values: Ints, divisor: int) -> Ints:
    """Java's integer division, which rounds towards zero."""
    quotient = np.abs(values) // divisor
    return np.where(values < 0, -quotient, quotient)


_WIDE = 76
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def cast_number(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    """An array of numbers or booleans as numbers or booleans.

    Raises:
        DataError: NaN or an infinity as DECIMAL.
    """
    arrow_type = to_arrow_type(target)
    if isinstance(target, t.BooleanType):
        return pc.not_equal(array, pa.scalar(0, array.type))
    if isinstance(source, t.BooleanType):
        array = pc.cast(array, pa.int32())
    if isinstance(target, t.DecimalType):
        if isinstance(source, FLOATS):
            return map_distinct(array, lambda value: _float_to_decimal(value, target), arrow_type)
        if not isinstance(source, t.DecimalType):
            array = pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
        return _fit_decimal(array, target)
    if isinstance(source, t.DecimalType):
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


def round_decimal(value: Decimal, target: t.DecimalType) -> Decimal | None:
    """The number with the type's scale, rounded half up; None when it has too many digits."""
    if value and value.adjusted() > 80:
        return None
    if value and value.adjusted() < -80:
        value = Decimal(0)
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), context=_EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _float_to_decimal(value: float | None, target: t.DecimalType) -> Decimal | None:
    if value is None:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"Cannot cast {double_text(value)} to {target}: it has no decimal value.")
    return round_decimal(Decimal(repr(value)), target)


def _fit_decimal(array: pa.Array, target: t.DecimalType) -> pa.Array:
    scale = array.type.scale
    wide = pc.cast(array, pa.decimal256(_WIDE, scale if scale > target.scale else target.scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        wide = pc.cast(wide, pa.decimal256(_WIDE, target.scale))
    limit = pa.scalar(Decimal(10 ** (target.precision - target.scale)), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), to_arrow_type(target))


def _from_decimal(array: pa.Array, source: t.DecimalType, target: t.DataType) -> pa.Array:
    arrow_type = to_arrow_type(target)
    if isinstance(target, INTEGERS):
        whole = pc.cast(pc.trunc(pc.cast(array, pa.decimal256(_WIDE, source.scale))), pa.decimal256(_WIDE, 0))
        low_words = _words(pc.cast(whole, pa.decimal128(38, 0)))
        return from_numpy(low_words.astype(arrow_type.to_pandas_dtype()), array, arrow_type)
    if source.is_compact:
        doubles = from_numpy(_words(array).astype(np.float64) / 10.0**source.scale, array, pa.float64())
    else:
        doubles = map_distinct(array, lambda value: None if value is None else float(value), pa.float64())
    if not isinstance(target, t.FloatType):
        return doubles
    with np.errstate(over="ignore"):
        return from_numpy(_numpy(doubles).astype(np.float32), array, arrow_type)


def _words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The low 64 bits of each unscaled value of a decimal128 array."""
    both = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return both[::2].copy()


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MILLIS = 86_400_000


def local_zone_name() -> str:
    """The name of this machine's time zone, UTC when it has none."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        _, found, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
        name = name if found else "UTC"
    return name


def cast_time(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    """An array of dates, times, timestamps or integers as another of these kinds.

    Raises:
        DataError: A value does not fit the target.
    """
    arrow_type = to_arrow_type(target)
    if isinstance(source, TIMESTAMPS) and isinstance(target, TIMESTAMPS):
        return _timestamp_to_timestamp(array, source, target)
    if isinstance(source, TIMESTAMPS):
        if isinstance(source, t.LocalZonedTimestampType) and isinstance(target, t.DateType | t.TimeType):
            array = to_wall_clock(array)
        millis = _millis(array)
        # Java: before 2.1 times before 1970 fell on the day after
        if isinstance(target, t.DateType):
            return from_numpy((millis // _DAY_MILLIS).astype(np.int32), array, arrow_type)
        if isinstance(target, t.TimeType):
            return from_numpy((millis % _DAY_MILLIS).astype(np.int32), array, arrow_type)
        seconds = trunc_div(millis, 1_000)
        return from_numpy(seconds.astype(arrow_type.to_pandas_dtype()), array, arrow_type)
    assert isinstance(target, t.TimestampType | t.LocalZonedTimestampType)
    per_second = _PER_SECOND[arrow_type.unit]
    values = to_ints(array)
    match source:
        case t.DateType():
            result = scaled(values, 86_400 * per_second, str(target))
        case t.TimeType():
            result = values * per_second // 1_000
        case t.IntType() | t.BigIntType():
            result = scaled(values, per_second, str(target))
    wall_clock = from_numpy(result, array, pa.timestamp(arrow_type.unit))
    if not isinstance(target, t.LocalZonedTimestampType):
        return wall_clock
    if isinstance(source, t.IntType | t.BigIntType):
        # Java: the wall clock time of the instant is taken for the instant, which moves it by the zone's offset
        return pc.cast(to_wall_clock(wall_clock.cast(arrow_type)), arrow_type)
    return to_instant(wall_clock)


def to_wall_clock(array: pa.Array) -> pa.Array:
    """Instants as the wall clock time of this machine's zone."""
    zone = local_zone_name()
    if zone == "UTC":
        return pc.cast(array, pa.timestamp(array.type.unit))
    return pc.local_timestamp(pc.cast(array, pa.timestamp(array.type.unit, tz=zone)))


def to_instant(array: pa.Array) -> pa.Array:
    """Wall clock times of this machine's zone as instants; of two instants with one wall clock time the earlier."""
    zone = local_zone_name()
    utc = pa.timestamp(array.type.unit, tz="UTC")
    if zone == "UTC":
        return pc.cast(array, utc)
    return pc.cast(pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest"), utc)


def _millis(array: pa.Array) -> Ints:
    """Milliseconds since 1970 of timestamps, rounded down."""
    values, per_second = to_ints(array), _PER_SECOND[array.type.unit]
    return values * 1_000 if per_second == 1 else values // (per_second // 1_000)


def _timestamp_to_timestamp(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    assert isinstance(source, t.TimestampType | t.LocalZonedTimestampType)
    assert isinstance(target, t.TimestampType | t.LocalZonedTimestampType)
    if isinstance(source, t.LocalZonedTimestampType) and isinstance(target, t.TimestampType):
        array = to_wall_clock(array)
    elif isinstance(source, t.TimestampType) and isinstance(target, t.LocalZonedTimestampType):
        array = to_instant(array)
    arrow_type = to_arrow_type(target)
    values, old, new = to_ints(array), _PER_SECOND[array.type.unit], _PER_SECOND[arrow_type.unit]
    if source.precision > target.precision:
        values = _truncate(values, array.type.unit, target.precision)
    values = scaled(values, new // old, str(target)) if new > old else values // (old // new)
    return from_numpy(values, array, arrow_type)


def _truncate(values: Ints, unit: str, precision: int) -> Ints:
    """Values of a unit with at most `precision` digits after the second.

    Java: down, except that below milliseconds' precision times before 1970 are rounded up.
    """
    per_second = _PER_SECOND[unit]
    step = max(per_second // 10**precision, 1)
    if precision >= 3:
        return np.asarray(values // step * step)
    per_milli = per_second // 1_000
    millis = values // per_milli
    millis_step = 10 ** (3 - precision)
    return np.asarray(trunc_div(millis, millis_step) * millis_step * per_milli)
