"""How rows are told the task that writes their bucket: SQL over their columns, or over a column of places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.jobs.arrow_functions import column_function
from paimon_spark.spec.filter_text import quoted_name
from paimon_spark.write.placed_keys import PLACE, place_columns, place_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.write.plan import WritePlan

PLACED_BUCKET = f"CAST(shiftright({PLACE}, 32) AS INT)"
"""The bucket in a column of places, as SQL."""

_MOST_MAPPED_TASKS = 256
_MASK = 0xFFFFFFFF


def clustering(partitions: Sequence[str], bucket: str, tasks: int) -> list[str]:
    """SQL expressions by which a shuffle brings all rows of one (partition, bucket) to one task.

    Args:
        partitions: the partition columns as SQL.
        bucket: the bucket of a row as SQL.
        tasks: number of tasks, over which the buckets of a partition are spread evenly; 0 where Spark finds one.
    """
    if not tasks or tasks > _MOST_MAPPED_TASKS:
        return [*partitions, bucket]
    keys = ", ".join(map(str, partition_keys(tasks)))
    number = f"CAST(hash({', '.join(partitions)}) AS BIGINT) + {bucket}" if partitions else bucket
    return [f"element_at(array({keys}), CAST(pmod({number}, {tasks}) AS INT) + 1)"]


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


def with_places(rows: DataFrame, plan: WritePlan, names: Sequence[str] | None = None) -> DataFrame:
    """Return the rows of a table with dynamic buckets with their places as the last column, BIGINT.

    Only the keys travel to Python, and only their places come back.

    Args:
        rows: the rows.
        plan: by which keys are placed.
        names: what the columns of the data are called; as in the plan, if not given.
    """
    chosen = place_columns(plan)
    called = plan.data_schema.names if names is None else names
    schema = pa.schema([plan.data_schema.field(position) for position in chosen])

    def place(columns: Iterator[Any]) -> Iterator[pa.Array]:
        context = TaskContext.get()
        given = (
            pa.RecordBatch.from_arrays([part] if isinstance(part, pa.Array) else list(part), names=schema.names)
            for part in columns
        )
        return place_rows(plan, batches_from_spark(given, schema), context.partitionId() if context else 0)

    function = column_function(rows.sparkSession, place, "bigint")
    return rows.select("*", function(*(rows[quoted_name(called[position])] for position in chosen)).alias(PLACE))
