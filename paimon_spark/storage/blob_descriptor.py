"""Where a BLOB value lies, as bytes that other engines resolve (Java: ``BlobDescriptor``)."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from paimon_spark.spec.data_types import BlobType, DataField
from paimon_spark.storage.blob_format import AROUND, HEAD, BlobReader, Longs

_VERSION: Final = 2
_MAGIC: Final = 0x424C4F4244455343


def descriptor(uri: str, offset: int, length: int) -> bytes:
    """The descriptor of some bytes of a file."""
    path = uri.encode()
    return struct.pack("<bqi", _VERSION, _MAGIC, len(path)) + path + struct.pack("<qq", offset, length)


def descriptors(reader: BlobReader, rows: Longs, field: DataField) -> pa.Array:
    """The descriptors of the values of some rows of a blob file; null where they are null.

    Args:
        reader: of the file.
        rows: positions in the file.
        field: the column; in an array or a map each element has its descriptor.
    """
    lengths, offsets = reader.lengths[rows].tolist(), reader.offsets[rows].tolist()
    if not isinstance(field.type, BlobType):
        records = [reader.record(row) for row in rows.tolist()]
        return reader.collections(
            records, field, lambda at, span: descriptor(reader.path, offsets[at] + HEAD + span[0], span[1])
        )
    return pa.array(
        [
            None if length < 0 else descriptor(reader.path, offset + HEAD, length - AROUND)
            for length, offset in zip(lengths, offsets, strict=True)
        ],
        pa.binary(),
    )


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
