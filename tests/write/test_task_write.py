"""One task of a write: memory, files, sequence numbers, failures, messages; read back by our own reader."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import DataError, OptionError, PaimonError, UnsupportedError
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.binary_row import deserialize_row
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write import task_write
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import OverwriteMode, plan_write
from paimon_spark.write.task_write import combine_batches, write_batches
from tests.support.plans import plan_of

COLUMNS = [("k", "BIGINT NOT NULL"), ("p", "INT NOT NULL"), ("v", "STRING")]


def make(path: Path, pk: tuple[str, ...] = (), partition: tuple[str, ...] = (), **options: str) -> FileStoreTable:
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(COLUMNS)]
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return create_table(str(path / "t"), create_schema(fields, pk, partition, named, None))


def rows(keys: Any, version: int = 0, parts: int = 3) -> pa.Table:
    keys = np.asarray(keys, dtype=np.int64)
    values = [f"{version}-{k}-{'x' * 30}" for k in keys.tolist()]
    return pa.table({"k": keys, "p": pa.array((keys % parts).astype(np.int32)), "v": values})


def run(table: FileStoreTable, data: pa.Table, task: int = 0, batch_rows: int = 1000, **plan: Any) -> TaskMessage:
    planned = pickle.loads(pickle.dumps(plan_write(table, data_schema=data.schema, **plan)))
    return write_batches(planned, data.to_batches(max_chunksize=batch_rows), task)


def read(table: FileStoreTable) -> dict[int, str]:
    plan = plan_of(table)
    batches = [b for s in plan.splits for b in read_split(table, s, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches, schema=batches[0].schema).to_pylist()
    assert len({r["k"] for r in found}) == len(found)
    return {r["k"]: r["v"] for r in found}


def files_of(message: TaskMessage) -> list[Any]:
    return [f for m in message.messages for f in m.new_files]


@pytest.mark.parametrize("options", [{}, {"pk": ("k",), "bucket": "2"}, {"pk": ("k", "p"), "partition": ("p",)}])
def test_ten_times_the_budget(tmp_path: Path, options: dict[str, Any]) -> None:
    table = make(tmp_path, write_buffer_size="256 kb", **options)
    data = rows(np.random.default_rng(1).permutation(50_000))
    assert data.nbytes > 10 * 256 * 1024
    message = run(table, data)
    assert message.rows == 50_000
    commit(table, [message])
    assert read(table) == dict(zip(data["k"].to_pylist(), data["v"].to_pylist(), strict=True))
    if options:
        assert len(files_of(message)) > 5
    for one in message.messages:
        ends = [(f.min_sequence_number, f.max_sequence_number) for f in one.new_files]
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_a_flush_keeps_the_newest_row_of_a_key(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",), bucket="1", write_buffer_size="64 kb")
    data = pa.concat_tables([rows(np.arange(1500), version) for version in range(10)])
    message = run(table, data)
    assert len(files_of(message)) > 2
    commit(table, [message])
    assert set(read(table).values()) == set(rows(np.arange(1500), 9)["v"].to_pylist())


def test_buffered_rows_of_one_key_become_one(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",), bucket="1")
    (file,) = files_of(run(table, pa.concat_tables([rows([3, 1, 2], 0), rows([1, 3], 1)])))
    assert (file.row_count, file.min_sequence_number, file.max_sequence_number) == (3, 2, 4)
    assert (file.delete_row_count, file.level, file.file_source) == (0, 0, 0)


def test_rows_as_they_came_are_the_changelog(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",), bucket="1", changelog_producer="input", target_file_row_num="700")
    data = pa.concat_tables([rows(np.arange(1000)[::-1]), rows([7, 3], 1)])
    data = data.append_column("_VALUE_KIND", pa.array([0] * 1000 + [2, 3], pa.int8()))
    message = run(table, data)
    commit(table, [message])
    (part,) = message.messages
    assert [file.row_count for file in part.new_files] == [700, 300]
    (file,) = part.changelog_files
    assert file.file_name.startswith("changelog-")
    assert (file.row_count, file.delete_row_count, file.level, file.file_source) == (1002, 1, 0, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 1001)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind.value, snapshot.changelog_record_count) == ("APPEND", 1002)
    plan = plan_of(table.with_options({"incremental-between": "0,1"}))
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches)
    assert found["k"].to_pylist() == [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, *range(8, 1000)]
    assert run(table, data, overwrite=OverwriteMode.STATIC).messages[0].changelog_files == ()


def test_changelog_files_stay_within_the_budget_and_go_with_a_failed_task(tmp_path: Path) -> None:
    options = {"changelog_producer": "input", "write_buffer_size": "256 kb", "changelog_file__format": "avro"}
    table = make(tmp_path, pk=("k",), bucket="1", **options)
    data = rows(np.random.default_rng(1).permutation(50_000))
    assert data.nbytes > 10 * 256 * 1024
    (part,) = run(table, data).messages
    assert len(part.changelog_files) == len(part.new_files) > 5
    assert sum(file.row_count for file in part.changelog_files) == 50_000
    before = {path.name for path in tmp_path.rglob("*.*")}
    with pytest.raises(DataError):
        run(table, pa.concat_tables([data, data.slice(0, 1).set_column(0, "k", pa.array([None], pa.int64()))]))
    assert {path.name for path in tmp_path.rglob("*.*")} == before


def key(row: bytes) -> Any:
    return deserialize_row(row, [parse_type("BIGINT")])[0]


def test_rolling_by_rows_and_by_size(tmp_path: Path) -> None:
    table = make(tmp_path / "a", target_file_row_num="700")
    counts = [f.row_count for f in files_of(run(table, rows(np.arange(2000))))]
    assert counts == [700, 700, 600]
    table = make(tmp_path / "b", pk=("k",), bucket="1", target_file_size="20 kb", file__format="avro")
    files = files_of(run(table, rows(np.arange(10_000))))
    assert len(files) > 2
    assert sum(f.row_count for f in files) == 10_000
    assert all(key(a.max_key) + 1 == key(b.min_key) for a, b in pairwise(files))
    assert {Path(f.file_name).suffix for f in files} == {".avro"}
    assert len({f.file_name.rsplit("-", 1)[0] for f in files}) == 1
    assert [int(f.file_name.rsplit("-", 1)[1].split(".")[0]) for f in files] == list(range(len(files)))


def test_sequence_numbers(tmp_path: Path) -> None:
    append = make(tmp_path / "a")
    assert [f.min_sequence_number for t in (0, 3) for f in files_of(run(append, rows([1, 2]), t))] == [0, 0]
    table = make(tmp_path / "b", pk=("k",), bucket="1")
    first = [run(table, rows([1, 2]), t) for t in (0, 3)]
    assert [f.min_sequence_number for m in first for f in files_of(m)] == [0, 3 << 32]
    commit(table, first)
    (file,) = files_of(run(table, rows([1]), 1))
    assert file.min_sequence_number == (3 << 32) + 2 + (1 << 32)
    (file,) = files_of(run(table, rows([1]), 1, shuffled=True))
    assert file.min_sequence_number == (3 << 32) + 2
    (file,) = files_of(run(table, rows([1]), 0, overwrite=OverwriteMode.STATIC))
    assert file.min_sequence_number == 0
    bucketed = make(tmp_path / "c", bucket="1", bucket_key="k")
    commit(bucketed, [run(bucketed, rows([1, 2, 3]))])
    (file,) = files_of(run(bucketed, rows([1, 2])))
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 4)


def test_sequence_numbers_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_write, "TASK_BITS", 1)
    table = make(tmp_path, pk=("k",), bucket="1")
    with pytest.raises(PaimonError, match="no sequence numbers left"):
        run(table, rows([1, 2, 3]))


def data_files(table: FileStoreTable) -> list[Path]:
    return list(Path(table.path).rglob("data-*"))


@pytest.mark.parametrize("options", [{"partition": ("p",)}, {"pk": ("k",), "bucket": "2"}])
def test_a_failed_attempt_leaves_nothing_and_a_retry_is_right(tmp_path: Path, options: dict[str, Any]) -> None:
    table = make(tmp_path, write_buffer_size="64 kb", **options)
    data = rows(np.arange(9000))
    plan = plan_write(table, data_schema=data.schema)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from data.to_batches(max_chunksize=1000)
        assert data_files(table)
        raise OSError("worker died")

    with pytest.raises(OSError, match="worker died"):
        write_batches(plan, failing(), 0)
    assert data_files(table) == []
    commit(table, [write_batches(plan, data.to_batches(), 0)])
    assert len(read(table)) == 9000


def test_many_partitions_with_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_write, "_MAX_OPEN_FILES", 3)
    table = make(tmp_path, partition=("p",), write_buffer_size="64 kb")
    data = rows(np.arange(20_000), parts=50)
    message = run(table, data)
    assert len(message.messages) == 50
    commit(table, [message])
    assert len(read(table)) == 20_000


def test_an_empty_task(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",))
    assert run(table, rows([])) == TaskMessage((), 0)
    assert data_files(table) == []


def test_messages_are_small(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",))
    message = run(table, rows(np.arange(100_000)))
    (one,) = message.messages
    assert one.total_buckets == -1
    assert one.new_index is not None
    assert one.new_index.count == 100_000
    assert one.new_index.data == b""
    assert one.new_index.file_size == 400_000
    assert len(pickle.dumps(message)) < 4000
    assert len(one.new_index.hashes(lambda name: Path(table.path, "index", name).read_bytes())) == 100_000
    (small,) = run(table, rows([1, 2, 1])).messages
    assert small.new_index is not None
    assert (small.new_index.count, small.new_index.file_name) == (2, None)


@pytest.mark.parametrize("shuffled", [False, True])
def test_tasks_fill_dynamic_buckets_together(tmp_path: Path, shuffled: bool) -> None:
    table = make(tmp_path, pk=("k",), dynamic_bucket__target_row_num="1000")
    data = rows(np.random.default_rng(1).permutation(4500))
    plan = pickle.loads(pickle.dumps(plan_write(table, data_schema=data.schema, shuffled=shuffled)))
    parts = [data.slice(at, 900).to_batches() for at in range(0, 4500, 900)]

    def failing() -> Iterator[pa.RecordBatch]:
        yield from parts[2]
        raise OSError("worker died")

    with pytest.raises(OSError, match="worker died"):
        write_batches(plan, failing(), 2)
    messages = [write_batches(plan, part, task) for task, part in enumerate(parts)]
    commit(table, messages, planned_on=plan.snapshot)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    counts = {e.bucket: e.row_count for e in table.manifests.index_entries(snapshot)}
    assert counts == {0: 1000, 1: 1000, 2: 1000, 3: 1000, 4: 500}
    assert read(table) == dict(zip(data["k"].to_pylist(), data["v"].to_pylist(), strict=True))
    assert not list(Path(table.path, "index").glob("placement-*"))
    commit(table, [run(table, rows(np.arange(4400, 5100)), shuffled=shuffled)])
    found = {e.bucket: e.row_count for e in table.manifests.index_entries(table.snapshots.get(2))}
    assert found == counts | {4: 1000, 5: 100}


@pytest.mark.parametrize(("initial", "most", "assigners", "want"), [
    (None, None, None, [1000, 1000, 500]), (3, None, None, [780, 780, 780]), (2, 2, None, [1200, 1200]),
    (None, 1, None, [2500]), (None, None, 3, [780, 780, 780]), (3, None, 10, [780, 780, 780]),
    (3, 2, 10, [1200, 1200]), (4, None, 3, [780, 780, 780]),
])  # fmt: skip
def test_initial_and_greatest_number_of_buckets(
    tmp_path: Path, initial: int | None, most: int | None, assigners: int | None, want: list[int]
) -> None:
    options = {"dynamic_bucket__initial_buckets": initial, "dynamic_bucket__max_buckets": most}
    options["dynamic_bucket__assigner_parallelism"] = assigners
    given = {key: str(value) for key, value in options.items() if value is not None}
    table = make(tmp_path, pk=("k",), dynamic_bucket__target_row_num="1000", **given)
    counts = [sum(f.row_count for f in m.new_files) for m in run(table, rows(np.arange(2500))).messages]
    assert len(counts) == len(want)
    assert all(least <= count for least, count in zip(want, sorted(counts, reverse=True), strict=True))


def test_without_exclusive_files_the_hash_assigns_buckets(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k",), dynamic_bucket__target_row_num="1000", dynamic_bucket__initial_buckets="2")
    table = replace(table, file_io=confined(LocalFileIO(unsafe_rename=True), table.path))
    message = run(table, rows(np.arange(4500)))
    assert {m.bucket for m in message.messages} == {0, 1}
    assert message.assignment_log is None
    commit(table, [message])
    assert {m.bucket for m in run(table, rows(np.arange(5000, 6000))).messages} == {2, 3}


def rescaled(table: FileStoreTable, buckets: str) -> FileStoreTable:
    """The table after ALTER TABLE ... SET 'bucket'."""
    schema = table.schema.with_options({**table.schema.options, "bucket": buckets})
    return replace(table, schema=schema, options=schema.core_options)


def test_another_number_of_buckets(tmp_path: Path) -> None:
    table = make(tmp_path, pk=("k", "p"), partition=("p",), bucket="2")
    commit(table, [run(table, rows([0, 3]))])
    other = rescaled(table, "3")
    assert len(run(other, rows([1, 2])).messages) == 2
    assert {m.total_buckets for m in run(other, rows([0, 3])).messages} == {2}, "a partition keeps its number"
    assert {m.total_buckets for m in run(other, rows([0, 1, 2, 3])).messages} == {2, 3}
    assert {m.total_buckets for m in run(other, rows([0]), overwrite=OverwriteMode.DYNAMIC).messages} == {3}
    flat = make(tmp_path / "flat", pk=("k",), bucket="2")
    commit(flat, [run(flat, rows([1]))])
    with pytest.raises(OptionError, match="Try to write table with a new bucket num 3"):
        plan_write(rescaled(flat, "3"), data_schema=rows([1]).schema)


def with_fixed_buckets(path: Path, keys: tuple[str, ...], partition: tuple[str, ...]) -> FileStoreTable:
    """A table with dynamic buckets and rows in a fixed number of them: the official `rescale` makes such ones."""
    fixed = make(path, pk=keys, partition=partition, bucket="3")
    commit(fixed, [run(fixed, rows([1, 4, 7]))])
    return rescaled(fixed, "-1")


def test_dynamic_buckets_do_not_follow_fixed_ones(tmp_path: Path) -> None:
    """No index says where their keys are."""
    table = with_fixed_buckets(tmp_path, ("k",), ())
    with pytest.raises(OptionError, match="write table with a new bucket num -1, but the previous bucket num is 3"):
        plan_write(table, data_schema=rows([1]).schema)


def test_only_partitions_of_fixed_buckets_are_refused(tmp_path: Path) -> None:
    table = with_fixed_buckets(tmp_path, ("k", "p"), ("p",))
    held = rows([1]).column("p").to_pylist()
    partition = table.paths.partition_path(table.manifests.live_entries(table.snapshots.latest())[0].partition)
    free = [k for k in range(100, 130) if rows([k]).column("p").to_pylist() != held]
    before = data_files(table)
    for keys_written in ([4], [*free, 4]):
        with pytest.raises(OptionError, match=f"write partition {partition} with a new bucket num -1, but .* is 3"):
            run(table, rows(keys_written))
        assert data_files(table) == before
    assert {message.total_buckets for message in run(table, rows(free)).messages} == {-1}
    assert run(table, rows([4]), overwrite=OverwriteMode.DYNAMIC).messages


@pytest.mark.parametrize(
    "options",
    [
        {"metadata__iceberg__storage": "hive-catalog"},
        {"file__format": "csv"},
    ],
)
def test_refused_before_the_first_byte(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, pk=("k",), bucket="1").with_options(
        {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    )
    with pytest.raises(UnsupportedError):
        plan_write(table, data_schema=rows([1]).schema)


def test_bad_rows_write_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    data = rows([1, 2]).set_column(0, "k", pa.array([1, None], pa.int64()))
    with pytest.raises(DataError, match=r"non-null column\(k\)"):
        run(table, data)
    assert data_files(table) == []


def test_file_names_and_locations(tmp_path: Path) -> None:
    table = make(
        tmp_path,
        partition=("p",),
        data_file__prefix="mine-",
        data_file__path_directory="data",
        file__suffix__include__compression="true",
        bucket="2",
        bucket_key="k",
    )
    run(table, rows([4]))
    (file,) = Path(table.path).rglob("mine-*")
    relative = file.relative_to(table.path).parts
    assert relative[:2] == ("data", "p=1")
    assert relative[2].startswith("bucket-")
    assert file.name.endswith("-0.zst.parquet")


def test_gathering() -> None:
    data = rows(np.arange(1000))
    empty = data.slice(0, 0).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], data.schema)]
    chunks = list(combine_batches([*empty, *data.to_batches(max_chunksize=10), *empty], data.schema, 20_000))
    assert pa.concat_tables(chunks).equals(data)
    assert len(chunks) < 10
    assert list(combine_batches([], data.schema, 1)) == []


def test_a_partition_that_is_no_time_is_refused_where_the_table_is_strict(tmp_path: Path) -> None:
    strict = {"partition__timestamp_format__strict": "true"}
    data = pa.table({"k": [1, 2], "p": pa.array([20240101, 20249901], pa.int32()), "v": ["a", "b"]})
    table = make(tmp_path, (), ("p",), partition__timestamp_formatter="yyyyMMdd", **strict)
    with pytest.raises(DataError, match=r"Partition p=20249901 does not match the 'partition.timestamp-formatter'"):
        run(table, data)
    assert data_files(table) == []
    assert [message.new_files[0].row_count for message in run(table, data.slice(0, 1)).messages] == [1]
    loose = table.with_options({"partition.timestamp-format.strict": "false"})
    assert len(run(loose, data).messages) == 2
    without = make(tmp_path / "without", (), ("p",), **strict)
    assert len(run(without, data).messages) == 2  # as in Java, there is nothing to match
