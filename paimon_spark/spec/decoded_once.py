"""What small metadata files say, kept by their bytes: a process that reads the same bytes again does not decode them.

The files are read all the same, so what another writer changes, or what is damaged, is seen as before.
"""

from __future__ import annotations

import contextlib
from typing import Final, Generic, TypeVar

MOST_BYTES: Final = 1 << 20
"""Bytes of the files of one kind of which the content is kept."""
_MOST_OF_ONE: Final = 64 << 10

_T = TypeVar("_T")


class DecodedOnce(Generic[_T]):
    """The content of the files of one kind that were read or written last. The content must never be changed.

    Threads may use it at once; one that loses a race decodes the bytes again.
    """

    def __init__(self) -> None:
        self._content: dict[bytes, _T] = {}
        self._size = 0

    def find(self, data: bytes) -> _T | None:
        """What these bytes say, None where that is not known."""
        return self._content.get(data)

    def keep(self, data: bytes, content: _T) -> _T:
        """Keep what these bytes say; the oldest of what is kept goes."""
        if len(data) <= _MOST_OF_ONE and data not in self._content:
            self._content[data] = content
            self._size += len(data)
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was quicker
                while self._size > MOST_BYTES:
                    oldest = next(iter(self._content))
                    del self._content[oldest]
                    self._size -= len(oldest)
        return content
