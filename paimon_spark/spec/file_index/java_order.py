"""The order in which a Java ``HashMap`` gives its keys: what decides in which order Java writes indexes and bitmaps.

Of a large table the places into which eight keys fall become trees in Java, whose order is not imitated: readers do not
depend on any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K")
Numbers = npt.NDArray[np.int64]

_MASK = 0xFFFFFFFF
_FIRST_CAPACITY = 16
_LOAD = 0.75
_CROWD = 7
_TREE_CAPACITY = 64
_WATCHED = 50


def hash_map_order(hashes: npt.NDArray[np.int32], arrival: Numbers, *, size_at_last_call: int) -> Numbers:
    """Return positions of distinct keys in the order of a ``HashMap`` that ``computeIfAbsent`` has filled.

    That puts a key before the others of its place, and lets the table grow before it looks a key up.

    Args:
        hashes: ``hashCode`` of each key.
        arrival: when each key came first; any ascending numbers.
        size_at_last_call: how many keys there were when it was called last.
    """
    words = hashes.view(np.uint32)
    spread = words ^ (words >> np.uint32(16))
    first = np.argsort(arrival, kind="stable")[:_WATCHED]
    capacity = max(_capacity(size_at_last_call), _crowded(spread[first].tolist()))
    return np.lexsort((-arrival, spread & np.uint32(capacity - 1)))


def _capacity(size: int) -> int:
    capacity = _FIRST_CAPACITY
    while size > capacity * _LOAD:
        capacity *= 2
    return capacity


def _crowded(spread: list[int]) -> int:
    """The capacity to which a small table grows because many keys fall into one place."""
    capacity = _FIRST_CAPACITY
    for count in range(len(spread)):
        capacity = max(capacity, _capacity(count))
        position = spread[count] & (capacity - 1)
        if capacity < _TREE_CAPACITY and sum(each & (capacity - 1) == position for each in spread[:count]) >= _CROWD:
            capacity *= 2
    return capacity


def in_hash_map_order(calls: Iterable[K], hash_of: Callable[[K], int], *, computed: bool) -> list[K]:
    """Return distinct keys in the order in which a ``HashMap`` gives them.

    Args:
        calls: the keys with which it was called, one after the other.
        hash_of: ``hashCode``, as an unsigned number.
        computed: by ``computeIfAbsent``, not by ``put``.
    """
    called = list(calls)
    keys = list(dict.fromkeys(called))
    hashes = np.array([hash_of(key) for key in keys], np.uint32).view(np.int32)
    arrival = np.arange(len(keys))
    if not computed:
        words = hashes.view(np.uint32)
        positions = (words ^ (words >> np.uint32(16))) & np.uint32(_capacity(len(keys)) - 1)
        return [keys[i] for i in np.lexsort((arrival, positions)).tolist()]
    before = len(set(called[:-1]))
    return [keys[i] for i in hash_map_order(hashes, arrival, size_at_last_call=before).tolist()]


def string_hash(text: str) -> int:
    """Java's ``String.hashCode``, as an unsigned number."""
    result = 0
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    for unit in units.tolist():
        result = (31 * result + unit) & _MASK
    return result


def column_hash(name: str, key: str | None) -> int:
    """Java's ``FileIndexOptions.Column.hashCode``, of a column or of one key of a map."""
    result = 1
    for part in (string_hash(name), 0 if key is None else string_hash(key), 1237 if key is None else 1231):
        result = (31 * result + part) & _MASK
    return result


def fold_longs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Java's ``Long.hashCode`` of each value."""
    words = values.view(np.uint64)
    return (words ^ (words >> np.uint64(32))).astype(np.uint32).view(np.int32)
