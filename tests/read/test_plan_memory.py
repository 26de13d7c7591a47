"""Planning keeps columns of the files, not an object for each of their values or positions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from paimon_spark.read.pruning import bucket_groups
from paimon_spark.table.metadata_checks import check_once
from tests.support.plans import plan_of
from tests.support.synthetic import metadata_table

_FILES = 6000
T = TypeVar("T")


def traced(run: Callable[[], T]) -> tuple[T, int, int]:
    """What a call returns, the bytes that it keeps, and the most that it held."""
    tracemalloc.start()
    try:
        found = run()
        return found, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_memory_of_a_plan(tmp_path: Path) -> None:
    table = metadata_table(tmp_path / "t", manifests=100, files=_FILES // 100, primary_key=True, manifests_per_day=10)
    plan_of(table)  # imports
    plan, _, peak = traced(lambda: plan_of(table))
    assert sum(len(split.files) for split in plan.splits) == _FILES
    assert peak / _FILES < 2300, "1,530 bytes a file when this was written; 2,990 with a record for each"


def test_buckets_of_many_files_are_positions_without_an_object_for_each(tmp_path: Path) -> None:
    table = metadata_table(tmp_path / "t", manifests=100, files=_FILES // 100, primary_key=True, manifests_per_day=10)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    files = table.manifests.live_columns(snapshot, statistics=False)
    groups, kept, _ = traced(lambda: bucket_groups(files))
    positions = list(zip(files.partitions, files.buckets.tolist(), strict=True))
    assert [[positions[at] for at in group] for group in groups] == [
        [bucket] * positions.count(bucket) for bucket in dict.fromkeys(positions)
    ]
    assert all(list(group) == sorted(group) for group in groups)
    assert kept / _FILES < 20, "11 bytes a file when this was written; 42 as lists"


def test_that_no_file_is_there_twice_is_checked_without_a_set_of_names() -> None:
    names = [f"data-{at}.parquet" for at in range(100_000)]
    peak = traced(lambda: check_once(names, "a path"))[2]
    assert peak / len(names) < 20, "9 bytes a name when this was written; 63 with a set"
