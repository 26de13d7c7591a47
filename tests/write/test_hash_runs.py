"""Distinct values of arrays, against numpy; a map of hashes, against a dict."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.write.bucket_filling import HashRuns, distinct, distinct_hashes

HASHES = st.one_of(st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1))


@given(st.lists(HASHES))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    hashes = np.array(values, dtype=np.int32)
    expected = np.unique(hashes, return_index=True, return_inverse=True)
    for ours, theirs in zip(distinct_hashes(hashes), expected, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert distinct(hashes).tolist() == expected[0].tolist()
    wide = hashes.astype(np.int64) << 20
    assert distinct(wide).tolist() == np.unique(wide).tolist()


@given(st.lists(st.dictionaries(HASHES, st.integers(0, 32_767), max_size=30), max_size=6), st.integers(1, 8))
def test_hashes_have_the_buckets_that_they_were_added_with(parts: list[dict[int, int]], marks: int) -> None:
    model: dict[int, int] = {}
    with patch.multiple("paimon_spark.write.bucket_filling", _FEWEST_PREFIXES=2, _MOST_PREFIXES=1 << marks):
        runs = HashRuns()
        for part in parts:
            new = {key: bucket for key, bucket in part.items() if key not in model}
            wanted = np.array([*part, -7, 2**31 - 1, -(2**31)], dtype=np.int32)
            assert runs.find(wanted).tolist() == [model.get(key, -1) for key in wanted.tolist()]
            runs.add(np.array([*new], dtype=np.int32), np.array([*new.values()], dtype=np.int16))
            model.update(new)
        known = np.array([*model], dtype=np.int32)
        assert runs.find(known).tolist() == list(model.values())
    found = {key: bucket for bucket, keys in runs.by_bucket().items() for key in keys.tolist()}
    assert found == model
