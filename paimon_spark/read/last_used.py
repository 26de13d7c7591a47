"""A cache of what was looked at last, within a budget; threads share it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

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
