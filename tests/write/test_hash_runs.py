"""Distinct values of arrays, against numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.write.hash_runs import distinct, distinct_hashes


@given(st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1))))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    hashes = np.array(values, dtype=np.int32)
    expected = np.unique(hashes, return_index=True, return_inverse=True)
    for ours, theirs in zip(distinct_hashes(hashes), expected, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert distinct(hashes).tolist() == expected[0].tolist()
    wide = hashes.astype(np.int64) << 20
    assert distinct(wide).tolist() == np.unique(wide).tolist()
