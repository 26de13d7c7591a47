"""INSERT INTO, INSERT OVERWRITE, DELETE and UPDATE of Paimon tables.

Of an INSERT Spark runs the query, `PaimonTable` writes its rows. Of the others a query of Spark finds the rows, and
`row_changes` changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import counting
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.session.overwrite_mode import without_modes
from paimon_spark.spark.session.session_options import SESSION_PREFIX, refuse_older_state
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.inserted_rows import Insert, InsertTarget, inserted_rows, query_columns, replaced_options
from paimon_spark.spark.sql.matched_frames import FrameRows, assigned_values
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.sql.row_changes import run_delete as delete
from paimon_spark.spark.sql.row_changes import run_update as update
from paimon_spark.spark.sql.warehouses import (
    TableName,
    is_explicit,
    resolve,
    table_not_found,
)
from paimon_spark.spark.statements.cursor import QUERY_WORDS, Cursor, Kind
from paimon_spark.spark.statements.expressions import Named, Relation, path_without_qualifiers, without_qualifiers
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.paimon_table import save_rows
from paimon_spark.spark.text.catalog_objects import view_named
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.format_tables import insert_into_files
from paimon_spark.spark.text.queries import run_query, write_options
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.sql_text import quoted_name
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


SESSION_SAYS = f": the session has set {SESSION_PREFIX}{{key}}; RESET it"
_SET = "_paimon_set_"
_ROWS = "_paimon_rows_of_the_target"


def run_delete(context: Context, cursor: Cursor, *, ctes: str = "") -> DataFrame | None:
    """Run a DELETE; None where the table is Spark's.

    Raises:
        AnalysisException: the table is not there, or the condition does not fit it.
        UnsupportedError: the table does not let single rows be deleted.
    """
    name, source, parts = _target(context, cursor, "WHERE")
    if name is None:
        return None
    refuse_system_table(name.path, name.system_table, "changed")
    refuse_older_state(write_options(context, name), where=SESSION_SAYS)
    condition = _condition(cursor)
    table = name.load()
    alias = quoted_name(parts[-1])
    text = f"{ctes}SELECT * FROM {source} WHERE {condition}"
    narrowing = f"{ctes}SELECT * FROM {_ROWS} AS {alias} WHERE {condition}"
    matched = FrameRows(
        context.spark,
        table,
        options={**name.options, "path": name.path},
        matching=lambda snapshot_id: run_query(reading(context, name, snapshot_id, table), Cursor.of_query(text)),
        marking=lambda rows: _query_of(context, rows, parts, f"{ctes}{_marked(alias, condition)}"),
        filtering=None if condition is None else lambda rows: _query_of(context, rows, parts, narrowing),
        named=Named.by(condition),
        condition=_unqualified(condition, table, parts),
    )
    with counting() as reported:
        delete(table, matched)
    return counted(context, reported.counts, "num_affected_rows")


def run_update(context: Context, cursor: Cursor, *, ctes: str = "") -> DataFrame | None:
    """Run an UPDATE; None where the table is Spark's.

    Raises:
        AnalysisException: the table is not there, or a value or the condition does not fit it.
        UnsupportedError: the table cannot be updated.
    """
    name, source, parts = _target(context, cursor, "SET")
    if name is None:
        return None
    refuse_system_table(name.path, name.system_table, "changed")
    refuse_older_state(write_options(context, name), where=SESSION_SAYS)
    cursor.expect("SET")
    table = name.load()
    alias = quoted_name(parts[-1])
    assigned = cursor.until("WHERE")
    values = dict(assignment(piece, table, parts) for piece in assigned.split() or [assigned])
    condition = _condition(cursor)
    columns = ", ".join(f"({value}) AS {_SET}{number}" for number, value in enumerate(values.values()))
    where = "" if condition is None else f" WHERE {condition}"
    new = {path: sf.col(f"{_SET}{number}") for number, path in enumerate(values)}
    text = f"{ctes}SELECT *, {columns} FROM {source}{where}"
    given = ", ".join(
        f"CASE WHEN {HIT} THEN ({value}) END AS {_SET}{number}" for number, value in enumerate(values.values())
    )
    matched = FrameRows(
        context.spark,
        table,
        options={**name.options, "path": name.path},
        matching=lambda snapshot_id: run_query(reading(context, name, snapshot_id, table), Cursor.of_query(text)),
        marking=lambda rows: _query_of(
            context, rows, parts, f"{ctes}SELECT *, {given} FROM ({_marked(alias, condition)}) AS {alias}"
        ),
        filtering=None,
        named=Named.by(condition, *values.values()),
        values=assigned_values(new, table.schema.field_names),
        condition=_unqualified(condition, table, parts),
    )
    with counting() as reported:
        update(table, matched.values, matched)
    return counted(context, reported.counts, "num_affected_rows")


def reading(
    context: Context, name: TableName, snapshot_id: int | None, opened: FileStoreTable | None = None
) -> Context:
    """Return the context in which a query reads a snapshot of the target, which may be open already."""
    if snapshot_id is None:
        return context
    known = {} if opened is None else {name.place: opened}
    return replace(context, current={name.place: snapshot_id}, opened=known)


def _marked(alias: str, condition: str | None) -> str:
    return f"SELECT *, coalesce(({condition or 'true'}), false) AS {HIT} FROM {_ROWS} AS {alias}"


def _query_of(context: Context, rows: DataFrame, parts: tuple[str, ...], text: str) -> DataFrame:
    """Run a query in which the name `_ROWS` stands for rows, whose columns are qualified by `parts`."""
    return run_query(replace(context, frames={_ROWS: rows}, qualifiers={_ROWS: parts}), Cursor.of_query(text))


def _target(context: Context, cursor: Cursor, until: str) -> tuple[TableName | None, str, tuple[str, ...]]:
    """Return the table, its name and alias as the statement writes them, and what qualifies its columns."""
    start = cursor.at
    parts = cursor.name()
    name = target(context, parts)
    if name is None:
        return None, "", ()
    cursor.take("AS")
    alias = None if cursor.at_end() or cursor.sees(until) else cursor.identifier()
    written = cursor.since(start).source()
    return name, written, name.parts if alias is None else (alias,)


def _condition(cursor: Cursor) -> str | None:
    """Return the condition of the WHERE clause; None without one."""
    if cursor.at_end():
        return None
    cursor.expect("WHERE")
    condition = cursor.rest()
    if not condition.tokens:
        cursor.fail("a condition is expected")
    refuse_nondeterministic(condition.source())
    return condition.source()


def _unqualified(condition: str | None, table: FileStoreTable, parts: tuple[str, ...]) -> str | None:
    own = Relation(parts, lambda: table.schema.field_names, parts[-1])
    return None if condition is None else without_qualifiers(condition, own)


def assignment(piece: Cursor, table: FileStoreTable, parts: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the column, or the path of a field of a struct, and its new value as SQL.

    Args:
        piece: what stands between two commas.
        table: what is changed.
        parts: what qualifies its columns: its whole name, or its alias.
    """
    own = Relation(parts, lambda: table.schema.field_names, parts[-1])
    path = path_without_qualifiers(piece.name(), own)
    piece.expect("=")
    value = piece.rest()
    if not value.tokens:
        piece.fail("a value is expected")
    columns = [column for column in table.schema.fields if column.name.lower() == path[0].lower()]
    only = value.tokens[0] if len(value.tokens) == 1 else None
    if only is not None and only.kind is Kind.WORD and only.text.upper() == "DEFAULT" and len(path) == 1 and columns:
        return path, inserted_default(columns[0])
    return path, value.source()
