"""How far a process grows that writes, merges, compacts and reads rows of 2 kB: ten times its budget.

`python -m tests.support.task_memory DIRECTORY` prints a line for each step: its name and the bytes. A process of its
own: what it grows by is the kernel's peak less what it held before the first step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import paimon_spark
from paimon_spark import memory
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table

BUDGET = 32 << 20
"""An eighth of the default; so is what the process keeps of freed memory, and it counts as large from the start."""
ROWS, WIDTH, BATCH = 80_000, 2048, 1000
"""Written twice: 10 times the budget."""
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
_SIGNS = np.frombuffer(b"0123456789abcdef", np.uint8)


def rows(seed: int, count: int) -> Iterator[pa.RecordBatch]:
    """Rows in another order than that of their keys, made as they are asked for."""
    random = np.random.default_rng(seed)
    ends = pa.py_buffer(np.arange(0, BATCH * WIDTH + 1, WIDTH, dtype=np.int32))
    for start in range(0, count, BATCH):
        keys = (np.arange(start, start + BATCH, dtype=np.int64) * 7919) % count
        data = pa.py_buffer(_SIGNS[random.integers(0, 16, BATCH * WIDTH, dtype=np.uint8)])
        texts = pa.StringArray.from_buffers(BATCH, ends, data)
        yield pa.RecordBatch.from_arrays([pa.array(keys), texts], schema=SCHEMA)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def _make(path: str) -> None:
    fields = [DataField(0, "k", parse_type("BIGINT NOT NULL")), DataField(1, "v", parse_type("STRING"))]
    budget = f"{BUDGET}"
    options = {"bucket": "1", "write-only": "true", "write-buffer-size": budget, "read.merge.memory-budget": budget}
    create_table(path, create_schema(fields, ("k",), (), options, None))


def _append(path: str, seed: int, count: int = ROWS) -> int:
    batches = pa.RecordBatchReader.from_batches(SCHEMA, rows(seed, count))
    paimon_spark.open_table(path).append(batches)
    return count


def _read(path: str) -> int:
    return sum(batch.num_rows for batch in paimon_spark.open_table(path).scan().to_reader())


def _compact(path: str) -> int:
    paimon_spark.open_table(path, write_only=False).compact()
    return ROWS


def main(directory: str) -> None:
    """Run the steps."""
    memory.KEPT_BYTES, memory.STEP_BYTES = 0, memory.STEP_BYTES // 8
    _make(f"{directory}/d.db/warm")
    for seed in (1, 2):
        _append(f"{directory}/d.db/warm", seed, BATCH)
    for step in (_read, _compact, _read):  # what is imported and allocated once
        step(f"{directory}/d.db/warm")
    path = f"{directory}/d.db/t"
    _make(path)
    held = _status("VmRSS")
    steps = {
        "insert": lambda: _append(path, 1),
        "upsert": lambda: _append(path, 2),
        "read of overlapping runs": lambda: _read(path),
        "compaction": lambda: _compact(path),
        "read of one run": lambda: _read(path),
    }
    for name, step in steps.items():
        Path("/proc/self/clear_refs").write_text("5")
        if step() != ROWS:
            raise AssertionError(name)
        print(f"{name}: {_status('VmHWM') - held}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
