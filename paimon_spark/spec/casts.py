"""Casts of columns for schema evolution and defaults, value for value as Java does them (``paimon.casting.*``).

Those to and from text are Java's ``BinaryStringUtils`` and ``DateTimeUtils``. Texts become arrays, maps and rows as in
``StringToArrayCastRule``, ``StringToMapCastRule`` and ``StringToRowCastRule``, by which schemas keep the defaults of
such columns, with their oddities: quotes stay part of the elements of arrays and rows, but not of maps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, SchemaError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_field, to_arrow_type
from paimon_spark.spec.cast_values import (
    cast_number,
    cast_time,
    from_numpy,
    map_distinct,
    round_decimal,
    to_instant,
    to_ints,
    to_wall_clock,
)
from paimon_spark.spec.java_text import date_text, double_text, float_text, time_text, timestamp_text
from paimon_spark.spec.schema_merge import (
    BINARIES,
    INTEGERS,
    NESTED,
    NUMBERS,
    STRING,
    TEXTS,
    TIMESTAMPS,
    can_cast,
    has_rule,
    same_type,
)

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_INTEGER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]*)$"
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)")
_NUMERIC = re.compile(r"-?[0-9]+")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?"
)


def to_text(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    """An array of atomic values as CHAR, VARCHAR or STRING: cut to the length, CHAR padded with blanks.

    Java: binaries become text without regard to the length of the type.
    """
    text = _text(array, source)
    return text if isinstance(source, BINARIES) else fit_text(text, target)


def _text(array: pa.Array, source: t.DataType) -> pa.Array:
    string = pa.string()
    match source:
        case t.CharType() | t.VarCharType():
            return array
        case t.FloatType():
            return map_distinct(array, lambda v: None if v is None else float_text(v), string)
        case t.DoubleType():
            return map_distinct(array, lambda v: None if v is None else double_text(v), string)
        case t.DecimalType():
            return map_distinct(array, lambda v: None if v is None else f"{v:f}", string)
        case t.DateType():
            return map_distinct(array.view(pa.int32()), lambda v: None if v is None else date_text(v), string)
        case t.TimeType():
            precision = source.precision
            return map_distinct(
                array.view(pa.int32()), lambda v: None if v is None else time_text(v, precision), string
            )
        case t.TimestampType() | t.LocalZonedTimestampType():
            digits = source.precision
            if isinstance(source, t.LocalZonedTimestampType):
                array = to_wall_clock(array)
            factor = _NANOS[array.type.unit]
            return map_distinct(
                array.view(pa.int64()), lambda v: None if v is None else timestamp_text(v * factor, digits), string
            )
        case t.BinaryType() | t.VarBinaryType():
            return map_distinct(array, lambda v: None if v is None else v.decode("utf-8", "replace"), string)
    return pc.cast(array, string)


def fit_text(array: pa.Array, target: t.DataType) -> pa.Array:
    """Text cut to the length of the type, and for CHAR padded."""
    assert isinstance(target, t.CharType | t.VarCharType)
    if target.length == t.VarCharType.MAX:
        return array
    array = pc.utf8_slice_codeunits(array, 0, target.length)
    return pc.utf8_rpad(array, target.length) if isinstance(target, t.CharType) else array


def fit_binary(array: pa.Array, target: t.DataType) -> pa.Array:
    """Binaries cut to the length of the type, and for BINARY filled up with zeros."""
    assert isinstance(target, t.BinaryType | t.VarBinaryType)
    if target.length == t.VarBinaryType.MAX:
        return array
    array = pc.binary_slice(array, 0, target.length)
    if not isinstance(target, t.BinaryType):
        return array
    length = target.length
    return map_distinct(array, lambda v: None if v is None else v.ljust(length, b"\0"), pa.binary())


def from_text(array: pa.Array, target: t.DataType) -> pa.Array:
    """An array of texts as atomic values.

    Raises:
        DataError: A text is not a value of the type.
    """
    arrow_type = to_arrow_type(target)
    match target:
        case t.BooleanType():
            return map_distinct(array, _to_bool, arrow_type)
        case t.DecimalType():
            return map_distinct(array, lambda text: _to_decimal(text, target), arrow_type)
        case t.FloatType() | t.DoubleType():
            return map_distinct(array, lambda text: _to_float(text, target), arrow_type)
        case t.DateType():
            return map_distinct(array, _to_date, pa.int32()).view(arrow_type)
        case t.TimeType():
            return map_distinct(array, _to_time, pa.int32()).view(arrow_type)
    if isinstance(target, INTEGERS):
        return _to_integer(array, target)
    if isinstance(target, BINARIES):
        return fit_binary(pc.cast(array, pa.binary()), target)
    if isinstance(target, TIMESTAMPS):
        return _to_timestamp(array, target)
    raise DataError(f"Text cannot be cast to {target}.")


def _to_integer(array: pa.Array, target: t.DataType) -> pa.Array:
    valid = pc.fill_null(pc.match_substring_regex(array, _INTEGER), True)
    if not pc.all(valid).as_py():
        bad = array.filter(pc.invert(valid))[0].as_py()
        raise DataError(f"For input string: '{bad[:100]}'. It is no {target.with_nullable(True)}.")
    whole = pc.replace_substring_regex(array, r"^\+|\..*$", "")
    whole = pc.replace_substring_regex(whole, r"^-?$", "0")
    try:
        return pc.cast(whole, to_arrow_type(target))
    except pa.ArrowInvalid as error:
        raise DataError(f"For input string: overflow of {target.with_nullable(True)}. {error}") from None


def _refuse(text: str, target: str) -> ValueError:
    return ValueError(f"For input string: '{text[:100]}'. It is no {target}.")


def _to_bool(text: str | None) -> bool | None:
    if text is None:
        return None
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"Cannot parse '{text[:100]}' as BOOLEAN.")


def _to_decimal(text: str | None, target: t.DecimalType) -> Decimal | None:
    if text is None:
        return None
    if not _DECIMAL.fullmatch(text) or len(text) > 1_000:
        raise _refuse(text, str(target))
    return round_decimal(Decimal(text), target)


def _to_float(text: str | None, target: t.DataType) -> float | None:
    if text is None:
        return None
    trimmed = text.strip("".join(map(chr, range(0x21))))
    if not _FLOAT.fullmatch(trimmed):
        raise _refuse(text, str(target))
    value = float(trimmed.rstrip("dDfF") if trimmed[-1] in "dDfF" else trimmed)
    return float(np.float32(value)) if isinstance(target, t.FloatType) else value


def _to_date(text: str | None) -> int | None:
    if text is None:
        return None
    if _NUMERIC.fullmatch(text):
        return int(text)
    head = text.partition(" ")[0] if text.find(" ") > 0 else text
    parts = [part.strip() for part in head.split("-", 2)]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise _refuse(text, "DATE")
    year, month, day = (*map(int, parts), 1, 1)[:3]
    try:
        return _days(year, month, day)
    except ValueError:
        raise _refuse(text, "DATE") from None


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970; year 0 is a leap year of 366 days before year 1."""
    if year == 0:
        return date(400, month, day).toordinal() - date(400, 1, 1).toordinal() - 719_162 - 366
    return date(year, month, day).toordinal() - 719_163


def _to_time(text: str | None) -> int | None:
    if text is None:
        return None
    if _NUMERIC.fullmatch(text):
        return int(text)
    clock, sign, zone = text, 1, ""
    for mark, direction in (("-", -1), ("+", 1)):
        if mark in text:
            clock, _, zone = text.partition(mark)
            sign = direction
            break
    whole, _, fraction = clock.partition(".") if clock.count(":") == 2 else (clock, "", "")
    hour, minute, second = (*_clock_parts(whole, text), 0, 0)[:3]
    zone_hour, zone_minute = (*_clock_parts(zone, text), 0)[:2] if zone else (0, 0)
    millis = round_half_up_millis(fraction.strip())
    return ((hour + sign * zone_hour) * 60 + minute + sign * zone_minute) * 60_000 + second * 1_000 + millis


def _clock_parts(text: str, shown: str) -> list[int]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        raise _refuse(shown, "TIME")
    return [int(part) for part in parts]


def round_half_up_millis(fraction: str) -> int:
    """Milliseconds of the digits after a second; the fourth digit rounds."""
    digits = "".join(char if char in "0123456789" else "0" for char in fraction)
    return int(digits[:3].ljust(3, "0")) + (digits[3:4] >= "5")


def _to_timestamp(array: pa.Array, target: t.DataType) -> pa.Array:
    assert isinstance(target, t.TimestampType | t.LocalZonedTimestampType)
    unit = to_arrow_type(target).unit
    zoned = isinstance(target, t.LocalZonedTimestampType)
    precision, nanos_per_unit = target.precision, _NANOS[unit]

    def parse(text: str | None) -> int | None:
        if text is None:
            return None
        if not zoned and _NUMERIC.fullmatch(text):
            if precision not in (0, 3, 6, 9):
                raise ValueError(f"Unsupported precision: {precision}")
            return int(text)  # a count of the type's own unit
        return _timestamp_nanos(text, precision) // nanos_per_unit

    wall_clock = map_distinct(array, parse, pa.int64()).view(pa.timestamp(unit))
    return to_instant(wall_clock) if zoned else from_numpy(to_ints(wall_clock), wall_clock, pa.timestamp(unit))


def _timestamp_nanos(text: str, precision: int) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"Text '{text[:100]}' could not be parsed as TIMESTAMP: write it as yyyy-MM-dd HH:mm:ss.SSS.")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"Text '{text[:100]}' could not be parsed as TIMESTAMP: no such time of day.")
    try:
        days = _days(year, month, day)
    except ValueError:
        raise ValueError(f"Text '{text[:100]}' could not be parsed as TIMESTAMP: no such day.") from None
    fraction: Any = (match.group(7) or "")[:precision].ljust(9, "0")
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction)


_OPEN, _CLOSE = "([{", ")]}"
_MOST_NESTING = 100


def nested_value(text: str, target: t.DataType, atomic: Callable[[str, t.DataType], Any], depth: int = 0) -> Any:
    """The Python value (as pyarrow takes it) that a text means for an ARRAY, MAP or ROW column; None for NULL.

    Args:
        text: ``array(1, 2)`` or ``[1, 2]``; ``map(k, v)`` or ``{k -> v}``; ``struct(a, b)`` or ``{a, b}``.
        target: the type of the column.
        atomic: gives the value of a text for a type that is not nested.
        depth: how deep in a value this is.

    Raises:
        DataError: the text is no value of the type.
    """
    if depth > _MOST_NESTING:
        raise DataError("A default is nested too deep.")

    def value(part: str, inner: t.DataType) -> Any:
        if part == "null":
            return None
        if isinstance(inner, t.ArrayType | t.MapType | t.RowType):
            return nested_value(part, inner, atomic, depth + 1)
        return atomic(part, inner)

    match target:
        case t.ArrayType():
            parts = _parts(_content(text, "array", "[]", "[a, b, c] or ARRAY(a, b, c)"))
            return [value(part.strip(), target.element) for part in parts]
        case t.RowType():
            parts = _parts(_content(text, "struct", "{}", "{f1, f2} or STRUCT(f1, f2)"))
            if parts and len(parts) != len(target.fields):
                raise DataError(
                    f"Cannot parse '{text[:100]}' as ROW: Row field count mismatch. Expected: {len(target.fields)}, "
                    f"Actual: {len(parts)}"
                )
            found = parts or ["null"] * len(target.fields)
            pairs = zip(target.fields, found, strict=True)
            return {field.name: value(part.strip(), field.type) for field, part in pairs}
        case t.MapType():
            return _map(text, target, value)
    raise DataError(f"{target} is not nested.")


def _map(text: str, target: t.MapType, value: Callable[[str, t.DataType], Any]) -> list[tuple[Any, Any]] | None:
    if text.strip().upper() == "NULL":
        return None
    content = _content(text, "map", "{}", "{k -> v} or MAP(k, v)")
    parts = [part.strip() for part in _parts(content, unquoted=True)]
    if text.strip().startswith("{"):
        pairs = [re.fullmatch(r"(.+?)\s*->\s*(.+)", part, re.DOTALL) for part in parts]
        if None in pairs:
            raise DataError(f"Cannot parse '{text[:100]}' as MAP: write its entries as k -> v.")
        entries = [(pair[1].strip(), pair[2].strip()) for pair in pairs if pair is not None]
    elif len(parts) % 2:
        raise DataError(f"Cannot parse '{text[:100]}' as MAP: odd number of elements")
    else:
        entries = list(zip(parts[::2], parts[1::2], strict=True))
    found = [(value(key, target.key), value(item, target.value)) for key, item in entries]
    if any(key is None for key, _ in found):
        raise DataError(f"Cannot parse '{text[:100]}' as MAP: a key is null.")
    return list({repr(pair[0]): pair for pair in found}.values())


def _content(text: str, function: str, brackets: str, forms: str) -> str:
    stripped = text.strip()
    if stripped[:1] == brackets[0] and stripped[-1:] == brackets[1] and len(stripped) > 1:
        return stripped[1:-1].strip()
    match = re.fullmatch(rf"{function}\s*\((.*)\)", stripped, re.IGNORECASE | re.DOTALL)
    if match is None:
        raise DataError(f"Cannot parse '{text[:100]}' as {function.upper()}: expected {forms}")
    return match[1].strip()


def _parts(content: str, *, unquoted: bool = False) -> list[str]:
    """Cut at commas outside of quotes and brackets; with `unquoted`, double quotes and backslashes are removed."""
    parts: list[str] = []
    current: list[str] = []
    depth, quoted, escaped = 0, False, False
    for character in content:
        keep = True
        if escaped:
            escaped, keep = False, not unquoted
        elif character == "\\":
            escaped, keep = True, not unquoted
        elif character == '"':
            quoted, keep = not quoted, not unquoted
        elif not quoted:
            if character in _OPEN:
                depth += 1
            elif character in _CLOSE and depth:
                depth -= 1
            elif character == "," and not depth:
                parts.append("".join(current))
                current, keep = [], False
        if keep:
            current.append(character)
    parts.append("".join(current))
    return [part for part in parts if part]


__all__ = ["can_cast", "cast_array", "cast_default"]


def cast_array(array: pa.Array | pa.ChunkedArray, source: t.DataType, target: t.DataType) -> pa.Array | pa.ChunkedArray:
    """A column of one Paimon type as another.

    Integers wrap around, floats saturate, decimals that overflow become null, texts that do not parse are an error,
    fields of ROWs are matched by id (new ones null).

    Args:
        array: The column, its Arrow type that of `source`.
        source: Its Paimon type.
        target: The Paimon type wanted.

    Raises:
        SchemaError: There is no such cast.
        DataError: A value cannot be cast.
    """
    if isinstance(array, pa.ChunkedArray):
        chunks = [cast_array(chunk, source, target) for chunk in array.chunks]
        return pa.chunked_array(chunks, to_arrow_type(target))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = to_arrow_type(target)
    if same_type(source, target):
        return array if array.type == wanted else array.cast(wanted)
    result = _cast(array, source, target)
    return result if result.type == wanted else result.cast(wanted)


def cast_default(text: str, target: t.DataType) -> pa.Scalar:
    """The value of a column's default, which schemas keep as text; quotes around the text are left away.

    Raises:
        SchemaError: Columns of this type cannot have a default.
        DataError: The text is no value of the type.
    """
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    if not isinstance(target, NESTED):
        return cast_array(pa.array([text], pa.string()), STRING, target)[0]
    try:
        return pa.scalar(nested_value(text, target, _atomic_value), to_arrow_type(target))
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"Cannot parse '{text[:100]}' as {target}: {error}") from None


def _atomic_value(text: str, target: t.DataType) -> object:
    array = pa.array([text], pa.string())
    return (fit_text(array, target) if isinstance(target, TEXTS) else cast_array(array, STRING, target))[0].as_py()


def _cast(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    match source, target:
        case t.RowType(), t.RowType():
            return _row_to_row(array, source, target)
        case t.ArrayType(), t.ArrayType():
            values, offsets = _elements(array, array.values)
            return pa.ListArray.from_arrays(
                offsets, cast_array(values, source.element, target.element), type=to_arrow_type(target)
            )
        case t.MapType(), t.MapType() if same_type(source.key, target.key):
            keys, offsets = _elements(array, array.keys)
            items, _ = _elements(array, array.items)
            return pa.MapArray.from_arrays(
                offsets, keys, cast_array(items, source.value, target.value), type=to_arrow_type(target)
            )
    if not has_rule(source, target):
        raise SchemaError(f"Cannot cast from type {source} to type {target}.")
    if isinstance(target, TEXTS):
        if isinstance(source, NESTED):
            return _nested_text(array, source)  # Java: not cut to the length of the type
        return to_text(array, source, target)
    if isinstance(source, TEXTS):
        return from_text(array, target)
    if isinstance(target, BINARIES):
        return fit_binary(array, target)
    if isinstance(source, (t.DateType, t.TimeType, *TIMESTAMPS)) or isinstance(target, TIMESTAMPS):
        return cast_time(array, source, target)
    assert isinstance(target, (*NUMBERS, t.BooleanType))
    return cast_number(array, source, target)


def _row_to_row(array: pa.Array, source: t.RowType, target: t.RowType) -> pa.Array:
    positions = {f.id: at for at, f in enumerate(source.fields)}
    children = []
    for wanted in target.fields:
        at = positions.get(wanted.id)
        if at is None:
            children.append(pa.nulls(len(array), to_arrow_type(wanted.type)))
        else:
            children.append(cast_array(array.field(at), source.fields[at].type, wanted.type))
    fields = [to_arrow_field(f) for f in target.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array))


def _elements(array: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The elements that a list or map array refers to, and its offsets into them, null for a null list."""
    starts = np.asarray(array.offsets)
    first, last = (int(starts[0]), int(starts[-1])) if len(starts) else (0, 0)
    nulls = np.append(np.asarray(pc.is_null(array)), False)
    offsets = pa.array(starts - first, pa.int32(), mask=nulls if array.null_count else None)
    return values.slice(first, last - first), offsets


def _nested_text(array: pa.Array, source: t.DataType) -> pa.Array:
    """Java's text of nested values: ``[a, b]``, ``{k -> v, k2 -> v2}``, ``{a, b}``; null inside is ``null``."""
    match source:
        case t.ArrayType():
            values, offsets = _elements(array, array.values)
            inner = pa.ListArray.from_arrays(offsets, _inner_text(values, source.element))
            return _enclosed("[", pc.binary_join(inner, ", "), "]")
        case t.MapType():
            keys, offsets = _elements(array, array.keys)
            items, _ = _elements(array, array.items)
            arrow = pa.scalar(" -> ")
            pairs = pc.binary_join_element_wise(
                _inner_text(keys, source.key), arrow, _inner_text(items, source.value), ""
            )
            return _enclosed("{", pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), ", "), "}")
    assert isinstance(source, t.RowType)
    texts = [_inner_text(array.field(at), f.type) for at, f in enumerate(source.fields)]
    joined = pc.binary_join_element_wise(*texts, ", ") if texts else pa.repeat(pa.scalar(""), len(array))
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.string()), _enclosed("{", joined, "}"))


def _inner_text(array: pa.Array, source: t.DataType) -> pa.Array:
    text = _nested_text(array, source) if isinstance(source, NESTED) else cast_array(array, source, STRING)
    return pc.fill_null(text, "null")


def _enclosed(before: str, text: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before), text, pa.scalar(after), "")
