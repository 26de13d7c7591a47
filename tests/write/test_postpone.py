"""How many buckets postponed partitions get, and the files of postponed rows."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark import OptionError
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, DataError
from paimon_spark.options import CoreOptions
from paimon_spark.read.postponed_read import by_writer, postponed_entries, read_postponed_rows
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.spec.file_names import postponed_writer
from paimon_spark.spec.manifest import EMPTY_STATS
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.postpone import buckets_of_batch, buckets_of_postponed
from paimon_spark.write.task_write import write_batches

ROWS = "postpone.target-row-num-per-bucket"
SIZE = "postpone.target-size-per-bucket"
DEFAULT = "postpone.default-bucket-num"
FACTOR = "postpone.batch-write-fixed-bucket.rescale-load-factor"
MOST = "postpone.batch-write-fixed-bucket.max-parallelism"
WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}


@pytest.mark.parametrize(
    ("options", "rows", "size", "batch", "pending"),
    [
        ({}, 10**6, 100, 1, 1),
        ({}, 0, 0, 1, 1),
        ({}, 1, (1 << 30) + 1, 2, 2),
        ({}, 1, 5 << 30, 8, 5),
        ({SIZE: "100 b"}, 1, 901, 16, 10),
        ({ROWS: "100"}, 900, 10**12, 16, 9),
        ({ROWS: "100", MOST: "12"}, 1300, 0, 12, 13),
        ({ROWS: "100", DEFAULT: "3"}, 1300, 0, 3, 3),
    ],
)
def test_numbers_of_buckets(options: dict[str, str], rows: int, size: int, batch: int, pending: int) -> None:
    core = CoreOptions(options)
    assert (buckets_of_batch(core, rows, size), buckets_of_postponed(core, rows, size)) == (batch, pending)


@pytest.mark.parametrize(
    ("options", "rows", "existing", "number"),
    [
        ({ROWS: "1"}, 32, 1, 1),
        ({ROWS: "1"}, 33, 1, 64),
        ({ROWS: "1", MOST: "16"}, 33, 1, 16),
        ({ROWS: "1", MOST: "16"}, 1000, 16, 16),
        ({ROWS: "1", FACTOR: "2"}, 5, 2, 8),
        ({ROWS: "1", DEFAULT: "3"}, 33, 1, 64),
    ],
)
def test_a_partition_is_rescaled_for_a_much_larger_batch(
    options: dict[str, str], rows: int, existing: int, number: int
) -> None:
    """Java: ``PostponeUtils.decideFixedBucketNum``; a compaction never rescales."""
    core = CoreOptions(options)
    assert (buckets_of_batch(core, rows, 1, existing), buckets_of_postponed(core, rows, 1, existing)) == (
        number,
        existing,
    )


@pytest.mark.parametrize("key", [ROWS, DEFAULT, MOST, FACTOR])
def test_numbers_are_above_zero(key: str) -> None:
    with pytest.raises(OptionError, match=f"Option '{key}' must be greater than 0"):
        buckets_of_batch(CoreOptions({key: "0"}), 1, 1)


def make(tmp_path: Path, **options: str) -> FileStoreTable:
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", VarCharType(length=VarCharType.MAX))]
    path = str(tmp_path / "t")
    schema = create_schema(fields, ["k"], [], {**WAITING, **{k.replace("_", "-"): v for k, v in options.items()}})
    create_table(path, schema, file_io=FileIO.for_path(path))
    return load_table(path)


def write(table: FileStoreTable, *rows: tuple[int, str, int]) -> None:
    data = pa.table(
        {"k": pa.array([r[0] for r in rows], pa.int32()), "v": [r[1] for r in rows]}
        | {"_VALUE_KIND": pa.array([r[2] for r in rows], pa.int8())}
    )
    plan = plan_write(table, data_schema=data.schema)
    commit(table, [write_batches(plan, data.to_batches(), 0)], commit_user=plan.postponed_user)


def test_postponed_rows_keep_their_order(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, (3, "a", 0), (1, "b", 0), (3, "c", 2), (3, "d", 3))
    write(table, (3, "e", 0))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    entries = postponed_entries(table.manifests.live_entries(snapshot))
    first, second = (entry.file for entry in entries)
    assert [(e.bucket, e.total_buckets) for e in entries] == [(-2, -2)] * 2
    assert re.fullmatch(r"data--u-[0-9a-f-]{36}-s-\d+-w-[0-9a-f-]{36}-0\.avro", first.file_name)
    assert (first.min_sequence_number, first.max_sequence_number, first.delete_row_count) == (-1, -1, 1)
    assert (first.value_stats, first.value_stats_cols, first.level) == (EMPTY_STATS, (), 0)
    assert snapshot.commit_user in second.file_name
    groups = by_writer(table, [(e.partition, postponed_writer(e.file.file_name), e.file) for e in entries])
    assert len(groups) == 2
    rows = pa.Table.from_batches(list(read_postponed_rows(table, groups))).to_pydict()
    assert rows["v"] == ["a", "b", "c", "d", "e"]
    assert rows["_VALUE_KIND"] == [0, 0, 2, 3, 0]


def test_a_retraction_that_the_engine_does_not_take(tmp_path: Path) -> None:
    table = make(tmp_path, merge_engine="partial-update")
    write(table, (1, "a", 0))
    with pytest.raises(DataError, match="Partial update can not accept delete records"):
        write(table, (1, "a", 3))


def test_a_name_of_another_kind() -> None:
    with pytest.raises(CorruptTableError, match="is not the name of a postponed file"):
        postponed_writer("data-1.avro")
