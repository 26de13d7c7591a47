"""COPY INTO, by this engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.sql.copy_into import LOADED, WRITTEN, copy_into_location, copy_into_table
from paimon_spark.spark.statements.copy_statements import CopyIntoLocation, read_copy
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.inserts import target, written_table
from paimon_spark.spark.text.queries import run_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.text.context import Context


def run_copy(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a COPY INTO (see `is_copy`); None for a table of Spark's."""
    statement = read_copy(cursor)
    if isinstance(statement, CopyIntoLocation):
        rows = run_query(context, Cursor.of_query(statement.query))
        return rows_frame(context, WRITTEN, copy_into_location(rows, statement))
    name = target(context, statement.table)
    if name is None:
        return None
    table = written_table(context, name)
    paimon = PaimonTable.for_path(context.spark, name.path, **name.options)
    return rows_frame(context, LOADED, copy_into_table(context.spark, table, statement, paimon.append))
