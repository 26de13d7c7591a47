"""Casts between dates, times, timestamps and integers as Java does them.

TIMESTAMP WITH LOCAL TIME ZONE turns into wall clock values (and back) in this machine's time zone, as in Java.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.cast_rules import TIMESTAMPS
from paimon_spark.spec.cast_values import Ints, from_numpy, scaled, to_ints, trunc_div
from paimon_spark.spec.data_types import (
    BigIntType,
    DataType,
    DateType,
    IntType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
)

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MILLIS = 86_400_000


def local_zone_name() -> str:
    """The name of this machine's time zone, UTC when it has none."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        _, found, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
        name = name if found else "UTC"
    return name


def cast_time(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """An array of dates, times, timestamps or integers as another of these kinds.

    Raises:
        DataError: A value does not fit the target.
    """
    arrow_type = to_arrow_type(target)
    if isinstance(source, TIMESTAMPS) and isinstance(target, TIMESTAMPS):
        return _timestamp_to_timestamp(array, source, target)
    if isinstance(source, TIMESTAMPS):
        if isinstance(source, LocalZonedTimestampType) and isinstance(target, DateType | TimeType):
            array = to_wall_clock(array)
        millis = _millis(array)
        # Java: before 2.1 times before 1970 fell on the day after
        if isinstance(target, DateType):
            return from_numpy((millis // _DAY_MILLIS).astype(np.int32), array, arrow_type)
        if isinstance(target, TimeType):
            return from_numpy((millis % _DAY_MILLIS).astype(np.int32), array, arrow_type)
        seconds = trunc_div(millis, 1_000)
        return from_numpy(seconds.astype(arrow_type.to_pandas_dtype()), array, arrow_type)
    assert isinstance(target, TimestampType | LocalZonedTimestampType)
    per_second = _PER_SECOND[arrow_type.unit]
    values = to_ints(array)
    match source:
        case DateType():
            result = scaled(values, 86_400 * per_second, str(target))
        case TimeType():
            result = values * per_second // 1_000
        case IntType() | BigIntType():
            result = scaled(values, per_second, str(target))
    wall_clock = from_numpy(result, array, pa.timestamp(arrow_type.unit))
    if not isinstance(target, LocalZonedTimestampType):
        return wall_clock
    if isinstance(source, IntType | BigIntType):
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


def _timestamp_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert isinstance(source, TimestampType | LocalZonedTimestampType)
    assert isinstance(target, TimestampType | LocalZonedTimestampType)
    if isinstance(source, LocalZonedTimestampType) and isinstance(target, TimestampType):
        array = to_wall_clock(array)
    elif isinstance(source, TimestampType) and isinstance(target, LocalZonedTimestampType):
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
