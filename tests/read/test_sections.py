"""Sections, runs and bins: laws over random key ranges, and Java's own examples."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.read.sections import is_raw_bucket, pack_ordered, runs_of, sections_of
from paimon_spark.read.split import DataSplit, SplitFile


def file(low: int, high: int, *, level: int = 0, seq: int = 0, deletes: int | None = 0, size: int = 10) -> SplitFile:
    name = f"data-{low}-{high}-{level}-{seq}.parquet"
    return SplitFile(
        name, "/t/bucket-0/", "parquet", size, 5, level, seq, seq, 0, deletes,
        low.to_bytes(8, "big", signed=True), high.to_bytes(8, "big", signed=True),
    )  # fmt: skip


def bounds(files: list[SplitFile]) -> tuple[np.ndarray, np.ndarray]:
    low = [int.from_bytes(f.min_key, "big", signed=True) for f in files]
    high = [int.from_bytes(f.max_key, "big", signed=True) for f in files]
    return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)


ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=25
)


@given(ranges)
def test_sections_never_share_a_key_and_cannot_be_cut_further(pairs: list[tuple[int, int]]) -> None:
    files = [file(low, high, seq=i) for i, (low, high) in enumerate(pairs)]
    sections = sections_of(files, *bounds(files))
    assert sorted(f.name for s in sections for f in s) == sorted(f.name for f in files)
    spans = [(min(b[0]), max(b[1])) for b in map(bounds, sections)]
    assert all(left[1] < right[0] for left, right in itertools.pairwise(spans))
    for section in sections:
        covered = set()
        for low, high in sorted(zip(*map(list, bounds(section)), strict=True)):
            assert not covered or low <= max(covered)
            covered.update((low, high))


def test_the_example_of_java() -> None:
    files = [file(1, 2), file(3, 4), file(5, 180), file(5, 190), file(200, 600), file(210, 700)]
    sections = sections_of(files, *bounds(files))
    assert [[(f.min_key[-1], len(s)) for f in s] for s in sections] == [
        [(1, 1)], [(3, 1)], [(5, 2), (5, 2)], [(200, 2), (210, 2)]
    ]  # fmt: skip


def test_touching_keys_are_one_section() -> None:
    files = [file(1, 5), file(5, 9)]
    assert len(sections_of(files, *bounds(files))) == 1


def test_runs_are_oldest_first() -> None:
    section = [
        file(0, 3, level=5), file(1, 9, seq=40), file(1, 2, seq=30), file(4, 9, level=5), file(0, 9, level=4),
    ]  # fmt: skip
    assert [[(f.level, f.max_seq) for f in run] for run in runs_of(section)] == [
        [(5, 0), (5, 0)], [(4, 0)], [(0, 30)], [(0, 40)]
    ]  # fmt: skip


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 60))
def test_bins_keep_order_and_hold_what_fits(weights: list[int], target: int) -> None:
    bins = pack_ordered(weights, lambda weight: weight, target)
    assert [weight for part in bins for weight in part] == weights
    assert all(bins)
    assert all(sum(part) <= target or len(part) == 1 or sum(part[:-1]) == 0 for part in bins)
    assert all(sum(left) + right[0] > target for left, right in itertools.pairwise(bins))


@pytest.mark.parametrize(
    ("files", "raw"),
    [
        ([file(1, 2, level=5), file(3, 4, level=5)], True),
        ([file(1, 2, level=5, deletes=None)], True),
        ([file(1, 2, level=5), file(3, 4, level=4)], False),
        ([file(1, 2, level=5, deletes=1)], False),
        ([file(1, 2, level=0)], False),
    ],
)
def test_a_bucket_of_one_level_without_deletes_is_raw(files: list[SplitFile], raw: bool) -> None:
    assert is_raw_bucket(files) is raw


def test_a_split_is_small_when_pickled_and_comes_back_whole() -> None:
    directory = "/warehouse/some_database.db/a_table/dt=2024-01-01/bucket-7/"
    name = "data-2d988891-69ed-4613-bb70-733c0b662c30-{}.parquet"
    files = tuple(SplitFile(name.format(i), directory, "parquet", 10**8, 10**6, 0, i, i, 3, 0) for i in range(100))
    elsewhere = SplitFile("data-x.orc", "s3://other/", "orc", 1, 1, 0, 0, 0, 3, None, b"a", b"b", (1, 2))
    split = DataSplit(12, bytes(20), 7, 8, (*files, elsewhere), True)
    data = pickle.dumps(split, protocol=pickle.HIGHEST_PROTOCOL)
    assert pickle.loads(data) == split
    assert len(data) < 100 * 100
