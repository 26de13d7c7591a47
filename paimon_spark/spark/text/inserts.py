"""INSERT INTO and INSERT OVERWRITE of Paimon tables: Spark runs the query, `PaimonTable` writes its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.session.overwrite_mode import (
    OVERWRITE_MODE,
    SESSION_KEYS,
    asks_for_dynamic,
    is_dynamic,
    session_asks_for_dynamic,
    without_modes,
)
from paimon_spark.spark.source.source_options import MERGE_SCHEMA, REPLACE_WHERE, refuse_system_table
from paimon_spark.spark.sql.store_assignment import assigned, assigned_literal
from paimon_spark.spark.sql.warehouses import (
    TableName,
    analysis_error,
    is_explicit,
    quoted,
    resolve,
    system_table_in,
    table_not_found,
)
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spark.text.cursor import Cursor
from paimon_spark.spark.text.parsing import Kind
from paimon_spark.spark.text.queries import Context, run_query, session_options
from paimon_spark.spec.filter_text import literal_text, quoted_name
from paimon_spark.write.rows import default_scalar

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.table.table import FileStoreTable

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE")


@dataclass(frozen=True, slots=True)
class Insert:
    """What stands before the query of an INSERT."""

    parts: tuple[str, ...]
    overwrite: bool
    options: Mapping[str, str] = field(default_factory=dict)
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Columns of the PARTITION clause: an expression as text, or None for those that the query gives."""
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None


def run_insert(context: Context, cursor: Cursor, *, ctes: str = "") -> DataFrame:
    """Run an INSERT.

    Args:
        context: session, warehouses and parameters.
        cursor: the statement from the word INSERT on.
        ctes: the WITH clause that stands before it.

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
    refuse_system_table(name.path, system_table_in(name), "written")
    table = name.load()
    query = _with_defaults(query, _query_columns(table, statement), table)
    insert_rows(context, name, table, statement, run_query(context, query))
    return empty(context)


def target(context: Context, parts: Sequence[str]) -> TableName | None:
    """The table of ours that a statement changes; None for one of Spark's.

    Raises:
        AnalysisException: it is not there.
    """
    name = resolve(context.known, parts)
    if name is not None and name.exists():
        return name
    if is_explicit(context.known, parts):
        raise table_not_found(parts)
    return None


def empty(context: Context) -> DataFrame:
    """The result of a statement that has none."""
    return context.spark.range(0).select()


def _read_insert(cursor: Cursor) -> Insert | None:
    """The head of an INSERT; None for INSERT OVERWRITE DIRECTORY, which is Spark's."""
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
    elif cursor.sees("(") and not ((token := cursor.peek(1)) and (token.is_word(*_QUERY_WORDS) or token.is_sign("("))):
        head = replace(head, columns=tuple(piece.identifier() for piece in cursor.group().split()))
    if cursor.take("REPLACE"):
        cursor.take_any("WHERE", "ON")
        head = replace(head, overwrite=True, replace_where=cursor.until(*_QUERY_WORDS).source())
    return head


def _partition(piece: Cursor) -> tuple[str, str | None]:
    name = piece.identifier()
    return name, piece.rest().source() if piece.take("=") else None


def _query_columns(table: FileStoreTable, statement: Insert) -> list[str]:
    """The table's columns that the columns of the query mean by position."""
    names = list(table.schema.field_names)
    if statement.columns is not None:
        return [_own_name(names, name) for name in statement.columns]
    static = {_own_name(names, name).lower() for name, value in statement.partition.items() if value is not None}
    return [name for name in names if name.lower() not in static]


def _own_name(names: Sequence[str], name: str) -> str:
    found = [own for own in names if own == name] or [own for own in names if own.lower() == name.lower()]
    if len(found) != 1:
        raise analysis_error(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            f"A column with name {quoted([name])} cannot be resolved. The table has {', '.join(names)}.",
        )
    return found[0]


def insert_rows(context: Context, name: TableName, table: FileStoreTable, statement: Insert, rows: DataFrame) -> None:
    """Write the rows of a query as an INSERT says."""
    fields = {field.name: field for field in to_spark_struct(table.schema.fields).fields}
    static = {
        _own_name(list(fields), column): value for column, value in statement.partition.items() if value is not None
    }
    unknown = [column for column in static if column not in table.schema.partition_keys]
    if unknown:
        raise analysis_error(
            "NON_PARTITION_COLUMN", f"PARTITION clause cannot contain the non-partition column: {', '.join(unknown)}."
        )
    added = _added_columns(context, name, statement, rows, list(fields))
    if statement.by_name:
        if added:  # behind the others
            rows = rows.select(*(quoted_name(column) for column in sorted(rows.columns, key=added.__contains__)))
        given = [_own_name(list(fields), column) for column in rows.columns if column not in added]
    else:
        given = _query_columns(table, statement)
        if len(given) != len(rows.columns):
            kind = "NOT_ENOUGH_DATA_COLUMNS" if len(rows.columns) < len(given) else "TOO_MANY_DATA_COLUMNS"
            raise analysis_error(
                f"INSERT_COLUMN_ARITY_MISMATCH.{kind}",
                f"Cannot write to {quoted(name.parts)}, the reason is {kind.lower().replace('_', ' ')}: table columns: "
                f"{', '.join(given)}; data columns: {', '.join(rows.columns)}.",
            )
    twice = {column for column in [*given, *static] if [*given, *static].count(column) > 1}
    if twice:
        raise analysis_error("COLUMN_ALREADY_EXISTS", f"The columns {', '.join(sorted(twice))} are given twice.")
    ansi = str(context.spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    stored = rows.select(*(quoted_name(column) for column in rows.columns[: len(given)])) if added else rows
    columns: list[Column] = assigned(stored, [fields[column] for column in given], name.parts, ansi=ansi)
    columns += [assigned_literal(value, fields[column], ansi=ansi) for column, value in static.items()]
    columns += [sf.col(str(len(given) + number)).alias(column) for number, column in enumerate(added)]
    ready = rows.toDF(*(str(number) for number in range(len(rows.columns)))).select(*columns)
    paimon = PaimonTable.for_path(context.spark, name.path, **name.options)
    options = without_modes(statement.options)
    if not statement.overwrite:
        paimon.append(ready, **options)
    else:
        paimon.overwrite(ready, **options, **_replaced(context, name, statement, static, ready, table))


def _added_columns(
    context: Context, name: TableName, statement: Insert, rows: DataFrame, known: Sequence[str]
) -> list[str]:
    """The columns of an INSERT … BY NAME that `write.merge-schema` lets it add to the table."""
    given = {key.lower(): value for key, value in statement.options.items()}
    merges = given.get(MERGE_SCHEMA) or session_options(context, name).get(MERGE_SCHEMA, "false")
    if not statement.by_name or merges.lower() != "true":
        return []
    lowered = {column.lower() for column in known}
    return [column for column in rows.columns if column.lower() not in lowered]


def _replaced(
    context: Context,
    name: TableName,
    statement: Insert,
    static: Mapping[str, str],
    ready: DataFrame,
    table: FileStoreTable,
) -> dict[str, str]:
    """What an overwrite replaces: Spark's rules, where a PARTITION clause leaves only Spark's own setting a say.

    In the dynamic mode the partitions that appear in the rows are replaced, also where the clause names one (Spark's
    ``ResolveInsertInto``): without rows none.
    """
    if statement.replace_where is not None:
        return {REPLACE_WHERE: statement.replace_where}
    heard = SESSION_KEYS[: 1 if static else 2]
    settings = {key: value for key, value in context.settings.items() if key in heard}
    dynamic = is_dynamic(
        asks_for_dynamic(statement.options),
        session_asks_for_dynamic(settings, None if static else session_options(context, name)),
        None if static else asks_for_dynamic(table.schema.options),
    )
    if dynamic:
        return {OVERWRITE_MODE: "dynamic"}
    if not static:
        return {OVERWRITE_MODE: "static"}
    row = context.spark.range(1).select(*(assigned_literal(static[c], ready.schema[c], ansi=True) for c in static))
    values = row.collect()[0].asDict()
    return {REPLACE_WHERE: " AND ".join(_equals(column, values[column]) for column in static)}


def _equals(column: str, value: object) -> str:
    name = quoted_name(column)
    return f"{name} IS NULL" if value is None else f"{name} = {literal_text(value)}"


def _with_defaults(query: Cursor, columns: Sequence[str], table: FileStoreTable) -> Cursor:
    """The query with the columns' defaults where the rows of a VALUES say DEFAULT."""
    if not query.sees("VALUES"):
        return query
    changes: list[tuple[int, int, str]] = []
    for row in Cursor(query.text, query.tokens[1:]).split():
        cells = row.group().split() if row.sees("(") else [row]
        for cell, column in zip(cells, columns, strict=False):
            only = cell.tokens[0] if len(cell.tokens) == 1 else None
            if only is not None and only.kind is Kind.WORD and only.text.upper() == "DEFAULT":
                field = table.schema.field(column)
                default = None if field.default_value is None else default_scalar(field).as_py()
                changes.append((only.start, only.end, literal_text(default)))
    if not changes:
        return query
    text = query.text
    for start, end, default in reversed(changes):
        text = text[:start] + default + text[end:]
    found = Cursor.of(text)
    assert found is not None
    return found
