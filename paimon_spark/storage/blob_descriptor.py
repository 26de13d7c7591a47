"""Where a BLOB value lies, as bytes that other engines resolve (Java: ``BlobDescriptor``, ``BlobViewStruct``).

A descriptor names a file, a view a value of another table: the table, its column's id, its row's id.

The files that descriptors name are opened if they lie where they may. A row may name any file, and Java opens it. Here
it must lie in the table, in the warehouse of the table, or in a directory that the caller has named
(``blob-descriptor-paths``): else whoever writes a row chooses which files of the reader are read. Of the BLOB values
that a write is given, bytes that are a descriptor stand for what they name, as in Java (``Blob.fromBytes``,
``AbstractBlobElementWriter``). The bytes are copied a few megabytes at a time. Runs in tasks.

A data file has a companion file that names the managed blob files which its rows need. It equals Java's
``ManagedBlobReferenceFile`` (version 1): big-endian; a magic number, then the version, the number of managed blob files
and for each the directory and the name as Java's ``DataOutput.writeUTF`` writes texts, then a CRC32 of these.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, DataError, UnsupportedError
from paimon_spark.spec.file_names import MANAGED_BLOB_SUFFIX, check_file_name
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import FSSPEC_SCHEME, redact, scheme_of

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions

_LOG = logging.getLogger(__name__)


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


OPTION: Final = "blob-descriptor-paths"
ANYWHERE: Final = "*"
_PREFIX: Final = "blob-descriptor."
_SOURCE_TABLE: Final = "blob-descriptor.source-table"
_CHUNK_BYTES: Final = 8 << 20
_REST: Final = -1


class MissingBlobError(DataError):
    """A descriptor names a file that is not there."""


@dataclass(frozen=True, slots=True)
class DescribedPart:
    """A part of a file."""

    uri: str
    offset: int
    length: int
    """-1 for all the rest."""


@dataclass(frozen=True)
class DescribedFiles:
    """Opens files for the rows of one table. Picklable."""

    root: str
    own: FileIO = field(repr=False)
    """The store of the table."""
    positions: tuple[str, ...]
    options: dict[str, str] = field(repr=False)
    """Of the stores of the files."""
    separate: bool = False
    """Whether the files lie in stores with other options than the table's."""

    @classmethod
    def of(cls, root: str, own: FileIO, options: CoreOptions) -> DescribedFiles:
        """Take from a table where files may lie, and how to reach them.

        Args:
            root: the table's directory.
            own: its store.
            options: of the table, with those of the read or write.
        """
        given = (text.strip() for text in str(options.value(OPTION) or "").split(","))
        positions = filter(None, [root, warehouse_of(root), *given])
        every = options.to_dict()
        others = {k.removeprefix(_PREFIX): v for k, v in every.items() if k.startswith(_PREFIX) and k != _SOURCE_TABLE}
        known = tuple(
            position if position == ANYWHERE else f"{_plain(position).rstrip('/')}/" for position in positions
        )
        return cls(root, own, known, others or every, bool(others))

    def parse(self, value: bytes) -> DescribedPart:
        """What a descriptor names.

        Raises:
            CorruptTableError: it is damaged.
        """
        try:
            uri = parse_head(value[:-LOCATION])
            offset, length = struct.unpack("<qq", value[-LOCATION:])
            if offset < 0 or length < _REST:
                raise ValueError("it names an offset below zero")
        except (ValueError, struct.error) as error:
            raise CorruptTableError(f"A BLOB descriptor is damaged: {error}.", path=self.root) from None
        return DescribedPart(uri, offset, length)

    def open(self, uri: str) -> pa.NativeFile:
        """Open a file.

        Raises:
            UnsupportedError: it lies where files are not read.
            DataError: it is not there.
        """
        path = self._path(uri)
        try:
            return self._store(path).open_input(path)
        except FileNotFoundError:
            raise MissingBlobError(f"The file {redact(uri)} that a BLOB descriptor names is not there.") from None

    def parts(self, value: bytes) -> Iterator[bytes]:
        """The bytes that a descriptor names, a few megabytes at a time.

        Raises:
            CorruptTableError: the descriptor is damaged.
            UnsupportedError: the file lies where files are not read.
            DataError: it is not there, or too short.
        """
        part = self.parse(value)
        with self.open(part.uri) as file:
            size = file.size()
            end = size if part.length == _REST else part.offset + part.length
            if part.offset > size or end > size:
                raise too_short(part.uri, size)
            for start in range(part.offset, end, _CHUNK_BYTES):
                count = min(_CHUNK_BYTES, end - start)
                chunk = bytes(file.read_at(count, start))
                if len(chunk) != count:  # the file was cut meanwhile
                    raise too_short(part.uri, start + len(chunk))
                yield chunk

    def _path(self, uri: str) -> str:
        plain = _plain(uri)
        bad = {"..", "."} & set(unquote(plain).split("/")) or "\0" in plain
        if bad or not any(position == ANYWHERE or plain.startswith(position) for position in self.positions):
            raise self._outside(uri)
        if scheme_of(uri) not in ("", "file"):
            return uri
        self._check_local(uri, local_path(uri))
        return local_path(uri)

    def _check_local(self, uri: str, path: str) -> None:
        """Check where a local path leads, and to what: opening a pipe would wait for ever."""
        real = os.path.realpath(path)
        positions = (os.path.realpath(position) for position in self.positions if position.startswith("/"))
        if ANYWHERE not in self.positions and not any(
            real.startswith(f"{position.rstrip('/')}/") for position in positions
        ):
            raise self._outside(uri)
        if os.path.exists(real) and not (os.path.isfile(real) or os.path.isdir(real)):
            raise DataError(f"The file {redact(uri)} that a BLOB descriptor names is a device or a pipe.")

    def _outside(self, uri: str) -> UnsupportedError:
        return UnsupportedError(
            f"A BLOB descriptor of table {redact(self.root)} names the file {redact(uri)}, which lies neither in "
            f"the table nor in its warehouse, and is not read. Name its directory with option '{OPTION}' = "
            f"'{redact(uri.rpartition('/')[0])}' ('{ANYWHERE}' for all), or read the descriptors themselves with "
            "option 'blob-as-descriptor' = 'true'."
        )

    def _store(self, path: str) -> FileIO:
        owned = [self.root, warehouse_of(self.root)]
        if any(position and _plain(path).startswith(f"{_plain(position).rstrip('/')}/") for position in owned):
            return self.own  # whatever options the table has for other stores
        if not self.separate and _origin(path) == _origin(self.root):
            return self.own
        return FileIO.for_path(path, self.options)


def warehouse_of(root: str) -> str | None:
    """The directory of the warehouse that a table lies in; None where its path is none of a warehouse."""
    database, _, _ = root.rstrip("/").rpartition("/")
    warehouse, _, name = database.rpartition("/")
    return warehouse if name.endswith(".db") and warehouse else None


def too_short(uri: str, size: int) -> DataError:
    """The error of a descriptor that names more than a file has."""
    return DataError(f"The file {redact(uri)} has {size} bytes, and a BLOB descriptor names more of it.")


def _plain(path: str) -> str:
    """A path in one spelling."""
    scheme = scheme_of(path)
    if scheme in ("", "file"):
        return re.sub(r"/{2,}", "/", local_path(path))
    return FSSPEC_SCHEME.get(scheme, scheme) + path[len(scheme) :]


def _origin(path: str) -> str:
    """Scheme and host of a path."""
    return "" if scheme_of(path) in ("", "file") else "/".join(_plain(path).split("/")[:3])


_DESCRIPTORS: Final = tuple(bytes([version]) + HEADER[1:] for version in range(HEADER[0] + 1))


@dataclass(frozen=True)
class BlobInput:
    """Gives the bytes that values stand for. Picklable."""

    files: DescribedFiles
    null_if_missing: bool
    """``blob-write-null-on-missing-file``."""
    null_if_failed: bool
    """``blob-write-null-on-fetch-failure``."""

    def concerns(self, values: pa.Array | pa.ChunkedArray) -> bool:
        """Whether any of some values is more than its bytes."""
        return any(pc.any(pc.starts_with(values, mark)).as_py() for mark in (*_DESCRIPTORS, VIEW_HEADER))

    def parts(self, value: pa.Buffer) -> Iterable[Any] | None:
        """The bytes of a value, in parts; None where it is written as null.

        Raises:
            DataError: the file that it names is missing or too short; or it names a value of another table.
            UnsupportedError: the file lies where files are not read.
            StorageError: the file cannot be read.
        """
        head = value[: len(HEADER)].to_pybytes()
        if head == VIEW_HEADER:
            raise DataError(
                "A value names a BLOB of another table, which only columns of option 'blob-view-field' take. Read the "
                "values themselves, without option 'blob-view.resolve.enabled' = 'false'."
            )
        if head not in _DESCRIPTORS:
            return [value]
        described = self.files.parts(value.to_pybytes())
        try:
            return chain([next(described, b"")], described)
        except MissingBlobError as error:
            if not self.null_if_missing:
                raise
            _LOG.warning("A BLOB value is written as NULL: %s", error)
        except (OSError, CorruptTableError) as error:
            if not self.null_if_failed:
                raise
            _LOG.warning("A BLOB value is written as NULL, since it cannot be fetched: %s", error)
        return None

    def whole(self, value: pa.Buffer) -> Any:
        """The bytes of a value at once; None where it is written as null."""
        parts = self.parts(value)
        if parts is None:
            return None
        first, *others = list(parts) or [b""]
        return b"".join([first, *others]) if others else first


_REFERENCES_MAGIC: Final = struct.pack(">i", 0x50424C52)
_REFERENCES_VERSION: Final = 1
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
    payload = struct.pack(">Bi", _REFERENCES_VERSION, len(ordered)) + b"".join(
        _utf(text) for pack in ordered for text in pack
    )
    return _REFERENCES_MAGIC + payload + struct.pack(">I", zlib.crc32(payload))


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
    if data[:4] != _REFERENCES_MAGIC:
        raise ValueError("its magic number is another")
    version, count = struct.unpack_from(">Bi", data, 4)
    if version != _REFERENCES_VERSION or count < 0:
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
