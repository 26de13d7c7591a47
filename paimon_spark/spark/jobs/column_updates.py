"""Writes columns of rows by their row ids, in tables with data evolution. On any session.

The rows may come from anywhere: an UPDATE's query, a MERGE's join. They are brought to tasks by ranges of row ids and
sorted; each task writes the files of its groups (`maintain.column_update`).
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.maintain.column_update import ColumnUpdate, commit_columns, plan_column_update, update_columns
from paimon_spark.spark.columns.arrow_cast import batches_from_spark
from paimon_spark.spark.columns.char_columns import stored
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, numbered
from paimon_spark.spark.jobs.progress import name_of
from paimon_spark.spark.jobs.write_tasks import number_of_tasks_of
from paimon_spark.spark.source.worker_process import speed_up_worker
from paimon_spark.spec.special_fields import ROW_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.snapshot import Operation, Snapshot
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
    speed_up_worker()
    schema = data_schema.append(pa.field(ROW_ID.name, pa.int64()))
    named = (batch.rename_columns(schema.names) for batch in batches if batch.num_rows)
    message = update_columns(update, batches_from_spark(named, schema))
    if message is not None:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], names=["message"])
