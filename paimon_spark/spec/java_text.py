"""Values as text, as Java's ``toString`` and Paimon's ``DateTimeUtils`` write them; partitions as directories.

A directory is `k=v/k2=v2` (Java ``PartitionPathUtils``, ``InternalRowPartitionComputer``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.data_types import DataType, LocalZonedTimestampType, TimestampType

_NANOS_PER_SECOND = 1_000_000_000
_MILLIS_PER_DAY = 86_400_000
_EPOCH = datetime(1970, 1, 1)
_NANOS_PER_UNIT = {"s": _NANOS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}


def double_text(value: float) -> str:
    """``Double.toString``: plain from 0.001 up to 10,000,000, else with an exponent.

    Java: before version 19 some doubles were written with more digits than needed; these are the shortest.
    """
    if 0.001 <= abs(value) < 10_000_000:
        return repr(float(value))
    return _number_text(value, repr(abs(float(value))))


def float_text(value: float) -> str:
    """``Float.toString`` of a number that a 32-bit float holds."""
    return _number_text(value, np.format_float_scientific(abs(np.float32(value)), unique=True))


def _number_text(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    _, digit_tuple, exponent = Decimal(shortest).normalize().as_tuple()
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + int(exponent)  # digits before the decimal point
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def date_text(days: int) -> str:
    """``DateTimeUtils.formatDate`` of days since 1970: ``2024-01-31``."""
    year, month, day = _civil(days)
    return f"{year % 10000:04d}-{month:02d}-{day:02d}"


def time_text(millis: int, precision: int) -> str:
    """``DateTimeUtils.formatTimestampMillis`` of milliseconds of the day; stops at the last digit that is not zero."""
    hours, rest = divmod(millis % _MILLIS_PER_DAY, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, part = divmod(rest, 1_000)
    text = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    if precision > 0:
        digits = f"{part:03d}"[:precision].rstrip("0")
        text += "." + (digits or "0")
    return text


def timestamp_text(nanos: int, precision: int) -> str:
    """``DateTimeUtils.formatTimestamp`` of nanoseconds since 1970: at least `precision` digits after the second."""
    days, of_day = divmod(nanos, 86_400 * _NANOS_PER_SECOND)
    seconds, fraction = divmod(of_day, _NANOS_PER_SECOND)
    digits = f"{fraction:09d}"
    kept = digits[:precision] + digits[precision:].rstrip("0")
    text = f"{date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{kept}" if kept else text


def local_date_time_text(nanos: int) -> str:
    """``LocalDateTime.toString`` of nanoseconds since 1970: ``2024-01-01T00:00``, seconds and fraction as needed."""
    days, of_day = divmod(nanos, 86_400 * _NANOS_PER_SECOND)
    seconds, fraction = divmod(of_day, _NANOS_PER_SECOND)
    year, month, day = _civil(days)
    year_text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    text = f"{year_text}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or fraction:
        text += f":{seconds % 60:02d}"
    if fraction:
        digits = f"{fraction:09d}"
        text += "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)
    return text


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970 in the proleptic Gregorian calendar, for any year."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def epoch_days(value: date | int) -> int:
    """Days since 1970 of a DATE value."""
    return value if isinstance(value, int) else value.toordinal() - 719_163


def day_millis(value: time | int) -> int:
    """Milliseconds of the day of a TIME value."""
    if isinstance(value, int):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def epoch_millis(value: datetime) -> int:
    """Milliseconds since 1970 of a time, which is a wall clock time here where it names no zone."""
    return int(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000


def epoch_nanos(value: Any, data_type: DataType) -> int:
    """Nanoseconds since 1970 of a timestamp value: a datetime (naive or aware), or an int in the type's Arrow unit."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.replace(tzinfo=None) - (value.utcoffset() or _EPOCH - _EPOCH)
        delta = value - _EPOCH
        return int((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * 1_000
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[ns]").astype(np.int64))
    assert isinstance(data_type, TimestampType | LocalZonedTimestampType)
    unit = "s" if data_type.precision == 0 else "ms" if data_type.precision <= 3 else "us"
    return int(value) * _NANOS_PER_UNIT["ns" if data_type.precision > 6 else unit]


DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"
"""Directory name of a null or blank value, unless `partition.default-name` says otherwise."""

_ESCAPED = {chr(code): f"%{code:02X}" for code in (*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{}[]^"))}
_ESCAPE_TABLE = str.maketrans(_ESCAPED)
# Characters that Java's StringUtils.isNullOrWhitespaceOnly takes for white space (Character.isWhitespace).
_JAVA_BLANKS = "".join(
    (
        "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680",
        *map(chr, (*range(0x2000, 0x2007), *range(0x2008, 0x200B))),
        "\u2028\u2029\u205f\u3000",
    )
)


def escape_path_name(name: str) -> str:
    r"""A name or value as it stands in a path: control characters and ``"#%'*/:=?\{}[]^`` as ``%XX``."""
    return name.translate(_ESCAPE_TABLE)


def unescape_path_name(name: str) -> str:
    """The inverse of `escape_path_name`; a `%` without two hex digits after it stays."""
    if "%" not in name:
        return name
    head, *parts = name.split("%")
    result = [head]
    for part in parts:
        code = part[:2]
        if len(code) == 2 and all(char in "0123456789abcdefABCDEF" for char in code):
            result.append(chr(int(code, 16)) + part[2:])
        else:
            result.append("%" + part)
    return "".join(result)


def partition_value_text(
    value: Any,
    data_type: t.DataType,
    *,
    legacy: bool,
    default_name: str = DEFAULT_PARTITION_NAME,
    time_zone: tzinfo | None = None,
) -> str:
    """The text of one partition value, not yet escaped.

    Args:
        value: Python value: int, float, bool, str, Decimal, date, time, datetime (or the int of the type's Arrow unit).
        data_type: The partition column's type.
        legacy: Option `partition.legacy-name`: Java's toString of the internal value; else the cast to STRING.
        default_name: Text of a null or blank value.
        time_zone: Zone of TIMESTAMP WITH LOCAL TIME ZONE when not legacy; this machine's without, as in Java.

    Raises:
        UnsupportedError: Java has no stable name for values of this type.
    """
    if value is None:
        return default_name
    text = _value_text(value, data_type, legacy=legacy, time_zone=time_zone)
    return text if text.strip(_JAVA_BLANKS) else default_name


def _value_text(value: Any, data_type: t.DataType, *, legacy: bool, time_zone: tzinfo | None) -> str:
    match data_type:
        case t.BooleanType():
            return "true" if value else "false"
        case t.FloatType():
            return float_text(value)
        case t.DoubleType():
            return double_text(value)
        case t.DecimalType():
            return f"{value:.{data_type.scale}f}"
        case t.DateType():
            return str(epoch_days(value)) if legacy else date_text(epoch_days(value))
        case t.TimeType():
            return str(day_millis(value)) if legacy else time_text(day_millis(value), data_type.precision)
        case t.TimestampType() | t.LocalZonedTimestampType():
            nanos = epoch_nanos(value, data_type)
            if legacy:
                return local_date_time_text(nanos)
            if isinstance(data_type, t.LocalZonedTimestampType):
                nanos += local_offset_seconds(nanos, time_zone) * 1_000_000_000
            return timestamp_text(nanos, data_type.precision)
        case t.BinaryType() | t.VarBinaryType():
            if legacy:
                raise UnsupportedError(
                    f"Partition columns of type {data_type} have no stable directory names. "
                    "Set 'partition.legacy-name' = 'false', or partition by a text."
                )
            return bytes(value).decode("utf-8", errors="replace")
    return str(value)


def local_offset_seconds(nanos: int, time_zone: tzinfo | None = None) -> int:
    """Offset of a time zone (this machine's without) from UTC at an instant, in seconds."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanos // 1000)
    offset = instant.astimezone(time_zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def partition_path(
    keys: Sequence[str],
    types: Sequence[t.DataType],
    values: Sequence[Any],
    *,
    legacy: bool,
    default_name: str = DEFAULT_PARTITION_NAME,
    time_zone: tzinfo | None = None,
) -> str:
    """The path of a partition below the table, `k=v/k2=v2/`; empty when there are no keys.

    Args:
        keys: Partition columns, in partition key order.
        types: Their types.
        values: Their values; see `partition_value_text`, also for the other arguments.
        legacy: Option `partition.legacy-name`.
        default_name: Option `partition.default-name`.
        time_zone: Zone for TIMESTAMP WITH LOCAL TIME ZONE.

    Raises:
        UnsupportedError: Java has no stable name for values of a type.
    """
    parts = []
    for key, data_type, value in zip(keys, types, values, strict=True):
        text = partition_value_text(value, data_type, legacy=legacy, default_name=default_name, time_zone=time_zone)
        parts.append(f"{escape_path_name(key)}={escape_path_name(text)}/")
    return "".join(parts)
