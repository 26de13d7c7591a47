"""Deletion vectors: which rows of a data file are deleted, as bytes of an index file and as bits.

Equals Java's ``BitmapDeletionVector`` (32-bit positions), ``Bitmap64DeletionVector`` (64-bit positions) and
``DeletionFileWriter``; docs/internals/format.md §4.2. Bits stand in the order of Arrow's buffers: the lowest bit of a
byte first.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.spec.roaring import Bitmap32, Bytes, read_containers

Bits = npt.NDArray[np.uint8]
"""One bit for each row of a file."""
Positions = npt.NDArray[np.int64]
"""Positions of rows in a file, from 0, ascending, each once."""

INDEX_FILE_VERSION: Final = b"\x01"
"""The first byte of an index file of deletion vectors."""
_MAGIC: Final = 1581511376
_MAGIC_64: Final = 1681511377
_NUMBER_BYTES: Final = 4
_MOST_POSITION: Final = 2**31 - 1


def stored_bytes(length: int) -> int:
    """How many bytes to read at most for a vector whose recorded length is ``length``: both kinds fit."""
    return length + 2 * _NUMBER_BYTES


def decode_vector(data: bytes, length: int, rows: int, *, path: str) -> Bits:
    """Decode the vector of a file of ``rows`` rows.

    Args:
        data: from the vector's offset in the index file on, `stored_bytes` of them where the file has so many.
        length: as recorded in the index manifest.
        rows: of the data file.
        path: of the index file, for messages.

    Returns:
        One bit for each row, set where the row is deleted.

    Raises:
        CorruptTableError: the bytes are no vector of that length, or mark rows that the data file does not have.
    """
    try:
        wide, bitmap = _unpacked(data, length)
        bits = np.zeros((rows + 7) // 8, np.uint8)
        body = Bytes(bitmap)
        before = -1
        for number in range(body.number("<q") if wide else 1):
            high = body.number("<I") if wide else 0
            if number and high <= before >> 16:
                raise DataError("Its keys do not ascend.")
            for low, container in read_containers(body):
                key = high << 16 | low
                if key <= before:
                    raise DataError("Its keys do not ascend.")
                container.mark(bits, key, rows)
                before = key
            before = max(before, (high << 16 | 0xFFFF) if wide else before)
    except (DataError, MemoryError, OverflowError, ValueError) as error:
        raise CorruptTableError(f"A deletion vector of the index file is damaged. {error}", path=path) from None
    return bits


def whole_vector(data: bytes, length: int, *, path: str) -> bytes:
    """Cut the bytes of a vector out of what was read at its offset, for another index file; arguments as above.

    Raises:
        CorruptTableError: the bytes are no vector of that length.
    """
    try:
        _, bitmap = _unpacked(data, length)
    except DataError as error:
        raise CorruptTableError(f"A deletion vector of the index file is damaged. {error}", path=path) from None
    return data[: 3 * _NUMBER_BYTES + len(bitmap)]


def _unpacked(data: bytes, length: int) -> tuple[bool, bytes]:
    """Whether a vector is one of 64-bit positions, and its bitmap."""
    source = Bytes(data)
    size = source.number(">i")
    magic = bytes(source.take(_NUMBER_BYTES))
    wide = magic == struct.pack("<i", _MAGIC_64)
    if not wide and magic != struct.pack(">i", _MAGIC):
        raise DataError(f"Invalid magic number: {magic.hex()}.")
    expected = length - 2 * _NUMBER_BYTES if wide else length
    if size != expected:
        raise DataError(f"Size not match, actual size: {size}, expected size: {expected}.")
    bitmap = bytes(source.take(size - _NUMBER_BYTES))
    if source.number(">I") != zlib.crc32(magic + bitmap):
        raise DataError("Its checksum is another one.")
    return wide, bitmap


def encode_vector(positions: Positions, *, wide: bool) -> tuple[bytes, int]:
    """Encode a vector as Java does.

    Args:
        positions: of the deleted rows.
        wide: 64-bit positions (``deletion-vectors.bitmap64``).

    Returns:
        The bytes for the index file, and the length to record in the index manifest.

    Raises:
        DataError: a position is too large for 32-bit vectors.
    """
    if not wide and len(positions) and int(positions[-1]) > _MOST_POSITION:
        raise DataError(
            "The file has too many rows, RoaringBitmap32 only supports files with row count not exceeding 2147483647. "
            "Set the table option 'deletion-vectors.bitmap64' = 'true'."
        )
    if not wide:
        body = struct.pack(">i", _MAGIC) + Bitmap32.of(positions).encode()
    else:
        highs = positions >> 32
        last = int(highs[-1]) if len(positions) else -1
        parts = [struct.pack("<iq", _MAGIC_64, last + 1)]
        for high in range(last + 1):  # Java writes the empty ones between as well
            part = positions[highs == high] & 0xFFFFFFFF
            parts.append(struct.pack("<I", high) + Bitmap32.of(part).encode())
        body = b"".join(parts)
    data = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return data, len(data) if wide else len(body)


def positions_of(bits: Bits, rows: int) -> Positions:
    """The positions whose bits are set."""
    return np.flatnonzero(np.unpackbits(bits, count=rows, bitorder="little"))
