"""The companion file of a data file that names the managed blob files which its rows need.

Equals Java's ``ManagedBlobReferenceFile`` (version 1): big-endian; a magic number, then the version, the number of
managed blob files and for each the directory and the name as Java's ``DataOutput.writeUTF`` writes texts, then a CRC32
of these.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.spec.file_names import MANAGED_BLOB_SUFFIX, check_file_name

_MAGIC: Final = struct.pack(">i", 0x50424C52)
_VERSION: Final = 1
_MOST_BYTES: Final = 0xFFFF


class ManagedBlobName(NamedTuple):
    """A managed blob file."""

    directory: str
    """As Java spells it: ``file:/a``, not ``file:///a``."""
    name: str

    @classmethod
    def of_uri(cls, uri: str) -> ManagedBlobName | None:
        """The managed blob file that the URI of a descriptor names; None where it is no managed blob file."""
        directory, _, name = uri.rpartition("/")
        if not name.endswith(MANAGED_BLOB_SUFFIX):
            return None
        directory = re.sub(r"^file:/*", "file:/", directory)
        return cls(re.sub(r"(?<![:/])/{2,}", "/", directory), name)


def encode_references(blob_files: Iterable[ManagedBlobName]) -> bytes:
    """The bytes of such a file.

    Raises:
        DataError: the path of a managed blob file is too long.
    """
    ordered = sorted(set(blob_files), key=lambda name: [text.encode("utf-16-be", "surrogatepass") for text in name])
    payload = struct.pack(">Bi", _VERSION, len(ordered)) + b"".join(_utf(text) for pack in ordered for text in pack)
    return _MAGIC + payload + struct.pack(">I", zlib.crc32(payload))


def decode_references(data: bytes, path: str) -> list[ManagedBlobName]:
    """What `encode_references` was given.

    Raises:
        CorruptTableError: it is damaged, or of a later version.
    """
    try:
        return _decoded(data)
    except (ValueError, struct.error, UnicodeError) as error:
        raise CorruptTableError(f"The file is no list of managed blob files: {error}.", path=path) from None


def _decoded(data: bytes) -> list[ManagedBlobName]:
    if data[:4] != _MAGIC:
        raise ValueError("its magic number is another")
    version, count = struct.unpack_from(">Bi", data, 4)
    if version != _VERSION or count < 0:
        raise ValueError(f"its version is {version}, its number of managed blob files {count}")
    at, texts = 9, []
    for _ in range(2 * count):
        (length,) = struct.unpack_from(">H", data, at)
        texts.append(_text(data[at + 2 : at + 2 + length], length))
        at += 2 + length
    if struct.unpack(">I", data[at:]) != (zlib.crc32(data[4:at]),):
        raise ValueError("its checksum is another")
    found = [ManagedBlobName(*pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
    for name in found:
        check_file_name(name.name)
    return found


def _utf(text: str) -> bytes:
    """Java's modified UTF-8: NUL in two bytes, and each half of a surrogate pair in three."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    data = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > _MOST_BYTES:
        raise DataError(
            f"The path of a managed blob file has {len(data)} bytes, and {_MOST_BYTES} are the most: {text[:99]}…"
        )
    return struct.pack(">H", len(data)) + data


def _text(data: bytes, length: int) -> str:
    if len(data) != length:
        raise ValueError("it ends early")
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16", "surrogatepass").decode("utf-16")
