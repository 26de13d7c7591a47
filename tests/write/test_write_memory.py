"""Writes of twenty times `write-buffer-size` hold a few buffers: packed, cross-partition, postponed rows, rescaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.postponed_read import by_writer, postponed_entries, read_postponed_rows
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.file_names import postponed_writer
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.bucket_filling import DynamicBucketPlan
from paimon_spark.write.cross_partition_update import (
    ORDER,
    assign_all_rows,
    assign_partitions,
    cross_partition_schema,
    pack_known_keys,
    pack_new_rows,
)
from paimon_spark.write.packed_rows import pack_rows, unpack_rows
from paimon_spark.write.plan import OverwriteMode, WritePlan, plan_write
from paimon_spark.write.task_write import chunk_bytes, write_batches
from tests.support.memory import arrow_peak
from tests.support.plans import plan_of

BUDGET = 2 << 20
MOST = 6 * BUDGET
BATCH, BATCHES, WIDTH = 200, 200, 1000
SCHEMA = pa.schema([("k", pa.string()), ("p", pa.int32()), ("v", pa.string())])


def make(path: Path, pk: tuple[str, ...], partition: tuple[str, ...] = (), **options: str) -> FileStoreTable:
    columns = [("k", "STRING NOT NULL"), ("p", "INT NOT NULL"), ("v", "STRING")]
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(columns)]
    own = {"write-buffer-size": "2 mb", "read.merge.memory-budget": "2 mb"}
    named = {**own, **{name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}}
    return create_table(str(path / "t"), create_schema(fields, pk, partition, named, None))


def keys_of(batch: int) -> pa.Array:
    """Keys that take half of a row's bytes; each batch has others."""
    numbers = pa.array(np.arange(batch, BATCH * BATCHES, BATCHES)).cast(pa.string())
    return pc.binary_join_element_wise(numbers, pc.binary_repeat("k", WIDTH // 2), "-")


def new_rows(times: int = 1) -> Iterator[pa.RecordBatch]:
    """Rows of twenty budgets, made as they are asked for; every key comes so often."""
    text = pa.array(["x" * (WIDTH // 2)] * BATCH)
    for number in range(BATCHES * times):
        parts = pa.array(np.full(BATCH, number // BATCHES), pa.int32())
        yield pa.RecordBatch.from_arrays([keys_of(number % BATCHES), parts, text], schema=SCHEMA)


def known_keys() -> Iterator[tuple[pa.RecordBatch, int]]:
    for number in range(BATCHES):
        parts = pa.array(np.ones(BATCH), pa.int32())
        yield pa.RecordBatch.from_arrays([keys_of(number), parts], names=["k", "p"]), 0


def taken(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_packed_rows(tmp_path: Path) -> None:
    """Of a bulk load: packed, sent and unpacked one stream after the other."""
    table = make(tmp_path, ("k",), bucket="4")
    plan = plan_write(table, data_schema=SCHEMA, shuffled=True)
    with arrow_peak() as peak:
        assert taken(unpack_rows(pack_rows(plan, new_rows(), 0, range(4)))) == BATCH * BATCHES
    assert peak.bytes < MOST


def cross_partition(path: Path) -> tuple[WritePlan, WritePlan]:
    table = make(path, ("k",), ("p",), bucket="-1")
    counts = DynamicBucketPlan(known={}, target_rows=10**6, max_buckets=-1, keys_apart=True, log=None)
    given = replace(plan_write(table, data_schema=SCHEMA), dynamic=counts)
    return given, replace(plan_write(table, data_schema=cross_partition_schema(table.schema)), dynamic=counts)


def test_cross_partition_updates(tmp_path: Path) -> None:
    """Rows and known keys of the task that joins them; each row leaves a deleted one behind."""
    given, plan = cross_partition(tmp_path)

    def packed() -> Iterator[pa.RecordBatch]:
        yield from pack_new_rows(given, new_rows(), 0, [7])
        yield from pack_known_keys(given.table.schema, known_keys(), [7])

    with arrow_peak() as peak:
        assert taken(unpack_rows(assign_partitions(plan, packed(), 0, [7]))) == 2 * BATCH * BATCHES
    assert peak.bytes < MOST


def test_cross_partition_updates_in_the_task_that_writes(tmp_path: Path) -> None:
    given, plan = cross_partition(tmp_path)

    def numbered() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(new_rows()):
            order = pa.array(np.arange(number * BATCH, (number + 1) * BATCH))
            yield pa.RecordBatch.from_arrays([*batch.columns, order], names=[*SCHEMA.names, ORDER])

    with arrow_peak() as peak:
        assert taken(assign_all_rows(given, plan, numbered(), known_keys())) == 2 * BATCH * BATCHES
    assert peak.bytes < MOST


def test_postponed_rows(tmp_path: Path) -> None:
    """Written as they come, then read and packed for the tasks of their buckets."""
    table = make(tmp_path, ("k",), bucket="-2", postpone__batch_write_fixed_bucket="false")
    with arrow_peak() as writing:
        message = write_batches(plan_write(table, data_schema=SCHEMA), new_rows(), 0)
    assert writing.bytes < MOST
    commit(table, [message])
    entries = postponed_entries(table.manifests.live_entries(table.snapshots.latest()))
    groups = by_writer(table, [(e.partition, postponed_writer(e.file.file_name), e.file) for e in entries])
    plan = plan_write(table.as_if({"bucket": "4"}), data_schema=cross_partition_schema(table.schema), shuffled=True)
    with arrow_peak() as taking:
        rows = unpack_rows(pack_rows(plan, read_postponed_rows(table, groups, chunk_bytes(plan)), 0, range(4)))
        assert taken(rows) == BATCH * BATCHES
    assert taking.bytes < MOST


def test_a_rescaled_bucket(tmp_path: Path) -> None:
    """Its rows are merged, packed for the new buckets, and written."""
    options = {"bucket": "1", "parquet__block__size": str(1 << 20), "write_only": "true"}
    table = make(tmp_path, ("k",), **options)
    larger = table.as_if({"write-buffer-size": "4 mb"})  # fewer runs: the merge holds a page of each
    commit(table, [write_batches(plan_write(larger, data_schema=SCHEMA), new_rows(times=2), 0)])
    read = plan_of(table)
    plan = plan_write(table.as_if({"bucket": "2"}), overwrite=OverwriteMode.STATIC, data_schema=SCHEMA, shuffled=True)

    def rows() -> Iterator[pa.RecordBatch]:
        for split in read.splits:
            yield from read_split(table, split, read.fields, read.residual)

    with arrow_peak() as peak:
        message = write_batches(plan, unpack_rows(pack_rows(plan, rows(), 0, [0])), 0)
    assert message.rows == BATCH * BATCHES
    assert peak.bytes < 3 * MOST  # a merge, a chunk that is packed, a buffer that is written
