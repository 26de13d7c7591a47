"""hll_sketch and theta_sketch unite to the bytes that Java makes, and Java goes on merging ours."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import datasketches as sketches
import pyarrow as pa
import pytest

from paimon_spark.errors import DataError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.table.table import load_table
from tests.support.merge_cases import engine_of, rows_table
from tests.support.plans import plan_of

COLUMNS = {"k": "INT NOT NULL", "h": "BYTES", "t": "BYTES"}
OPTIONS = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.h.aggregate-function": "hll_sketch",
    "fields.t.aggregate-function": "theta_sketch",
}
SIZES = (0, 1, 2, 7, 40, 300, 5_000, 60_000)


HLL = sketches.tgt_hll_type
HLL_KINDS = (HLL.HLL_4, HLL.HLL_6, HLL.HLL_8)


def hll(values: range, lg_k: int, kind: Any = HLL.HLL_4, *, compact: bool = True) -> bytes:
    sketch = sketches.hll_sketch(lg_k, kind)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_compact() if compact else sketch.serialize_updatable())


def theta(values: range, lg_k: int, *, ordered: bool = True) -> bytes:
    sketch = sketches.update_theta_sketch(lg_k)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact(ordered).serialize())


def commits(rng: random.Random, keys: int) -> list[list[tuple[int, bytes | None, bytes | None]]]:
    """Sketches of all sizes, of which those of one key overlap."""
    made = []
    for _ in range(4):
        rows = []
        for key in range(keys):
            start, size = rng.choice((0, 1000)), rng.choice(SIZES)
            values, lg_k = range(start, start + size), rng.choice((4, 8, 12, 12, 14))
            h = hll(values, lg_k, rng.choice(HLL_KINDS), compact=rng.random() < 0.5)
            t = theta(values, max(5, lg_k), ordered=rng.random() < 0.5)
            rows.append((key, rng.choice((h, h, None)), rng.choice((t, t, None))))
        made.append(rows)
    return made


def ours(path: str) -> list[tuple[Any, ...]]:
    plan = plan_of(load_table(path))
    batches = [b for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.oracle
@pytest.mark.parametrize("seed", [3, 19, 38, 46])
def test_unions_are_those_of_java(oracle: Any, seed: int) -> None:
    oracle.create(f"db.sketches{seed}", list(COLUMNS.items()), pk=["k"], options={**OPTIONS, "write-only": "true"})
    path = str(Path(oracle.location(f"db.sketches{seed}").removeprefix("file:")))
    for number, rows in enumerate(commits(random.Random(seed), 24)):
        oracle.write(path, rows)
        theirs = sorted(tuple(row.values()) for row in oracle.read(path).to_pylist())
        assert ours(path) == theirs
        if number == 1:
            assert compact(load_table(path, options={"write-only": "false"})) is not None
            assert sorted(tuple(row.values()) for row in oracle.read(path).to_pylist()) == theirs


def test_a_union_counts_what_both_hold() -> None:
    engine = engine_of(COLUMNS, ["k"], OPTIONS)
    rows = [
        {"k": 1, "h": hll(values, 12), "t": theta(values, 12), "_SEQUENCE_NUMBER": i, "_VALUE_KIND": 0}
        for i, values in enumerate((range(2_000), range(1_000, 4_000), range(500)))
    ]
    merged = engine.merge(rows_table(COLUMNS, rows), drop_deletes=True)
    (h,), (t,) = merged.column("h").to_pylist(), merged.column("t").to_pylist()
    assert sketches.hll_sketch.deserialize(h).get_estimate() == pytest.approx(4_000, rel=0.05)
    assert sketches.compact_theta_sketch.deserialize(t).get_estimate() == 4_000
    assert struct.unpack("<f", t[12:16]) == (1.0,)


@pytest.mark.parametrize("bad", [b"", b"\x00", b"\x02\x03\x03\x00\x00\x1a", b"\xff" * 40])
def test_bytes_that_are_no_sketch_are_reported_with_their_column(bad: bytes) -> None:
    for name in ("h", "t"):
        good = {"h": hll(range(9), 12), "t": theta(range(9), 12)}[name]
        rows = [
            {"k": 1, "h": None, "t": None, name: value, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": 0}
            for i, value in enumerate((good, bad))
        ]
        with pytest.raises(DataError, match=f"Column '{name}' holds bytes that are no sketch"):
            engine_of(COLUMNS, ["k"], OPTIONS).merge(rows_table(COLUMNS, rows), drop_deletes=True)


def test_a_retraction_is_not_taken() -> None:
    rows = [
        {"k": 1, "h": hll(range(9), 12), "t": None, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": kind}
        for i, kind in enumerate((0, 1))
    ]
    with pytest.raises(DataError, match="'hll_sketch' does not support retraction"):
        engine_of(COLUMNS, ["k"], OPTIONS).merge(rows_table(COLUMNS, rows), drop_deletes=True)
    merged = engine_of(COLUMNS, ["k"], {**OPTIONS, "fields.h.ignore-retract": "true"}).merge(
        rows_table(COLUMNS, [{**row, "t": None} for row in rows[:1]]), drop_deletes=True
    )
    assert isinstance(merged, pa.Table)
