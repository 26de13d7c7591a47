"""MERGE into a table with data evolution: an update writes the changed columns of a row, and nothing else of it.

What the clauses make of the rows is computed once and kept: its updates are brought to tasks by their row ids, its new
rows are written where they are, its deleted rows are deleted. All is one commit. On any session.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import report
from paimon_spark.errors import DataError
from paimon_spark.maintain.column_update import commit_columns
from paimon_spark.spark.jobs.column_updates import write_columns
from paimon_spark.spark.jobs.row_merges import CARDINALITY_VIOLATION, counts_of, write_changes
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import ROW_ID, VALUE_KIND, RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


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
