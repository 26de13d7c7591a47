"""MERGE by the primary key: each task that writes a bucket looks up which keys of its rows the bucket has.

Only the source passes through Spark, with what each clause would make of its rows. The rows of the target are not
joined, shuffled or sorted: a task reads their keys, and of those that are matched the columns that stay.

The driver then says whether the rows of the write had each key once, by what its tasks wrote; no file is opened.

A bucket's buffer merges rows of equal keys before it writes them: then fewer rows come out than went in. Two flushes of
a bucket may hold the same key only where their key ranges meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.memory import note_freed
from paimon_spark.spark.columns.arrow_cast import batches_from_spark, conversion
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spec.binary_row_decoder import key_ranks
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind
from paimon_spark.write.bucket_assignment import LOCATION
from paimon_spark.write.packed_rows import mapping_of, unpack_rows
from paimon_spark.write.routing import Router
from paimon_spark.write.rows import MappedRows
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from paimon_spark.read.key_lookup import KeyLookup
    from paimon_spark.spark.source.table_write import WriteTask
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.write.message import TaskMessage
    from paimon_spark.write.plan import WritePlan

MATCHED, NOT_MATCHED = "_PAIMON_MATCHED", "_PAIMON_NOT_MATCHED"
"""Columns behind those of the values: the number of the clause for a row, from 1, if its key is there or not; or 0."""
_AT = "_PAIMON_AT"
_FEWEST_ROWS = 1 << 12
"""Of the source, that are looked up together, however large their old rows are."""
_STEP_BYTES = 16 << 20
"""Rows whose values are put together at a time."""


@dataclass(frozen=True, slots=True)
class MergedColumn:
    """Where a column of the table has its values. Positions are those of columns that come in."""

    matched: int | None
    """Its values in rows whose keys are there; None where no clause gives it one."""
    inserted: int | None
    """Its values in other rows."""
    kept: tuple[int, ...]
    """The numbers of the clauses that keep the old value."""
    emptied: tuple[int, ...]
    """The numbers of the clauses that leave nothing of it."""


@dataclass(frozen=True, slots=True)
class KeyedMerge:
    """What a task makes of rows of the source."""

    schema: TableSchema
    names: tuple[str, ...]
    """The columns that come in: at least the primary key under its own names, then `MATCHED` and `NOT_MATCHED`."""
    columns: tuple[MergedColumn, ...]
    """One for each column of the table."""
    kinds: tuple[RowKind, ...]
    """What each clause writes."""
    lookup: KeyLookup

    @property
    def data_schema(self) -> pa.Schema:
        """The rows that are written: the columns of the table, and the row kind."""
        return schema_with_kinds(self.schema)

    def applied(
        self, rows: DataFrame, plan: WritePlan, given: pa.Schema, *, packed: bool
    ) -> tuple[DataFrame, WriteTask]:
        """Rows of the source in the tasks of their buckets, and what these tasks do with them."""
        return rows, partial(self.write_task, plan, given, packed=packed)

    def write_task(
        self, plan: WritePlan, given: pa.Schema, batches: Iterable[pa.RecordBatch], task_id: int, *, packed: bool
    ) -> TaskMessage:
        """Write the rows of one task. Runs in tasks.

        Args:
            plan: of a write of rows with `data_schema`.
            given: the columns that come in.
            batches: rows of the source, packed or as they are.
            task_id: the same for all attempts of a task.
            packed: whether they are packed.

        Raises:
            DataError: a row cannot be taken; nothing is written then.
        """
        rows = given_rows(batches, given, packed=packed)
        budget = int(plan.table.options.value("write-buffer-size"))
        table = plan.table.as_if({"write-buffer-size": f"{budget * 3 // 4} b"})  # the rest is for look-ups
        return write_batches(replace(plan, table=table), self._merged(plan, rows), task_id)

    def _merged(self, plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in portions(plan, batches, self.lookup):
            yield from self._decided_rows(plan, rows)
            del rows

    def _decided_rows(self, plan: WritePlan, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield what is written for rows of the source, at least one; they are looked up together."""
        found, old, at_old = looked_up(self.lookup, plan, rows)
        for part in steps(rows):
            yield from self._decided(rows[part], found[part], old, at_old[part]).to_batches()

    def _decided(
        self, rows: pa.Table, found: npt.NDArray[np.bool_], old: pa.Table | None, at_old: npt.NDArray[np.int64]
    ) -> pa.Table:
        """What is written for rows of the source."""
        number = np.where(found, _numbers(rows, MATCHED), _numbers(rows, NOT_MATCHED))
        taken = np.flatnonzero(number)
        if len(taken) < len(number):
            rows, number, found, at_old = rows.take(pa.array(taken)), number[taken], found[taken], at_old[taken]
        kinds = np.array([0, *(kind.value for kind in self.kinds)], dtype=np.int8)[number]
        schema = self.data_schema
        names = {name: at for at, name in enumerate(() if old is None else old.column_names)}
        arrays = []
        for field, column in zip(schema, self.columns, strict=False):
            value = self._value(rows, column, found, field.type)
            kept = np.isin(number, column.kept)
            if old is not None and kept.any():
                before = converted(old.column(names[field.name]), field.type)
                before = before.take(pa.array(at_old, mask=~kept))
                value = before if kept.all() else pc.if_else(pa.array(kept), before, value)
            emptied = np.isin(number, column.emptied)
            if emptied.any():
                value = pc.if_else(pa.array(emptied), pa.scalar(None, field.type), value)
            arrays.append(value)
        arrays.append(pa.array(kinds))
        if LOCATION in rows.column_names:
            arrays.append(rows.column(LOCATION))
            schema = schema.append(rows.schema.field(LOCATION))
        return pa.Table.from_arrays(arrays, schema=schema)

    @staticmethod
    def _value(rows: pa.Table, column: MergedColumn, found: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
        # values of clauses differ in what may be null inside of them
        matched, inserted = (
            None if at is None else converted(rows.column(at), kind) for at in (column.matched, column.inserted)
        )
        if matched is None and inserted is None:
            return pa.nulls(rows.num_rows, kind)
        if matched is None or inserted is None or column.matched == column.inserted:
            return matched if inserted is None else inserted
        return pc.if_else(pa.array(found), matched, inserted)


def schema_with_kinds(schema: TableSchema) -> pa.Schema:
    """Rows that a MERGE writes: the columns of the table, and the row kind."""
    columns = spark_arrow_schema(to_spark_struct(schema.fields))
    return columns.append(pa.field(VALUE_KIND.name, pa.int8(), nullable=False))


def given_rows(batches: Iterable[pa.RecordBatch], given: pa.Schema, *, packed: bool) -> Iterator[pa.RecordBatch]:
    """Rows of the source, as they came to a task: packed, or as Spark sends them. Runs in tasks."""
    if packed:
        return unpack_rows(batches)
    return batches_from_spark((batch.rename_columns(given.names) for batch in batches), given)


def portions(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], lookup: KeyLookup, *, old_share: int = 8
) -> Iterator[pa.Table]:
    """Rows of the source that are looked up together: at most an eighth of the write buffer. Runs in tasks.

    Where old rows are larger than those of the source, each portion is a range of keys, so that few row groups are read
    for it.

    Args:
        plan: of the write.
        batches: rows of the source.
        lookup: of their keys.
        old_share: old rows that are held at a time are one part of so many of the write buffer.
    """
    buffer = int(plan.table.options.value("write-buffer-size"))
    limit, old_bytes = max(1, buffer // 8), buffer // old_share
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size >= limit:
            rows, pending = pa.Table.from_batches(pending), []
            yield from _by_old_rows(rows, old_bytes, lookup)
            del rows
            note_freed(size)  # what is made of them are copies
            size = 0
    if pending:
        yield from _by_old_rows(pa.Table.from_batches(pending), old_bytes, lookup)


def _by_old_rows(rows: pa.Table, old_bytes: int, lookup: KeyLookup) -> Iterator[pa.Table]:
    most = max(_FEWEST_ROWS, old_bytes // max(1, lookup.old_row_bytes))
    if rows.num_rows <= most:
        yield rows
        return
    keys = [name for name in lookup.keys if not pa.types.is_boolean(rows.schema.field(name).type)]
    if keys:
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in keys]))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)


def steps(rows: pa.Table) -> Iterator[slice]:
    """Rows whose values are put together at a time."""
    step = max(1, _STEP_BYTES * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        yield slice(start, start + step)


def looked_up(
    lookup: KeyLookup, plan: WritePlan, rows: pa.Table
) -> tuple[npt.NDArray[np.bool_], pa.Table | None, npt.NDArray[np.int64]]:
    """Look up the keys of rows. Runs in tasks.

    Args:
        lookup: of the snapshot that the statement reads.
        plan: of the write.
        rows: at least the primary key under its names; of dynamic buckets also `LOCATION`.

    Returns:
        Which rows have keys that are there; the old rows of these, None where no column of them is wanted; and the
        position of each among the old rows, -1 where there is none.
    """
    schema = plan.table.schema
    mapping = mapping_of(plan, {*schema.partition_keys, *schema.bucket_keys, *schema.primary_keys})
    keys = mapping.columns(rows.select(mapping.data_names))
    keys = keys.append_column(_AT, pa.array(np.arange(rows.num_rows)))
    locations = rows.column(LOCATION).to_numpy() if LOCATION in rows.column_names else None
    router = Router(schema, None, None, plan.total_buckets)
    found = np.zeros(rows.num_rows, dtype=np.bool_)
    at_old = np.full(rows.num_rows, -1, dtype=np.int64)
    old: list[pa.Table] = []
    count = 0
    for routed in router.route(MappedRows(keys, None, locations)):
        there = lookup.find(routed.partition, routed.bucket, routed.rows)
        positions = routed.rows.column(_AT).to_numpy()[there.rows]
        found[positions] = True
        if there.columns is not None:
            at_old[positions] = np.arange(count, count + len(positions))
            count += len(positions)
            old.append(there.columns)
    return found, pa.concat_tables(old) if old else None, at_old


def _numbers(rows: pa.Table, name: str) -> npt.NDArray[np.int8]:
    return np.asarray(rows.column(name).to_numpy(), dtype=np.int8)


def converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column as one of another type, which differs in what may be null inside of it, say."""
    convert = conversion(column.type, kind)
    return column if convert is None else pa.chunked_array([convert(part) for part in column.chunks], kind)


def merged_rows(messages: Sequence[TaskMessage]) -> bool:
    """Whether a buffer merged rows of equal keys: then some key came twice.

    Args:
        messages: of all tasks of a write to a table with keys whose rows of one key come to one bucket.
    """
    written = sum(file.row_count for message in messages for part in message.messages for file in part.new_files)
    return sum(message.rows for message in messages) != written


def overlapping_files(
    schema: TableSchema, messages: Sequence[TaskMessage]
) -> dict[tuple[bytes, int], list[DataFileMeta]]:
    """The new files of each bucket, by partition bytes and bucket, in which the key ranges of two files meet."""
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for message in messages:
        for part in message.messages:
            buckets.setdefault((part.partition, part.bucket), []).extend(part.new_files)
    types = [schema.field(name).type for name in schema.trimmed_primary_keys]
    return {bucket: files for bucket, files in buckets.items() if len(files) > 1 and not _are_apart(files, types)}


def _are_apart(files: Sequence[DataFileMeta], types: Sequence[DataType]) -> bool:
    keys = [file.min_key for file in files] + [file.max_key for file in files]
    low, high = np.split(key_ranks(keys, types), 2)
    order = np.argsort(low)
    return bool(np.all(low[order][1:] > high[order][:-1]))
