"""The container of the indexes of a data file: a head that says what is where, and bodies (``FileIndexFormat``).

An index is read from it piece by piece and never beyond its end. Readers of indexes raise an error of this module; who
knows the file turns it into a `CorruptTableError` that names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paimon_spark.errors import CorruptTableError, DataError

_MAGIC = 1_493_475_289_347_502
_VERSION = 1
_FIXED = struct.Struct(">qii")
_EMPTY = -1
_MOST_BYTES = 2**31 - 1
_MOST_TEXT = 65_535


@dataclass(frozen=True, slots=True)
class FileIndexPart:
    """One index of one column in a container."""

    column: str
    """The column's name; of a key of a map ``column[key]``."""
    index_type: str
    """``bloom-filter``, ``bitmap``, ``bsi`` or ``range-bitmap``."""
    start: int | None
    """Where it begins in the container; None of an index without a body."""
    length: int
    """Bytes; 0 of an index without a body."""


def encode_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """The bytes of a container.

    Args:
        indexes: for each column (of a key of a map ``column[key]``) its indexes by their type, in the order of the
            file; None is an index without a body, of a file without rows.

    Raises:
        DataError: a name is longer than 65,535 bytes, or the container than 2 GB.
    """
    names = {name: _encode_text(name) for column, types in indexes.items() for name in (column, *types)}
    length = (
        _FIXED.size
        + 8
        + sum(len(names[column]) + 4 + sum(len(names[kind]) + 8 for kind in types) for column, types in indexes.items())
    )
    head, bodies, at = [_FIXED.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(indexes))], [], length
    for column, types in indexes.items():
        head += [names[column], struct.pack(">i", len(types))]
        for kind, body in types.items():
            if at + len(body or b"") > _MOST_BYTES:
                raise DataError("The indexes of one data file take more than 2 GB: index fewer columns.")
            head += [names[kind], struct.pack(">ii", _EMPTY if body is None else at, len(body or b""))]
            bodies.append(body or b"")
            at += len(bodies[-1])
    return b"".join((*head, struct.pack(">i", 0), *bodies))


def _encode_text(text: str) -> bytes:
    """Java's ``writeUTF``: each UTF-16 unit as one character, U+0000 as two bytes."""
    units = text.encode("utf-16-le", "surrogatepass")
    apart = "".join(chr(units[i] | units[i + 1] << 8) for i in range(0, len(units), 2))
    data = apart.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")
    if len(data) > _MOST_TEXT:
        raise DataError(f"The name of an index is {len(data)} bytes long, and {_MOST_TEXT} are the most.")
    return struct.pack(">H", len(data)) + data


def head_length(data: bytes, *, path: str) -> int:
    """The length of the head, from the first 16 bytes of a container.

    Raises:
        CorruptTableError: this is no file index.
    """
    if len(data) < _FIXED.size:
        raise _damaged(path, f"it has {len(data)} bytes")
    magic, version, length = _FIXED.unpack_from(data)
    if magic != _MAGIC:
        raise _damaged(path, "it does not begin like one")
    if version != _VERSION:
        raise _damaged(path, f"its version is {version}, known is {_VERSION}")
    if length < _FIXED.size:
        raise _damaged(path, f"it announces a head of {length} bytes")
    return int(length)


def decode_head(data: bytes, *, path: str) -> list[FileIndexPart]:
    """The indexes of a container, in their order.

    Args:
        data: the container, or at least its head.
        path: for messages.

    Raises:
        CorruptTableError: the head is damaged.
    """
    end = head_length(data, path=path)
    if end > len(data):
        raise _damaged(path, f"its head of {end} bytes is cut off at {len(data)}")
    return list(_parts(_Head(data[:end], path)))


def _parts(head: _Head) -> Iterator[FileIndexPart]:
    for _ in range(head.integer()):
        column = head.text()
        for _ in range(head.integer()):
            index_type, start, length = head.text(), head.integer(), head.integer()
            empty = start == _EMPTY
            if not empty and (start < 0 or length < 0):
                raise _damaged(head.path, f"an index has {length} bytes at {start}")
            yield FileIndexPart(column, index_type, None if empty else start, 0 if empty else length)


class _Head:
    """Reads the values of a head one after the other, none beyond its end."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self.path = path
        self._at = _FIXED.size

    def integer(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def text(self) -> str:
        raw = self._take(int.from_bytes(self._take(2), "big"))
        try:
            units = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        except UnicodeDecodeError as error:
            raise _damaged(self.path, "a name in its head is no text") from error

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise _damaged(self.path, "its head ends too early")
        self._at += count
        return taken


def _damaged(path: str, reason: str) -> CorruptTableError:
    return CorruptTableError(f"{path} is no file index: {reason}.", path=path)


class IndexDamageError(Exception):
    """The bytes are no such index; the message is the second half of a sentence."""


ReadBytes = Callable[[int, int], bytes]
"""Reads bytes of a container: (where, how many); fewer where it ends."""


class Section:
    """Bytes of a container from `start`, `length` of them; positions are counted from its first byte."""

    def __init__(self, read: ReadBytes, start: int, length: int) -> None:
        self._read = read
        self._start = start
        self.length = length

    def take(self, at: int, count: int) -> bytes:
        """Bytes of the section.

        Raises:
            IndexDamageError: it has fewer.
        """
        if at < 0 or count < 0 or at + count > self.length:
            raise IndexDamageError(f"it needs {count} bytes from {at}, but has {self.length}")
        data = self._read(self._start + at, count) if count else b""
        if len(data) != count:
            raise IndexDamageError("it is cut off")
        return data

    def upto(self, at: int, count: int) -> bytes:
        """As many of these bytes as the section has."""
        return self.take(at, max(0, min(count, self.length - at)))

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """Numbers of a ``struct`` form."""
        return struct.unpack(form, self.take(at, struct.calcsize(form)))
