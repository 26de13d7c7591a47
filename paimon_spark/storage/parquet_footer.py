"""Changing the column types in a Parquet footer, where pyarrow alone cannot write or read them as Java does.

Writing: pyarrow writes all timestamps as INT96 or none, while Java writes those of precision 7 to 9 so and the others
as annotated int64; and it names the root `schema`. Reading: pyarrow wraps INT96 values that overflow 64-bit
nanoseconds, so they are read as 12 bytes each and converted here in the package. Parquet's ``FileMetaData``.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.storage.thrift_compact import (
    BINARY,
    BOOLEAN_FALSE,
    BOOLEAN_TRUE,
    I32,
    STRUCT,
    Struct,
    decode,
    encode,
    with_changed_items,
)

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
