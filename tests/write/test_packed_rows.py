"""Rows that are packed for the tasks of their buckets, and buckets that several tasks share by ranges of keys."""

from __future__ import annotations

import gc
import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.binary_row import deserialize_row
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.packed_rows import mapping_of, pack_rows, unpack_rows
from paimon_spark.write.plan import WritePlan, check_one_task_per_bucket, plan_write
from paimon_spark.write.routing import NO_PARTITION, KeyRanges, cut_buckets, most_rows_of_bucket
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = [("k", "STRING NOT NULL"), ("p", "INT NOT NULL"), ("n", "DOUBLE NOT NULL"), ("v", "BIGINT")]
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"pk": ("k",), "bucket": "3"},
    "fixed with partitions": {"pk": ("n", "p"), "partition": ("p",), "bucket": "2"},
    "dynamic": {"pk": ("n", "k"), "dynamic-bucket.target-row-num": "400"},
    "dynamic with partitions": {"pk": ("k", "p"), "partition": ("p",), "dynamic-bucket.target-row-num": "300"},
}
TASKS = 16


def make(path: Path, pk: tuple[str, ...], partition: tuple[str, ...] = (), **options: str) -> FileStoreTable:
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(COLUMNS)]
    return create_table(str(path / "t"), create_schema(fields, pk, partition, options, None))


def rows(count: int, distinct: int, seed: int = 1) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, distinct, count)
    names = [f"{key:05}" for key in keys.tolist()]
    return pa.table({"k": names, "p": (keys % 2).astype(np.int32), "n": keys / 4, "v": np.arange(count)})


def written(plan: WritePlan, write: WritePlan, data: pa.Table) -> list[TaskMessage]:
    """Packs the rows in three tasks, and writes what comes to each."""
    plan, write = pickle.loads(pickle.dumps((plan, write)))
    tasks: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for number in range(3):
        part = data.slice(number * data.num_rows // 3, data.num_rows // 3)
        for packed in pack_rows(plan, part.to_batches(max_chunksize=100), number, range(100, 100 + TASKS)):
            tasks[packed.column(0)[0].as_py()].append(packed)
    assert min(tasks) >= 100
    assert max(tasks) < 100 + TASKS
    return [write_batches(write, unpack_rows(batches), task) for task, batches in tasks.items()]


def planned(table: FileStoreTable, data: pa.Table, ranges: KeyRanges | None) -> tuple[WritePlan, WritePlan]:
    """The plan that packs rows, and the one that writes them."""
    shuffled = plan_write(table, data_schema=data.schema, shuffled=True, key_ranges=ranges)
    if shuffled.dynamic is None:
        return shuffled, shuffled
    assignment = replace(plan_write(table, data_schema=data.schema), key_ranges=ranges)
    return assignment, plan_write(table, data_schema=data.schema, assignment=assignment, key_ranges=ranges)


def read(table: FileStoreTable) -> list[tuple[Any, ...]]:
    plan = plan_of(table)
    batches = [b for s in plan.splits for b in read_split(table, s, plan.fields, plan.residual)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def newest(data: pa.Table, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    found = {tuple(row[key] for key in keys): tuple(row.values()) for row in data.to_pylist()}
    return sorted(found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_each_bucket_comes_to_one_task(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, **KINDS[kind])
    for seed in (1, 2):
        data = rows(3000, 900, seed).sort_by("v")
        messages = written(*planned(table, data, None), data)
        locations = [(part.partition, part.bucket) for message in messages for part in message.messages]
        assert len(locations) == len(set(locations))
        assert len(locations) > 2
        commit(table, messages)
    assert {row[0] for row in read(table)} == {
        name for seed in (1, 2) for name in rows(3000, 900, seed)["k"].to_pylist()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_bucket_is_shared_by_ranges_of_keys(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, **KINDS[kind], **{"write-buffer-size": "8 kb"})
    schema = table.schema
    for seed in (1, 2):  # on top of each other: the second write's sequence numbers come behind those of the first
        data = rows(3000, 900, seed)
        plan, _ = planned(table, data, None)
        sample = mapping_of(plan, {*schema.partition_keys, *schema.primary_keys})
        keys = sample.columns(data.select(sample.data_names))
        ranges = cut_buckets(keys.slice(0, 800), schema, rows=3000, row_bytes=40)
        assert ranges is not None
        plan, write = planned(table, data, ranges)
        messages = written(plan, write, data)
        check_one_task_per_bucket(write, messages)
        by_bucket = defaultdict(list)
        for message in messages:
            for part in message.messages:
                by_bucket[part.partition, part.bucket].append(part.new_files)
        assert any(len(tasks) > 1 for tasks in by_bucket.values())
        types = [schema.field(name).type for name in schema.trimmed_primary_keys]
        for tasks in by_bucket.values():
            spans = sorted(
                (
                    min(deserialize_row(file.min_key, types) for file in files),
                    max(deserialize_row(file.max_key, types) for file in files),
                )
                for files in tasks
            )
            assert all(before[1] < after[0] for before, after in pairwise(spans))
            numbers = sorted((f.min_sequence_number, f.max_sequence_number) for files in tasks for f in files)
            assert all(before[1] < after[0] for before, after in pairwise(numbers))
        commit(table, messages)
        found = {row[0]: row[3] for row in read(table)}
        last = {row[0]: row[3] for row in newest(data, schema.primary_keys)}
        assert {key: found[key] for key in last} == last  # a task had the rows of a key in their order


def test_more_tasks_than_ranges_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, **KINDS["fixed"])
    data = rows(300, 300)
    _, write = planned(table, data, None)
    messages = [write_batches(write, data.to_batches(), task) for task in (0, 1)]
    with pytest.raises(PaimonError, match="came to several tasks"):
        check_one_task_per_bucket(write, messages)
    bounds = pa.table({"k": ["00100"]})
    check_one_task_per_bucket(replace(write, key_ranges=KeyRanges({NO_PARTITION: bounds})), messages)


def test_buckets_that_a_task_can_hold_are_not_cut(tmp_path: Path) -> None:
    table = make(tmp_path, **KINDS["fixed"])
    keys = rows(3000, 900).select(["k"])
    held = 256 << 20
    assert cut_buckets(keys, table.schema, rows=3 * held / 40, row_bytes=40) is None
    assert cut_buckets(keys.slice(0, 0), table.schema, rows=1e9, row_bytes=40) is None
    ranges = cut_buckets(keys, table.schema, rows=9 * held / 40, row_bytes=40)
    assert ranges is not None
    ((partition, bounds),) = ranges.bounds.items()
    assert ranges.count(partition) == 6
    assert bounds["k"].to_pylist() == sorted(bounds["k"].to_pylist())
    same = pa.table({"k": ["a"] * 500})  # one key is never cut
    assert cut_buckets(same, table.schema, rows=9 * held / 40, row_bytes=40) is None


def test_dynamic_buckets_are_cut_only_where_a_full_one_is_too_large(tmp_path: Path) -> None:
    target, held = 25_000, 256 << 20
    dynamic = {**KINDS["dynamic"], "dynamic-bucket.target-row-num": str(target)}
    schema = make(tmp_path, **dynamic).schema
    keys = rows(3000, 900).select(["n", "k"])
    assert most_rows_of_bucket(schema) == target
    for row_bytes in (held // target, held // target + 1):
        found = [cut_buckets(keys, schema, rows=target * part, row_bytes=row_bytes) for part in (0.9, 1, 2.5, 40)]
        assert any(found) == (target * row_bytes > held)
    limited = make(tmp_path / "limited", **dynamic, **{"dynamic-bucket.max-buckets": "2"}).schema
    assert most_rows_of_bucket(limited) is None  # both buckets take whatever comes
    ranges = cut_buckets(keys, limited, rows=target * 40, row_bytes=held // target)
    assert ranges is not None
    assert ranges.tasks == 2 * ranges.count(NO_PARTITION) > 20
    assert most_rows_of_bucket(make(tmp_path / "fixed", **KINDS["fixed"]).schema) is None


def test_rows_of_small_batches_are_packed_as_one(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",), bucket="1")
    data = rows(3000, 900)
    plan, _ = planned(table, data, None)
    packed = list(pack_rows(plan, data.to_batches(max_chunksize=100), 0, [7]))
    assert [batch.column(0).to_pylist() for batch in packed] == [[7]]
    batches = list(unpack_rows(packed))
    assert [batch.num_rows for batch in batches] == [3000]
    assert pa.Table.from_batches(batches).equals(data)


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
def test_memory_of_packed_rows_is_let_go(tmp_path: Path, kind: str) -> None:
    """`pa.array` of a `memoryview` keeps its buffer for ever: a worker held all rows that it had ever packed."""
    data = rows(200_000, 200_000)
    plan, _ = planned(make(tmp_path, **KINDS[kind]), data, None)
    before, packed = pa.total_allocated_bytes(), 0
    for batch in pack_rows(plan, data.to_batches(max_chunksize=10_000), 0, range(TASKS)):
        packed += batch.nbytes
    del batch
    gc.collect()
    assert packed > 2 << 20
    assert pa.total_allocated_bytes() - before < packed / 10
