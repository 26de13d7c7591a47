"""Avro object container files in memory: header, blocks and codecs, with every length checked before memory is taken.

Follows the Avro 1.11 specification ("Object Container Files"). Records inside the blocks are `fastavro`'s business.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import itertools
import lzma
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from paimon_spark.errors import CorruptTableError, UnsupportedError

# Java writes no checksum, but every reader of zstd verifies one that is there.
_LEVEL = zstd.CompressionParameter.compression_level
_CHECKSUM = zstd.CompressionParameter.checksum_flag
MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 256 << 20
"""Bytes that the blocks of any file may hold: equal bytes, such as a key of blanks, compress by ten thousand."""
_FIRST_READ_RATIO = 16
_LONGEST_ZSTD_HEADER = 18
_MOST_AT_ONCE = 32 << 20
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AvroBlocks:
    """The contents of a container file.

    Attributes:
        schema_json: the writer's schema as it stands in the header.
        blocks: record count and uncompressed bytes of each block.
    """

    schema_json: bytes
    blocks: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class AvroIndex:
    """Where the blocks of a container file lie.

    Attributes:
        schema_json: the writer's schema as it stands in the header.
        codec: how the blocks are compressed.
        blocks: record count, offset and compressed size of each block, in file order.
    """

    schema_json: bytes
    codec: str
    blocks: tuple[tuple[int, int, int], ...]


def encode_long(value: int) -> bytes:
    """Encode an int64 as a zig-zag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Input:
    """A cursor over the bytes of one file that never reads past their end."""

    def __init__(self, data: bytes, path: str | None) -> None:
        self.data = data
        self.at = 0
        self.path = path

    def fail(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"Not a readable Avro file: {what} at byte {self.at}.", path=self.path)

    def long(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise self.fail("a number does not end")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise self.fail(f"{size} bytes are announced but {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def skip(self, size: int) -> None:
        if size < 0 or size > len(self.data) - self.at:
            raise self.fail(f"{size} bytes are announced but {len(self.data) - self.at} are left")
        self.at += size

    def bytes(self) -> bytes:
        return self.take(self.long())


_LAST_HEADER: list[tuple[bytes, dict[bytes, bytes]]] = [(b"\0", {})]
"""The header that was read last, parsed: the files of one table share it."""


def _read_header(source: _Input) -> dict[bytes, bytes]:
    header, known = _LAST_HEADER[0]
    if source.data.startswith(header):
        source.at = len(header)
        return known
    found = _parse_header(source)
    _LAST_HEADER[0] = source.data[: source.at], found
    return found


def _parse_header(source: _Input) -> dict[bytes, bytes]:
    if source.take(min(len(MAGIC), len(source.data))) != MAGIC:
        raise source.fail("it does not begin with the magic 'Obj1'")
    meta: dict[bytes, bytes] = {}
    while count := source.long():
        if count < 0:
            count = -count
            source.long()
        for _ in range(count):  # each entry takes at least two bytes, so the file's end ends the loop
            key = source.bytes()
            meta[key] = source.bytes()
    return meta


def _unzip(data: bytes, codec: str, limit: int) -> bytes:
    """Decompress one block to at most `limit` + 1 bytes."""
    if codec == "null":
        return data
    if codec == "zstandard":
        size = _zstd_size(data)
        if size is not None and size <= limit:
            with contextlib.suppress(OSError):  # several frames, or a wrong size
                return bytes(pa.decompress(data, decompressed_size=size, codec="zstd", asbytes=True))
        with pa.CompressedInputStream(pa.py_buffer(data), "zstd") as stream:
            few = min(limit + 1, _FIRST_READ_RATIO * len(data))  # a read allocates all bytes that it asks for
            start = bytes(stream.read(few))
            return start if len(start) < few else start + bytes(stream.read(limit + 1 - few))
    if codec == "deflate":
        return zlib.decompressobj(-15).decompress(data, limit + 1)
    if codec == "snappy":
        size = _snappy_size(data)
        if size > limit:
            raise ValueError("too large")
        plain = bytes(pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True))
        if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
            raise ValueError("its checksum is another")
        return plain
    if codec == "bzip2":
        return bz2.BZ2Decompressor().decompress(data, limit + 1)
    return lzma.LZMADecompressor().decompress(data, limit + 1)


def _zstd_size(data: bytes) -> int | None:
    """The size that the header of a block's only zstd frame announces, None when it does not (RFC 8878, 3.1.1)."""
    if len(data) < _LONGEST_ZSTD_HEADER or data[:4] != b"\x28\xb5\x2f\xfd":
        return None
    single_segment, kind = data[4] >> 5 & 1, data[4] >> 6
    size = (single_segment, 2, 4, 8)[kind]
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[data[4] & 3]
    return int.from_bytes(data[start : start + size], "little") + (256 if kind == 1 else 0) if size else None


def _snappy_size(data: bytes) -> int:
    size = 0
    for i, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    raise ValueError("no length")


_LAST_INDEX: list[tuple[bytes, AvroIndex] | None] = [None]
"""The small file that was indexed last: it is checked first, and decompressed next."""


def index_container(data: bytes, *, path: str | None = None) -> AvroIndex:
    """Find the blocks of a container file without decompressing them.

    Raises:
        CorruptTableError: the bytes are no container file, or it is damaged, or its codec is not one of Avro's.
    """
    last = _LAST_INDEX[0]
    if last is not None and last[0] is data:
        return last[1]
    found = _indexed(data, path)
    _LAST_INDEX[0] = (data, found) if len(data) <= _SMALL_BYTES else None
    return found


def _indexed(data: bytes, path: str | None) -> AvroIndex:
    source = _Input(data, path)
    meta = _read_header(source)
    codec = meta.get(b"avro.codec", b"null").decode("utf-8", "replace")
    if codec not in ("null", "zstandard", "deflate", "snappy", "bzip2", "xz"):
        raise source.fail(f"its codec {codec!r} is none of Avro's")
    sync = source.take(SYNC_BYTES)
    blocks = []
    while source.at < len(data):
        count, size = source.long(), source.long()
        start = source.at
        source.skip(size)
        if source.take(SYNC_BYTES) != sync:
            raise source.fail("a block does not end with the file's sync marker")
        blocks.append((count, start, size))
    return AvroIndex(meta.get(b"avro.schema", b""), codec, tuple(blocks))


def read_block(data: bytes, codec: str, block: tuple[int, int, int], limit: int, *, path: str | None = None) -> bytes:
    """Decompress one block of an indexed container file.

    Args:
        data: the container file.
        codec: its codec.
        block: record count, offset and size, as in the index.
        limit: most bytes that it may grow to.
        path: the file, for messages.

    Raises:
        CorruptTableError: the block is damaged, grows beyond the limit, or is too short for its records.
    """
    count, start, size = block
    source = _Input(data, path)
    source.at = start
    try:
        packed = source.take(size)
        announced = _zstd_size(packed) if codec == "zstandard" else None
        if announced is not None and announced > limit:
            raise source.fail("the blocks are larger than a file of this size can hold")
        plain = _unzip(packed, codec, limit)
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
        raise source.fail(f"a {codec} block cannot be decompressed ({error})") from error
    if len(plain) > limit:
        raise source.fail("the blocks are larger than a file of this size can hold")
    if not 0 <= count <= len(plain):
        raise source.fail(f"a block of {len(plain)} bytes announces {count} records")
    return plain


def read_container(data: bytes, *, path: str | None = None) -> AvroBlocks:
    """Take a container file apart and decompress its blocks.

    What the blocks may grow to is bounded (`most_bytes`), so a small file cannot claim unbounded memory.

    Raises:
        CorruptTableError: the bytes are no container file, or it is damaged, or its codec is none of Avro's.
    """
    index = index_container(data, path=path)
    left = most_bytes(data)
    blocks = []
    for block in index.blocks:
        plain = read_block(data, index.codec, block, left, path=path)
        left -= len(plain)
        blocks.append((block[0], plain))
    return AvroBlocks(index.schema_json, tuple(blocks))


def most_bytes(data: bytes) -> int:
    """Most bytes that the blocks of a container file may hold: a bound that only hostile files meet.

    What this package writes stays far below it (see `commit.manifest_write` and `write.rolling`).
    """
    return max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * len(data))


def read_containers(files: Sequence[tuple[str, bytes]]) -> list[AvroBlocks]:
    """Take many container files apart as `read_container` does; small ones are decompressed all at once.

    Args:
        files: path and bytes of each.

    Raises:
        CorruptTableError: as `read_container`, for one of the files.
    """
    indexes = [index_container(data, path=path) for path, data in files]
    plain = _unzip_all([data for _, data in files], indexes)
    if plain is None:
        return [read_container(data, path=path) for path, data in files]
    blocks = iter(plain)
    return [
        AvroBlocks(index.schema_json, tuple((count, next(blocks)) for count, _, _ in index.blocks)) for index in indexes
    ]


def _unzip_all(files: Sequence[bytes], indexes: Sequence[AvroIndex]) -> list[bytes] | None:
    """Decompress the blocks of many files with one call, None where anything is not as expected of small files."""
    frames, sizes = [], []
    for data, index in zip(files, indexes, strict=True):
        if index.codec != "zstandard":
            return None
        for count, start, packed in index.blocks:
            frame = data[start : start + packed]
            size = _zstd_size(frame)
            if size is None or not 0 <= count <= size <= _MAX_RATIO * len(data):
                return None
            frames.append(frame)
            sizes.append(size)
    total = sum(sizes)
    if not total or total > _MOST_AT_ONCE:
        return None
    try:  # frame after frame is one stream, and the decoder checks the size of each
        whole = pa.decompress(b"".join(frames), decompressed_size=total, codec="zstd", asbytes=True)
    except OSError:
        return None
    ends = list(itertools.accumulate(sizes))
    return [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def write_container(content: AvroBlocks, *, codec: str = "zstandard", level: int = 1) -> bytes:
    """Put a container file together.

    The sync marker is a digest of the content, so that equal content gives equal bytes.

    Args:
        content: schema and uncompressed blocks.
        codec: ``zstandard``, ``deflate``, ``snappy`` or ``null``.
        level: compression level of zstandard.

    Raises:
        UnsupportedError: the codec is not one of these.
    """
    packed = [(count, pack_block(plain, codec, level)) for count, plain in content.blocks]
    return write_packed(content.schema_json, packed, codec)


def write_packed(schema_json: bytes, packed: Sequence[tuple[int, bytes]], codec: str) -> bytes:
    """Put a container file together of blocks that are compressed: number of records and bytes of each."""
    digest = hashlib.blake2b(schema_json, digest_size=SYNC_BYTES)
    for _, block in packed:
        digest.update(block)
    sync = digest.digest()
    out = bytearray(MAGIC + encode_long(2))
    for text in (b"avro.schema", schema_json, b"avro.codec", codec.encode()):
        out += encode_long(len(text)) + text
    out += encode_long(0) + sync
    for count, block in packed:
        out += encode_long(count) + encode_long(len(block)) + block + sync
    return bytes(out)


def pack_block(plain: bytes, codec: str, level: int) -> bytes:
    """Compress one block.

    Raises:
        UnsupportedError: the codec is not ``zstandard``, ``deflate``, ``snappy`` or ``null``.
    """
    if codec == "null":
        return plain
    if codec == "zstandard":
        return zstd.compress(plain, options={_LEVEL: level, _CHECKSUM: 1})
    if codec == "deflate":
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(plain) + deflate.flush()
    if codec == "snappy":
        return bytes(pa.compress(plain, codec="snappy", asbytes=True)) + zlib.crc32(plain).to_bytes(4, "big")
    raise UnsupportedError(
        f"Avro files cannot be written with codec {codec!r}; use zstandard, deflate, snappy or null."
    )
