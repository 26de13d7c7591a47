"""Literals of conditions in the types of their columns.

A literal that the column's type cannot hold exactly (2.5 for an INT column, a microsecond for TIMESTAMP(3)) is rounded
down to the next value that the column can hold, or marked as beyond all of them, so that comparisons stay exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Any

import numpy as np

from paimon_spark.spec import data_types as t

_BITS = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}
_EXACT = Context(prec=400, rounding=ROUND_FLOOR)
_MAX_EXPONENT = 308


class LiteralError(ValueError):
    """A literal cannot be compared with the column; the message says why."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A literal in the column's type.

    Attributes:
        value: The greatest value of the column's type that is not above the literal; None for NULL.
        exact: Whether it equals the literal.
        beyond: -1 when the literal is below all values of the type, 1 when it is above all, else 0.
    """

    value: Any
    exact: bool = True
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class Clock:
    """A timestamp literal: wall clock nanoseconds since 1970, and the offset it was written with, if any."""

    nanos: int
    offset_seconds: int | None = None


def fit_literal(value: Any, data_type: t.DataType, time_zone: tzinfo | None) -> Fitted:
    """The literal as a value of the column's type.

    Args:
        value: None, bool, Decimal (numbers, and TIME as milliseconds of the day), float, str, bytes, date or `Clock`.
        data_type: The column's type.
        time_zone: Where the clocks of LTZ literals stand that name no zone; this machine's without.

    Raises:
        LiteralError: They do not compare.
    """
    if value is None:
        return Fitted(None)
    match data_type:
        case t.BooleanType() if isinstance(value, bool):
            return Fitted(value)
        case t.CharType() | t.VarCharType() if isinstance(value, str):
            return Fitted(value)
        case t.BinaryType() | t.VarBinaryType() | t.BlobType() if isinstance(value, bytes | str):
            return Fitted(value.encode("utf-8") if isinstance(value, str) else value)
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            if isinstance(value, float) and not math.isfinite(value):
                return _beyond(value)
            limit = 2 ** (_BITS[type(data_type)] - 1)
            return _fit_number(_number(value), 0, -limit, limit - 1, as_int=True)
        case t.DecimalType():
            if isinstance(value, float) and not math.isfinite(value):
                return _beyond(value)
            most = 10**data_type.precision - 1
            return _fit_number(_number(value), data_type.scale, -most, most, as_int=False)
        case t.FloatType() | t.DoubleType():
            return Fitted(_float(value))
        case t.DateType():
            return _fit_date(value)
        case t.TimeType():
            return _fit_time(value)
        case t.TimestampType():
            return _fit_timestamp(value, data_type.precision, None, time_zone)
        case t.LocalZonedTimestampType():
            return _fit_timestamp(value, data_type.precision, UTC, time_zone)
    raise LiteralError("values of this type do not compare with it")


def cast_to_float(value: Any, *, single: bool) -> float:
    """What Spark's cast of a text or a number to DOUBLE (or, `single`, to FLOAT) gives.

    Raises:
        LiteralError: The text is not a number.
    """
    number = _float(value)
    if not single:
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _beyond(value: float) -> Fitted:
    """Infinity or NaN, which is greater than every number, alongside a type that has neither."""
    return Fitted(None, exact=False, beyond=-1 if value < 0 else 1)


def _number(value: Any) -> Decimal:
    if isinstance(value, float):
        value = Decimal(value)
    if isinstance(value, str):
        try:
            value = Decimal(value.strip())
        except DecimalException:
            raise LiteralError("it is not a number") from None
    if isinstance(value, bool) or not isinstance(value, Decimal) or not value.is_finite():
        raise LiteralError("it is not a number")
    if value and abs(value.adjusted()) > _MAX_EXPONENT:
        raise LiteralError("the number is too large or too small")
    return value


def _float(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            raise LiteralError("it is not a number") from None
    return float(_number(value))


def _fit_number(number: Decimal, scale: int, low: int, high: int, *, as_int: bool) -> Fitted:
    scaled = number.scaleb(scale, _EXACT)
    floor = int(scaled.to_integral_value(ROUND_FLOOR, _EXACT))
    if floor < low:
        return Fitted(None, exact=False, beyond=-1)
    if floor > high:
        return Fitted(None, exact=False, beyond=1)
    value = floor if as_int else Decimal(floor).scaleb(-scale, _EXACT)
    return Fitted(value, exact=floor == scaled)


def parse_date(text: str) -> date:
    """The day of a text such as 2024-01-31.

    Raises:
        LiteralError: It is none.
    """
    parts = text.strip().split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):
        raise LiteralError("a DATE is written '2024-01-31'")
    try:
        return date(*map(int, parts))
    except ValueError as error:
        raise LiteralError(str(error)) from None


def parse_clock(text: str) -> Clock:
    """The time of a text such as `2024-01-31 12:30:00.5`, the time of day and a zone (`Z`, `+01:00`) being optional.

    Raises:
        LiteralError: It is none.
    """
    trimmed = text.strip().replace("T", " ", 1)
    day, _, rest = trimmed.partition(" ")
    rest, offset = _split_offset(rest.strip())
    days = parse_date(day).toordinal() - 719_163
    return Clock(days * 86_400 * 1_000_000_000 + (_day_nanos(rest) if rest else 0), offset)


def _split_offset(text: str) -> tuple[str, int | None]:
    if text[-1:] in ("Z", "z"):
        return text[:-1].rstrip(), 0
    for sign in "+-":
        clock, found, zone = text.rpartition(sign)
        if found:
            hours, _, minutes = zone.partition(":")
            if not (hours.isdigit() and (minutes or "0").isdigit() and int(hours) <= 18 and int(minutes or 0) < 60):
                raise LiteralError("a time zone is written 'Z' or '+01:00'")
            seconds = int(hours) * 3600 + int(minutes or 0) * 60
            return clock.rstrip(), seconds if sign == "+" else -seconds
    return text, None


def _day_nanos(text: str) -> int:
    clock, _, fraction = text.partition(".")
    parts = clock.split(":")
    digits = (*parts, "0")[:3]
    if len(parts) not in (2, 3) or not all(p.isascii() and p.isdigit() and len(p) <= 2 for p in digits):
        raise LiteralError("a time of day is written '12:30:00'")
    hour, minute, second = map(int, digits)
    if hour > 23 or minute > 59 or second > 59 or len(fraction) > 9 or (fraction and not fraction.isdigit()):
        raise LiteralError("there is no such time of day")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def parse_time(text: str) -> Decimal:
    """Milliseconds of the day of a text such as `12:30:00.5`.

    Raises:
        LiteralError: It is none.
    """
    return Decimal(_day_nanos(text.strip())) / 1_000_000


def _fit_date(value: Any) -> Fitted:
    if isinstance(value, str):
        value = parse_date(value) if len(value.strip()) <= 10 else parse_clock(value)
    if isinstance(value, Clock) and value.offset_seconds is None:
        days, rest = divmod(value.nanos, 86_400 * 1_000_000_000)
        return Fitted(date.fromordinal(days + 719_163), exact=rest == 0)
    if isinstance(value, date):
        return Fitted(value)
    raise LiteralError("a DATE column is compared with DATE '2024-01-31'")


def _fit_time(value: Any) -> Fitted:
    if isinstance(value, str):
        value = parse_time(value)
    if not isinstance(value, Decimal):
        raise LiteralError("a TIME column is compared with TIME '12:30:00'")
    fitted = _fit_number(value, 0, 0, 86_399_999, as_int=True)
    if fitted.value is None:
        return fitted
    return Fitted((datetime(1970, 1, 1) + timedelta(milliseconds=fitted.value)).time(), fitted.exact)


def _fit_timestamp(value: Any, precision: int, zone: tzinfo | None, time_zone: tzinfo | None) -> Fitted:
    if isinstance(value, str):
        value = parse_clock(value)
    elif isinstance(value, date):
        value = Clock((value.toordinal() - 719_163) * 86_400 * 1_000_000_000)
    if not isinstance(value, Clock):
        raise LiteralError("a TIMESTAMP column is compared with TIMESTAMP '2024-01-31 12:30:00'")
    nanos = value.nanos
    if zone is not None:
        nanos -= (_offset_of_clock(nanos, time_zone) if value.offset_seconds is None else value.offset_seconds) * 10**9
    elif value.offset_seconds is not None:
        raise LiteralError("a TIMESTAMP column has no time zone, so the literal must have none")
    unit = 10 ** (9 - (0 if precision == 0 else 3 if precision <= 3 else 6 if precision <= 6 else 9))
    floor = nanos // unit * unit
    if floor % 1000:
        return Fitted(np.datetime64(floor, "ns"), exact=floor == nanos)
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=floor // 1000)
    return Fitted(moment, exact=floor == nanos)


def _offset_of_clock(nanos: int, time_zone: tzinfo | None) -> int:
    clock = datetime(1970, 1, 1) + timedelta(microseconds=nanos // 1000)
    offset = (clock.astimezone() if time_zone is None else clock.replace(tzinfo=time_zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
