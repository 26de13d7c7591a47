"""The unit of comparing two states: files that only one of them has, of one bucket or of buckets that were rescaled.

Equals Java's ``IncrementalSplit`` of a batch read. Plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from paimon_spark.read.split import DataSplit, SplitFile


@dataclass(frozen=True, slots=True)
class DiffSplit(DataSplit):
    """Files of both states, those of `before` first."""

    before_counts: tuple[int, ...] = ()
    """How many of the files belong to each bucket of the earlier state."""
    after_counts: tuple[int, ...] = ()
    """How many of the rest belong to each bucket of the later state."""

    @property
    def before(self) -> list[tuple[SplitFile, ...]]:
        """Files of the earlier state, by bucket."""
        return self._parts()[: len(self.before_counts)]

    @property
    def after(self) -> list[tuple[SplitFile, ...]]:
        """Files of the later state, by bucket."""
        return self._parts()[len(self.before_counts) :]

    def _parts(self) -> list[tuple[SplitFile, ...]]:
        ends = [0, *accumulate((*self.before_counts, *self.after_counts))]
        return [self.files[start:end] for start, end in pairwise(ends)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split and the counts."""
        restore, arguments = DataSplit.__reduce__(self)
        return _restored, (restore(*arguments), self.before_counts, self.after_counts)


def _restored(split: DataSplit, before: tuple[int, ...], after: tuple[int, ...]) -> DiffSplit:
    place = split.partition, split.bucket, split.total_buckets
    return DiffSplit(split.snapshot_id, *place, split.files, False, split.branch, before, after)
