"""Texts as arrays, maps and rows: how schemas keep the defaults of such columns.

Equals Java's ``StringToArrayCastRule``, ``StringToMapCastRule`` and ``StringToRowCastRule``, with their oddities:
quotes stay part of the elements of arrays and rows, but not of maps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from paimon_spark.errors import DataError
from paimon_spark.spec.data_types import ArrayType, DataType, MapType, RowType

_OPEN, _CLOSE = "([{", ")]}"
_MOST_NESTING = 100


def nested_value(text: str, target: DataType, atomic: Callable[[str, DataType], Any], depth: int = 0) -> Any:
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

    def value(part: str, inner: DataType) -> Any:
        if part == "null":
            return None
        if isinstance(inner, ArrayType | MapType | RowType):
            return nested_value(part, inner, atomic, depth + 1)
        return atomic(part, inner)

    match target:
        case ArrayType():
            parts = _parts(_content(text, "array", "[]", "[a, b, c] or ARRAY(a, b, c)"))
            return [value(part.strip(), target.element) for part in parts]
        case RowType():
            parts = _parts(_content(text, "struct", "{}", "{f1, f2} or STRUCT(f1, f2)"))
            if parts and len(parts) != len(target.fields):
                raise DataError(
                    f"Cannot parse '{text[:100]}' as ROW: Row field count mismatch. Expected: {len(target.fields)}, "
                    f"Actual: {len(parts)}"
                )
            found = parts or ["null"] * len(target.fields)
            pairs = zip(target.fields, found, strict=True)
            return {field.name: value(part.strip(), field.type) for field, part in pairs}
        case MapType():
            return _map(text, target, value)
    raise DataError(f"{target} is not nested.")


def _map(text: str, target: MapType, value: Callable[[str, DataType], Any]) -> list[tuple[Any, Any]] | None:
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
