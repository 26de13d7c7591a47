"""One index among the bytes of a container, read piece by piece and never beyond its end.

Readers of indexes raise an error of this module; who knows the file turns it into a `CorruptTableError` that names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


class IndexDamageError(Exception):
    """The bytes are no such index; the message is the second half of a sentence."""


ReadBytes = Callable[[int, int], bytes]
"""Reads bytes of a container: (where, how many); fewer where it ends."""


class Section:
    """Bytes of a container from `start`, `length` of them; places are counted from its first byte."""

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
