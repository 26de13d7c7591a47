"""Ranks of keys order them as Java's comparator does."""

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.spec.binary_row_decoder import column_ranks, composite_ranks

TEXTS = st.one_of(st.none(), st.text(max_size=3))
NUMBERS = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -0.0, math.nan, math.inf]))


def double_compare(value: float | None) -> tuple[int, int]:
    """A number of Java's order: nulls first, -0.0 before 0.0, all NaN equal and last."""
    if value is None:
        return (0, 0)
    if math.isnan(value):
        return (2, 0)
    bits = struct.unpack(">q", struct.pack(">d", value))[0]
    return (1, bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF)


def text_compare(value: str | None) -> tuple[int, bytes]:
    return (0, b"") if value is None else (1, value.encode())


def dense(keys: list[object]) -> list[int]:
    locations = {key: i for i, key in enumerate(sorted(set(keys)))}  # type: ignore[type-var]
    return [locations[key] for key in keys]


@given(st.lists(NUMBERS, max_size=12))
def test_floating_point(values: list[float | None]) -> None:
    ranks = column_ranks(pa.array(values, pa.float64())).tolist()
    assert dense(list(ranks)) == dense([double_compare(value) for value in values])
    assert [rank == 0 for rank in ranks] == [value is None for value in values]


@given(st.lists(st.tuples(TEXTS, NUMBERS), min_size=1, max_size=12))
def test_several_columns(rows: list[tuple[str | None, float | None]]) -> None:
    columns = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.float64())]
    expected = dense([(text_compare(text), double_compare(number)) for text, number in rows])
    assert composite_ranks(columns).tolist() == expected


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_files_that_end_and_begin_with_a_zero_do_not_touch(kind: pa.DataType) -> None:
    low, high = column_ranks(pa.array([-0.0, 0.0], kind))
    assert low < high
