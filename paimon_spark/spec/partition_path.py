"""Directory names of partitions: `k=v/k2=v2` (Java ``PartitionPathUtils``, ``InternalRowPartitionComputer``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.java_text import (
    date_text,
    day_millis,
    double_text,
    epoch_days,
    epoch_nanos,
    float_text,
    local_date_time_text,
    time_text,
    timestamp_text,
)

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
