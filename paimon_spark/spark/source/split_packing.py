"""Packs splits into few large Spark partitions: each task costs about 56 ms of core time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from paimon_spark.read.split import DataSplit

MIN_BATCH_ROWS = 65_536
"""Batches below this are put together: throughput into Spark is on its plateau from here on."""
MAX_BATCH_ROWS = 524_288
"""Batches above this are cut (without a copy)."""
MAX_GATHERED_BYTES = 32 << 20
"""Small batches are not put together beyond this, however few rows they have."""


def cores_here() -> int:
    """The cores this process may use: right for local sessions, a floor for clusters."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pack_splits(
    splits: Sequence[DataSplit], *, target_bytes: int, open_file_cost_bytes: int, cores: int | None = None
) -> list[tuple[DataSplit, ...]]:
    """Put neighbouring splits together, up to `target_bytes` each, but not so far that cores are left without work.

    Args:
        splits: in the order of the plan, which is kept (neighbours are of one partition).
        target_bytes: `source.split.target-size`.
        open_file_cost_bytes: `source.split.open-file-cost`, what a file weighs at least.
        cores: how many tasks can run at once; by default `cores_here`.
    """
    alone = [(split,) for split in splits]
    return pack_groups(alone, target_bytes=target_bytes, open_file_cost_bytes=open_file_cost_bytes, cores=cores)


def pack_groups(
    groups: Sequence[Sequence[DataSplit]], *, target_bytes: int, open_file_cost_bytes: int, cores: int | None = None
) -> list[tuple[DataSplit, ...]]:
    """Put neighbouring groups of splits together; as `pack_splits`, but a group is never torn apart."""
    weights = [_weight(group, open_file_cost_bytes) for group in groups]
    share = int(1.05 * sum(weights)) // max(1, cores or cores_here())
    limit = min(target_bytes, max(open_file_cost_bytes, share))
    packed: list[tuple[DataSplit, ...]] = []
    current: list[DataSplit] = []
    filled = 0
    for group, weight in zip(groups, weights, strict=True):
        if current and filled + weight > limit:
            packed.append(tuple(current))
            current, filled = [], 0
        current += group
        filled += weight
    if current:
        packed.append(tuple(current))
    return packed


def _weight(group: Sequence[DataSplit], open_file_cost_bytes: int) -> int:
    return sum(max(file.size // file.share, open_file_cost_bytes) for split in group for file in split.files)


def even_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of a good size: small neighbours are joined, large batches are cut."""
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_small = batch.num_rows < MIN_BATCH_ROWS and batch.nbytes < MAX_GATHERED_BYTES // 2
        if is_small:
            pending.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows < MIN_BATCH_ROWS and size_bytes < MAX_GATHERED_BYTES:
                continue
        if pending:
            yield _joined(pending)
            pending, rows, size_bytes = [], 0, 0
        if not is_small:
            for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
                yield batch if batch.num_rows <= MAX_BATCH_ROWS else batch.slice(start, MAX_BATCH_ROWS)
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
