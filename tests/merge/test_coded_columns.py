"""Strings that come as dictionaries, and rows without KeyValue columns, merge to what plain rows merge to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.merge.merge_engine import bytes_of
from paimon_spark.merge.stream import merge_sorted_runs
from paimon_spark.read import split_read
from tests.support.merge_cases import engine_of
from tests.support.seeds import chance

COLUMNS = {"k": "BIGINT NOT NULL", "s": "STRING", "t": "STRING", "g": "BIGINT", "v": "BIGINT"}
FUNCTIONS = {f"fields.{name}.aggregate-function": "max" for name in ("t", "v")}
ENGINES = {
    "deduplicate": {},
    "sequence.field": {"sequence.field": "g"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "sequence group": {"merge-engine": "partial-update", "fields.g.sequence-group": "s,t"},
    "largest of a group": {"merge-engine": "partial-update", "fields.g.sequence-group": "s,t,v", **FUNCTIONS},
    "aggregation": {"merge-engine": "aggregation", **FUNCTIONS},
    "first values": {"merge-engine": "aggregation", "fields.default-aggregate-function": "first_non_null_value"},
}


def run_of(rng: np.random.Generator, sequence: int) -> pa.RecordBatch:
    """Sorted rows of some of 400 keys, a fifth of the values null; strings of few values."""
    keys = np.sort(rng.choice(400, 250, replace=False))

    def column(values: object, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(250) < 0.2)

    texts = [[f"{name}{rng.integers(0, 9)}" for _ in keys] for name in ("s", "ü")]
    return pa.record_batch(
        {
            "k": keys,
            **{name: column(values, pa.string()) for name, values in zip("st", texts, strict=True)},
            **{name: column(rng.integers(0, 5, 250), pa.int64()) for name in "gv"},
            "_SEQUENCE_NUMBER": pa.array(np.full(250, sequence)),
            "_VALUE_KIND": pa.array(np.zeros(250, np.int8)),
        }
    )


@pytest.mark.parametrize("name", ENGINES)
def test_dictionaries_and_plain_columns_merge_alike(name: str) -> None:
    """Four runs in several batches; a run has other dictionaries than the next, or none."""
    engine = engine_of(COLUMNS, ["k"], ENGINES[name])
    rng = np.random.default_rng(chance("coded columns", name).randrange(1 << 32))
    values = list(COLUMNS)
    moved = engine.moved_columns(values)
    assert "s" in moved
    assert "k" not in moved
    assert ("t" in moved) == (name not in ("largest of a group", "aggregation"))
    plain = [run_of(rng, at) for at in range(4)]

    def merged(runs: list[list[pa.RecordBatch]]) -> pa.Table:
        batches = merge_sorted_runs(
            list(map(iter, runs)), engine, budget_bytes=16 << 10, drop_deletes=True, columns=values,
            key_value_columns=False,
        )  # fmt: skip
        return pa.Table.from_batches(batches)

    def coded(batch: pa.RecordBatch, *, some: bool) -> list[pa.RecordBatch]:
        cuts = [0, 90, 170, 250]
        parts = [batch.slice(a, b - a).select(values) for a, b in pairwise(cuts)]  # arrival says the rest
        return [
            pa.record_batch(
                {
                    n: c.dictionary_encode() if n in moved and n in "st" and (some or at) else c
                    for n, c in zip(part.schema.names, part.columns, strict=True)
                }
            )
            for at, part in enumerate(parts)
        ]

    expected = merged([[batch] for batch in plain])
    found = merged([coded(batch, some=at != 2) for at, batch in enumerate(plain)])
    assert found.schema.types == expected.schema.types
    assert found.to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("options", [{}, {"sequence.field": "g"}], ids=["deduplicate", "sequence.field"])
def test_deletes_without_sequence_numbers(options: dict[str, str]) -> None:
    """The order of runs says which of a delete and an add is newer, in both directions."""
    engine = engine_of(COLUMNS, ["k"], options)
    rng = np.random.default_rng(chance("kinds without sequences").randrange(1 << 32))
    runs = []
    for at in range(4):
        batch = run_of(rng, at)
        kinds = pa.array(rng.choice([0, 2, 3], 250).astype(np.int8))
        runs.append(batch.set_column(batch.schema.get_field_index("_VALUE_KIND"), "_VALUE_KIND", kinds))

    def merged(columns: list[str]) -> dict[str, list[object]]:
        batches = merge_sorted_runs(
            [iter([run.select(columns)]) for run in runs], engine, budget_bytes=1 << 20, drop_deletes=True,
            columns=list(COLUMNS), key_value_columns=False,
        )  # fmt: skip
        return pa.Table.from_batches(batches).to_pydict()

    assert merged([*COLUMNS, "_VALUE_KIND"]) == merged([*COLUMNS, "_SEQUENCE_NUMBER", "_VALUE_KIND"])


def test_bytes_of_a_batch_count_each_string() -> None:
    """A long string that many rows have is counted once for each of them."""
    rows = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50_000, pa.int32()), pa.array(["x" * 1000, "y"]))
    size = bytes_of(pa.record_batch({"s": rows}))
    assert 50_000_000 < size < 52_000_000
    assert bytes_of(pa.record_batch({"s": rows.slice(0, 10)})) < 500_000


def test_sequence_numbers_are_read_where_runs_do_not_show() -> None:
    """Runs whose numbers overlap are ordered by each row's number."""

    class File:
        def __init__(self, low: int, high: int) -> None:
            self.min_seq, self.max_seq = low, high

    newer = split_read._are_newer_by_run
    assert newer([[File(0, 9)], [File(10, 12)]])
    assert newer([[File(5, 9), File(0, 4)], [File(10, 12)], [File(13, 13)]])
    assert not newer([[File(0, 9)], [File(9, 12)]])
    assert not newer([[File(0, 9), File(20, 30)], [File(10, 12)]])
