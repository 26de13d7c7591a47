"""The name of a BLOB value of another table (Java: ``BlobViewStruct``): the table, its column's id, its row's id."""

from __future__ import annotations

import struct
from typing import Final

VIEW_TAIL: Final = 12
"""Bytes of the ids of column and row, at the end."""
VIEW_HEADER: Final = struct.pack("<bq", 1, 0x424C4F4256494557)
"""What such a name starts with."""


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
