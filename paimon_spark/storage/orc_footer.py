"""ORC's file tail: rows and column statistics of every stripe, which pyarrow does not show.

Follows the ORC v1 specification: protocol buffers ("File Tail") in compressed chunks ("Compression"), each of which
begins with three bytes: its length, and whether it is stored as it was. Every length is checked, so hostile bytes raise
ValueError; unpacked sizes are bounded. pyarrow reads stripes whole, but its data sets read batches of some rows: so
parts of stripes are read here.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

STRUCT: Final = 12
"""Number of the kind of structs; see the specification's `Type`."""
_DECIMAL_STATISTICS: Final = 6
_LENGTH_SUMS: Final[Mapping[int, int]] = {4: 3, 8: 1}
"""Fields of ColumnStatistics: of strings and of bytes, and where these say how long all values are together."""
_VALUE_BYTES, _DECIMAL_BYTES = 8, 16

Message = dict[int, list[Any]]
"""A protocol buffer: field number -> its values (int for varints, bytes for all else), in order."""

CODECS: Final[Mapping[int, str]] = {0: "none", 1: "zlib", 2: "snappy", 4: "lz4_raw", 5: "zstd"}
_MAX_UNPACKED_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class OrcTail:
    """What the tail says.

    Attributes:
        stripe_rows: Rows of each stripe.
        columns: Top-level column name -> its column number (the key of statistics).
        stripe_statistics: For each stripe the ColumnStatistics messages by column number, not yet decoded; empty when
            the file has none.
        stripes: The StripeInformation messages.
        types: The Type messages by column number, a tree depth first.
        footer: The Footer message.
        postscript: The PostScript message.
        content_end: Where the last stripe ends at most: the start of the stripes' statistics.
        codec: How footers and streams are compressed.
        block_bytes: Most bytes of a chunk before compression.
    """

    stripe_rows: tuple[int, ...]
    columns: Mapping[str, int]
    stripe_statistics: tuple[Sequence[bytes], ...]
    stripes: tuple[Message, ...]
    types: tuple[Message, ...]
    footer: Message
    postscript: Message
    content_end: int
    codec: str
    block_bytes: int

    def kind(self, column: int) -> int:
        """Type of a column as ORC numbers them."""
        return number(self.types[column], 1)

    def children(self, column: int) -> list[int]:
        """Numbers of a column's children.

        Raises:
            ValueError: a child is no later column, so that the types are no tree.
        """
        found = list(numbers(self.types[column].get(2, [])))
        if any(not column < child < len(self.types) for child in found):
            raise ValueError("the ORC schema is not a tree")
        return found


def read_tail(source: pa.NativeFile) -> OrcTail:
    """Read the tail of an open ORC file.

    Raises:
        ValueError: these bytes are no ORC tail.
    """
    size = source.size()
    postscript_length = read_at(source, size - 1, 1)[0] if size else 0
    postscript = decode(read_at(source, size - 1 - postscript_length, postscript_length))
    codec, block_bytes = CODECS.get(number(postscript, 2)), number(postscript, 3)
    if codec is None:
        raise ValueError("an ORC compression that is not known")
    end = size - 1 - postscript_length - number(postscript, 1)
    footer = decode(unpacked(read_at(source, end, number(postscript, 1)), codec, block_bytes))
    metadata_length = number(postscript, 5)
    metadata = decode(unpacked(read_at(source, end - metadata_length, metadata_length), codec, block_bytes))
    types = tuple(decode(message) for message in footer.get(4, []))
    if not types or number(types[0], 1) != STRUCT:
        raise ValueError("the root of the ORC schema is not a struct")
    names = [name.decode("utf-8", "replace") for name in types[0].get(3, [])]
    stripes = tuple(decode(stripe) for stripe in footer.get(3, []))
    return OrcTail(
        tuple(number(stripe, 5) for stripe in stripes),
        dict(zip(names, numbers(types[0].get(2, [])), strict=True)),
        tuple(decode(stripe).get(1, []) for stripe in metadata.get(1, [])),
        stripes,
        types,
        footer,
        postscript,
        end - metadata_length,
        codec,
        block_bytes,
    )


def read_stripe_footer(source: pa.NativeFile, tail: OrcTail, stripe: int) -> Message:
    """The StripeFooter message of a stripe.

    Raises:
        ValueError: it cannot be read.
    """
    info = tail.stripes[stripe]
    at = sum(number(info, field) for field in (1, 2, 3))
    return decode(unpacked(read_at(source, at, number(info, 4)), tail.codec, tail.block_bytes))


def writer_zone(source: pa.NativeFile, tail: OrcTail) -> str:
    """Name of the time zone of the process that wrote the file; empty when the file does not say.

    Raises:
        ValueError: a stripe's footer cannot be read.
    """
    if not tail.stripes:
        return ""
    zones = read_stripe_footer(source, tail, 0).get(3, [b""])
    return zones[-1].decode("utf-8", "replace") if isinstance(zones[-1], bytes) else ""


def decoded_bytes(tail: OrcTail, stripes: Sequence[int], columns: Sequence[str]) -> list[int]:
    """Bytes of some top-level columns of stripes as Arrow arrays, by their statistics; 0 where there are none."""
    if len(tail.stripe_statistics) != len(tail.stripe_rows):
        return [0] * len(stripes)
    starts = sorted(tail.columns.values())
    ends = dict(zip(starts, [*starts[1:], None], strict=True))
    wanted = [slice(at, ends[at]) for at in map(tail.columns.get, columns) if at is not None]
    return [sum(_decoded_bytes(decode(m)) for part in wanted for m in tail.stripe_statistics[s][part]) for s in stripes]


def _decoded_bytes(statistics: Message) -> int:
    """Bytes of one column, its children not counted; strings and bytes have their lengths summed up."""
    width = _DECIMAL_BYTES if _DECIMAL_STATISTICS in statistics else _VALUE_BYTES
    texts = sum(
        signed(decode(message).get(at, [0])[-1])
        for kind, at in _LENGTH_SUMS.items()
        for message in statistics.get(kind, [])[-1:]
    )
    return int(statistics.get(1, [0])[-1]) * width + max(0, texts)


def decode(data: bytes) -> Message:
    """Take a protocol buffer apart, one level deep."""
    message: Message = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            break
        value: Any
        if wire == 0:
            value, at = varint(data, at)
        elif wire in (1, 2, 5):
            length, at = varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            if length > len(data) - at:
                raise ValueError("an ORC message is longer than its file")
            value, at = data[at : at + length], at + length
        else:
            raise ValueError("an ORC message of an unknown kind")
        message.setdefault(number, []).append(value)
    return message


def encode(message: Message) -> bytes:
    """Put a protocol buffer of numbers and bytes together; the reverse of `decode` where it has no fixed numbers."""
    out = bytearray()
    for field, values in message.items():
        for value in values:
            if isinstance(value, int):
                out += to_varint(field << 3) + to_varint(value)
            else:
                out += to_varint(field << 3 | 2) + to_varint(len(value)) + value
    return bytes(out)


def signed(value: int) -> int:
    """A zig-zag number."""
    return (value >> 1) ^ -(value & 1)


def number(message: Message, field: int) -> int:
    """A number of a message, 0 where it is not given.

    Raises:
        ValueError: the field holds bytes.
    """
    value = message.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError("an ORC message has bytes where a number belongs")
    return value


def numbers(values: Sequence[Any]) -> Iterator[int]:
    """Repeated numbers, packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            found, at = varint(value, at)
            yield found


def read_at(source: pa.NativeFile, at: int, length: int) -> bytes:
    """Bytes of an open file.

    Raises:
        ValueError: the place lies before the file.
    """
    if at < 0 or length < 0:
        raise ValueError("the ORC tail is longer than the file")
    source.seek(at)
    return bytes(source.read(length))


_READ_AHEAD = 32
"""Batches that Arrow always reads ahead in its own thread (``MakeBackgroundGenerator``)."""


def stripe_parts(
    source: pa.NativeFile, columns: list[str], stripe_rows: Sequence[int], stripes: Collection[int], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read stripes in file order.

    Args:
        source: the open file.
        columns: top-level columns.
        stripe_rows: rows of each stripe of the file.
        stripes: which of them.
        batch_rows: most rows in memory, which are those of many batches.

    Raises:
        ValueError: the file has another number of rows.
    """
    from pyarrow import dataset  # pulls in pandas where that is installed, and each Python worker would pay for it

    starts = [0, *accumulate(stripe_rows)]
    scanner = dataset.Scanner.from_fragment(
        dataset.OrcFileFormat().make_fragment(source),
        columns=columns,
        batch_size=max(1, batch_rows // _READ_AHEAD),
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    done = 0
    for batch in scanner.to_batches():
        first, done = done, done + batch.num_rows
        for at in range(bisect_right(starts, first) - 1, bisect_left(starts, done)):
            if at in stripes:
                low, high = max(starts[at], first), min(starts[at + 1], done)
                yield batch.slice(low - first, high - low)
    if done != starts[-1]:
        raise ValueError(f"its stripes have {done} rows, but {starts[-1]} by its footer")


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
