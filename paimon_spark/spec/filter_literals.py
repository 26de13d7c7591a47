"""Texts of filters: literals fitted to their columns, keys of maps, long lists; and a predicate tree as SQL text.

A literal that the column's type cannot hold exactly (2.5 for an INT column, a microsecond for TIMESTAMP(3)) is rounded
down to the next value that the column can hold, or marked as beyond all of them, so that comparisons stay exact.
``attributes['color']`` in a condition is the value of a map's key. Long IN lists of plain numbers and texts are taken
out before a text is parsed, since a parser makes several objects of each literal; a text with comments, backslashes or
double quotes is parsed as it is, since something else could look like a list. `parse_filter` reads the text of a tree
back as the same tree.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Any, Final

import numpy as np

from paimon_spark.spec.data_types import (
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate
from paimon_spark.spec.predicate_tree import Always

_BITS = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}
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


def fit_literal(value: Any, data_type: DataType, time_zone: tzinfo | None) -> Fitted:
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
        case BooleanType() if isinstance(value, bool):
            return Fitted(value)
        case CharType() | VarCharType() if isinstance(value, str):
            return Fitted(value)
        case BinaryType() | VarBinaryType() | BlobType() if isinstance(value, bytes | str):
            return Fitted(value.encode("utf-8") if isinstance(value, str) else value)
        case TinyIntType() | SmallIntType() | IntType() | BigIntType():
            if isinstance(value, float) and not math.isfinite(value):
                return _beyond(value)
            limit = 2 ** (_BITS[type(data_type)] - 1)
            return _fit_number(_number(value), 0, -limit, limit - 1, as_int=True)
        case DecimalType():
            if isinstance(value, float) and not math.isfinite(value):
                return _beyond(value)
            most = 10**data_type.precision - 1
            return _fit_number(_number(value), data_type.scale, -most, most, as_int=False)
        case FloatType() | DoubleType():
            return Fitted(_float(value))
        case DateType():
            return _fit_date(value)
        case TimeType():
            return _fit_time(value)
        case TimestampType():
            return _fit_timestamp(value, data_type.precision, None, time_zone)
        case LocalZonedTimestampType():
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


class KeyOfMap(str):
    """Stands for the value of a map's key where the name of a column is expected."""

    __slots__ = ("column", "key")

    column: str
    key: str

    def __new__(cls, column: str, key: str) -> KeyOfMap:
        """Name the column and the key."""
        made = super().__new__(cls, f"{column}[{key}]")
        made.column, made.key = column, key
        return made


def with_keys(predicate: Predicate) -> Predicate:
    """The predicate with the keys of maps as such."""
    match predicate:
        case Leaf() if isinstance(predicate.field, KeyOfMap):
            return Leaf(predicate.op, predicate.field.column, predicate.literals, predicate.field.key)
        case And() | Or():
            return replace(predicate, children=tuple(map(with_keys, predicate.children)))
        case Not():
            return Not(with_keys(predicate.child))
    return predicate


PLACEHOLDER: Final = "_long_list_"
"""Lists stand in the shortened text as ``:_long_list_0``, ``:_long_list_1``, …"""

_SHORTEST_TEXT: Final = 2000
_FEWEST_VALUES: Final = 64
_LITERAL: Final = r"(?:-?[0-9]{1,60}(?:\.[0-9]{1,60})?|'[^']*')"
_PIECES: Final = re.compile(
    rf"'[^']*'|`[^`]*`|\bIN\s*\((?P<list>\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)*+)\)", re.ASCII | re.IGNORECASE
)
_LITERALS: Final = re.compile(_LITERAL)
_INTEGERS: Final = (TinyIntType, SmallIntType, IntType, BigIntType)
_ELSEWHERE: Final = ("--", "/*", "\\", '"', f":{PLACEHOLDER}")
_RAW_TEXT: Final = re.compile(r"\b[rRxXbB]'")


def without_long_lists(sql: str) -> tuple[str, list[list[str]]]:
    """The text with a placeholder for each long list, and the literals of the lists as they were written."""
    if len(sql) < _SHORTEST_TEXT or any(sign in sql for sign in _ELSEWHERE) or _RAW_TEXT.search(sql):
        return sql, []
    lists: list[list[str]] = []

    def shortened(found: re.Match[str]) -> str:
        values = [] if found["list"] is None else _LITERALS.findall(found["list"])
        if len(values) < _FEWEST_VALUES:
            return found[0]
        lists.append(values)
        return f"IN (:{PLACEHOLDER}{len(lists) - 1})"

    return _PIECES.sub(shortened, sql), lists


def fit_all(texts: list[str], data_type: DataType, time_zone: tzinfo | None) -> list[Any]:
    """The values of a column's type that equal one of the literals, in their order.

    Raises:
        LiteralError: they do not compare.
    """
    quoted = sum(text.startswith("'") for text in texts)
    if isinstance(data_type, VarCharType) and quoted == len(texts):
        return [text[1:-1] for text in texts]
    if isinstance(data_type, _INTEGERS) and not quoted and not any("." in text for text in texts):
        numbers = list(map(int, texts))
        if all(fit_literal(Decimal(end), data_type, time_zone).exact for end in (min(numbers), max(numbers))):
            return numbers
    values = (text[1:-1] if text.startswith("'") else Decimal(text) for text in texts)
    fitted = (fit_literal(value, data_type, time_zone) for value in values)
    return [each.value for each in fitted if each.exact]


_INFIX = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>"}
_LIKE_PARTS = {"starts_with": ("", "%"), "ends_with": ("%", ""), "contains": ("%", "%")}


def filter_text(predicate: Predicate) -> str:
    """The condition as SQL.

    Raises:
        ValueError: an IN without values, for which SQL has no words.
    """
    match predicate:
        case Always():
            return "TRUE" if predicate.value else "FALSE"
        case Not():
            return f"NOT ({filter_text(predicate.child)})"
        case And() | Or():
            if not predicate.children:
                return "TRUE" if isinstance(predicate, And) else "FALSE"
            word = " AND " if isinstance(predicate, And) else " OR "
            return word.join(f"({filter_text(child)})" for child in predicate.children)
        case Leaf():
            return _leaf_text(predicate)
    raise ValueError(f"{type(predicate).__name__} is no predicate")


def _leaf_text(leaf: Leaf) -> str:
    column = quoted_name(leaf.field) + ("" if leaf.key is None else f"[{literal_text(leaf.key)}]")
    if leaf.op in _INFIX:
        return f"{column} {_INFIX[leaf.op]} {literal_text(leaf.literals[0])}"
    if leaf.op in ("is_null", "is_not_null"):
        return f"{column} IS {'NOT ' if leaf.op == 'is_not_null' else ''}NULL"
    if leaf.op in ("in", "not_in"):
        if not leaf.literals:
            raise ValueError(f"column {leaf.field} is compared with an empty list")
        values = ", ".join(literal_text(value) for value in leaf.literals)
        return f"{column} {'NOT ' if leaf.op == 'not_in' else ''}IN ({values})"
    if leaf.op == "between":
        return f"{column} BETWEEN {literal_text(leaf.literals[0])} AND {literal_text(leaf.literals[1])}"
    pattern = leaf.literals[0]
    if pattern is not None and leaf.op in _LIKE_PARTS:
        before, after = _LIKE_PARTS[leaf.op]
        pattern = before + "".join(f"\\{char}" if char in "%_\\" else char for char in pattern) + after
    return f"{column} LIKE {literal_text(pattern)}"


def quoted_name(name: str) -> str:
    """A column name in back quotes."""
    return f"`{name.replace('`', '``')}`"


_UNSAFE = {"'": "', char(39), '", "\\": "', char(92), '"}


def spark_literal(value: Any) -> str:
    """A Python value as SQL that means it in every session of Spark.

    What a backslash means in a literal is for ``spark.sql.parser.escapedStringLiterals`` to say; so quotes and
    backslashes are characters by their number.
    """
    if not isinstance(value, str) or ("\\" not in value and "'" not in value):
        return literal_text(value)
    return "concat('" + "".join(_UNSAFE.get(character, character) for character in value) + "')"


def literal_text(value: Any) -> str:
    """A Python value of a predicate or of a column's default as a literal of Spark's SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case float() if not math.isfinite(value):
            return f"'{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}'"
        case int() | float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case np.datetime64():
            return f"TIMESTAMP_NTZ '{str(value).replace('T', ' ')}'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case datetime():
            return f"TIMESTAMP_LTZ '{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
    raise ValueError(f"a {type(value).__name__} has no literal")
