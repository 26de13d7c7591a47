"""Values that a process keeps: files decoded once, what was looked at last, what the functions of a block find.

The files are read all the same, so what another writer changes, or what is damaged, is seen as before.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
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


_Value = TypeVar("_Value")


class ScopedValue(Generic[_Value]):
    """The value of the innermost block of this thread; None outside of each block."""

    def __init__(self, name: str) -> None:
        self._variable: ContextVar[_Value | None] = ContextVar(name, default=None)

    def get(self) -> _Value | None:
        """The value of the innermost block."""
        return self._variable.get()

    @contextlib.contextmanager
    def bound_to(self, value: _Value) -> Iterator[_Value]:
        """Let functions inside the block find the value."""
        before = self._variable.set(value)
        try:
            yield value
        finally:
            self._variable.reset(before)


V = TypeVar("V")


class LastUsed(Generic[V]):
    """Values by their keys; those that nobody has looked at for longest go first."""

    def __init__(self, most: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        """Keep values whose weights sum up to ``most``; each weighs 1 where ``weight`` is not given."""
        self._most = most
        self._weight = weight
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, V] = OrderedDict()
        self._sum = 0

    def get(self, key: Hashable) -> V | None:
        """The value, if it is kept."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key]

    def of(self, key: Hashable, find: Callable[[], V]) -> V:
        """The value, found now if it is not kept; threads may find it at once."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        found = find()
        self.put(key, found)
        return found

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value."""
        with self._lock:
            if key in self._found:
                self._sum -= self._weight(self._found.pop(key))
            self._found[key] = value
            self._sum += self._weight(value)
            while self._sum > self._most:
                self._sum -= self._weight(self._found.popitem(last=False)[1])
