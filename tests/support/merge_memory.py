"""How much memory a merge of long runs takes, in a process of its own."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from paimon_spark.merge.stream import merge_sorted_runs
from tests.support.merge_cases import engine_of

COLUMNS = {"k": "BIGINT NOT NULL", "a": "BIGINT", "b": "DOUBLE", "s": "STRING"}

BATCH = 4096


def key_value_batch(keys: np.ndarray, sequence: int) -> pa.RecordBatch:
    count = len(keys)
    return pa.record_batch(
        {
            "k": keys,
            "a": pa.array(keys, mask=keys % 3 == sequence % 3),
            "b": pa.array(np.full(count, float(sequence))),
            "s": pa.array(np.char.add("text of a row ", keys.astype(str))),
            "_SEQUENCE_NUMBER": pa.array(np.full(count, sequence)),
            "_VALUE_KIND": pa.array(np.zeros(count, np.int8)),
        }
    )


def run_of(count: int, step: int, sequence: int) -> Iterator[pa.RecordBatch]:
    """A run made while it is read, so that memory holds only what the merge keeps."""
    for first in range(0, count, BATCH):
        yield key_value_batch(np.arange(first, min(first + BATCH, count), dtype=np.int64) * step, sequence)


SIZES = ((1_500_000, 1, 0), (750_000, 2, 1), (375_000, 4, 2), (400_000, 3, 3))


def merge_and_measure(options: dict[str, str], budget: int) -> None:
    """Merges runs that are made while they are read; prints rows and how far its own process grew."""
    engine = engine_of(COLUMNS, ["k"], options)

    def merged(sizes: tuple[tuple[int, int, int], ...], budget_bytes: int) -> Iterator[pa.RecordBatch]:
        runs = [run_of(*size) for size in sizes]
        return merge_sorted_runs(runs, engine, budget_bytes=budget_bytes, drop_deletes=True)

    list(merged(((BATCH, 1, 0), (BATCH, 2, 1)), 2**20))  # what is loaded and allocated once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows, last = 0, -1
    for batch in merged(SIZES, budget):
        keys = batch.column("k").to_numpy()
        if keys[0] <= last or not (np.diff(keys) > 0).all():
            raise AssertionError("keys are not in order")
        last, rows = int(keys[-1]), rows + batch.num_rows
    print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
