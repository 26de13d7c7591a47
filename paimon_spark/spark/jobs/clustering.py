"""Assigns rows to the tasks that write their buckets: by SQL over their columns, or in Python, which packs them.

Finding where the buckets of a large write are cut: a job over the keys of some of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, map_in_arrow
from paimon_spark.spark.jobs.progress import name_of
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.packed_rows import ROWS, TASK, mapping_of, one_binary, pack_rows
from paimon_spark.write.routing import cut_buckets, most_rows_of_bucket
from paimon_spark.write.rows import RowMapping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.plan import WritePlan
    from paimon_spark.write.routing import KeyRanges

PACKED_STRUCT = StructType([StructField(TASK, IntegerType(), False), StructField(ROWS, BinaryType(), False)])
"""The columns of packed rows."""

_MOST_MAPPED_TASKS = 256
_MOST_TARGETS = 2048
_MASK = 0xFFFFFFFF

_SAMPLED_ROWS = 50_000
_TEXT_BYTES = 20
"""What a text or a nested value is taken to be, as Spark takes it."""


def clustering(partitions: Sequence[str], bucket: str, tasks: int, buckets: int) -> list[str]:
    """SQL expressions by which a shuffle brings all rows of one (partition, bucket) to one task.

    Args:
        partitions: the partition columns as SQL.
        bucket: the bucket of a row as SQL.
        tasks: number of tasks, over which the buckets of a partition are spread evenly; 0 where Spark finds one.
        buckets: number of buckets of a partition.
    """
    if not tasks or tasks > _MOST_MAPPED_TASKS:
        return [*partitions, bucket]
    number = f"CAST(hash({', '.join(partitions)}) AS BIGINT) + {bucket}" if partitions else bucket
    locations = tasks if partitions else min(tasks, buckets)
    keys = ", ".join(map(str, partition_keys(tasks)[:locations]))
    return [f"element_at(array({keys}), CAST(pmod({number}, {locations}) AS INT) + 1)"]


def partition_keys(count: int) -> list[int]:
    """For each of `count` partitions a number that Spark's hash partitioning sends there (Murmur3, seed 42)."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < count:
        found.setdefault(spark_hash(candidate) % count, candidate)
        candidate += 1
    return [found[partition] for partition in range(count)]


def spark_hash(value: int) -> int:
    """Spark's ``hash(value)`` of an INT (``Murmur3_x86_32.hashInt``)."""
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = (mixed << 15 | mixed >> 17) & _MASK
    state = 42 ^ (mixed * 0x1B873593 & _MASK)
    state = (state << 13 | state >> 19) & _MASK
    state = (state * 5 + 0xE6546B64 & _MASK) ^ 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def packed(rows: DataFrame, schema: pa.Schema, plan: WritePlan, tasks: int) -> DataFrame:
    """Return the rows packed for the tasks that write them (`write.packed_rows`); the first column gives the task.

    Args:
        rows: the rows; their columns have no dots and back quotes in their names.
        schema: their columns under their own names, in the types in which Spark sends them.
        plan: of the write; of a table with dynamic buckets the one that assigns its keys.
        tasks: number of partitions of the shuffle that follows.
    """
    return map_in_arrow(rows, partial(_pack, schema, plan, targets_of(tasks)), PACKED_STRUCT)


def packed_here(batches: Iterable[pa.RecordBatch], schema: pa.Schema, plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """Pack rows that are at hand as `packed` does, for one task."""
    return _pack(schema, plan, targets_of(1), batches)


def targets_of(tasks: int) -> list[int]:
    """Numbers that lead packed rows to the partitions of a shuffle."""
    return partition_keys(tasks) if tasks <= _MOST_TARGETS else list(range(_MOST_TARGETS))


def _pack(
    schema: pa.Schema, plan: WritePlan, targets: Sequence[int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pack the rows of one task. Runs in tasks."""
    named = (batch.rename_columns(schema.names) for batch in batches)
    context = TaskContext.get()
    return pack_rows(plan, batches_from_spark(named, schema), context.partitionId() if context else 0, targets)


def may_be_cut(table: FileStoreTable, size: int) -> bool:
    """Whether a bucket may get more rows than a task should hold.

    Args:
        table: with the options of the write.
        size: of all rows of the write, bytes.
    """
    schema = table.schema
    if not schema.primary_keys or schema.bucket_mode not in (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC):
        return False
    return size > int(table.options.value("write-buffer-size")) * max(1, table.options.bucket)


def holds_full_buckets(table: FileStoreTable, schema: pa.Schema) -> bool:
    """Whether a task may hold a whole bucket of a table with dynamic buckets, however many rows are written."""
    most = most_rows_of_bucket(table.schema)
    return most is not None and most * _row_bytes(schema) <= int(table.options.value("write-buffer-size"))


def key_ranges(rows: DataFrame, schema: pa.Schema, plan: WritePlan, size: int) -> KeyRanges | None:
    """Return where the buckets of a write are cut; None where none is. Runs a job over a sample of the keys.

    Args:
        rows: the rows; their columns are numbered from 0.
        schema: their columns under their own names, in the types in which Spark sends them.
        plan: of the write; its columns are the first of the rows, or some of them.
        size: of all rows, bytes, as Spark estimates it.
    """
    of = plan.table.schema
    width = _row_bytes(schema)
    fraction = min(1.0, _SAMPLED_ROWS * width / max(1, size))
    mapping = mapping_of(plan, {*of.partition_keys, *of.primary_keys})
    keys = pa.schema([schema.field(name) for name in mapping.data_names])
    chosen = rows.select(*(str(schema.get_field_index(name)) for name in keys.names)).sample(fraction, 1)
    answer, what = StructType([StructField("keys", BinaryType(), False)]), f"sample keys of {name_of(plan.table.path)}"
    found = [bytes(row[0]) for row in collect_in_arrow(chosen, what, partial(_keys, mapping, keys), answer)]
    if not found:
        return None
    sample = pa.concat_tables([pa.ipc.open_stream(part).read_all() for part in found])
    return cut_buckets(sample, of, rows=sample.num_rows / fraction, row_bytes=width)


def _keys(mapping: RowMapping, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The keys of one task in the table's types, as an Arrow stream. Runs in tasks."""
    named = (batch.rename_columns(schema.names) for batch in batches)
    rows = pa.Table.from_batches(batches_from_spark(named, schema), schema)
    if rows.num_rows:
        keys = mapping.columns(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, keys.schema) as stream:
            stream.write_table(keys)
        yield pa.RecordBatch.from_arrays([one_binary(sink.getvalue())], names=["keys"])


def _row_bytes(schema: pa.Schema) -> int:
    return sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES
