"""Parquet footers: structs of Thrift, and column types where pyarrow alone cannot write or read them as Java does.

Thrift's compact protocol is here as far as footers use it: structs as dicts, both ways, byte for byte. A struct is a
dict of field id -> (compact type, value); lists carry their element type. Reading checks every length against the bytes
there are, so hostile bytes raise ValueError and nothing else.

Column types are changed in a footer (Parquet's ``FileMetaData``). Writing: pyarrow writes all timestamps as INT96 or
none, while Java writes those of precision 7 to 9 so and the others as annotated int64; and it names the root `schema`.
Reading: pyarrow wraps INT96 values that overflow 64-bit nanoseconds, so they are read as 12 bytes each and converted
here in the package.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

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


_MAGIC: Final = b"PAR1"
_SCHEMA, _ROW_GROUPS = 2, 4
"""Fields of FileMetaData."""
_TYPE, _TYPE_LENGTH, _NAME, _NUM_CHILDREN, _CONVERTED_TYPE, _LOGICAL_TYPE = 1, 2, 4, 5, 6, 10
"""Fields of SchemaElement."""
_COLUMNS, _META_DATA, _COLUMN_TYPE, _STATISTICS = 1, 3, 1, 12
"""Fields of RowGroup, ColumnChunk and ColumnMetaData."""
_INT96, _FIXED_LEN_BYTE_ARRAY = 3, 7
_TIMESTAMP: Final = 8
_CONVERTED: Final[Mapping[str, int]] = {"ms": 9, "us": 10}
_UNIT: Final[Mapping[str, int]] = {"ms": 1, "us": 2}

Timestamps = Mapping[tuple[str, ...], tuple[str, bool]]
"""Paths of int64 columns that are timestamps -> (unit `ms` or `us`, adjusted to UTC)."""


class FooterSink(io.RawIOBase):
    """Passes what pyarrow writes on to a file; the tail written after `hold()` is kept until its footer is changed."""

    def __init__(self, target: pa.NativeFile) -> None:
        super().__init__()
        self._target = target
        self._tail: bytearray | None = None
        self._dropped = False
        self.position = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self.position

    def write(self, data: Any) -> int:
        """Write or hold back."""
        if self._dropped:
            return len(data)
        if self._tail is None:
            self._target.write(data)
        else:
            self._tail += data
        self.position += len(data)
        return len(data)

    def hold(self) -> None:
        """Keep all that comes from now on (page indexes and the footer)."""
        self._tail = bytearray()

    def drop(self) -> None:
        """Write nothing more and close the file."""
        self._dropped = True
        self._target.close()

    def release(self, root_name: str, timestamps: Timestamps) -> None:
        """Write the tail with its changed footer and close the file."""
        tail = bytes(self._tail or b"")
        length = struct.unpack("<i", tail[-8:-4])[0]
        footer = with_schema(tail[-8 - length : -8], root_name, timestamps)
        self._target.write(tail[: -8 - length] + footer + struct.pack("<i", len(footer)) + _MAGIC)
        self.position += len(footer) - length
        self._target.close()


def with_schema(footer: bytes, root_name: str, timestamps: Timestamps) -> bytes:
    """The footer with its root renamed and int64 columns annotated as timestamps."""

    def change(elements: list[Struct]) -> None:
        elements[0][_NAME] = (BINARY, root_name.encode())
        if timestamps:
            _annotate(elements, timestamps)

    return with_changed_items(footer, _SCHEMA, None if timestamps else 1, change)


def metadata_with_int96_as_bytes(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of an open file whose INT96 columns are said to be 12 bytes each, which they are in all encodings.

    Raises:
        ValueError: the footer cannot be understood.
    """
    size = source.size()
    source.seek(size - 8)
    length = struct.unpack("<i", source.read(4))[0]
    if not 0 < length <= size - 12:
        raise ValueError("the Parquet footer is longer than the file")
    source.seek(size - 8 - length)
    metadata = decode(source.read(length))
    for element in metadata[_SCHEMA][1].items:
        if element.get(_TYPE) == (I32, _INT96):
            element[_TYPE] = (I32, _FIXED_LEN_BYTE_ARRAY)
            element[_TYPE_LENGTH] = (I32, 12)
    for group in metadata[_ROW_GROUPS][1].items:
        for chunk in group[_COLUMNS][1].items:
            column = chunk[_META_DATA][1]
            if column[_COLUMN_TYPE] == (I32, _INT96):
                column[_COLUMN_TYPE] = (I32, _FIXED_LEN_BYTE_ARRAY)
                column.pop(_STATISTICS, None)
    footer = encode(metadata)
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + struct.pack("<i", len(footer)) + _MAGIC))


def _annotate(elements: list[Struct], timestamps: Timestamps) -> None:
    """Walk the schema, which lists a tree depth first, and annotate the leaves that are timestamps."""
    open_groups: list[list[Any]] = []
    for element in elements[1:]:
        name = element[_NAME][1].decode("utf-8", "replace")
        path = (*(group[0] for group in open_groups), name)
        if path in timestamps:
            unit, adjusted = timestamps[path]
            flag = BOOLEAN_TRUE if adjusted else BOOLEAN_FALSE
            inner: Struct = {1: (flag, adjusted), 2: (STRUCT, {_UNIT[unit]: (STRUCT, {})})}
            if adjusted:
                element[_CONVERTED_TYPE] = (I32, _CONVERTED[unit])
            element[_LOGICAL_TYPE] = (STRUCT, {_TIMESTAMP: (STRUCT, inner)})
        if element.get(_NUM_CHILDREN, (0, 0))[1]:
            open_groups.append([name, element[_NUM_CHILDREN][1]])
            continue
        while open_groups:
            open_groups[-1][1] -= 1
            if open_groups[-1][1]:
                break
            open_groups.pop()
