"""MERGE INTO of Paimon tables. A query of Spark gives the source; `sql.merge_frames` joins it with the target.

Conditions and values are expressions over the aliases of both sides; subqueries in them are columns of the source's
query (`merge_subqueries`). Parameters are replaced by their values before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.read.metadata_columns import METADATA_COLUMNS
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.merge_frames import FrameMerge, GivenClause
from paimon_spark.spark.sql.merge_schema_evolution import rules_of, run_frame_merge, strategy_of_frame_merge
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.sql.row_changes import refuse_older_state
from paimon_spark.spark.sql.warehouses import system_table_in
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.merges import target_rows
from paimon_spark.spark.table.pinned_sources import pinned_source
from paimon_spark.spark.text.arguments import with_arguments
from paimon_spark.spark.text.cursor import Cursor
from paimon_spark.spark.text.delete_and_update import SESSION_SAYS, assignment, reading, tokens_of
from paimon_spark.spark.text.inserts import empty, target
from paimon_spark.spark.text.merge_subqueries import SourceColumns
from paimon_spark.spark.text.parsing import Kind
from paimon_spark.spark.text.queries import Context, run_query, write_options
from paimon_spark.spec.filter_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.schema_merge import MergeRules
    from paimon_spark.table.table import FileStoreTable


def run_merge_into(context: Context, cursor: Cursor, *, ctes: str = "", evolves: bool = False) -> DataFrame | None:
    """Run a MERGE; None where the table is Spark's.

    Args:
        context: session, warehouses and parameters.
        cursor: the statement behind MERGE INTO.
        ctes: the WITH clause that stands before it.
        evolves: whether it said WITH SCHEMA EVOLUTION.

    Raises:
        AnalysisException: the table is not there, or a value or a condition does not fit it.
        ParseException: it is no MERGE.
        UnsupportedError: the table does not take such a merge.
    """
    found = _read_merge(context, cursor, ctes, evolves)
    if found is None:
        return None
    run_frame_merge(*found)
    return empty(context)


def explain_merge_into(context: Context, cursor: Cursor, *, ctes: str = "", evolves: bool = False) -> DataFrame | None:
    """Tell in one row how a MERGE would be done; arguments and errors as of `run_merge_into`."""
    found = _read_merge(context, cursor, ctes, evolves)
    if found is None:
        return None
    text = f"MERGE INTO {found[0].table.path}: {strategy_of_frame_merge(*found)}"
    return context.spark.createDataFrame([(text,)], "plan STRING")


def _read_merge(
    context: Context, cursor: Cursor, ctes: str, evolves: bool
) -> tuple[FrameMerge, MergeRules | None] | None:
    """Read a MERGE, and how the columns of its target change; None where the table is Spark's."""
    context, (ctes, rest) = with_arguments(context, ctes, cursor.rest().source())
    cursor = tokens_of(rest)
    name = target(context, cursor.name())
    if name is None:
        return None
    refuse_system_table(name.path, system_table_in(name), "changed")
    session = write_options(context, name)
    refuse_older_state(session, where=SESSION_SAYS)
    rules = rules_of(session, evolves=evolves)
    own = _alias(cursor, "USING") or name.table
    cursor.expect("USING")
    written, other = _source(_up_to(cursor, "ON"))
    cursor.expect("ON")
    on = _up_to(cursor, "WHEN").source()
    if not on:
        cursor.fail("a condition is expected")
    table = name.load()
    matched, not_matched, by_source = _clauses(cursor, table, own, strict=rules is None)
    handle = TableHandle(context.spark, name.path, name.options)
    behind = f"FROM {written} AS {quoted_name(other)}"
    lifted = SourceColumns(
        lambda text: run_query(context, tokens_of(f"{ctes}SELECT ({text}) AS x {behind}")),
        other,
        own,
        table.schema.field_names,
    )
    on = lifted.condition(on)
    matched, not_matched = lifted.clauses(matched), lifted.clauses(not_matched)
    by_source = lifted.clauses(by_source, has_source=False)
    columns = _columns(context, ctes, written, _metadata_named(rest, other))
    text = f"{ctes}SELECT {columns}{lifted.shown} {behind}"
    statement = FrameMerge(
        table,
        partial(target_rows, handle, table),
        lambda at: pinned_source(run_query(reading(context, name, at), tokens_of(text)), table, at),
        (own, other),
        on,
        matched,
        not_matched,
        by_source,
    )
    return statement, rules


def _alias(cursor: Cursor, until: str) -> str | None:
    if cursor.take("AS"):
        return cursor.identifier()
    return None if cursor.sees(until) else cursor.identifier()


def _source(words: Cursor) -> tuple[str, str]:
    """Return the source as the statement writes it, a table at a version or a query, and its alias."""
    tokens = words.tokens
    if not tokens:
        words.fail("a table or a query is expected")
    named = tokens[-1].kind in (Kind.WORD, Kind.QUOTED) and len(tokens) > 1
    if named and tokens[-2].is_word("AS"):
        return Cursor(words.text, tokens[:-2]).source(), tokens[-1].text
    if named and not tokens[-2].is_sign("."):
        return Cursor(words.text, tokens[:-1]).source(), tokens[-1].text
    return words.source(), "source" if words.sees("(") else words.name()[-1]


def _metadata_named(statement: str, alias: str) -> list[str] | None:
    """Return the metadata columns that a statement names behind an alias; None where it names none at all."""
    tokens = tokens_of(statement).tokens
    if not any(token.text.lower() == name.lower() for token in tokens for name in METADATA_COLUMNS):
        return None
    threes = zip(tokens, tokens[1:], tokens[2:], strict=False)
    pairs = [(first.text.lower(), last.text.lower()) for first, dot, last in threes if dot.is_sign(".")]
    return [name for name in METADATA_COLUMNS if (alias.lower(), name.lower()) in pairs]


def _columns(context: Context, ctes: str, source: str, metadata: Sequence[str] | None) -> str:
    """Return the columns of a source as SELECT names them; beside metadata columns no star can stand.

    Args:
        context: session, warehouses and parameters.
        ctes: the WITH clause of the statement.
        source: a table, which has metadata columns that no star names, or a query in parentheses.
        metadata: what `_metadata_named` gives.
    """
    if metadata is None:
        return "*"
    is_query = source.startswith("(")
    columns = run_query(context, tokens_of(ctes + (source[1:-1] if is_query else f"SELECT * FROM {source}"))).columns
    known = {column.lower() for column in columns}
    hidden = [] if is_query else [name for name in metadata if name.lower() not in known]
    return ", ".join(map(quoted_name, (*columns, *hidden)))


def _clauses(
    cursor: Cursor, table: FileStoreTable, own: str, *, strict: bool
) -> tuple[list[GivenClause], list[GivenClause], list[GivenClause]]:
    """Return the WHEN clauses by their kind; `strict` where they can name no other columns than the table has."""
    found: tuple[list[GivenClause], list[GivenClause], list[GivenClause]] = ([], [], [])
    while not cursor.at_end():
        cursor.expect("WHEN")
        matches = not cursor.take("NOT")
        cursor.expect("MATCHED")
        by_source = not matches and cursor.take("BY", "SOURCE")
        if not matches and not by_source:
            cursor.take("BY", "TARGET")
        condition = _up_to(cursor, "THEN").source() if cursor.take("AND") else None
        cursor.expect("THEN")
        words = _up_to(cursor, "WHEN")
        kind = 0 if matches else 2 if by_source else 1
        action, values = _insert(words, table, strict) if kind == 1 else _change(words, table, own, strict)
        words.finish()
        found[kind].append(GivenClause(action, condition, values))
    return found


def _up_to(cursor: Cursor, word: str) -> Cursor:
    """Step up to a word that is not in parentheses or in a CASE, or to the end, and return what comes before it."""
    depth, cases, start = 0, 0, cursor.at
    while (token := cursor.peek()) is not None:
        before = cursor.peek(-1)
        if before is None or not before.is_sign("."):  # behind a dot it is the name of a column
            if depth == cases == 0 and token.is_word(word):
                break
            cases += token.is_word("CASE") - (cases > 0 and token.is_word("END"))
        depth += token.is_sign("(") - token.is_sign(")")
        cursor.at += 1
    return Cursor(cursor.text, cursor.tokens[start : cursor.at])


def _change(words: Cursor, table: FileStoreTable, own: str, strict: bool) -> tuple[Action, Mapping[str, str] | None]:
    """Return what UPDATE or DELETE does; None for all columns by name."""
    if words.take("DELETE"):
        return Action.DELETE, None
    words.expect("UPDATE", "SET")
    if words.take("*"):
        return Action.UPDATE, None
    values = {}
    for piece in words.rest().split():
        path, value = assignment(piece, table)
        if len(path) > 1 and path[0].lower() == own.lower() and not table.schema.has_field(path[0]):
            path = path[1:]
        values[".".join(map(quoted_name, path)) if len(path) > 1 else _column(table, path[0], strict)] = value
    return Action.UPDATE, values


def _insert(words: Cursor, table: FileStoreTable, strict: bool) -> tuple[Action, Mapping[str, str] | None]:
    """Return the values that INSERT gives; None for all columns by name."""
    words.expect("INSERT")
    if words.take("*"):
        return Action.INSERT, None
    columns = [_column(table, piece.name()[-1], strict) for piece in words.group().split()]
    words.expect("VALUES")
    values = [piece.source() for piece in words.group().split()]
    if len(values) != len(columns):
        words.fail(f"{len(columns)} values are expected, one for each column")
    default = {field.name: inserted_default(field) for field in table.schema.fields}
    return Action.INSERT, {
        column: default.get(column, "NULL") if value.upper() == "DEFAULT" else value
        for column, value in zip(columns, values, strict=True)
    }


def _column(table: FileStoreTable, name: str, strict: bool) -> str:
    """Return the name of a column as the table writes it; one that it lacks as a name in quotes, unless `strict`."""
    found = next((own for own in table.schema.field_names if own.lower() == name.lower()), None)
    if found is None:
        if not strict:
            return quoted_name(name)
        raise SchemaMismatchError(f"{table.path} has no column '{name}'; its columns are {table.schema.field_names}")
    return found
