"""Dynamic buckets: a key never gets two buckets, whatever the order of tasks, retries and jobs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.manifest import EMPTY_SERIALIZED_ROW
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.write import dynamic_bucket
from paimon_spark.write.bucket_filling import (
    AssignmentRecord,
    Assignments,
    DynamicBucketPlan,
    HashRuns,
    KnownBucket,
    candidate_buckets,
    decode_record,
    encode_record,
    residue_classes,
)
from paimon_spark.write.dynamic_bucket import DynamicBuckets, NewKeys

P = EMPTY_SERIALIZED_ROW
Index = dict[int, set[int]]


class MemoryLog:
    """A assignment log without files."""

    def __init__(self) -> None:
        self.records: list[AssignmentRecord] = []

    def read(self, number: int) -> AssignmentRecord | None:
        return self.records[number] if number < len(self.records) else None

    def append(self, number: int, record: AssignmentRecord) -> bool:
        assert number <= len(self.records)
        if number < len(self.records):
            return False
        self.records.append(decode_record(encode_record(record), path="x"))
        return True


def plan_of(
    index: Index, target: int, most: int = -1, assigners: int = 1, *, keys_apart: bool = False
) -> DynamicBucketPlan:
    known = tuple(KnownBucket(b, f"index-{b}", len(h)) for b, h in sorted(index.items()))
    return DynamicBucketPlan({P: known}, target, most, assigners, keys_apart)


def buckets_of(plan: DynamicBucketPlan, index: Index, log: MemoryLog | None = None, task: int = 0) -> DynamicBuckets:
    return DynamicBuckets(plan, lambda known: np.array(sorted(index[known.bucket]), dtype=np.int32), log, task)


def assign(buckets: DynamicBuckets, hashes: list[int]) -> list[int]:
    (found,) = buckets.assign([(P, hashes_of(hashes))])
    return found.tolist()


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


@given(HASHES, HASHES, st.integers(1, 8), st.sampled_from([-1, 3, 40]), st.booleans())
def test_one_task_equals_java(first: list[int], second: list[int], target: int, most: int, keys_apart: bool) -> None:
    index: Index = {}
    for batch in (first, second):
        plan = plan_of(index, target, most, keys_apart=keys_apart)
        ours = buckets_of(plan, index, MemoryLog())
        cut = len(batch) // 2
        got = [*assign(ours, batch[:cut]), *assign(ours, batch[cut:])]
        want = java_assign(index, batch, target, most, 1, 0)
        assert all(g == w or w == -1 for g, w in zip(got, want, strict=True))
        for (_, bucket), new in ours.new_hashes().items():
            assert not index.setdefault(bucket, set()) & set(new.tolist())
            index[bucket] |= set(new.tolist())
        assert {b for h in batch for b, hs in index.items() if h in hs} == set(map(int, got))


@given(HASHES, st.integers(1, 5), st.integers(1, 6))
def test_initial_buckets_are_javas_assigners(hashes: list[int], target: int, assigners: int) -> None:
    got = assign(buckets_of(plan_of({}, target, assigners=assigners), {}, MemoryLog()), hashes)
    classes = residue_classes(P, hashes_of(hashes), assigners)
    for assigner in range(assigners):
        mine = [h for h, c in zip(hashes, classes, strict=True) if c == assigner]
        assigned = [b for b, c in zip(got, classes, strict=True) if c == assigner]
        assert assigned == java_assign({}, mine, target, -1, assigners, assigner)


@pytest.mark.parametrize("keys_apart", [False, True])
@pytest.mark.parametrize("tasks", [1, 7, 60])
@pytest.mark.parametrize(("keys", "target", "known", "want"), [
    (200_000, 20_000, {}, [20_000] * 10),
    (100_000, 1_000, {}, [1_000] * 100),
    (5_000, 20_000, {}, [5_000]),
    (50_000, 20_000, {}, [20_000, 20_000, 10_000]),
    (30_000, 20_000, {0: 20_000, 1: 5_000}, [20_000, 20_000, 15_000]),
])  # fmt: skip
def test_buckets_are_filled_whatever_the_tasks(
    keys: int, target: int, known: dict[int, int], want: list[int], tasks: int, keys_apart: bool
) -> None:
    rng = np.random.default_rng(1)
    hashes = rng.permutation(np.arange(-(2**31), 2**31 - 1, 2**32 // keys, dtype=np.int64)[:keys]).astype(np.int32)
    index = {b: set(range(2**30 + b * 10**6, 2**30 + b * 10**6 + n)) for b, n in known.items()}
    hashes = hashes[~np.isin(hashes, [h for hs in index.values() for h in hs])]
    plan, log = plan_of(index, target, keys_apart=keys_apart), MemoryLog()
    running = [buckets_of(plan, index, log, task) for task in range(tasks)]
    parts = [np.array_split(hashes[residue_classes(P, hashes, tasks) == task], 3) for task in range(tasks)]
    for turn in range(3):
        for task in rng.permutation(tasks):
            running[task].assign([(P, parts[task][turn])])
    counts = {b: len(hs) for b, hs in index.items()}
    for task in running:
        for (_, bucket), new in task.new_hashes().items():
            counts[bucket] = counts.get(bucket, 0) + len(new)
    lacking = keys - len(hashes)  # of those that were known
    assert sum(counts.values()) == sum(want) - lacking
    assert sorted(counts) == list(range(len(want)))
    assert all(counts[b] == full for b, full in enumerate(want[:-1]))


@settings(max_examples=60)
@given(st.data())
def test_any_interleaving_of_tasks_retries_and_jobs(data: st.DataObject) -> None:
    index: Index = {}
    target = data.draw(st.integers(1, 10))
    most = data.draw(st.sampled_from([-1, 2, 5]))
    assigners = data.draw(st.integers(1, 3 if most != 2 else 2))
    for _ in range(data.draw(st.integers(1, 4))):
        plan = plan_of(index, target, most, assigners)
        log = data.draw(st.sampled_from([None, MemoryLog()]))
        attempts: list[tuple[DynamicBuckets, list[int], bool]] = []
        for task in range(data.draw(st.integers(1, 4))):
            rows = data.draw(HASHES)
            tries = [rows] if data.draw(st.booleans()) else [rows[: len(rows) // 2], list(reversed(rows))]
            for number, attempt in enumerate(tries):  # the last one is committed; all must place alike
                attempts.append((buckets_of(plan, index, log, task), attempt, number == len(tries) - 1))
        seen: dict[int, int] = {}
        for at in range(0, max(len(rows) for _, rows, _ in attempts) + 1, 7):
            for location in data.draw(st.permutations(range(len(attempts)))):
                task, rows, _ = attempts[location]
                part = rows[at : at + 7]
                for h, b in zip(part, assign(task, part), strict=True):
                    assert seen.setdefault(h, b) == b
        for task, _, committed in attempts:
            for (_, bucket), new in task.new_hashes().items() if committed else ():
                assert np.all(np.diff(new.astype(np.int64)) > 0)
                index.setdefault(bucket, set()).update(new.tolist())
        everywhere = [h for hashes in index.values() for h in hashes]
        assert len(everywhere) == len(set(everywhere))
        assert most == -1 or all(0 <= b < most for b in index)


def test_an_attempt_takes_over_what_its_task_has_reserved() -> None:
    plan, log = plan_of({}, 10, keys_apart=True), MemoryLog()
    lost = buckets_of(plan, {}, log, task=3)
    assert assign(lost, list(range(15))) == [0] * 10 + [1] * 5
    again = buckets_of(plan, {}, log, task=3)
    assert assign(again, list(range(100, 112))) == [0] * 10 + [1] * 2
    assert assign(again, list(range(112, 118))) == [1] * 3 + [1] * 3
    other = buckets_of(plan, {}, log, task=4)
    assert assign(other, list(range(200, 204))) == [1] * 2 + [2] * 2


@pytest.mark.parametrize("bound", ["LOG_RECORDS", "LOG_HASHES"])
def test_a_full_log_leaves_the_rest_to_the_hash(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_bucket, bound, {"LOG_RECORDS": 4, "LOG_HASHES": 400}[bound])
    plan, log = plan_of({}, 100), MemoryLog()
    tasks = [buckets_of(plan, {}, log, task) for task in range(3)]
    hashes = np.random.default_rng(1).integers(-(2**31), 2**31, 1250)
    seen: dict[int, int] = {}
    for at in range(0, 1200, 100):
        for task in range(3):
            part = hashes[at : at + 150].tolist()
            for h, b in zip(part, assign(tasks[(at // 100 + task) % 3], part), strict=True):
                assert seen.setdefault(h, b) == b
    assert len(log.records) <= 5
    numbers = np.bincount(list(seen.values()))
    assert numbers[:4].tolist() == [100] * 4
    assert len(numbers) == 10  # 450 keys are in the log, in 5 buckets; the others are hashed to as many again
    assert 90 < numbers[4:].min() <= numbers.max() < 250


def test_records_are_checked() -> None:
    none = np.empty(0, np.int32), np.empty(0, np.int16)
    sections = Assignments(P, hashes_of([1, -5]), np.array([0, 9], np.int16)), Assignments(b"xyz", *none)
    record = AssignmentRecord(3, False, sections)
    data = encode_record(record)
    back = decode_record(data, path="x")
    assert (back.task, back.counts) == (3, False)
    assert [s.partition for s in back.sections] == [P, b"xyz"]
    assert back.sections[0].numbers.tolist() == [1, -5]
    assert back.sections[0].buckets.tolist() == [0, 9]
    for damaged in (b"", data[:10], data[:-1], data + b"x", b"XXXX" + data[4:], data[:28] + b"\xff" * 8 + data[36:]):
        with pytest.raises(CorruptTableError, match="assignment record some/path"):
            decode_record(damaged, path="some/path")


@pytest.mark.parametrize(
    ("counts", "target", "most", "assigners", "more", "want"),
    [
        ({}, 10, -1, 1, False, [0]),
        ({}, 10, -1, 3, False, [0, 1, 2]),
        ({}, 10, 2, 2, False, [0, 1]),
        ({0: 4}, 10, -1, 1, False, [0]),
        ({0: 4}, 10, -1, 1, True, [0, 1]),
        ({0: 10, 1: 4}, 10, -1, 1, False, [1]),
        ({0: 10, 1: 4}, 10, -1, 1, True, [1, 2, 3]),
        ({0: 10, 1: 12}, 10, -1, 1, False, [2, 3]),
        ({0: 10, 2: 12}, 10, -1, 1, True, [1, 3]),
        ({0: 10, 1: 12}, 10, 3, 1, False, [2]),
        ({0: 10, 1: 12}, 10, 2, 1, False, [0, 1]),
    ],
)
def test_candidates(
    counts: Mapping[int, int], target: int, most: int, assigners: int, more: bool, want: list[int]
) -> None:
    assert candidate_buckets(counts, plan_of({}, target, most, assigners), more_to_come=more).tolist() == want


def test_no_bucket_left() -> None:
    plan = plan_of({}, 1)
    with pytest.raises(
        OptionError, match=r"Too many buckets \(32766\), you should increase the target bucket row number 1"
    ):
        candidate_buckets(dict.fromkeys(range(32767), 1), plan, more_to_come=False)
    full = {b: {b} for b in range(32767)}
    with pytest.raises(OptionError, match=r"Too many buckets \(32766\)"):
        assign(buckets_of(plan_of(full, 1), full, MemoryLog()), [-1])


def test_partitions_are_apart() -> None:
    one, two = (serialize_row([value], [parse_type("INT")]) for value in (1, 2))
    plan = DynamicBucketPlan({one: (KnownBucket(3, "x", 2),)}, 2, -1)
    log = MemoryLog()
    buckets, later = (DynamicBuckets(plan, lambda known: hashes_of([7, 8]), log, task) for task in (0, 1))
    got = buckets.assign([(one, hashes_of([7, 9])), (two, hashes_of([7, 9, 11]))])
    assert [b.tolist() for b in got] == [[3, 0], [0, 0, 1]]
    assigned = {k: v.tolist() for k, v in buckets.new_hashes().items()}
    assert assigned == {(one, 0): [9], (two, 0): [7, 9], (two, 1): [11]}
    assert later.assign([(two, hashes_of([12, 9]))])[0].tolist() == [1, 0]
    assert later.assign([(one, hashes_of([9, 10]))])[0].tolist() == [0, 0]
    assert len(log.records) == 3


@given(st.lists(st.dictionaries(st.integers(-50, 50), st.integers(0, 100)), max_size=6))
def test_hash_runs_are_a_map(additions: list[dict[int, int]]) -> None:
    runs, model = HashRuns(), {}
    for addition in additions:
        new = {h: b for h, b in addition.items() if h not in model}
        runs.add(hashes_of(list(new)), np.array(list(new.values()), dtype=np.int16))
        model.update(new)
        reported = {b: hs.tolist() for b, hs in runs.by_bucket().items()}
        assert reported == {b: sorted(h for h in model if model[h] == b) for b in set(model.values())}
        asked = hashes_of(list(range(-60, 60)))
        assert runs.find(asked).tolist() == [model.get(h, -1) for h in range(-60, 60)]
    assert len(runs) == len(model)


def test_new_keys_of_several_tasks_go_to_all_assigners_in_turn() -> None:
    """Tables whose keys move between partitions: keys have no bucket by their hash."""
    log, plan = MemoryLog(), plan_of({}, 3, assigners=3)
    placed = [NewKeys(plan, log, task).assign([(P, number)])[0] for task, number in enumerate([2, 2, 1, 4])]
    assert set(np.concatenate(placed[:3]).tolist()) == {0, 1, 2}
    assert np.bincount(np.concatenate(placed)).tolist() == [3, 3, 3]
