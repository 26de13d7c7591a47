"""MERGE INTO of Paimon tables. A query of Spark gives the source; `sql.merge_frames` joins it with the target.

Conditions and values are expressions over the aliases of both sides; subqueries in them are columns of the source's
query (`merge_subqueries`), and parameters are replaced by their values before (`arguments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.commit.row_counts import counting
from paimon_spark.errors import SchemaMismatchError
from paimon_spark.read.metadata_columns import METADATA_COLUMNS
from paimon_spark.spark.session.session_options import refuse_older_state
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.merge import rules_of, run_frame_merge, strategy_of_frame_merge
from paimon_spark.spark.sql.merge_frames import FrameMerge, GivenClause
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.sql.warehouses import resolve
from paimon_spark.spark.statements.cursor import Cursor, Kind
from paimon_spark.spark.statements.expressions import Relation, with_aliases, with_other_aliases
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.merges import target_rows
from paimon_spark.spark.table.pinned_sources import pinned_source
from paimon_spark.spark.text.arguments import with_arguments
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.delete_and_update import SESSION_SAYS, assignment, reading
from paimon_spark.spark.text.inserts import counted, target
from paimon_spark.spark.text.merge_subqueries import SourceColumns
from paimon_spark.spark.text.queries import run_query, write_options
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.schema_merge import MergeRules
    from paimon_spark.table.table import FileStoreTable


def run_merge_into(
    context: Context, cursor: Cursor, *, ctes: str = "", evolves_schema: bool = False
) -> DataFrame | None:
    """Run a MERGE; None where the table is Spark's.

    Raises:
        AnalysisException: the table is not there, or a value or a condition does not fit it.
        ParseException: it is no MERGE.
        UnsupportedError: the table does not take such a merge.
    """
    found = _read_merge(context, cursor, ctes, evolves_schema)
    if found is None:
        return None
    with counting() as reported:
        run_frame_merge(*found)
    names = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
    return counted(context, reported.counts, *names)


def explain_merge_into(context: Context, cursor: Cursor, *, evolves_schema: bool = False) -> DataFrame | None:
    """Tell in one row how a MERGE would be done; arguments and errors as of `run_merge_into`."""
    found = _read_merge(context, cursor, "", evolves_schema)
    if found is None:
        return None
    text = f"MERGE INTO {found[0].table.path}: {strategy_of_frame_merge(*found)}"
    return context.spark.createDataFrame([(text,)], "plan STRING")


def _read_merge(
    context: Context, cursor: Cursor, ctes: str, evolves_schema: bool
) -> tuple[FrameMerge, MergeRules | None] | None:
    """Read a MERGE, and how the columns of its target change; None where the table is Spark's."""
    context, (ctes, rest) = with_arguments(context, ctes, cursor.rest().source())
    cursor = Cursor.of_query(rest)
    name = target(context, cursor.name())
    if name is None:
        return None
    refuse_system_table(name.path, name.system_table, "changed")
    session = write_options(context, name)
    refuse_older_state(session, where=SESSION_SAYS)
    rules = rules_of(session, evolves_schema=evolves_schema)
    given = _alias(cursor, "USING")
    cursor.expect("USING")
    written, parts = _source(context, _up_to(cursor, "ON"))
    cursor.expect("ON")
    on = _up_to(cursor, "WHEN").source()
    if not on:
        cursor.fail("a condition is expected")
    table = name.load()
    own_columns = (*table.schema.field_names, *METADATA_COLUMNS)
    own = Relation(name.parts if given is None else (given,), lambda: own_columns, given or name.table)
    matched, not_matched, by_source = _clauses(cursor, table, own.parts, strict=rules is None)
    handle = TableHandle(context.spark, name.path, name.options)
    behind = f"FROM {written}" + (f" AS {quoted_name(parts[0])}" if len(parts) == 1 else "")
    columns = _columns(context, ctes, written, _metadata_named(rest, parts[-1]))
    other = Relation(
        parts, lambda: run_query(context, Cursor.of_query(f"{ctes}SELECT {columns} {behind}")).columns, parts[-1]
    )
    own, other = with_other_aliases(own, other)
    lifted = SourceColumns(
        lambda text: run_query(context, Cursor.of_query(f"{ctes}SELECT ({text}) AS x {behind}")),
        other.alias,
        own.parts[-1],
        table.schema.field_names,
    )
    on = with_aliases(lifted.condition(on), (own, other))
    matched = _aliased(lifted.clauses(matched), own, other)
    not_matched = _aliased(lifted.clauses(not_matched), other)
    by_source = _aliased(lifted.clauses(by_source, has_source=False), own)
    text = f"{ctes}SELECT {columns}{lifted.shown} {behind}"
    statement = FrameMerge(
        table,
        partial(target_rows, handle, table),
        lambda at: pinned_source(run_query(reading(context, name, at), Cursor.of_query(text)), table, at),
        (own.alias, other.alias),
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


def _aliased(clauses: Sequence[GivenClause], *relations: Relation) -> list[GivenClause]:
    """The clauses with the aliases of both sides in place of their whole names."""
    return [
        replace(
            clause,
            condition=None if clause.condition is None else with_aliases(str(clause.condition), relations),
            values=None
            if clause.values is None
            else {path: with_aliases(str(value), relations) for path, value in clause.values.items()},
        )
        for clause in clauses
    ]


def _source(context: Context, words: Cursor) -> tuple[str, tuple[str, ...]]:
    """Return the source as the statement writes it, a table at a version or a query, and what qualifies its columns."""
    tokens = words.tokens
    if not tokens:
        words.fail("a table or a query is expected")
    named = tokens[-1].kind in (Kind.WORD, Kind.QUOTED) and len(tokens) > 1
    if named and tokens[-2].is_word("AS"):
        return Cursor(words.text, tokens[:-2]).source(), (tokens[-1].text,)
    if named and not tokens[-2].is_sign("."):
        return Cursor(words.text, tokens[:-1]).source(), (tokens[-1].text,)
    text = words.source()
    if words.sees("("):
        return text, ("source",)
    parts = words.name()
    name = None if words.sees("(") else resolve(context.known, parts)  # not of a function or inline table
    return text, parts if name is None else name.parts


def _metadata_named(statement: str, alias: str) -> list[str] | None:
    """Return the metadata columns that a statement names behind an alias; None where it names none at all."""
    tokens = Cursor.of_query(statement).tokens
    if not any(token.text.lower() == name.lower() for token in tokens for name in METADATA_COLUMNS):
        return None
    threes = zip(tokens, tokens[1:], tokens[2:], strict=False)
    pairs = [(first.text.lower(), last.text.lower()) for first, dot, last in threes if dot.is_sign(".")]
    return [name for name in METADATA_COLUMNS if (alias.lower(), name.lower()) in pairs]


def _columns(context: Context, ctes: str, source: str, metadata: Sequence[str] | None) -> str:
    """Return the columns of a source as SELECT names them; alongside metadata columns no star can stand.

    Args:
        context: session, warehouses and parameters.
        ctes: the WITH clause of the statement.
        source: a table, which has metadata columns that no star names, or a query in parentheses.
        metadata: what `_metadata_named` gives.
    """
    if metadata is None:
        return "*"
    is_query = source.startswith("(")
    text = ctes + (source[1:-1] if is_query else f"SELECT * FROM {source}")
    columns = run_query(context, Cursor.of_query(text)).columns
    known = {column.lower() for column in columns}
    hidden = [] if is_query else [name for name in metadata if name.lower() not in known]
    return ", ".join(map(quoted_name, (*columns, *hidden)))


def _clauses(
    cursor: Cursor, table: FileStoreTable, own: tuple[str, ...], *, strict: bool
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
    return cursor.since(start)


def _change(
    words: Cursor, table: FileStoreTable, own: tuple[str, ...], strict: bool
) -> tuple[Action, Mapping[str, str] | None]:
    """Return what UPDATE or DELETE does; None for all columns by name."""
    if words.take("DELETE"):
        return Action.DELETE, None
    words.expect("UPDATE", "SET")
    if words.take("*"):
        return Action.UPDATE, None
    values = {}
    for piece in words.rest().split():
        path, value = assignment(piece, table, own)
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
