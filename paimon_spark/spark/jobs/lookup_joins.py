"""MERGE by the primary key whose clauses read the target: each row of the source comes beside the old row of its key.

The source alone is shuffled. The task of a bucket looks up the keys of its rows; Spark evaluates the clauses over both
rows, as it would over those of a join, and the same task writes what comes of them: rows of the target are neither
joined nor shuffled nor sorted, and of the columns only those are read that a clause reads or keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.jobs.keyed_merges import (
    converted,
    given_rows,
    looked_up,
    portions,
    schema_with_kinds,
    steps,
)
from paimon_spark.write.bucket_assignment import LOCATION
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.read.key_lookup import KeyLookup
    from paimon_spark.spark.source.table_write import WriteTask
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.write.message import TaskMessage
    from paimon_spark.write.plan import WritePlan

FOUND = "_PAIMON_FOUND"
"""Whether the key of a row of the source is there."""


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """What becomes of rows of the source."""

    schema: TableSchema
    given: StructType
    """The columns that come in: the primary key under its own names, then those of the source that clauses read."""
    old: tuple[DataField, ...]
    """The columns of the old row."""
    lookup: KeyLookup
    evaluate: Callable[[DataFrame], DataFrame]
    """Makes, of rows with the columns `given`, `old`, `FOUND` and perhaps `LOCATION`, those that are written: the
    columns of the table, the row kind, and `LOCATION` if it was there."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that come in."""
        return tuple(self.given.names)

    @property
    def data_schema(self) -> pa.Schema:
        """The rows that are written: the columns of the table, and the row kind."""
        return schema_with_kinds(self.schema)

    def applied(
        self, rows: DataFrame, plan: WritePlan, given: pa.Schema, *, packed: bool
    ) -> tuple[DataFrame, WriteTask]:
        """Rows of the source in the tasks of their buckets become rows to write; and what the tasks do with them.

        Args:
            rows: of the source.
            plan: of the write.
            given: their columns.
            packed: whether they are packed.
        """
        struct = self._joined_struct()
        joined = partial(_joined, self.lookup, plan, given, spark_arrow_schema(struct), packed=packed)
        return self.evaluate(map_in_arrow(rows, partial(_in_task, joined), struct)), self._write(plan)

    def applied_here(
        self, spark: SparkSession, rows: Sequence[pa.RecordBatch], plan: WritePlan, given: pa.Schema, *, packed: bool
    ) -> tuple[DataFrame, WriteTask]:
        """The same for rows that are at hand, in this process."""
        struct = self._joined_struct()
        target = spark_arrow_schema(struct)
        joined = pa.Table.from_batches([*_joined(self.lookup, plan, given, target, rows, packed=packed)], target)
        return self.evaluate(spark.createDataFrame(joined, struct)), self._write(plan)

    def _write(self, plan: WritePlan) -> WriteTask:
        schema = self.data_schema
        located = self.schema.kind.assigns_buckets
        return partial(_write, plan, schema.append(pa.field(LOCATION, pa.int64())) if located else schema)

    def _joined_struct(self) -> StructType:
        """The columns that are evaluated."""
        kinds = [field.dataType for field in (*self.given.fields, *to_spark_struct(self.old).fields)]
        struct = StructType([StructField(f"_PAIMON_{at}", kind, True) for at, kind in enumerate(kinds)])
        struct = struct.add(FOUND, BooleanType(), False)
        return struct.add(LOCATION, LongType(), False) if self.schema.kind.assigns_buckets else struct


def _in_task(
    joined: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from joined(batches)


def _joined(
    lookup: KeyLookup,
    plan: WritePlan,
    given: pa.Schema,
    target: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    packed: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the source, at most some megabytes at a time, with the old rows of their keys."""
    filled = (batch for batch in batches if batch.num_rows)
    given_batches = given_rows(filled, given, packed=packed)
    for rows in portions(plan, given_batches, lookup, old_share=4):  # another process has the buffer of the write
        yield from _beside_old_rows(lookup, plan, given, target, rows)
        del rows


def _beside_old_rows(
    lookup: KeyLookup, plan: WritePlan, given: pa.Schema, target: pa.Schema, rows: pa.Table
) -> Iterator[pa.RecordBatch]:
    found, old, at_old = looked_up(lookup, plan, rows)
    for part in steps(rows):
        own = rows[part]
        there = pa.array(at_old[part], mask=~found[part])
        columns = [own.column(name) for name in given.names]
        columns += [] if old is None else [column.take(there) for column in old.columns]
        columns.append(pa.chunked_array([pa.array(found[part])]))
        columns += [own.column(LOCATION)] if LOCATION in own.column_names else []
        arrays = [converted(column, field.type) for column, field in zip(columns, target, strict=True)]
        yield from pa.Table.from_arrays(arrays, schema=target).combine_chunks().to_batches()


def _write(plan: WritePlan, schema: pa.Schema, batches: Iterable[pa.RecordBatch], task_id: int) -> TaskMessage:
    """Write the rows of one task, with the types of the table; of dynamic buckets their locations come last."""

    def typed() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            arrays = [converted(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
            yield from pa.Table.from_arrays(arrays, schema=schema).to_batches()

    return write_batches(plan, typed(), task_id)
