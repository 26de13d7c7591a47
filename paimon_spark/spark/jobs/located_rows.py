"""UPDATE and DELETE by where rows are: in deletion vectors, in files without them, or in columns by row id.

Rows of tables without primary key that have deletion vectors are deleted. Where the merge engine of a primary-key table
knows no deleted rows, a DELETE writes the files anew, as long as each row lies in one file. A first pass finds the
locations of the rows, the second one of an UPDATE writes their new values; one commit adds the vectors and the new
files. Both passes read the same snapshot. Equals Java's Spark connector.

Of other tables without primary key the files that have such rows are written anew. A first pass finds those files, a
second one reads them and writes what their rows are now; one commit puts the new files in place of the old ones. Both
passes read the same snapshot. Equals Java's copy-on-write commands.

With data evolution columns of rows are written by their row ids. The rows may come from anywhere: an UPDATE's query, a
MERGE's join. They are brought to tasks by ranges of row ids and sorted; each task writes the files of its groups
(`maintain.column_update`). All on any session.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.column_update import ColumnUpdate, commit_columns, plan_column_update, update_columns
from paimon_spark.maintain.row_deletion import DeletedPositions, commit_deletions, encode_positions
from paimon_spark.read.metadata_columns import FILE_PATH, ROW_INDEX, WITHOUT_LOCATION
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.types import select_stored, spark_arrow_schema, stored
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, numbered
from paimon_spark.spark.jobs.progress import change_of, name_of, named_jobs
from paimon_spark.spark.jobs.write_tasks import number_of_tasks_of, run_write
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.source.table_write import ReplacedFiles, RowDeletions, planned
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_ANSWER = StructType([StructField("message", BinaryType(), nullable=False)])
_ID = "id"
_SLICES = 256
"""Ranges of row ids at most, by which rows are brought to tasks."""


def update_rows(
    rows: DataFrame,
    table: FileStoreTable,
    columns: Collection[str],
    snapshot: Snapshot,
    operation: Operation,
    columns_read: Collection[str] | None,
) -> None:
    """Write columns of rows in one commit.

    Args:
        rows: as of `write_columns`.
        table: with the options of the statement.
        columns: that get new values.
        snapshot: that the rows were read from.
        operation: the statement.
        columns_read: columns that the new values and the condition depend on; None for all.

    Raises:
        CommitConflictError: another commit changed the same rows meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    messages = write_columns(rows, table, columns, snapshot.id)
    if messages:
        made = commit_columns(table, messages, snapshot, operation, columns_read=columns_read)
        report(replace(RowCounts.updated(sum(message.rows for message in messages)), snapshot_id=made))


def write_columns(
    rows: DataFrame, table: FileStoreTable, columns: Collection[str], snapshot_id: int
) -> list[TaskMessage]:
    """Write columns of rows to new files, which no snapshot names yet; `commit_columns` takes the messages.

    Args:
        rows: the column ``_ROW_ID`` and the new values by the names of the columns; each row once, in any order. Rows
            that keep their values need not be there.
        table: with data evolution and the options of the statement.
        columns: that get new values.
        snapshot_id: that the row ids are of.

    Raises:
        UnsupportedError: a column cannot be written so.
        DataError: a row comes twice or is not in the table, or a value does not fit its column.
    """
    names = [name for name in table.schema.field_names if name in columns]
    wanted = rows.select(*stored(rows, names), sf.col(ROW_ID.name).cast("bigint"))
    data_schema = spark_arrow_schema(StructType(wanted.schema.fields[:-1]))
    update = plan_column_update(table, names, data_schema, snapshot_id)
    if not update.groups:
        return []
    plain = numbered(wanted, _ID)
    tasks = min(number_of_tasks_of(rows.sparkSession, table), len(update.groups))
    starts = update.starts[_even(len(update.groups), _SLICES)]
    assigned = plain.repartition(tasks, _slice_of(sf.col(_ID), starts.tolist())).sortWithinPartitions(_ID)
    what = f"update columns of {name_of(table.path)}"
    found = collect_in_arrow(assigned, what, partial(_update_task, update, data_schema), _ANSWER)
    return [pickle.loads(bytes(row.message)) for row in found]


def _even(count: int, parts: int) -> np.ndarray:
    """Positions that cut so many things into at most so many even parts, but the first."""
    return np.unique(np.linspace(0, count, min(count, parts), endpoint=False).astype(np.int64))[1:]


def _slice_of(row_id: Column, starts: Sequence[int], first: int = 0) -> Column:
    """Return the number of the range that a row id is in, by halving."""
    if not starts:
        return sf.lit(first)
    middle = len(starts) // 2
    left, right = starts[:middle], starts[middle + 1 :]
    return sf.when(row_id < starts[middle], _slice_of(row_id, left, first)).otherwise(
        _slice_of(row_id, right, first + middle + 1)
    )


def _update_task(
    update: ColumnUpdate, data_schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the columns of one task; answer with its message. Runs in tasks."""
    schema = data_schema.append(pa.field(ROW_ID.name, pa.int64()))
    named = (batch.rename_columns(schema.names) for batch in batches if batch.num_rows)
    message = update_columns(update, batches_from_spark(named, schema))
    if message is not None:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], names=["message"])


_FOUND = StructType(
    [
        StructField("path", StringType(), False),
        StructField("positions", BinaryType(), False),
        StructField("rows", LongType(), False),
    ]
)
_MOST_UNPACKED = 1 << 22
"""Positions that a task holds unpacked."""

HIT = "_paimon_hit"
"""Whether the condition is true for a row; never null."""

RowsOfFiles = Callable[[Sequence[str]], "DataFrame"]
"""Gives the rows of some files of one snapshot, with the columns `FILE_PATH` and `HIT`."""


def write_deletions(
    located: DataFrame,
    table: FileStoreTable,
    snapshot: Snapshot,
    operation: Operation,
    columns_read: Collection[str] | None = None,
) -> None:
    """Write rows into deletion vectors (DELETE), and write their new values as new rows (UPDATE).

    Args:
        located: the rows, an UPDATE's with their new values, and the columns `FILE_PATH` and `ROW_INDEX`.
        table: the table with the options of the statement.
        snapshot: what `located` reads.
        operation: DELETE or UPDATE.
        columns_read: columns that the condition depends on; None for all.

    Raises:
        CommitConflictError: another commit deleted rows of the same file meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    found, count = _locations_of(located, table, operation)
    if not found:
        return
    if operation is Operation.DELETE:
        commit_deletions(
            table,
            (),
            snapshot.id,
            found,
            operation=operation.value,
            planned_on=SnapshotIdentity.of(snapshot),
            rows_read=True,
            columns_read=columns_read,
            after_commit=maintenance(table),
        )
        return
    rows = select_stored(located, table.schema.field_names, *tracked_columns(table, sf.lit(True)))
    deleted = RowDeletions(snapshot.id, found)
    write = planned(table, spark_arrow_schema(rows.schema), operation=operation, deleted=deleted)
    run_write(numbered(rows), write)
    report(RowCounts.updated(count))


def delete_by_rewriting(locate: Callable[[], DataFrame], table: FileStoreTable, snapshot: Snapshot) -> None:
    """Write the files of a primary-key table anew that have some rows, without these (Java: copy-on-write).

    Args:
        locate: gives the rows with the columns `FILE_PATH` and `ROW_INDEX`.
        table: the table with the options of the statement.
        snapshot: what `locate` reads.

    Raises:
        UnsupportedError: rows that may have to go are merged from several files; nothing was written.
        CommitConflictError: another commit changed these files meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    # the tasks, and most statements, do without these
    from paimon_spark.maintain.row_deletion import remove_rows
    from paimon_spark.maintain.row_level import only_compacted
    from paimon_spark.spark.jobs.compact_job import executor_of

    try:
        located = locate()
        found, _ = _locations_of(located, table, Operation.DELETE)
    except Exception as error:
        if WITHOUT_LOCATION in str(error):  # Spark passes on only the text
            raise only_compacted(table) from error
        raise
    remove_rows(table, snapshot, found, Operation.DELETE, executor_of(located.sparkSession))


def _locations_of(
    located: DataFrame, table: FileStoreTable, operation: Operation
) -> tuple[tuple[DeletedPositions, ...], int]:
    """The locations of rows, file by file, and how many they are; a file may come several times."""
    hidden = next((name for name in (FILE_PATH, ROW_INDEX) if table.schema.has_field(name)), None)
    if hidden is not None:
        raise UnsupportedError(
            f"{operation.value} is not supported for table {table.path}: its column {hidden} has the name of the "
            "metadata column by which rows are found. Rename the column."
        )
    locations = located.select(FILE_PATH, ROW_INDEX)
    batches = rows_at_hand(locations)
    if batches is None:
        what = f"{change_of(operation, table.path)}, find rows"
        found = [tuple(row) for row in collect_in_arrow(locations, what, _packed_locations, _FOUND)]
    else:
        packed = (part.columns for part in _packed_locations(batches))
        found = [tuple(value.as_py() for value in row) for columns in packed for row in zip(*columns, strict=True)]
    return tuple((path, bytes(positions)) for path, positions, _ in found), sum(rows for _, _, rows in found)


def _packed_locations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The locations of rows, packed file by file. Runs in tasks."""
    unpacked: dict[str, list[npt.NDArray[np.int64]]] = {}
    count = 0
    for batch in batches:
        for path, positions in by_file(batch):
            unpacked.setdefault(path, []).append(positions)
        count += batch.num_rows
        if count >= _MOST_UNPACKED:
            yield from _packed(unpacked)
            unpacked, count = {}, 0
    yield from _packed(unpacked)


def by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """The positions of rows by the path of their file, given as two columns."""
    paths = pc.dictionary_encode(batch.column(0))
    positions = batch.column(1).to_numpy(zero_copy_only=False)
    numbers = paths.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(paths.dictionary)))
    yield from zip(paths.dictionary.to_pylist(), np.split(positions[order], starts[1:]), strict=True)


def _packed(unpacked: dict[str, list[npt.NDArray[np.int64]]]) -> Iterator[pa.RecordBatch]:
    for path, parts in unpacked.items():
        positions = np.unique(np.concatenate(parts))
        packed = pa.array([encode_positions(positions)], pa.binary())
        arrays = [pa.array([path], pa.string()), packed, pa.array([len(positions)], pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, names=["path", "positions", "rows"])


def tracked_columns(table: FileStoreTable, changed: Column) -> list[Column]:
    """Ids and sequence numbers with which rows are written again; a changed row gets the number of its snapshot.

    Args:
        table: none of its columns can have these names; without row tracking there are none.
        changed: whether a row has new values.
    """
    if not table.options.row_tracking_enabled:
        return []
    number = sf.when(~changed, sf.col(SEQUENCE_NUMBER.name))
    return [sf.col(ROW_ID.name), number.cast("bigint").alias(SEQUENCE_NUMBER.name)]


def rewrite_rows(
    hits: DataFrame, rows_of_files: RowsOfFiles, table: FileStoreTable, snapshot_id: int, operation: Operation
) -> None:
    """Write the files anew that have rows which the condition is true for, without these (DELETE) or as they are now.

    Args:
        hits: the column `FILE_PATH` of the rows that the condition is true for.
        rows_of_files: the rows: old ones (DELETE), or with their new values (UPDATE).
        table: the table with the options of the statement.
        snapshot_id: what `marked` reads.
        operation: DELETE or UPDATE.

    Raises:
        CommitConflictError: another commit took one of these files out meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    found = _hits_by_file(hits, f"{change_of(operation, table.path)}, find files")
    touched = sorted(found)
    if not touched:
        return
    rows = rows_of_files(touched)
    if operation is Operation.DELETE:
        rows = rows.where(f"NOT {HIT}")
    stored_rows = select_stored(rows, table.schema.field_names, *tracked_columns(table, sf.col(HIT)))
    arrow_schema = spark_arrow_schema(stored_rows.schema)
    replaced = ReplacedFiles(snapshot_id, tuple(touched))
    write = planned(table, arrow_schema, operation=operation, replaced=replaced)
    run_write(numbered(stored_rows), write)
    count = sum(found.values())
    report(RowCounts.deleted(count) if operation is Operation.DELETE else RowCounts.updated(count))


def _hits_by_file(hits: DataFrame, what: str) -> dict[str, int]:
    """The number of rows of each file, by jobs of this name."""
    batches = rows_at_hand(hits)
    if batches is None:
        with named_jobs(hits.sparkSession, what):
            return {row[0]: row[1] for row in hits.groupBy(FILE_PATH).agg(sf.count(sf.lit(1))).collect()}
    return Counter(path for batch in batches for path in batch.column(0).to_pylist())
