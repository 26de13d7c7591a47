"""Dynamic buckets: a key never gets two buckets, whatever the order of tasks, retries and jobs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import OptionError
from paimon_spark.spec.binary_row import EMPTY_SERIALIZED_ROW, serialize_row
from paimon_spark.spec.data_types import parse_type
from paimon_spark.write.dynamic_bucket import (
    DynamicBucketPlan,
    DynamicBuckets,
    KnownBucket,
    candidate_buckets,
    residue_classes,
)
from paimon_spark.write.hash_runs import HashRuns

P = EMPTY_SERIALIZED_ROW
Index = dict[int, set[int]]


def plan_of(
    index: Index, target: int, most: int = -1, initial: int = 1, assigners: int | None = None
) -> DynamicBucketPlan:
    known = tuple(KnownBucket(b, f"index-{b}", len(h)) for b, h in sorted(index.items()))
    return DynamicBucketPlan({P: known}, target, most, initial, assigners)


def buckets_of(plan: DynamicBucketPlan, index: Index) -> DynamicBuckets:
    return DynamicBuckets(plan, lambda known: np.array(sorted(index[known.bucket]), dtype=np.int32))


def hashes_of(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64).astype(np.int32)


def java_assign(index: Index, hashes: list[int], target: int, most: int, assigners: int, assigner: int) -> list[int]:
    """PartitionIndex.assign, row by row; None where Java picks at random."""
    where = {h: b for b, hs in index.items() for h in hs}
    counts = {b: len(hs) for b, hs in sorted(index.items()) if b % assigners == assigner}
    total, result = list(counts), []
    for h in hashes:
        if h not in where:
            free = [b for b in counts if counts[b] < target]
            if free:
                where[h] = free[0]
                counts[free[0]] += 1
            else:
                limit = 32767 if most == -1 else most
                new = [i for i in range(limit) if i % assigners == assigner and i not in total]
                if not new:
                    where[h] = -1
                else:
                    total.append(new[0])
                    counts[new[0]] = 1
                    where[h] = new[0]
        result.append(where[h])
    return result


HASHES = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20), max_size=60)


@given(HASHES, HASHES, st.integers(1, 8), st.sampled_from([-1, 3, 40]))
def test_one_assigner_equals_java(first: list[int], second: list[int], target: int, most: int) -> None:
    index: Index = {}
    for batch in (first, second):
        plan = plan_of(index, target, most, assigners=1)
        ours = buckets_of(plan, index)
        cut = len(batch) // 2
        got = [*ours.assign(P, hashes_of(batch[:cut])), *ours.assign(P, hashes_of(batch[cut:]))]
        want = java_assign(index, batch, target, most, 1, 0)
        assert all(g == w or w == -1 for g, w in zip(got, want, strict=True))
        for (_, bucket), new in ours.new_hashes().items():
            assert not index.setdefault(bucket, set()) & set(new.tolist())
            index[bucket] |= set(new.tolist())
        assert {b for h in batch for b, hs in index.items() if h in hs} == set(map(int, got))


@given(HASHES, st.integers(1, 5), st.integers(1, 6))
def test_assigners_of_one_job_keep_their_own_buckets(hashes: list[int], target: int, assigners: int) -> None:
    plan = plan_of({}, target, assigners=assigners)
    classes = residue_classes(P, hashes_of(hashes), assigners)
    seen: dict[int, int] = {}
    for task in range(assigners):
        mine = [h for h, c in zip(hashes, classes, strict=True) if c == task]
        got = buckets_of(plan, {}).assign(P, hashes_of(mine))
        assert all(b % assigners == task for b in got)
        assert list(got) == java_assign({}, mine, target, -1, assigners, task)
        seen.update(dict(zip(mine, got.tolist(), strict=True)))
    assert set(seen) == set(hashes)


@settings(max_examples=60)
@given(st.data())
def test_any_interleaving_of_tasks_retries_and_jobs(data: st.DataObject) -> None:
    index: Index = {}
    target = data.draw(st.integers(1, 10))
    most = data.draw(st.sampled_from([-1, 2, 5]))
    initial = data.draw(st.integers(1, 3))
    for _ in range(data.draw(st.integers(1, 4))):
        plan = plan_of(index, target, most, initial)
        messages: list[dict[tuple[bytes, int], np.ndarray]] = []
        for _ in range(data.draw(st.integers(1, 4))):
            rows = data.draw(HASHES)
            attempts = [rows] if data.draw(st.booleans()) else [rows[: len(rows) // 2], list(reversed(rows))]
            for attempt in attempts:  # the last one is committed; all must place alike
                task = buckets_of(plan, index)
                for at in range(0, len(attempt), 7):
                    task.assign(P, hashes_of(attempt[at : at + 7]))
                placed = task.new_hashes()
            messages.append(placed)
        for message in messages:
            for (_, bucket), new in message.items():
                assert np.all(np.diff(new.astype(np.int64)) > 0)
                index.setdefault(bucket, set()).update(new.tolist())
        everywhere = [h for hashes in index.values() for h in hashes]
        assert len(everywhere) == len(set(everywhere))
        assert most == -1 or all(0 <= b < most for b in index)


@pytest.mark.parametrize(
    ("counts", "target", "most", "initial", "expected", "want"),
    [
        ({}, 10, -1, 1, None, [0]),
        ({}, 10, -1, 3, None, [0, 1, 2]),
        ({}, 10, 2, 3, None, [0, 1]),
        ({}, 10, -1, 1, 35, [0, 1, 2, 3]),
        ({0: 4}, 10, -1, 1, None, [0]),
        ({0: 4}, 10, -1, 1, 26, [0, 1, 2]),
        ({0: 10, 1: 4}, 10, -1, 1, None, [1]),
        ({0: 10, 1: 12}, 10, -1, 1, None, [2, 3]),
        ({0: 10, 2: 12}, 10, -1, 1, None, [1, 3]),
        ({0: 10, 1: 12}, 10, 3, 1, None, [2]),
        ({0: 10, 1: 12}, 10, 2, 1, None, [0, 1]),
        ({0: 10}, 10, -1, 1, 0, [1]),
    ],
)
def test_candidates(
    counts: Mapping[int, int], target: int, most: int, initial: int, expected: int | None, want: list[int]
) -> None:
    plan = plan_of({}, target, most, initial)
    assert candidate_buckets(counts, plan, expected).tolist() == want


def test_no_bucket_left() -> None:
    plan = plan_of({}, 1)
    with pytest.raises(OptionError, match=r"Too more bucket 32766, you should increase target bucket row number 1"):
        candidate_buckets(dict.fromkeys(range(32767), 1), plan, None)


def test_partitions_are_apart() -> None:
    one, two = (serialize_row([value], [parse_type("INT")]) for value in (1, 2))
    plan = DynamicBucketPlan({one: (KnownBucket(3, "x", 2),)}, 2, -1, 1, None)
    buckets = DynamicBuckets(plan, lambda known: np.array([7, 8], dtype=np.int32))
    assert buckets.assign(one, hashes_of([7, 9])).tolist() == [3, 0]
    assert buckets.assign(two, hashes_of([7, 9])).tolist() == [0, 0]
    got = {k: v.tolist() for k, v in buckets.new_hashes().items()}
    assert got == {(one, 0): [9], (two, 0): [7, 9]}


@given(st.lists(st.dictionaries(st.integers(-50, 50), st.integers(0, 100)), max_size=6))
def test_hash_runs_are_a_map(additions: list[dict[int, int]]) -> None:
    runs, model = HashRuns(), {}
    for addition in additions:
        new = {h: b for h, b in addition.items() if h not in model}
        runs.add(hashes_of(list(new)), np.array(list(new.values()), dtype=np.int16))
        model.update(new)
        asked = hashes_of(list(range(-60, 60)))
        assert runs.find(asked).tolist() == [model.get(h, -1) for h in range(-60, 60)]
    assert len(runs) == len(model)
