"""A growing map from key hash to bucket: sorted runs of doubling size, looked up and extended by whole arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int32]

_BUCKET_BITS = 16
_LOW = 0xFFFFFFFF
_PREFIXES_PER_HASH = 8
_FEWEST_PREFIXES, _MOST_PREFIXES = 1 << 12, 1 << 25
_Integers = TypeVar("_Integers", np.int32, np.int64)


def distinct(values: npt.NDArray[_Integers]) -> npt.NDArray[_Integers]:
    """The values, each once, ascending. By a sort: ``numpy.unique`` of integers takes a hash table, far slower."""
    ordered = np.sort(values)
    return ordered[_first_of_runs(ordered)]


def distinct_hashes(hashes: Hashes) -> tuple[Hashes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The hashes, each once, ascending; where each occurs first; and for each row the number of its hash.

    As ``numpy.unique`` with both indexes gives them, by one sort of 8-byte words instead of an indirect one.
    """
    packed = np.sort((hashes.astype(np.int64) << 32) | np.arange(len(hashes), dtype=np.int64))
    ordered, position = (packed >> 32).astype(np.int32), packed & _LOW
    starts = _first_of_runs(ordered)
    inverse = np.empty(len(hashes), dtype=np.int64)
    inverse[position] = np.cumsum(starts) - 1
    return ordered[starts], position[starts], inverse


def _first_of_runs(ordered: npt.NDArray[_Integers]) -> npt.NDArray[np.bool_]:
    """Which values of an ascending array differ from the one before."""
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


class HashRuns:
    """Key hashes (int32) and their buckets (below 2^15), 8 bytes each: the hash in the high bits, so that they sort.

    New hashes come as a run of their own; runs of similar size are merged, so that n hashes in k calls cost
    O(n log k) and a look-up visits O(log k) runs. A table of prefixes, a byte for each of some leading bits of hashes,
    tells most hashes that are not there without a search; it takes 32 MB at most.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.int64]] = []
        self._prefixes = np.zeros(_FEWEST_PREFIXES, dtype=np.bool_)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, hashes: Hashes, buckets: npt.NDArray[np.integer]) -> None:
        """Add hashes that are not there yet, each once, in any order."""
        if not len(hashes):
            return
        run = (hashes.astype(np.int64) << _BUCKET_BITS) | buckets.astype(np.int64)
        run.sort()
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            merged = np.concatenate([self._runs.pop(-2), self._runs.pop()])
            merged.sort(kind="stable")  # of two sorted halves: one merge
            self._runs.append(merged)
        self._note_prefixes(run)

    def _note_prefixes(self, run: npt.NDArray[np.int64]) -> None:
        wanted = min(_PREFIXES_PER_HASH * len(self), _MOST_PREFIXES)
        if wanted <= len(self._prefixes):
            self._prefixes[self._slots(run >> _BUCKET_BITS)] = True
            return
        self._prefixes = np.zeros(min(1 << (2 * wanted - 1).bit_length(), _MOST_PREFIXES), dtype=np.bool_)
        for known in self._runs:
            self._prefixes[self._slots(known >> _BUCKET_BITS)] = True

    def _slots(self, hashes: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
        """The prefixes of hashes, their leading bits: sorted hashes go through the table in order."""
        return hashes.astype(np.int32).view(np.uint32) >> np.uint32(33 - len(self._prefixes).bit_length())

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash, -1 where it is unknown, shape (hashes,)."""
        found = np.full(len(hashes), -1, dtype=np.int32)
        if not self._runs:
            return found
        hit = np.flatnonzero(self._prefixes[self._slots(hashes)])
        if len(hit) < len(hashes):
            found[hit] = self._search(hashes[hit])
            return found
        return self._search(hashes)

    def _search(self, hashes: Hashes) -> Buckets:
        found = np.full(len(hashes), -1, dtype=np.int32)
        wanted = hashes.astype(np.int64) << _BUCKET_BITS
        if np.any(wanted[1:] < wanted[:-1]):  # ascending, each search starts where the one before it ended
            order = np.argsort(hashes)
            found[order] = self._search(hashes[order])
            return found
        for run in self._runs:
            position = np.searchsorted(run, wanted)
            position[position == len(run)] = 0
            at = run[position]
            hit = (at ^ wanted) >> _BUCKET_BITS == 0
            found[hit] = at[hit] & ((1 << _BUCKET_BITS) - 1)
        return found

    def by_bucket(self) -> dict[int, Hashes]:
        """The hashes of each bucket, sorted."""
        if not self._runs:
            return {}
        packed = np.sort(np.concatenate(self._runs), kind="stable")
        hashes = (packed >> _BUCKET_BITS).astype(np.int32)
        buckets = (packed & ((1 << _BUCKET_BITS) - 1)).astype(np.uint16)
        counts = np.bincount(buckets)
        ids = np.flatnonzero(counts)
        if len(ids) == 1:
            return {int(ids[0]): hashes}
        order = np.argsort(buckets, kind="stable")  # 16 bits: a radix sort
        return dict(zip(ids.tolist(), np.split(hashes[order], np.cumsum(counts[ids])[:-1]), strict=True))
