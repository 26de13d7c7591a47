"""Where a BLOB value lies, as bytes that other engines resolve (Java: ``BlobDescriptor``, ``BlobViewStruct``).

A descriptor names a file, a view a value of another table: the table, its column's id, its row's id.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError

Longs = npt.NDArray[np.int64]
LOCATION: Final = 16
"""Bytes of the offset and the length, at the end of a descriptor."""
_VERSION: Final = 2
_MAGIC: Final = 0x424C4F4244455343
HEADER: Final = struct.pack("<bq", _VERSION, _MAGIC)
"""What a descriptor starts with."""

VIEW_TAIL: Final = 12
"""Bytes of the ids of column and row, at the end."""
VIEW_HEADER: Final = struct.pack("<bq", 1, 0x424C4F4256494557)
"""What such a name starts with."""


def descriptor(uri: str, offset: int, length: int) -> bytes:
    """The descriptor of some bytes of a file."""
    path = uri.encode()
    return struct.pack("<bqi", _VERSION, _MAGIC, len(path)) + path + struct.pack("<qq", offset, length)


def descriptor_array(uri: str, offsets: Longs, lengths: Longs) -> pa.Array:
    """The descriptors of some parts of one file."""
    head = np.frombuffer(descriptor(uri, 0, 0)[:-LOCATION], np.uint8)
    rows = np.empty((len(offsets), len(head) + LOCATION), np.uint8)
    rows[:, : len(head)] = head
    rows[:, len(head) :] = np.column_stack([offsets, lengths]).astype("<i8").view(np.uint8)
    width = pa.binary(rows.shape[1])
    return pa.FixedSizeBinaryArray.from_buffers(width, len(rows), [None, pa.py_buffer(rows)]).cast(pa.binary())


def parse_head(head: bytes) -> str:
    """The URI of a descriptor without its offset and length.

    Raises:
        ValueError: these are no such bytes.
        struct.error: there are too few.
    """
    version = head[0] if head else -1
    if version not in (1, _VERSION):
        raise ValueError(f"its version is {version}")
    start = 1
    if version == _VERSION:  # the first version has no magic number
        if struct.unpack_from("<q", head, start) != (_MAGIC,):
            raise ValueError("its magic number is another")
        start += 8
    (length,) = struct.unpack_from("<i", head, start)
    if length != len(head) - start - 4:
        raise ValueError("its URI has another length")
    return head[start + 4 :].decode()


def uris(heads: pa.Array, path: str) -> set[str]:
    """The URIs of descriptors without their offsets and lengths.

    Raises:
        CorruptTableError: one is damaged.
    """
    try:
        return {parse_head(head) for head in heads.unique().to_pylist() if head is not None}
    except (ValueError, struct.error) as error:
        raise CorruptTableError(f"A BLOB descriptor is damaged: {error}.", path=path) from None


def rename(described: pa.Array, names: Mapping[str, str]) -> pa.Array:
    """Descriptors with other URIs, of the current version."""
    heads = pc.binary_slice(described, 0, -LOCATION).dictionary_encode()
    new = [descriptor(names[parse_head(head)], 0, 0)[:-LOCATION] for head in heads.dictionary.to_pylist()]
    taken = pa.array(new, pa.binary()).take(heads.indices)
    return pc.binary_join_element_wise(taken, pc.binary_slice(described, -LOCATION, None), pa.scalar(b""))


def blob_view(table: str, field_id: int, row_id: int) -> bytes:
    """The name of a value.

    Args:
        table: ``database.table``, or ``database.table$branch_name``.
        field_id: of the column.
        row_id: of the row.
    """
    name = table.encode()
    return VIEW_HEADER + struct.pack("<i", len(name)) + name + struct.pack("<iq", field_id, row_id)


def parse_view_head(head: bytes) -> str:
    """The table of a name without its ids.

    Raises:
        ValueError: these are no such bytes.
        struct.error: there are too few.
    """
    if head[: len(VIEW_HEADER)] != VIEW_HEADER:
        raise ValueError("it does not start as one")
    (length,) = struct.unpack_from("<i", head, len(VIEW_HEADER))
    if length != len(head) - len(VIEW_HEADER) - 4:
        raise ValueError("the name of its table has another length")
    return head[len(VIEW_HEADER) + 4 :].decode()
