"""Least and greatest values in statistics files, as texts (Java: ``Serializer.serializeToString``)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from paimon_spark.spec import data_types as t
from paimon_spark.spec.java_text import double_text, epoch_days, epoch_nanos, float_text, timestamp_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ORDER = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)


def has_least_and_greatest(data_type: t.DataType) -> bool:
    """Whether least and greatest values of a column are kept: not of texts and bytes."""
    return not isinstance(data_type, _NO_ORDER)


def is_analyzable(data_type: t.DataType) -> bool:
    """Whether statistics of a column of this type are collected: of atomic types, but for VARIANT, BLOB and such."""
    return isinstance(data_type, (*_NO_ORDER, *_FIXED))


def value_text(value: Any, data_type: t.DataType) -> str:
    """Return the text of a value: plain numbers, ``true``, days since 1970, ``yyyy-MM-dd HH:mm:ss.SSS``.

    Args:
        value: Python's int, float, bool, Decimal, date, datetime (or microseconds since 1970).
        data_type: of the column.
    """
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
            return str(epoch_days(value))
        case t.TimestampType() | t.LocalZonedTimestampType():
            nanos = value * 1000 if isinstance(value, int) else epoch_nanos(value, data_type)
            return timestamp_text(nanos, data_type.precision)
    return str(int(value))


def value_of_text(text: str, data_type: t.DataType) -> int | float | bool | Decimal:
    """Return the value of a text as Spark keeps it inside: dates as days, timestamps as microseconds since 1970.

    Raises:
        ValueError: it is no value of the type.
    """
    match data_type:
        case t.BooleanType():
            return text == "true"
        case t.FloatType() | t.DoubleType():
            return float(text)
        case t.DecimalType():
            return Decimal(text)
        case t.DateType():
            return (date.fromisoformat(text) - date(1970, 1, 1)).days if "-" in text[1:] else int(text)
        case t.TimestampType() | t.LocalZonedTimestampType():
            head, _, fraction = text.partition(".")
            seconds = datetime.fromisoformat(head).replace(tzinfo=UTC) - _EPOCH
            return seconds // timedelta(microseconds=1) + int((fraction + "000000")[:6])
    return int(text)


_FIXED = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimeType,
    t.TimestampType,
    t.LocalZonedTimestampType,
)
