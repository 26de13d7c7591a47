"""A process that serves task after task grows by little more than twice the budget, whatever it freed a moment ago."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.key_lookup import KeyLookup
from paimon_spark.spark.jobs import keyed_merges
from paimon_spark.spark.jobs.keyed_merges import KeyedMerge, portions
from paimon_spark.spark.jobs.write_tasks import filled_batches
from paimon_spark.write import row_writers
from paimon_spark.write.packed_rows import PACKED_SCHEMA, one_binary, unpack_rows
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.task_memory import BUDGET

_FIXED = 40 << 20
"""Stacks of threads, tables of codecs, numpy."""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's peak is read from /proc")
def test_steps_of_ten_times_the_budget(tmp_path: Path) -> None:
    """When the allocator gives memory back is chance: a step is over the budget if it is so three times."""
    over: set[str] | None = None
    for turn in range(3):
        command = [sys.executable, "-m", "tests.support.task_memory", str(tmp_path / f"{turn}")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown = {name: int(size) for name, size in (line.split(": ") for line in done.stdout.splitlines())}
        assert len(grown) == 5
        large = {f"{name}: {size >> 20} MB" for name, size in grown.items() if size > 2 * BUDGET + _FIXED}
        over = {name.partition(":")[0] for name in large} & (over if over is not None else set(grown))
        if not over:
            break
    assert not over, large


_MB = 1 << 20


def wide_rows(path: Path) -> tuple[WritePlan, pa.RecordBatch]:
    """The plan of a write of 80 MB in another order than that of the keys."""
    keys = pa.array(np.random.default_rng(1).permutation(40_000).astype(np.int32))
    rows = pa.RecordBatch.from_arrays([keys, pa.array(["x" * 2048] * len(keys))], names=["k", "v"])
    return plan_write(make_table(path, primary_key=["k"], bucket="1"), data_schema=rows.schema), rows


def test_a_flush_tells_of_freed_memory_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(row_writers, "note_freed", told.append)
    plan, rows = wide_rows(tmp_path / "t")
    write_batches(plan, [rows], 0)
    assert sum(told) > 150 * _MB, "the buffer, and the copies that are written"
    assert max(told[:-1]) < 24 * _MB


def test_a_merge_tells_of_the_rows_that_it_has_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(keyed_merges, "note_freed", told.append)
    monkeypatch.setattr(KeyedMerge, "_decided_rows", lambda self, plan, rows: iter(rows.to_batches()))
    plan, rows = wide_rows(tmp_path / "t")
    batches = [rows.slice(start, 1000) for start in range(0, rows.num_rows, 1000)]
    merge = KeyedMerge(plan.table.schema, (), (), (), KeyLookup.planned(plan.table, None, ()))
    assert sum(batch.num_rows for batch in merge._merged(plan, batches)) == rows.num_rows
    assert sum(told) > 60 * _MB
    assert max(told) < 40 * _MB


def test_wide_old_rows_are_looked_up_some_at_a_time(tmp_path: Path) -> None:
    """A source of 16 bytes a row would else bring old rows of 2 kB each for all that it holds."""
    plan, rows = wide_rows(tmp_path / "t")
    commit(plan.table, write_batches(plan, [rows], 0).messages)
    snapshot = plan.table.snapshots.latest()
    narrow, wide = (KeyLookup.planned(plan.table, snapshot, wanted) for wanted in ((), ("v",)))
    assert (narrow.old_row_bytes, wide.old_row_bytes > 0) == (0, True)
    source = pa.RecordBatch.from_arrays([rows.column(0)], names=["k"])
    assert [part.num_rows for part in portions(plan, [source], narrow)] == [rows.num_rows]
    parts = list(portions(plan, [source], replace(wide, old_row_bytes=8 << 10)))
    assert [part.num_rows for part in parts] == [4096] * 9 + [3136]
    keys = pa.concat_tables(parts).column("k").to_pylist()
    assert keys == sorted(keys) == list(range(rows.num_rows))


_ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False)])


def _tracked(number: int) -> tuple[pa.RecordBatch, weakref.ref[np.ndarray]]:
    values = np.full(1000, number)
    array = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    return pa.RecordBatch.from_arrays([array], schema=_ROWS), weakref.ref(values)


def _tracked_stream(number: int) -> tuple[pa.RecordBatch, weakref.ref[np.ndarray]]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _ROWS) as stream:
        stream.write_batch(_tracked(number)[0])
    values = np.frombuffer(sink.getvalue(), dtype=np.uint8).copy()
    arrays = [pa.array([0], pa.int32()), one_binary(pa.py_buffer(values))]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_SCHEMA), weakref.ref(values)


@pytest.mark.parametrize(
    ("made", "through"),
    [
        (_tracked, lambda batches: filled_batches(batches) or iter(())),
        (_tracked_stream, unpack_rows),
        (_tracked_stream, lambda batches: unpack_rows(filled_batches(batches) or iter(()))),
    ],
    ids=["filled", "unpacked", "filled and unpacked"],
)
def test_a_batch_that_was_taken_is_kept_by_nobody_while_the_next_one_comes(
    made: Callable[[int], tuple[pa.RecordBatch, weakref.ref[np.ndarray]]],
    through: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> None:
    given: list[weakref.ref[np.ndarray]] = []
    held: list[int] = []

    def sent() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            held.append(sum(reference() is not None for reference in given))
            batch, reference = made(number)
            given.append(reference)
            waiting = [batch]
            del batch
            yield waiting.pop()

    rows = 0
    taken = through(sent())
    while (batch := next(taken, None)) is not None:
        rows += batch.num_rows
        del batch
    assert rows == 4000
    assert held == [0, 0, 0, 0]
