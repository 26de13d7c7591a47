"""Merge order against Java's comparators, over random columns of every kind of key."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import UnsupportedError
from paimon_spark.merge.sort import dense_ranks, normalized_keys, sort_order

Key = Callable[[Any], Any]


def float_key(value: float) -> tuple[Any, ...]:
    return (1,) if math.isnan(value) else (0, value, math.copysign(1, value))


TEXTS = st.text(alphabet="a\0bÿ\uffff\U0001f600", max_size=20)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Key]] = {
    "bool": (pa.bool_(), st.booleans(), int),
    "int8": (pa.int8(), st.integers(-128, 127), int),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1), int),
    "few int64": (pa.int64(), st.integers(-2, 2), int),
    "float": (pa.float32(), st.floats(width=32), float_key),
    "double": (pa.float64(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan])), float_key),
    "decimal": (pa.decimal128(10, 2), st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n) / 100), Decimal),
    "big decimal": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), Decimal),
    "string": (pa.string(), TEXTS, str.encode),
    "prefixed": (pa.large_string(), TEXTS.map(lambda text: "a common prefix " + text), str.encode),
    "long": (pa.string(), st.builds(str.__add__, st.sampled_from(["", "x" * 700, "x" * 1500]), TEXTS), str.encode),
    "binary": (pa.binary(), st.binary(max_size=12), bytes),
    "date": (pa.date32(), st.dates(), lambda day: day),
    "timestamp": (pa.timestamp("us"), st.datetimes(), lambda time: time),
}


def nulls_first(key: Key, value: Any) -> tuple[Any, ...]:
    return () if value is None else (key(value),)


@settings(deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3), st.integers(0, 30), st.booleans())
def test_rows_come_in_key_order(data: st.DataObject, kinds: list[str], count: int, nulls: bool) -> None:
    columns = [
        data.draw(st.lists(st.one_of(st.none(), KINDS[k][1]) if nulls else KINDS[k][1], min_size=count, max_size=count))
        for k in kinds
    ]
    names = [f"k{i}" for i in range(len(kinds))]
    chunks = [
        pa.chunked_array([pa.array(c[:3], KINDS[k][0]), pa.array(c[3:], KINDS[k][0])])
        for c, k in zip(columns, kinds, strict=True)
    ]
    rows = pa.table(dict(zip(names, chunks, strict=True)))
    keys = [
        tuple(nulls_first(KINDS[k][2], c[row]) for c, k in zip(columns, kinds, strict=True)) for row in range(count)
    ]
    expected = sorted(range(count), key=keys.__getitem__)
    found = sort_order(rows, names)
    assert found.order.tolist() == expected
    assert found.starts.tolist() == [i for i in range(count) if not i or keys[expected[i]] != keys[expected[i - 1]]]
    ranks = dense_ranks([chunk.combine_chunks() for chunk in chunks])
    distinct = sorted(set(keys))
    assert ranks.tolist() == [distinct.index(key) for key in keys]


def test_inside_a_key_sequence_fields_then_sequence_number_then_retract_before_add() -> None:
    rows = pa.table(
        {
            "k": pa.array([1] * 7),
            "s": pa.array([2, None, 1, 2, 2, 2, 1]),
            "_SEQUENCE_NUMBER": pa.array([5, 9, 3, 5, 4, 5, 3]),
            "_VALUE_KIND": pa.array([0, 0, 0, 3, 0, 0, 0], pa.int8()),
        }
    )
    assert sort_order(rows, ["k"], ["s"]).order.tolist() == [1, 2, 6, 4, 3, 0, 5]
    # nulls stay first when the sort order is descending
    assert sort_order(rows, ["k"], ["s"], descending=True).order.tolist() == [1, 4, 3, 0, 5, 2, 6]
    assert sort_order(rows, ["k"]).order.tolist() == [2, 6, 4, 3, 0, 5, 1]


def test_a_slice_of_a_column_is_sorted_by_its_own_rows() -> None:
    words = pa.array(["zz", "b", "a", "c", "aa"]).slice(1)
    big = pa.array([Decimal(9), Decimal(3), Decimal(-3), Decimal(1), Decimal(2)], pa.decimal128(38, 0)).slice(1)
    assert sort_order(pa.table({"k": words}), ["k"]).order.tolist() == [1, 3, 0, 2]
    assert sort_order(pa.table({"k": big}), ["k"]).order.tolist() == [1, 2, 3, 0]


def test_values_of_megabytes_are_compared_in_few_passes() -> None:
    texts = [text + end for text in ("x" * 3_000_000, "y" * 600, "") for end in ("b", "", "b", "a")]
    column = pa.array(texts)
    assert sort_order(pa.table({"k": column}), ["k"]).order.tolist() == sorted(range(12), key=texts.__getitem__)
    assert len(list(normalized_keys(column))) < 100


def test_a_dictionary_column_is_sorted_by_its_values() -> None:
    column = pa.array(["b", "a", "b"]).dictionary_encode()
    found = sort_order(pa.table({"k": column}), ["k"])
    assert (found.order.tolist(), found.starts.tolist()) == ([1, 0, 2], [0, 1])


def test_a_column_without_an_order_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="list"):
        sort_order(pa.table({"k": pa.array([[1], [0]])}), ["k"])


def test_wide_integers_are_not_packed_into_each_other() -> None:
    low, high = -(2**63), 2**63 - 1
    rows = pa.table({"a": pa.array([high, low, high, low]), "b": pa.array([low, high, high, low])})
    assert sort_order(rows, ["a", "b"]).order.tolist() == [3, 1, 0, 2]
    assert sort_order(rows, ["a", "b"]).starts.dtype == np.int64
