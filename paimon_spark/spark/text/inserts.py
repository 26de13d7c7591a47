"""INSERT INTO and INSERT OVERWRITE of Paimon tables: Spark runs the query, `PaimonTable` writes its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.session.overwrite_mode import without_modes
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.inserted_rows import Insert, InsertTarget, inserted_rows, query_columns, replaced_options
from paimon_spark.spark.sql.warehouses import (
    TableName,
    is_explicit,
    resolve,
    table_not_found,
)
from paimon_spark.spark.statements.cursor import QUERY_WORDS, Cursor, Kind
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.paimon_table import save_rows
from paimon_spark.spark.text.catalog_objects import view_named
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.format_tables import insert_into_files
from paimon_spark.spark.text.queries import run_query, write_options
from paimon_spark.spec.schema import is_format_table
from paimon_spark.storage.store_options import QuietOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.commit.row_counts import RowCounts
    from paimon_spark.table.table import FileStoreTable


def run_insert(context: Context, cursor: Cursor, *, ctes: str = "") -> DataFrame:
    """Run an INSERT.

    Raises:
        AnalysisException: the table is not there, or the query does not fit it.
    """
    statement = _read_insert(cursor)
    if statement is None:
        return context.spark_sql(cursor.text)
    head, query_text = cursor.taken(), ctes + cursor.rest().source()
    query = Cursor.of(query_text)
    if query is None:
        cursor.fail("a query is expected")
    name = target(context, statement.parts)
    if name is None:
        return run_query(context, query, before=head + " ", whole=cursor.text)
    table = written_table(context, name)
    query = _with_defaults(query, query_columns(table.schema, statement), table)
    if is_format_table(table.schema):
        insert_into_files(context, name, table, statement, run_query(context, query))
        return empty(context)
    counts = insert_rows(context, name, table, statement, run_query(context, query))
    return counted(context, counts, "num_affected_rows", "num_inserted_rows")


def written_table(context: Context, name: TableName) -> FileStoreTable:
    """Return the table that a statement writes to.

    Raises:
        UnsupportedError: it is a system table, or the session has set a branch.
    """
    refuse_system_table(name.path, name.system_table, "written")
    write_options(context, name)
    return name.load()


def target(context: Context, parts: Sequence[str]) -> TableName | None:
    """Return the Paimon table that a statement changes; None for a table of Spark's.

    Raises:
        AnalysisException: it is not there.
        UnsupportedError: it is a view.
    """
    name = resolve(context.known, parts)
    if name is not None and name.exists():
        return name
    if name is not None and view_named(context, name) is not None:
        raise UnsupportedError(
            f"{'.'.join(name.parts)} is a view, which has no rows of its own: ALTER VIEW and DROP VIEW change it."
        )
    if is_explicit(context.known, parts):
        raise table_not_found(parts)
    return None


def empty(context: Context) -> DataFrame:
    """Return the DataFrame without columns that a statement without a result gives."""
    return context.spark.range(0).select()


def counted(context: Context, counts: RowCounts, *names: str) -> DataFrame:
    """Return the row of counts that a statement answers with."""
    schema = ", ".join(f"{name} BIGINT" for name in names)
    return context.spark.createDataFrame([tuple(getattr(counts, name) for name in names)], schema)


def _read_insert(cursor: Cursor) -> Insert | None:
    """Read what stands before the query of an INSERT; None for INSERT OVERWRITE DIRECTORY, which is Spark's."""
    cursor.expect("INSERT")
    overwrite = cursor.take_any("INTO", "OVERWRITE")
    if overwrite is None:
        cursor.fail("INTO or OVERWRITE is expected")
    if cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY"):
        return None
    cursor.take("TABLE")
    head = Insert(cursor.name(), overwrite == "OVERWRITE")
    if cursor.sees("WITH", "("):
        cursor.take("WITH")
        head = replace(head, options=cursor.properties())
    if cursor.take("PARTITION"):
        head = replace(head, partition=dict(_partition(piece) for piece in cursor.group().split()))
    if cursor.take("IF", "NOT", "EXISTS"):
        raise UnsupportedError("INSERT OVERWRITE … IF NOT EXISTS is not supported for a Paimon table: leave it out")
    if cursor.take("BY", "NAME"):
        head = replace(head, by_name=True)
    elif cursor.sees("(") and not ((token := cursor.peek(1)) and (token.is_word(*QUERY_WORDS) or token.is_sign("("))):
        head = replace(head, columns=tuple(piece.identifier() for piece in cursor.group().split()))
    if cursor.take("REPLACE"):
        cursor.take_any("WHERE", "ON")
        head = replace(head, overwrite=True, replace_where=cursor.until(*QUERY_WORDS).source())
    return head


def _partition(piece: Cursor) -> tuple[str, str | None]:
    name = piece.identifier()
    return name, piece.rest().source() if piece.take("=") else None


def insert_rows(context: Context, name: TableName, table: FileStoreTable, insert: Insert, rows: DataFrame) -> RowCounts:
    """Write the rows of a query as an INSERT says."""
    into = InsertTarget(name.parts, table.schema, context.settings, write_options(context, name))
    ansi = str(context.spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    ready = inserted_rows(into, insert, rows, ansi=ansi)
    handle = TableHandle(context.spark, name.path, QuietOptions(name.options))
    options = without_modes(insert.options)
    if insert.overwrite:
        replaced = {**options, **replaced_options(into, insert, ready)}
        return save_rows(handle, ready, "overwrite", replaced, opened=table)
    return save_rows(handle, ready, "append", options, opened=table)


def _with_defaults(query: Cursor, columns: Sequence[str], table: FileStoreTable) -> Cursor:
    """Return the query with the columns' defaults in place of the word DEFAULT in VALUES."""
    if not query.sees("VALUES"):
        return query
    changes: list[tuple[int, int, str]] = []
    for row in Cursor(query.text, query.tokens[1:]).split():
        cells = row.group().split() if row.sees("(") else [row]
        for cell, column in zip(cells, columns, strict=False):
            only = cell.tokens[0] if len(cell.tokens) == 1 else None
            if only is not None and only.kind is Kind.WORD and only.text.upper() == "DEFAULT":
                changes.append((only.start, only.end, inserted_default(table.schema.field(column))))
    if not changes:
        return query
    text = query.text
    for start, end, default in reversed(changes):
        text = text[:start] + default + text[end:]
    return Cursor.of_query(text)
