"""Thrift's compact protocol, as far as Parquet footers use it: structs as dicts, both ways, byte for byte.

A struct is a dict of field id -> (compact type, value); lists carry their element type. Reading checks every length
against the bytes there are, so hostile bytes raise ValueError and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

BOOLEAN_TRUE, BOOLEAN_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_INTEGERS: Final = frozenset({I16, I32, I64})
_WIDTH: Final = {BYTE: 1, DOUBLE: 8}
_MAX_DEPTH: Final = 64

Struct = dict[int, tuple[int, Any]]


class TypedList(NamedTuple):
    """A list and the compact type of its elements."""

    kind: int
    items: list[Any]


def decode(data: bytes) -> Struct:
    """The struct that the bytes begin with.

    Raises:
        ValueError: the bytes are no such struct.
    """
    return _Source(data).struct(0)


def encode(fields: Struct) -> bytes:
    """The bytes of a struct; `encode(decode(data)) == data` for what Thrift itself writes."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def with_changed_items(data: bytes, field: int, most: int | None, change: Callable[[list[Struct]], None]) -> bytes:
    """The bytes of a struct in one of whose lists some structs are changed; all else stays as it is, not decoded.

    Args:
        data: the bytes of the struct.
        field: id of the list of structs.
        most: only the first so many structs are decoded; None for all.
        change: is given these structs and changes them, not their number.

    Raises:
        ValueError: the bytes are no such struct.
    """
    source = _Source(data)
    field_id = 0
    while True:
        byte = source.byte()
        delta, kind = byte >> 4, byte & 15
        if kind == 0:
            raise ValueError("a Thrift struct lacks a list")
        field_id = field_id + delta if delta else source.zigzag()
        if field_id == field and kind == LIST:
            break
        if kind not in (BOOLEAN_TRUE, BOOLEAN_FALSE):
            source.value(kind, 1)
    size = source.byte() >> 4
    if size == 15:
        size = source.varint()
    start = source.at
    items = [source.struct(1) for _ in range(size if most is None else min(size, most))]
    change(items)
    out = bytearray()
    for item in items:
        _put_struct(out, item)
    return data[:start] + bytes(out) + data[source.at :]


class _Source:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("a Thrift value is longer than its file")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        try:
            value = self.data[self.at]
        except IndexError:
            raise ValueError("a Thrift value is longer than its file") from None
        self.at += 1
        return value

    def varint(self) -> int:
        value = self.byte()
        if value < 128:
            return value
        value &= 127
        shift = 7
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a Thrift number does not end")

    def zigzag(self) -> int:
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)

    def struct(self, depth: int) -> Struct:
        fields: Struct = {}
        field_id = 0
        while True:
            byte = self.byte()
            delta, kind = byte >> 4, byte & 15
            if kind == 0:
                return fields
            field_id = field_id + delta if delta else self.zigzag()
            value = kind == BOOLEAN_TRUE if kind in (BOOLEAN_TRUE, BOOLEAN_FALSE) else self.value(kind, depth + 1)
            fields[field_id] = (kind, value)

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("Thrift structs are nested too deeply")
        if kind in _INTEGERS:
            return self.zigzag()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth)
        if kind == LIST:
            byte = self.byte()
            size, element = byte >> 4, byte & 15
            if size == 15:
                size = self.varint()
            if size > len(self.data) - self.at:
                raise ValueError("a Thrift list is longer than its file")
            return TypedList(element, [self.value(element, depth + 1) for _ in range(size)])
        if kind in (BOOLEAN_TRUE, BOOLEAN_FALSE):  # in lists
            return self.take(1)
        if kind in _WIDTH:
            return self.take(_WIDTH[kind])
        raise ValueError(f"unexpected Thrift type {kind}")


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field_id in sorted(fields):
        kind, value = fields[field_id]
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _put_zigzag(out, field_id)
        last = field_id
        if kind not in (BOOLEAN_TRUE, BOOLEAN_FALSE):
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _put_zigzag(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind == LIST:
        size = len(value.items)
        out.append(min(size, 15) << 4 | value.kind)
        if size >= 15:
            _put_varint(out, size)
        for item in value.items:
            _put_value(out, value.kind, item)
    else:
        out += value


def _put_zigzag(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
