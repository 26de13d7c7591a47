"""ORC's file tail: rows and column statistics of every stripe, which pyarrow does not show.

Follows the ORC v1 specification ("File Tail"): protocol buffers in compressed chunks. Every length is checked, so
hostile bytes raise ValueError; what a small file may unpack to is bounded.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

_CODECS: Final[Mapping[int, str]] = {0: "none", 1: "zlib", 2: "snappy", 4: "lz4_raw", 5: "zstd"}
_MAX_UNPACKED_BYTES: Final = 64 << 20
_STRUCT_KIND: Final = 12

Message = dict[int, list[Any]]
"""A protocol buffer: field number -> its values (int for varints, bytes for all else), in order."""


@dataclass(frozen=True, slots=True)
class OrcTail:
    """What the tail says.

    Attributes:
        stripe_rows: Rows of each stripe.
        columns: Top-level column name -> its column number (the key of statistics).
        stripe_statistics: For each stripe the ColumnStatistics messages by column number, not yet decoded; empty when
            the file has none.
        file_statistics: The same for the whole file.
        stripe_footers: Where the footer of each stripe lies: offset and length.
        codec: How footers are compressed.
        block_bytes: Most bytes of a chunk before compression.
    """

    stripe_rows: tuple[int, ...]
    columns: Mapping[str, int]
    stripe_statistics: tuple[Sequence[bytes], ...]
    file_statistics: Sequence[bytes]
    stripe_footers: tuple[tuple[int, int], ...]
    codec: str
    block_bytes: int


def read_tail(source: pa.NativeFile) -> OrcTail:
    """Read the tail of an open ORC file.

    Raises:
        ValueError: these bytes are no ORC tail.
    """
    size = source.size()
    postscript_length = _read(source, size - 1, 1)[0] if size else 0
    postscript = decode(_read(source, size - 1 - postscript_length, postscript_length))
    codec = _CODECS.get(_number(postscript, 2))
    if codec is None:
        raise ValueError("an ORC compression that is not known")
    end = size - 1 - postscript_length - _number(postscript, 1)
    footer = decode(_unpack(_read(source, end, _number(postscript, 1)), codec, _number(postscript, 3)))
    metadata_length = _number(postscript, 5)
    metadata = decode(_unpack(_read(source, end - metadata_length, metadata_length), codec, _number(postscript, 3)))
    types = [decode(message) for message in footer.get(4, [])]
    if not types or _number(types[0], 1) != _STRUCT_KIND:
        raise ValueError("the root of the ORC schema is not a struct")
    names = [name.decode("utf-8", "replace") for name in types[0].get(3, [])]
    stripes = [decode(stripe) for stripe in footer.get(3, [])]
    return OrcTail(
        tuple(_number(stripe, 5) for stripe in stripes),
        dict(zip(names, _numbers(types[0].get(2, [])), strict=True)),
        tuple(decode(stripe).get(1, []) for stripe in metadata.get(1, [])),
        footer.get(7, []),
        tuple((sum(_number(stripe, at) for at in (1, 2, 3)), _number(stripe, 4)) for stripe in stripes),
        codec,
        _number(postscript, 3),
    )


def writer_zone(source: pa.NativeFile, tail: OrcTail) -> str:
    """Name of the time zone of the process that wrote the file; empty when the file does not say.

    Raises:
        ValueError: a stripe's footer cannot be read.
    """
    if not tail.stripe_footers:
        return ""
    footer = decode(_unpack(_read(source, *tail.stripe_footers[0]), tail.codec, tail.block_bytes))
    zones = footer.get(3, [b""])
    return zones[-1].decode("utf-8", "replace") if isinstance(zones[-1], bytes) else ""


def decode(data: bytes) -> Message:
    """Take a protocol buffer apart, one level deep."""
    message: Message = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            break
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            length, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            if length > len(data) - at:
                raise ValueError("an ORC message is longer than its file")
            value, at = data[at : at + length], at + length
        else:
            raise ValueError("an ORC message of an unknown kind")
        message.setdefault(number, []).append(value)
    return message


def signed(value: int) -> int:
    """A zig-zag number."""
    return (value >> 1) ^ -(value & 1)


def double(value: bytes) -> float:
    """A fixed 64-bit floating point value."""
    return float(struct.unpack("<d", value)[0])


def _number(message: Message, field: int) -> int:
    value = message.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError("an ORC message has bytes where a number belongs")
    return value


def _numbers(values: Sequence[Any]) -> Iterator[int]:
    """Repeated numbers, packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield number


def _varint(data: bytes, at: int) -> tuple[int, int]:
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


def _read(source: pa.NativeFile, at: int, length: int) -> bytes:
    if at < 0 or length < 0:
        raise ValueError("the ORC tail is longer than the file")
    source.seek(at)
    return bytes(source.read(length))


def _unpack(data: bytes, codec: str, block_bytes: int) -> bytes:
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
        length, _ = _varint(chunk, 0)
        if length > most:
            raise ValueError("an ORC chunk is larger than its block size")
        return bytes(pa.decompress(chunk, length, codec="snappy", asbytes=True))
    return _unpack_lz4(chunk, most)


def _unpack_lz4(chunk: bytes, most: int) -> bytes:
    """An LZ4 block; pyarrow's decompressor would have to be told the exact size, which ORC does not hold."""
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
