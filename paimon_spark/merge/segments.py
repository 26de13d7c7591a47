"""Runs of rows with one key, and reductions over them without a loop over rows or keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SHORT = 8
"""Rows of the longest segment up to which a look for those that are long enough beats a sort by length."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Rows in merge order, cut into segments of one key each; no segment is empty.

    Attributes:
        rows: Row numbers in merge order.
        starts: Where each segment starts in ``rows``.
        late: For each of ``rows``, whether it is older than what its sequence group holds and is therefore aggregated
            reversed; None when no row is.
    """

    rows: Indices
    starts: Indices
    late: Mask | None = None

    @property
    def counts(self) -> Indices:
        """Rows of each segment."""
        return np.diff(self.starts, append=len(self.rows))

    @property
    def owners(self) -> Indices:
        """For each of ``rows``, the number of its segment."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    @property
    def last_rows(self) -> Indices:
        """The last row of each segment."""
        last: Indices = self.rows[np.append(self.starts[1:], len(self.rows)) - 1]
        return last

    @property
    def latest_first(self) -> Indices:
        """The rows with the late ones in front of their segment, the latest first, as Java's ``aggReversed`` does."""
        if self.late is None:
            return self.rows
        positions = np.arange(len(self.rows))
        return self.rows[np.lexsort((np.where(self.late, -positions, positions), ~self.late, self.owners))]

    def last_where(self, mask: Mask) -> Indices:
        """The last row of each segment for which the mask (over ``rows``) holds, -1 if there is none."""
        return self._rows_at(self.last_position(mask))

    def first_where(self, mask: Mask) -> Indices:
        """The first row of each segment for which the mask holds, -1 if there is none."""
        return self._rows_at(self.first_position(mask))

    def last_position(self, mask: Mask) -> Indices:
        """Like ``last_where``, but positions in ``rows``."""
        if not len(self.starts):
            return np.empty(0, np.int64)
        ends = np.append(self.starts[1:], len(self.rows))
        if int((ends - self.starts).max()) > _SHORT:
            return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), self.starts)
        found: Indices = ends - 1
        open_ = np.flatnonzero(~mask[found])
        while len(open_):
            found[open_] -= 1
            none = found[open_] < self.starts[open_]
            found[open_[none]] = -1
            open_ = open_[~none]
            open_ = open_[~mask[found[open_]]]
        return found

    def first_position(self, mask: Mask) -> Indices:
        """Like ``first_where``, but positions in ``rows``."""
        if not len(self.starts):
            return np.empty(0, np.int64)
        none = len(mask)
        found = np.minimum.reduceat(np.where(mask, np.arange(none), none), self.starts)
        return np.where(found == none, -1, found)

    def _rows_at(self, positions: Indices) -> Indices:
        return np.where(positions < 0, -1, self.rows[positions])

    def select(self, mask: Mask) -> tuple[Segments, Indices]:
        """The rows for which the mask holds, and the numbers of the segments that have any."""
        if not len(self.starts) or mask.all():
            return self, np.arange(len(self.starts))
        before = np.concatenate(([0], np.cumsum(mask)))
        left = before[np.append(self.starts[1:], len(mask))] - before[self.starts]
        present = np.flatnonzero(left)
        starts = np.cumsum(left[present]) - left[present]
        return Segments(self.rows[mask], starts, None if self.late is None else self.late[mask]), present

    def pick(self, numbers: Indices) -> Segments:
        """Only the segments of these numbers, in their order."""
        counts = self.counts[numbers]
        starts = np.cumsum(counts) - counts
        positions = np.arange(counts.sum()) + np.repeat(self.starts[numbers] - starts, counts)
        return Segments(self.rows[positions], starts, None if self.late is None else self.late[positions])

    def by_position(self) -> Iterator[tuple[Indices, Indices]]:
        """For position 0, 1, … inside a segment: the segments that are so long, and where in ``rows`` they have it."""
        counts = self.counts
        longest = int(counts.max()) if len(counts) else 0
        if longest <= _SHORT:
            for position in range(longest):
                active = np.flatnonzero(counts > position) if position else np.arange(len(counts))
                yield active, self.starts[active] + position
            return
        longest_first = np.argsort(-counts, kind="stable")
        ordered = -counts[longest_first]
        for position in range(int(-ordered[0]) if len(ordered) else 0):
            active = longest_first[: np.searchsorted(ordered, -position, side="left")]
            yield active, self.starts[active] + position


def reduce_exactly(
    starts: Indices,
    counts: Indices,
    values: npt.NDArray[np.generic],
    operation: Callable[[npt.NDArray[np.generic], npt.NDArray[np.generic]], npt.NDArray[np.generic]],
    whole: Callable[[npt.NDArray[np.generic]], np.generic] | None = None,
) -> npt.NDArray[np.generic]:
    """Folds each segment strictly from left to right, as Java does (numpy's own sums go pairwise).

    Args:
        starts: Where the segments start in ``values``.
        counts: Their lengths, at least 1.
        values: The values.
        operation: (accumulated, next) of many segments at once.
        whole: Folds one long segment at once, from left to right; used for those beyond 64 values.
    """
    result = values[starts]
    longest = int(counts.max()) if len(counts) else 0
    if longest <= _SHORT:
        for position in range(1, longest):
            active = np.flatnonzero(counts > position)
            result[active] = operation(result[active], values[starts[active] + position])
        return result
    order = np.argsort(-counts, kind="stable")
    ordered = -counts[order]
    if whole is not None:
        hot = int(np.searchsorted(ordered, -64, side="left"))
        for number in order[:hot]:
            result[number] = whole(values[starts[number] : starts[number] + counts[number]])
        order, ordered = order[hot:], ordered[hot:]
    for position in range(1, int(-ordered[0]) if len(ordered) else 0):
        active = order[: np.searchsorted(ordered, -position, side="left")]
        result[active] = operation(result[active], values[starts[active] + position])
    return result
