"""A write whose rows are shuffled first: each bucket has one writer, and gets one file instead of one of every task.

Spark gives a Python data source no say in how rows are distributed, so this is a job of its own: one pass says which
task each row belongs to, a shuffle brings it there, a second pass writes and answers with the task's commit message.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spec.schema import BucketMode
from paimon_spark.write.plan import OverwriteMode, WritePlan, check_one_task_per_bucket, plan_write
from paimon_spark.write.routing import partitions_together, shuffle_ids
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable

_TASK = "_paimon_task"
_MASK = 0xFFFFFFFF


def can_shuffle(table: FileStoreTable) -> bool:
    """Whether rows of the table belong together, and Spark can run ``mapInArrow`` (which asks for pandas, unused)."""
    schema = table.schema
    together = schema.bucket_mode is not BucketMode.BUCKET_UNAWARE or partitions_together(schema)
    return together and find_spec("pandas") is not None


def write_shuffled(
    df: DataFrame,
    table: FileStoreTable,
    overwrite: OverwriteSpec | None,
    *,
    operation: str | None = None,
    rows_of: SnapshotIdentity | None = None,
) -> int | None:
    """Write the rows and commit them; return the id of the new snapshot. Runs on the driver.

    Args:
        df: the rows; columns are matched by name.
        table: the table with the options of this write.
        overwrite: what to replace; None to append.
        operation: what the snapshot says about the statement; None for nothing.
        rows_of: the snapshot that the rows are made of; None where they are new.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        CommitConflictError: another commit changed what this one relies on; nothing was committed.
    """
    tasks = _number_of_tasks(df, table)
    mode = None if overwrite is None else OverwriteMode(overwrite.kind.value)
    arrow_schema = spark_arrow_schema(df.schema)
    plan = plan_write(table, overwrite=mode, data_schema=arrow_schema, shuffled=True, rows_of=rows_of)
    keys = partition_keys(tasks)
    # mapInArrow takes names of columns for expressions: one with a dot or a back quote it would not find
    numbered = df.toDF(*(str(number) for number in range(len(df.columns))))
    with_task = StructType([*numbered.schema.fields, StructField(_TASK, IntegerType(), nullable=False)])
    placed = numbered.mapInArrow(partial(_add_task, plan, keys), with_task).repartition(tasks, _TASK)
    answer = StructType([StructField("message", BinaryType(), nullable=False)])
    rows = placed.mapInArrow(partial(_write_task, plan, keys), answer).collect()
    messages = [pickle.loads(bytes(row.message)) for row in rows]
    check_one_task_per_bucket(plan, messages)
    return commit(
        table,
        messages,
        overwrite=overwrite,
        operation=operation,
        planned_on=plan.snapshot,
        rows_read=plan.rows_read,
        after_commit=maintenance(table),
    )


def _number_of_tasks(df: DataFrame, table: FileStoreTable) -> int:
    """As many tasks as the session has cores (on Connect: shuffle partitions), but no more than there are buckets."""
    spark = df.sparkSession
    context = getattr(spark, "_sc", None)
    shuffles = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = shuffles if context is None else max(1, min(shuffles, context.defaultParallelism))
    buckets = table.options.bucket
    return min(tasks, buckets) if buckets > 0 and not table.schema.partition_keys else tasks


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


def _add_task(plan: WritePlan, keys: list[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every batch, its columns numbered, with the key of the task that each of its rows belongs to. Runs in tasks."""
    schema = plan.data_schema
    targets = pa.array(keys, pa.int32())
    for batch in batches:
        named = batch.rename_columns(schema.names)
        rows = pa.Table.from_batches(list(batches_from_spark([named], schema)))
        ids = shuffle_ids(plan.table.schema, plan.mapping.columns(rows), len(keys))
        chosen = targets.take(pa.array(ids))
        yield pa.RecordBatch.from_arrays([*batch.columns, chosen], names=[*batch.schema.names, _TASK])


def _write_task(plan: WritePlan, keys: list[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task; answer with its commit message. Runs in tasks."""
    rest = (batch for batch in batches if batch.num_rows)
    first = next(rest, None)
    if first is None:
        return
    key = first.column(_TASK)[0].as_py()

    def own() -> Iterator[pa.RecordBatch]:
        yield first
        yield from rest

    names = [*plan.data_schema.names, _TASK]
    named = (batch.rename_columns(names) for batch in _checked(own(), key))
    rows = batches_from_spark(named, plan.data_schema)
    message = write_batches(plan, rows, keys.index(key))
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], names=["message"])


def _checked(batches: Iterable[pa.RecordBatch], key: int) -> Iterator[pa.RecordBatch]:
    """The batches, all of whose rows must belong to one task."""
    for batch in batches:
        if batch.column(_TASK).unique().to_pylist() != [key]:
            raise PaimonError("rows of several tasks came together: Spark's hash partitioning is not the one expected")
        yield batch
