"""DELETE and UPDATE of tables without primary key: the files that have such rows are written anew. On any session.

A first pass finds those files, a second one reads them and writes what their rows are now; one commit puts the new
files in place of the old ones. Both passes read the same snapshot. Equals Java's copy-on-write commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.read.metadata_columns import FILE_PATH
from paimon_spark.spark.columns.char_columns import stored
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.jobs.write_tasks import run_write
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.source.table_write import ReplacedFiles, planned
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.table.table import FileStoreTable

HIT = "_paimon_hit"
"""Whether the condition is true for a row; never null."""

RowsOfFiles = Callable[[Sequence[str] | None], "DataFrame"]
"""Gives the rows of some files (None: all) of one snapshot, with the columns `FILE_PATH` and `HIT`."""


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


def rewrite_rows(rows_of_files: RowsOfFiles, table: FileStoreTable, snapshot_id: int, operation: Operation) -> None:
    """Write the files anew that have rows which the condition is true for, without these (DELETE) or as they are now.

    Args:
        rows_of_files: the rows: old ones (DELETE), or with their new values (UPDATE).
        table: the table with the options of the statement.
        snapshot_id: what `marked` reads.
        operation: DELETE or UPDATE.

    Raises:
        CommitConflictError: another commit took one of these files out meanwhile; nothing was committed.
        PaimonError: as of every write.
    """
    found = _hits_by_file(rows_of_files(None).where(sf.col(HIT)))
    touched = sorted(found)
    if not touched:
        return
    rows = rows_of_files(touched)
    if operation is Operation.DELETE:
        rows = rows.where(~sf.col(HIT))
    stored_rows = rows.select(*stored(rows, table.schema.field_names), *tracked_columns(table, sf.col(HIT)))
    arrow_schema = spark_arrow_schema(stored_rows.schema)
    replaced = ReplacedFiles(snapshot_id, tuple(touched))
    write = planned(table, arrow_schema, operation=operation, replaced=replaced)
    run_write(numbered(stored_rows), write)
    count = sum(found.values())
    report(RowCounts.deleted(count) if operation is Operation.DELETE else RowCounts.updated(count))


def _hits_by_file(hits: DataFrame) -> dict[str, int]:
    """The number of rows of each file."""
    batches = rows_at_hand(hits.select(FILE_PATH))
    if batches is None:
        return {row[0]: row[1] for row in hits.groupBy(FILE_PATH).agg(sf.count(sf.lit(1))).collect()}
    return Counter(path for batch in batches for path in batch.column(0).to_pylist())
