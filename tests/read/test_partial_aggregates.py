"""Partial aggregation of a task's rows: what is sent, aggregated once more, is the aggregation of the rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.read import aggregate
from paimon_spark.read.aggregate import AggregateCall, PartialAggregates
from tests.support.seeds import chance

MOST = 2**63 - 1
KINDS: dict[str, tuple[pa.DataType, pa.DataType | None, Callable[[random.Random], Any]]] = {
    "i8": (pa.int8(), pa.int64(), lambda r: r.choice([-128, 127, 0, 5])),
    "i64": (pa.int64(), pa.int64(), lambda r: r.choice([MOST // 40, -MOST // 50, 7])),
    "f32": (pa.float32(), pa.float64(), lambda r: r.choice([1.5, -0.0, 0.0, 1e30, 1e-8])),
    "f64": (pa.float64(), pa.float64(), lambda r: r.choice([0.1, -0.0, 0.0, 1e300, -1e300, 1e-9, r.random()])),
    "part": (pa.float64(), pa.float64(), lambda r: r.random()),
    "nan": (pa.float64(), None, lambda r: r.choice([float("nan"), 2.0, -0.0, 0.0])),
    "small": (pa.decimal128(4, 1), pa.decimal128(4, 1), lambda r: Decimal(r.choice([-9999, 9999, 5])).scaleb(-1)),
    "money": (pa.decimal128(28, 2), pa.decimal128(28, 2), lambda r: Decimal(r.randrange(10**20)).scaleb(-2)),
    "text": (pa.string(), None, lambda r: r.choice(["", "a", "é", "Z", "zz"])),
    "raw": (pa.binary(), None, lambda r: r.choice([b"", b"\xff", b"a"])),
    "flag": (pa.bool_(), None, lambda r: r.random() < 0.5),
    "day": (pa.date32(), None, lambda r: r.randrange(-4_000_000, 4_000_000)),
    "at": (pa.timestamp("us", "UTC"), None, lambda r: r.randrange(-(2**62), 2**62)),
}


def calls_of(*, groups: bool) -> list[AggregateCall]:
    found = [AggregateCall("count")]
    for name, (kind, total, _) in KINDS.items():
        found.append(AggregateCall("count", name))
        if not (groups and pa.types.is_floating(kind)):
            found += [AggregateCall("min", name), AggregateCall("max", name)]
        if total is not None:
            found.append(AggregateCall("sum", name))
    return found


def target_of(group_by: Sequence[str], calls: Sequence[AggregateCall]) -> pa.Schema:
    kinds = [KINDS[name][0] for name in group_by]
    for call in calls:
        kind, total, _ = KINDS[call.column or "i64"]
        kinds.append(pa.int64() if call.function == "count" else total if call.function == "sum" else kind)
    return pa.schema([pa.field(str(at), kind) for at, kind in enumerate(kinds)])


def order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def merged(function: str, floating: bool, state: Any, value: Any) -> Any:
    """What Spark holds after one more value: sums wrap at 64 bits, equal extremes stay."""
    if value is None:
        return state
    if function == "sum":
        if floating:
            return (0.0 if state is None else state) + value
        total = (0 if state is None else state) + value
        return total if isinstance(total, Decimal) else (total + 2**63) % 2**64 - 2**63
    if state is None:
        return value
    one, other = (order(value), order(state)) if floating else (value, state)
    return value if (one < other if function == "min" else one > other) else state


def plain(array: pa.Array) -> list[Any]:
    """Values of an array; days and times as numbers."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def aggregated(batches: Sequence[pa.RecordBatch], group_by: int, functions: Sequence[str]) -> dict[Any, list[Any]]:
    """Aggregate partial rows one by one."""
    found: dict[Any, list[Any]] = {}
    for batch in batches:
        columns = [plain(column) for column in batch.columns]
        floats = [pa.types.is_floating(column.type) for column in batch.columns[group_by:]]
        for row in zip(*columns, strict=True):
            state = found.setdefault(row[:group_by], [None] * len(functions))
            for at, (function, floating, value) in enumerate(zip(functions, floats, row[group_by:], strict=True)):
                state[at] = merged("sum" if function == "count" else function, floating, state[at], value)
    return found


def raw_rows(batch: pa.RecordBatch, group_by: Sequence[str], calls: Sequence[AggregateCall]) -> pa.RecordBatch:
    """Rows as partial results of themselves."""
    arrays = [batch.column(name) for name in group_by]
    for call, kind in zip(calls, target_of(group_by, calls).types[len(group_by) :], strict=True):
        if call.column is None:
            arrays.append(pa.array([1] * batch.num_rows, pa.int64()))
        else:
            column = batch.column(call.column)
            arrays.append(column.is_valid().cast(kind) if call.function == "count" else column.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])


def random_batches(rng: random.Random, sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    for size in sizes:
        arrays = []
        for kind, _, make in KINDS.values():
            nulls = rng.choice([0, 0.3, 1])
            values = [None if rng.random() < nulls else make(rng) for _ in range(size)]
            bare = pa.int32() if pa.types.is_date32(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind
            arrays.append(pa.array(values, bare).cast(kind) if bare == kind else pa.array(values, bare).view(kind))
        yield pa.RecordBatch.from_arrays(arrays, names=list(KINDS))


def digits(function: str, value: Any) -> Any:
    """As `bits`; the last digits of a sum of floating numbers depend on the order of its rows, as in Spark."""
    return f"{value:.12g}" if function == "sum" and isinstance(value, float) else bits(value)


def bits(value: Any) -> Any:
    return value.hex() if isinstance(value, float) else value


@pytest.mark.parametrize("turn", range(12))
@pytest.mark.parametrize("group_by", [(), ("text",), ("flag", "day")], ids=["all", "a group", "two"])
def test_partial_results_are_those_of_the_rows(
    monkeypatch: pytest.MonkeyPatch, group_by: tuple[str, ...], turn: int
) -> None:
    """Random rows in random batches, with sums that overflow."""
    rng = chance("partial aggregates", group_by, turn)
    monkeypatch.setattr(aggregate, "_SMALLEST_BLOCK", 4)
    monkeypatch.setattr(aggregate, "_ROWS_TO_JUDGE", rng.choice([10, 1000]))
    monkeypatch.setattr(aggregate, "_MOST_GROUPS", rng.choice([3, 1000]))
    everything = calls_of(groups=bool(group_by))
    calls = rng.sample(everything, rng.randrange(1, len(everything)))
    functions = [call.function for call in calls]
    target = target_of(group_by, calls)
    batches = list(random_batches(rng, [rng.choice([1, 3, 40]) for _ in range(rng.randrange(5))]))
    partial = PartialAggregates(group_by, calls, target)
    sent = [row for batch in batches for row in partial.add(batch)] + list(partial.finish())
    assert all(batch.schema == target for batch in sent)
    rows = [raw_rows(batch, group_by, calls) for batch in batches]
    expected = aggregated(rows, len(group_by), functions)
    if not group_by and not batches:
        expected = {(): [0 if function == "count" else None for function in functions]}
    found = aggregated(sent, len(group_by), functions)
    assert {key: [*map(digits, functions, row)] for key, row in found.items()} == {
        key: [*map(digits, functions, row)] for key, row in expected.items()
    }


def test_few_rows_are_sent() -> None:
    """A row for the task, or for each group; sums that could overflow send the rows."""
    rng = random.Random(1)
    batches = list(random_batches(rng, [3000, 3000]))
    for name, group_by, most in [("f64", (), 1), ("i8", ("text",), 6), ("money", (), 1)]:
        calls = [AggregateCall("sum", name), AggregateCall("count")]
        partial = PartialAggregates(group_by, calls, target_of(group_by, calls))
        sent = [row for batch in batches for row in partial.add(batch)] + list(partial.finish())
        assert sum(batch.num_rows for batch in sent) <= most
    calls = [AggregateCall("sum", "i64")]
    partial = PartialAggregates((), calls, target_of((), calls))
    wide = pa.record_batch([pa.array([MOST, 1, -1])], names=["i64"])
    sent = [row for batch in (wide, wide) for row in partial.add(batch)]
    assert [batch.column(0).to_pylist() for batch in sent] == [[MOST, 1, -1]] * 2
