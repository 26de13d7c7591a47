"""ORC's compressed chunks: what footers and streams of an ORC file are packed in.

Each chunk begins with three bytes: its length, and whether it is stored as it was. Of the ORC v1 specification
("Compression"). Unpacked sizes are bounded, also for hostile bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

CODECS: Final[Mapping[int, str]] = {0: "none", 1: "zlib", 2: "snappy", 4: "lz4_raw", 5: "zstd"}
_MAX_UNPACKED_BYTES: Final = 64 << 20


def packed(data: bytes, codec: str, block_bytes: int) -> bytes:
    """The bytes in chunks that are stored as they are."""
    if codec == "none":
        return data
    step = max(1, min(block_bytes, (1 << 23) - 1))
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


def unpacked(data: bytes, codec: str, block_bytes: int) -> bytes:
    """The bytes of a row of chunks.

    Raises:
        ValueError: the chunks are damaged, or hold more than a footer may.
    """
    if codec == "none":
        return data
    out = bytearray()
    at = 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        at += 3 + (header >> 1)
        out += chunk if header & 1 else _unpack_chunk(chunk, codec, min(block_bytes, _MAX_UNPACKED_BYTES))
        if len(out) > _MAX_UNPACKED_BYTES:
            raise ValueError("the ORC tail is too large")
    return bytes(out)


def _unpack_chunk(chunk: bytes, codec: str, most: int) -> bytes:
    if codec == "zlib":
        return zlib.decompressobj(-15).decompress(chunk, most)
    if codec == "zstd":
        with pa.CompressedInputStream(pa.py_buffer(chunk), "zstd") as stream:
            return bytes(stream.read(most))
    if codec == "snappy":
        length, _ = varint(chunk, 0)
        if length > most:
            raise ValueError("an ORC chunk is larger than its block size")
        return bytes(pa.decompress(chunk, length, codec="snappy", asbytes=True))
    return _unpack_lz4(chunk, most)


def _unpack_lz4(chunk: bytes, most: int) -> bytes:
    """An LZ4 block; pyarrow's decompressor would need the exact size, which ORC does not hold."""
    out = bytearray()
    at = 0
    while at < len(chunk):
        token = chunk[at]
        length, at = _lz4_length(chunk, at + 1, token >> 4)
        out += chunk[at : at + length]
        at += length
        if at >= len(chunk):
            break
        distance = int.from_bytes(chunk[at : at + 2], "little")
        length, at = _lz4_length(chunk, at + 2, token & 15)
        if not 0 < distance <= len(out) or len(out) + length > most:
            raise ValueError("a damaged LZ4 block")
        pattern = bytes(out[-distance:])
        out += (pattern * ((length + 4) // distance + 1))[: length + 4]
    return bytes(out)


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length < 15:
        return length, at
    while True:
        if at >= len(chunk):
            raise ValueError("a damaged LZ4 block")
        length += chunk[at]
        at += 1
        if chunk[at - 1] < 255:
            return length, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The variable-length number at a position, and the position behind it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("an ORC number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def to_varint(value: int) -> bytes:
    """A number that is not negative in its variable length."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
