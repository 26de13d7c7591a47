"""Assigns rows to the tasks that write their buckets: by SQL over their columns, or in Python, which packs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.source.worker_process import speed_up_worker
from paimon_spark.write.packed_rows import ROWS, TASK, pack_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.write.plan import WritePlan

PACKED_STRUCT = StructType([StructField(TASK, IntegerType(), False), StructField(ROWS, BinaryType(), False)])
"""The columns of packed rows."""

_MOST_MAPPED_TASKS = 256
_MOST_TARGETS = 2048
_MASK = 0xFFFFFFFF


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
    speed_up_worker()
    named = (batch.rename_columns(schema.names) for batch in batches)
    context = TaskContext.get()
    return pack_rows(plan, batches_from_spark(named, schema), context.partitionId() if context else 0, targets)
