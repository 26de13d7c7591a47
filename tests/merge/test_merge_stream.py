"""Merging of sorted runs in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.merge.stream import block_bytes, merge_sorted_runs
from tests.support.merge_cases import engine_of
from tests.support.merge_memory import BATCH, COLUMNS, SIZES, key_value_batch, run_of


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
    code = f"from tests.support.merge_memory import merge_and_measure as m; m({options!r}, {budget})"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root)},
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
