"""Sections and bins: which files must be read together, by their key bounds, and how many make a split.

Equals Java's ``IntervalPartition``, ``BinPacking.packForOrdered``, ``MergeTreeSplitGenerator`` and
``AppendOnlySplitGenerator`` (docs/internals/format.md §7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from paimon_spark.read.key_ranks import key_ranks
from paimon_spark.read.split import SplitFile

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable

T = TypeVar("T")


def pack_ordered(items: Iterable[T], weight: Callable[[T], int], target: int) -> list[list[T]]:
    """Cut ``items`` into runs whose weights stay within ``target`` where they can, keeping the order."""
    bins: list[list[T]] = []
    current: list[T] = []
    filled = 0
    for item in items:
        heavy = weight(item)
        if current and filled + heavy > target:
            bins.append(current)
            current, filled = [], 0
        current.append(item)
        filled += heavy
    if current:
        bins.append(current)
    return bins


def sections_of(files: Sequence[T], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> list[list[T]]:
    """Group files whose key ranges touch, directly or through others; groups in ascending key order.

    Args:
        files: of one bucket, or what stands for them.
        low: rank of each file's smallest key among all the keys; equal keys have equal ranks.
        high: rank of each file's largest key.
    """
    order = np.lexsort((high, low))
    bounds = np.maximum.accumulate(high[order])
    starts = np.concatenate(([True], low[order][1:] > bounds[:-1])) if len(order) else np.array([], dtype=bool)
    sections: list[list[T]] = []
    for index, first in zip(order.tolist(), starts.tolist(), strict=True):
        if first:
            sections.append([])
        sections[-1].append(files[index])
    return sections


def runs_of(section: Sequence[SplitFile]) -> list[list[SplitFile]]:
    """Cut a section into sorted runs, oldest first: the levels from the highest down, then each file of level 0.

    Rows of one key and one sequence number, of writers that did not see each other, are as new as their run. So files
    of level 0 with common sequence numbers go by the order of their commits (`CommitOrder` stamps it on them): whatever
    a compaction has raised meanwhile was committed before what is still at level 0. Java: any order.

    Args:
        section: in ascending order of the smallest keys, so that the files of one level are in key order.
    """
    levels: dict[int, list[SplitFile]] = {}
    for file in section:
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    newest = sorted((file for file in section if file.level == 0), key=lambda f: (f.max_seq, f.min_seq, f.name))
    if any(older.max_seq >= newer.min_seq for older, newer in pairwise(newest)):
        newest.sort(key=lambda file: file.created_millis)
    return [levels[level] for level in sorted(levels, reverse=True)] + [[file] for file in newest]


def has_no_deletes(file: SplitFile) -> bool:
    """Return whether the file holds no retract rows; an unknown count (old files) counts as none, as in Java."""
    return not file.delete_row_count


def is_raw_bucket(files: Sequence[SplitFile], *, one_row_per_key: bool = False) -> bool:
    """Return whether the files of a primary-key bucket can be read one by one: one level above 0, no deletes.

    Args:
        files: of the bucket.
        one_row_per_key: above level 0 no two rows have one key, since vectors delete the older one or since no newer
            one is written (first-row): several levels do as well.
    """
    levels = {file.level for file in files}
    return (one_row_per_key or len(levels) == 1) and 0 not in levels and all(map(has_no_deletes, files))


Runs = list[list["SplitFile"]]


def sections_with_runs(table: FileStoreTable, files: Sequence[SplitFile]) -> Iterator[Runs]:
    """Yield the sorted runs, oldest first, of each section of a bucket's files, in ascending key order."""
    low, high = key_ranks(table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files])
    return map(runs_of, sections_of(files, low, high))


def has_one_row_per_key(runs: Runs) -> bool:
    """Return whether each row of a section is a row of the table: one sorted run, which surely holds no deletes."""
    return len(runs) == 1 and all(file.delete_row_count == 0 for file in runs[0])


def is_unmerged(table: FileStoreTable, split: DataSplit) -> bool:
    """Return whether each row of a split's files is a row of the table, if the files surely hold no deletes."""
    return split.raw_convertible or all(map(has_one_row_per_key, sections_with_runs(table, split.files)))
