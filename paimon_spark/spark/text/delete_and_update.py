"""DELETE and UPDATE of Paimon tables. A query of Spark finds the rows, and `row_changes` changes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import counting
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.session.session_options import SESSION_PREFIX, refuse_older_state
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.matched_frames import FrameRows, assigned_values
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.sql.row_changes import run_delete as delete
from paimon_spark.spark.sql.row_changes import run_update as update
from paimon_spark.spark.sql.warehouses import TableName
from paimon_spark.spark.statements.cursor import Cursor, Kind
from paimon_spark.spark.statements.expressions import Named, Relation, path_without_qualifiers
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.inserts import counted, target
from paimon_spark.spark.text.queries import run_query, write_options
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable

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
        condition=condition,
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
        condition=condition,
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
