"""Merging of sorted runs in bounded memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.merge_cases import engine_of

from paimon_spark.merge.stream import block_bytes, merge_sorted_runs

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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "fields.a.sequence-group": "b,s"},
        {"merge-engine": "first-row"},
    ],
    ids=["deduplicate", "partial-update", "sequence group", "first-row"],
)
def test_a_section_of_ten_times_the_budget_stays_within_twice_the_budget(options: dict[str, str]) -> None:
    budget = sum(batch.nbytes for size in SIZES for batch in run_of(*size)) // 10
    code = f"from merge.test_merge_stream import merge_and_measure as m; m({options!r}, {budget})"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])},
        capture_output=True,
        text=True,
        check=True,
    )
    rows, grown = (int(word) for word in done.stdout.split())
    assert rows == SIZES[0][0]
    assert grown < 2 * budget + 16 * 2**20


def test_one_key_may_fill_many_batches_of_a_run() -> None:
    engine = engine_of(COLUMNS, ["k"], {})
    one = [key_value_batch(np.full(50, 7), 1) for _ in range(5)]
    other = [key_value_batch(np.arange(20), 0)]
    merged = pa.Table.from_batches(
        merge_sorted_runs([iter(other), iter(one)], engine, budget_bytes=1, drop_deletes=False)
    )
    assert merged.column("k").to_pylist() == list(range(20))
    assert merged.column("_SEQUENCE_NUMBER").to_pylist()[7] == 1


def test_nothing_comes_of_no_runs_and_of_empty_ones() -> None:
    engine = engine_of(COLUMNS, ["k"], {})
    empty = key_value_batch(np.empty(0, np.int64), 0)
    assert list(merge_sorted_runs([], engine, budget_bytes=1, drop_deletes=True)) == []
    assert list(merge_sorted_runs([iter([]), iter([empty])], engine, budget_bytes=1, drop_deletes=True)) == []


def test_a_run_is_not_read_ahead_of_the_budget() -> None:
    engine = engine_of(COLUMNS, ["k"], {})
    read = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in run_of(BATCH * 20, 1, 0):
            read += 1
            yield batch

    next(merge_sorted_runs([counted(), run_of(BATCH * 20, 1, 1)], engine, budget_bytes=1000, drop_deletes=True))
    assert read == 1


def test_blocks_share_the_budget() -> None:
    assert block_bytes(256 * 2**20, 4) == 8 * 2**20
    assert block_bytes(1, 100) == 65_536
