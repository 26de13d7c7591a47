"""A growing map from key hash to bucket: sorted runs of doubling size, looked up and extended by whole arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class HashRuns:
    """Key hashes (int32) and their buckets (int16), 6 bytes each.

    New hashes come as a run of their own; runs of similar size are merged, so that n hashes in k calls cost
    O(n log k) and a look-up visits O(log k) runs.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def add(self, hashes: npt.NDArray[np.int32], buckets: npt.NDArray[np.int16]) -> None:
        """Add hashes that are not there yet, in any order; of equal ones within the call the last wins."""
        if not len(hashes):
            return
        self._runs.append(_sorted_run(hashes, buckets))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) >= len(self._runs[-2][0]):
            newer, older = self._runs.pop(), self._runs.pop()
            merged = np.concatenate([older[0], newer[0]]), np.concatenate([older[1], newer[1]])
            self._runs.append(_sorted_run(*merged))

    def find(self, hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
        """The bucket of each hash, -1 where it is unknown, shape (hashes,)."""
        found = np.full(len(hashes), -1, dtype=np.int16)
        for known, buckets in self._runs:
            position = np.searchsorted(known, hashes)
            position[position == len(known)] = 0
            hit = known[position] == hashes
            found[hit] = buckets[position[hit]]
        return found


def _sorted_run(
    hashes: npt.NDArray[np.int32], buckets: npt.NDArray[np.int16]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    order = np.argsort(hashes, kind="stable")
    hashes, buckets = hashes[order], buckets[order]
    last = np.ones(len(hashes), dtype=np.bool_)
    last[:-1] = hashes[1:] != hashes[:-1]
    return (hashes, buckets) if last.all() else (hashes[last], buckets[last])
