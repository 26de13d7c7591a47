"""Ranges of keys by which a bucket that is larger than a task should hold is shared by several tasks.

A task should hold `write-buffer-size`: a bucket up to this size is sorted as a whole, so its files do not overlap. The
rows of a larger one are cut by key, into ranges of about half that size, since sizes are estimated. All rows of one key
stay in one task, and the files of two tasks do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.merge.sort import dense_ranks, sort_order
from paimon_spark.write.routing import Codes, partition_groups, positions_of, whole

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_MOST_BUCKETS = "dynamic-bucket.max-buckets"
_MOST_RANGES = 256
_MOST_TASKS = 2048
_ROWS_OF_RANGE = 20  # fewer rows of a sample say nothing about where to cut


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Where the buckets of some partitions are cut; picklable."""

    bounds: Mapping[bytes, pa.Table]
    """Of each partition that is cut the smallest key of each range but the first, ascending, distinct; columns of the
    trimmed primary key."""
    tasks: int = 1
    """How many tasks the write should have, so that each has one range of one bucket."""

    def count(self, partition: bytes) -> int:
        """Number of ranges of each bucket of a partition."""
        bounds = self.bounds.get(partition)
        return 1 if bounds is None else bounds.num_rows + 1

    def numbered(
        self, buckets: npt.NDArray[np.integer], rows: pa.Table, codes: Codes | None, partitions: Sequence[bytes]
    ) -> npt.NDArray[np.int64]:
        """Numbers of the ranges of rows: equal for rows of one bucket and range, ascending from bucket to bucket.

        Args:
            buckets: of each row.
            rows: at least the columns of the trimmed primary key.
            codes: the partition of each row, as `partition_groups` gives it.
            partitions: the bytes of each partition.
        """
        numbers = buckets.astype(np.int64)
        everything = [np.arange(rows.num_rows)] if codes is None else positions_of(codes, len(partitions))
        for partition, chosen in zip(partitions, everything, strict=True):
            bounds = self.bounds.get(partition)
            if bounds is not None:
                part = rows if codes is None else rows.take(pa.array(chosen))
                numbers[chosen] = numbers[chosen] * (bounds.num_rows + 1) + _range_numbers(bounds, part)
        return numbers


def _range_numbers(bounds: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row how many bounds are not above its key."""
    ranks = dense_ranks([pa.concat_arrays([whole(bounds, name), whole(rows, name)]) for name in bounds.column_names])
    return np.searchsorted(ranks[: bounds.num_rows], ranks[bounds.num_rows :], side="right").astype(np.int64)


def cut_buckets(sample: pa.Table, schema: TableSchema, *, rows: float, row_bytes: int) -> KeyRanges | None:
    """Cut the buckets of a write where they are larger than a task should hold.

    Args:
        sample: partition and key columns of some rows of the write, in the table's types.
        schema: of a table with a primary key and with fixed or dynamic buckets.
        rows: number of rows of the write.
        row_bytes: size of a row in memory.

    Returns:
        None where no bucket is so large.
    """
    if not sample.num_rows:
        return None
    options = schema.core_options
    held = max(1, int(options.value("write-buffer-size")))
    codes, partitions = partition_groups(sample, [schema.field(name) for name in schema.partition_keys])
    positions = [np.arange(sample.num_rows)] if codes is None else positions_of(codes, len(partitions))
    bounds, tasks = {}, 0
    for partition, chosen in zip(partitions, positions, strict=True):
        size = rows * len(chosen) / sample.num_rows
        buckets = _number_of_buckets(schema, size)
        size *= row_bytes / buckets
        ranges = min(_MOST_RANGES, -int(-2 * size // held), len(chosen) // _ROWS_OF_RANGE) if size > held else 1
        if ranges > 1:
            cuts = _quantiles(sample.take(pa.array(chosen)), schema.trimmed_primary_keys, ranges)
            if cuts.num_rows:
                bounds[partition] = cuts
        tasks += buckets * (1 + (bounds[partition].num_rows if partition in bounds else 0))
    return KeyRanges(bounds, min(tasks, _MOST_TASKS)) if bounds else None


def most_rows_of_bucket(schema: TableSchema) -> int | None:
    """How many new keys a dynamic bucket takes at most; None where buckets are fixed, or their number is limited."""
    options = schema.core_options
    if not schema.kind.assigns_buckets or int(options.value(_MOST_BUCKETS)) != -1:
        return None
    return int(options.value("dynamic-bucket.target-row-num"))


def _number_of_buckets(schema: TableSchema, rows: float) -> int:
    """The number of buckets that rows of one partition fill."""
    options = schema.core_options
    if not schema.kind.assigns_buckets:
        return options.bucket
    filled = math.ceil(rows / float(options.value("dynamic-bucket.target-row-num")))
    most = int(options.value(_MOST_BUCKETS))
    return filled if most == -1 else min(filled, most)


def _quantiles(rows: pa.Table, keys: Sequence[str], ranges: int) -> pa.Table:
    order = sort_order(rows, keys)
    numbers = np.repeat(np.arange(len(order.starts)), order.counts)  # the number of the key of each row in order
    cuts = np.unique(numbers[np.arange(1, ranges) * rows.num_rows // ranges])
    chosen = order.order[order.starts[cuts[cuts > 0]]]
    return rows.select(list(keys)).take(pa.array(chosen))
