"""MERGE into a table without primary key: one job writes the new rows and tells which old ones go. On any session.

Tasks write what is inserted and updated into new files, and answer with the locations of updated and deleted rows. With
deletion vectors the commit deletes these; else the files that hold them are written anew. So the source is evaluated
once, whatever it is.

MERGE into a table with data evolution: an update writes the changed columns of a row, and nothing else of it.

What the clauses make of the rows is computed once and kept: its updates are brought to tasks by their row ids, its new
rows are written where they are, its deleted rows are deleted. All is one commit. On any session.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import DataError
from paimon_spark.maintain.column_update import commit_columns
from paimon_spark.maintain.row_deletion import DeletedPositions, encode_positions
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, numbered
from paimon_spark.spark.jobs.compact_job import executor_of
from paimon_spark.spark.jobs.located_rows import by_file, write_columns
from paimon_spark.spark.jobs.progress import change_of
from paimon_spark.spark.jobs.write_tasks import filled_batches
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.source.table_write import RowDeletions, TableWrite, planned
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import ROW_ID, VALUE_KIND, RowKind
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.task_write import write_parts

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

CARDINALITY_VIOLATION = (
    "[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE statement matched a single row from the target "
    "table with multiple rows of the source table. This could result in the target row being operated on more than "
    "once with an update or delete operation and is not allowed."
)
"""Spark's own sentence."""

_ANSWER = StructType([StructField("answer", BinaryType(), nullable=False)])
_MOST_WAITING = 1 << 22
"""Positions that a task holds unpacked."""


def merge_rows(changes: DataFrame, table: FileStoreTable, snapshot: Snapshot | None, *, checked: bool) -> None:
    """Write and commit what a MERGE makes of the rows of a snapshot.

    Args:
        changes: the columns of the table, then the path and the position of the old row, with row tracking its id and
            sequence number, then the row kind: +I is inserted, +U takes the place of the old row, -D removes it.
        table: the target with the options of the statement.
        snapshot: what `changes` reads; None: there is none yet.
        checked: whether no old row may come twice.

    Raises:
        DataError: an old row comes twice; nothing was committed.
        CommitConflictError: another commit changed the same rows meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    write, done = write_changes(changes, table, updates=True)
    _commit(table, write, snapshot, done, checked=checked, execute=executor_of(changes.sparkSession))


def write_changes(changes: DataFrame, table: FileStoreTable, *, updates: bool) -> tuple[TableWrite, list[Done]]:
    """Write the new rows, and find the locations of the old ones; nothing is committed.

    Args:
        changes: as of `merge_rows`.
        table: the target with the options of the statement.
        updates: whether +U may be among the kinds.

    Returns:
        The write of new rows, which can be committed, and what each task did.
    """
    schema = spark_arrow_schema(changes.schema)
    columns = len(table.schema.field_names)
    tracked = list(range(columns + 2, len(schema) - 1))
    plain = pa.schema([schema.field(at) for at in range(columns)])
    writes = [planned(table, plain, operation=Operation.MERGE)]
    if tracked and updates:
        kept = pa.schema([*plain, *(schema.field(at) for at in tracked)])
        # as of rows that are deleted: they bring their ids
        writes.append(planned(table, kept, operation=Operation.MERGE, deleted=RowDeletions(0, ())))
    rows = numbered(changes)
    task, batches = partial(_merge_task, writes, columns), rows_at_hand(rows)
    if batches is None:
        answers = [
            bytes(row.answer) for row in collect_in_arrow(rows, change_of(Operation.MERGE, table.path), task, _ANSWER)
        ]
    else:
        answers = [value.as_py() for answer in task(batches) for value in answer.column(0)]
    return writes[0], [done for answer in answers for done in pickle.loads(answer)]


@dataclass(frozen=True, slots=True)
class Done:
    """What one task did."""

    messages: tuple[TaskMessage, ...]
    deleted: tuple[DeletedPositions, ...]
    inserted: int
    updated: int
    deleted_rows: int
    repeated: bool


def _commit(
    table: FileStoreTable,
    write: TableWrite,
    snapshot: Snapshot | None,
    done: Sequence[Done],
    *,
    checked: bool,
    execute: Any,
) -> None:
    from paimon_spark.maintain.row_deletion import rows_of_files, write_without  # the tasks do without it

    messages = [message for part in done for message in part.messages]
    deleted = tuple(file for part in done for file in part.deleted)
    with undone_where_void(lambda: write.discard(messages)):
        removed = [] if snapshot is None else rows_of_files(table, snapshot, deleted)
        if checked and (any(part.repeated for part in done) or any(rows.repeated for rows in removed)):
            raise DataError(CARDINALITY_VIOLATION)
        if not removed and not any(message.messages for message in messages):
            return
        if removed and snapshot is not None:
            if table.options.deletion_vectors_enabled:
                write = replace(write, deleted=RowDeletions(snapshot.id, deleted))
            else:
                messages.append(write_without(table, removed, execute))
    # a row that is inserted was not there: what others have put into its partition meanwhile is to be looked at
    inserts = any(part.inserted for part in done)
    plan = replace(write.plan, snapshot=SnapshotIdentity.of(snapshot), rows_read=inserts)
    replace(write, plan=plan).commit(messages, execute)
    report(counts_of(done))


def counts_of(done: Sequence[Done], *, updated: int = 0) -> RowCounts:
    """The counts of what tasks did, and of rows that were updated besides."""
    inserted, updates, deleted = (
        sum(getattr(part, name) for part in done) for name in ("inserted", "updated", "deleted_rows")
    )
    return RowCounts.changed(updated=updated + updates, deleted=deleted, inserted=inserted)


def _merge_task(
    writes: Sequence[TableWrite], columns: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task; answer with its commit messages and the locations of old rows. Runs in tasks."""
    filled = filled_batches(batches)
    if filled is None:
        return
    locations = _Locations()
    parts = _parts(writes, columns, filled, locations)
    context = TaskContext.get()
    messages = write_parts([write.plan for write in writes], parts, context.partitionId() if context else 0)
    counts = locations.inserted, locations.updated, locations.deleted
    done = Done(tuple(messages), tuple(locations.packed()), *counts, locations.repeated)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps([done])], pa.binary())], names=["answer"])


def _parts(
    writes: Sequence[TableWrite], columns: int, batches: Iterable[pa.RecordBatch], locations: _Locations
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows to be written, each batch with the position of its write; note the locations of old rows."""
    for batch in batches:
        kinds = batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)
        inserted = kinds == RowKind.INSERT.value
        updated = kinds == RowKind.UPDATE_AFTER.value
        locations.take(batch.select([columns, columns + 1]), ~inserted)
        locations.inserted += int(inserted.sum())
        locations.updated += int(updated.sum())
        locations.deleted += int((kinds == RowKind.DELETE.value).sum())
        if len(writes) == 1:
            yield from _written(writes, 0, batch, columns, inserted | updated)
        else:
            yield from _written(writes, 0, batch, columns, inserted)
            yield from _written(writes, 1, batch, columns, updated)


def _written(
    writes: Sequence[TableWrite], at: int, batch: pa.RecordBatch, columns: int, chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the chosen rows as one write takes them: a row that is updated gets the sequence number of its snapshot."""
    if not chosen.any():
        return
    schema = writes[at].plan.data_schema
    rows = batch if chosen.all() else batch.filter(pa.array(chosen))
    taken = list(rows.columns[:columns])
    if at:
        taken += [rows.column(columns + 2), pa.nulls(rows.num_rows, pa.int64())]
    made = pa.RecordBatch.from_arrays(taken, names=schema.names)
    for converted in batches_from_spark([made], schema):
        yield at, converted


@dataclass
class _Locations:
    """The locations of old rows that a task has seen, packed file by file."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    repeated: bool = False
    """Whether one of them came twice."""
    _unpacked: dict[str, list[npt.NDArray[np.int64]]] = field(default_factory=dict)
    _count: int = 0
    _done: list[DeletedPositions] = field(default_factory=list)

    def take(self, locations: pa.RecordBatch, chosen: npt.NDArray[np.bool_]) -> None:
        if not chosen.any():
            return
        found = locations.filter(pa.array(chosen))
        for path, positions in by_file(found):
            self._unpacked.setdefault(path, []).append(positions)
        self._count += found.num_rows
        if self._count >= _MOST_WAITING:
            self._pack()

    def packed(self) -> list[DeletedPositions]:
        """All of them."""
        self._pack()
        return self._done

    def _pack(self) -> None:
        for path, parts in self._unpacked.items():
            positions = np.concatenate(parts)
            distinct = np.unique(positions)
            self.repeated |= len(distinct) < len(positions)
            self._done.append((path, encode_positions(distinct)))
        self._unpacked, self._count = {}, 0


def merge_columns(
    changes: DataFrame, table: FileStoreTable, columns: Collection[str], snapshot: Snapshot, *, checked: bool
) -> None:
    """Write and commit what a MERGE makes of the rows of a snapshot.

    Args:
        changes: as of `merge_rows`; of +U rows only `columns` and the row id count.
        table: the target, with row tracking, and the options of the statement.
        columns: that get new values.
        snapshot: what `changes` reads.
        checked: whether no old row may come twice.

    Raises:
        DataError: an old row comes twice; nothing was committed.
        CommitConflictError: another commit changed the same rows meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    kept = changes.persist()
    try:
        kind = sf.col(VALUE_KIND.name)
        if checked and _comes_twice(kept.where(kind != RowKind.INSERT.value)):
            raise DataError(CARDINALITY_VIOLATION)
        updated = kept.where(kind == RowKind.UPDATE_AFTER.value)
        messages = write_columns(updated, table, columns, snapshot.id) if columns else []
        count = sum(message.rows for message in messages)
        _, done = write_changes(kept.where(kind != RowKind.UPDATE_AFTER.value), table, updates=False)
        messages += [message for part in done for message in part.messages]
        deleted = tuple(file for part in done for file in part.deleted)
        if deleted or any(message.messages for message in messages):
            made = commit_columns(table, messages, snapshot, Operation.MERGE, deleted=deleted)
            report(replace(counts_of(done, updated=count), snapshot_id=made))
    finally:
        kept.unpersist()


def _comes_twice(rows: DataFrame) -> bool:
    twice = rows.groupBy(ROW_ID.name).count().where(sf.col("count") > 1)
    return bool(twice.limit(1).collect())
