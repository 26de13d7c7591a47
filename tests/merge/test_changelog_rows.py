"""The changelog of a compaction against a model of ten lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.merge.changelog import changelog_rows
from paimon_spark.spec.special_fields import RowKind

SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("v", pa.float64()),
        ("w", pa.list_(pa.string())),
        ("_SEQUENCE_NUMBER", pa.int64()),
        ("_VALUE_KIND", pa.int8()),
    ]
)
VALUES = st.tuples(
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.sampled_from([None, [], ["a"], ["a", None]]),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
)
STATES = st.lists(st.tuples(st.none() | VALUES, st.none() | VALUES), max_size=12)


def state(rows: list[Any], first_sequence: int) -> tuple[pa.Table, Any]:
    found = [(key, row[0], row[1], first_sequence + key, row[2]) for key, row in enumerate(rows) if row is not None]
    columns = [pa.array([row[at] for row in found], field.type) for at, field in enumerate(SCHEMA)]
    at = np.cumsum([row is not None for row in rows], dtype=np.int64) - 1
    return pa.Table.from_arrays(columns, schema=SCHEMA), np.where([row is None for row in rows], -1, at)


def model(before: Any, after: Any, ignored: set[str] | None) -> list[int]:
    was, now = (row is not None and row[2] in (0, 2) for row in (before, after))
    if not was:
        return [RowKind.INSERT] if now else []
    if not now:
        return [RowKind.DELETE]
    columns = [at for at, name in enumerate(("v", "w")) if ignored is not None and name not in ignored]
    if ignored is not None and all(repr(before[at]) == repr(after[at]) for at in columns):
        return []
    return [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]


@pytest.mark.parametrize("ignored", [None, set(), {"v"}, {"v", "w"}], ids=["none", "nothing", "v", "v, w"])
@given(states=STATES)
def test_changelog_equals_the_model(states: list[Any], ignored: set[str] | None) -> None:
    before, before_at = state([one for one, _ in states], 0)
    after, after_at = state([other for _, other in states], 100)
    found = changelog_rows(before, before_at, after, after_at, ignored=ignored)
    expected = []
    for key, (old, new) in enumerate(states):
        for kind in model(old, new, ignored):
            earlier = kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
            values = old if earlier else new
            expected.append((key, values[0], values[1], key + (0 if earlier else 100), int(kind)))
    assert [repr(tuple(row.values())) for row in found.to_pylist()] == [repr(row) for row in expected]
    assert found.schema == SCHEMA
