from dataclasses import dataclass

import pyarrow as pa
import pytest

from paimon_spark.options import CoreOptions
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.spark.session import pyspark_members
from paimon_spark.spark.source import reader
from paimon_spark.spark.source.reader import MAX_BATCH_ROWS, MIN_BATCH_ROWS, even_batches, pack_splits

MB = 1 << 20


def split(bucket: int, *sizes: int) -> DataSplit:
    files = tuple(SplitFile(f"f{i}", "/t/", "parquet", s, 1, 0, 0, 0, 0, 0) for i, s in enumerate(sizes))
    return DataSplit(1, b"", bucket, 4, files, True)


def packed(sizes: list[int], *, cores: int, options: dict[str, str] | None = None) -> list[list[int]]:
    splits = [split(i, size) for i, size in enumerate(sizes)]
    result = pack_splits(splits, CoreOptions(options or {}), cores=cores)
    assert [s for group in result for s in group] == splits
    return [[s.files[0].size for s in group] for group in result]


def test_no_splits_make_no_partitions() -> None:
    assert packed([], cores=4) == []


def test_many_tiny_splits_share_few_tasks_but_use_all_cores() -> None:
    assert len(packed([1000] * 400, cores=2)) == 400 * 4 // 128 + 1
    assert [len(packed([1000] * count, cores=2)) for count in (2_000, 50_000, 400_000)] == [16, 50, 400]
    assert len(packed([1000] * 50_000, cores=100)) == pytest.approx(800, rel=0.01)
    assert (
        len(packed([1000] * 50_000, cores=2, options={"source.split.open-file-cost": "4 mb"})) == 50_000 * 4 // 128 + 1
    )
    assert [len(group) for group in packed([1000] * 8, cores=2)] == [4, 4]


def test_large_splits_stay_alone() -> None:
    assert packed([200 * MB, 100 * MB, 100 * MB], cores=2) == [[200 * MB], [100 * MB], [100 * MB]]


def test_the_target_is_not_exceeded_by_neighbours() -> None:
    assert packed([60 * MB, 60 * MB, 60 * MB, 60 * MB], cores=1) == [[60 * MB] * 2, [60 * MB] * 2]


@dataclass(eq=False)
class Context:
    master: str
    defaultParallelism: int  # noqa: N815 - as PySpark spells it


@pytest.mark.parametrize(
    ("master", "parallelism", "slots"),
    [
        ("local[7]", 7, 7),
        ("local", 1, 1),
        ("spark://host:7077", 40, 40),
        ("yarn", 2, 5),
        ("local-cluster[1,1,900]", 2, 5),
    ],
)
def test_there_are_as_many_slots_as_the_session_says(
    monkeypatch: pytest.MonkeyPatch, master: str, parallelism: int, slots: int
) -> None:
    """A cluster may still start its executors: then it counts as the driver's machine."""
    context = Context(master, parallelism)
    monkeypatch.setattr(reader, "cores_here", lambda: 5)
    monkeypatch.setattr(pyspark_members, "running_context", lambda: context)
    assert reader.task_slots() == slots
    monkeypatch.setattr(pyspark_members, "running_context", lambda: None)
    assert reader.task_slots() == 5


def batch(rows: int, start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(start, start + rows), pa.int64())})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([0, 0], []),
        ([5, 0, 7], [12]),
        ([MIN_BATCH_ROWS], [MIN_BATCH_ROWS]),
        ([10, MIN_BATCH_ROWS, 20], [10, MIN_BATCH_ROWS, 20]),
        ([MIN_BATCH_ROWS - 1, 2, 3], [MIN_BATCH_ROWS + 1, 3]),
        ([2 * MAX_BATCH_ROWS + 1], [MAX_BATCH_ROWS, MAX_BATCH_ROWS, 1]),
    ],
)
def test_batches_of_a_good_size(sizes: list[int], expected: list[int]) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    result = list(even_batches(batch(size, start) for size, start in zip(sizes, starts, strict=True)))
    assert [b.num_rows for b in result] == expected
    assert [v for b in result for v in b.column(0).to_pylist()] == list(range(sum(sizes)))


def test_good_batches_pass_untouched() -> None:
    good = batch(MIN_BATCH_ROWS)
    assert next(even_batches([good])) is good


def test_wide_rows_are_not_gathered_without_end() -> None:
    wide = pa.record_batch({"a": [b"x" * (12 * MB)]})
    assert [b.num_rows for b in even_batches([wide] * 5)] == [3, 2]


def test_batches_of_many_bytes_are_not_copied() -> None:
    small, wide = pa.record_batch({"a": [b"x"]}), pa.record_batch({"a": [b"x" * (20 * MB)]})
    result = list(even_batches([small, wide, wide, small]))
    assert [b.num_rows for b in result] == [1, 1, 1, 1]
    assert result[1] is result[2] is wide
