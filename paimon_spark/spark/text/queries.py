"""Queries: the names of Paimon tables in them become DataFrames that the query carries with it.

Spark takes DataFrames as arguments of ``spark.sql``. On Connect they travel inside the query's own plan, on a classic
session as temporary views that are gone once the query is analysed: nothing is left behind in either.

Only the columns that a query can name are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import AnalysisException, ParseException, PySparkException

from paimon_spark.errors import OptionError, TableNotFoundError, UnsupportedError
from paimon_spark.options import find_option, unknown_option_error
from paimon_spark.read.metadata_columns import metadata_fields
from paimon_spark.spark.columns.types import padded
from paimon_spark.spark.session.session_settings import activate, following
from paimon_spark.spark.source.source_options import COLUMNS, FILTER
from paimon_spark.spark.source.table_read import named_system_table
from paimon_spark.spark.sql.read_version import (
    POINTS_OF_TIME,
    at_version,
    layered,
    options_for_table,
    refuse_branch_of_session,
    refuse_second_version,
)
from paimon_spark.spark.sql.warehouses import (
    TableName,
    is_explicit,
    is_temporary_view,
    quoted,
    resolve,
    table_not_found,
)
from paimon_spark.spark.statements.cursor import Cursor, Kind, Token
from paimon_spark.spark.statements.expressions import Relation, replaced_qualifiers
from paimon_spark.spark.statements.query_trees import (
    NotUnderstoodError,
    Query,
    TableReference,
    filter_option,
    read_query,
)
from paimon_spark.spark.statements.version_clauses import Clause, version_clauses, without_clauses
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.text.catalog_objects import rows_of_view, view_named, with_functions
from paimon_spark.spark.text.context import Context, escaped
from paimon_spark.spark.text.format_tables import rows_of_files
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.table import FileStoreTable
from paimon_spark.table.time_travel import has_time_travel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.view_records import View


_PATTERN_SIGNS = frozenset("()*+?|[]")


def has_pipe(tokens: Sequence[Token]) -> bool:
    """Return whether a query has pipes (``|>``), which sqlglot may parse in another way."""
    return any(token.is_sign("|>") for token in tokens) or any(
        a.is_sign("|") and b.is_sign(">") for a, b in pairwise(tokens)
    )


def names_of_columns(tokens: Sequence[Token]) -> frozenset[str] | None:
    """Return the words that could be columns, in lower case; None where patterns or expressions may name columns."""
    for token, behind in zip(tokens, [*tokens[1:], None], strict=True):
        if token.kind is Kind.QUOTED and _PATTERN_SIGNS & set(token.text):
            return None
        if token.is_word("IDENTIFIER") and behind is not None and behind.is_sign("("):
            return None
    return frozenset(token.text.lower() for token in tokens)


def metadata_columns(schema: TableSchema, tokens: Sequence[Token]) -> list[str]:
    """Return the metadata columns that a query names and that no column of the table hides."""
    named = {token.text.lower() for token in tokens}
    own = {field.name.lower() for field in schema.fields}
    names = [field.name for field in metadata_fields(schema)]
    return [name for name in names if name.lower() in named and name.lower() not in own]


def columns_option(
    table: Sequence[str], fields: Sequence[DataField], names: frozenset[str] | None, metadata: Sequence[str]
) -> dict[str, str]:
    """Return the option `columns` with those columns that the query may name.

    Raises:
        UnsupportedError: metadata columns are named alongside a ``*``, which would have them too.
    """
    if names is None:
        if metadata:
            raise UnsupportedError(
                f"column {metadata[0]} of {quoted(table)} is not supported in a query that has * , column "
                "names behind an alias, NATURAL or USING, or |> : name each column that is wanted"
            )
        return {}
    wanted = [field.name for field in fields if field.name.lower() in names] or [fields[0].name]
    if len(wanted) == len(fields) and not metadata:
        return {}
    return {COLUMNS: ", ".join(quoted_name(name) for name in (*wanted, *metadata))}


_SESSION_PREFIX = "spark.paimon."


@dataclass(frozen=True)
class _Read:
    """A Paimon table in a query."""

    reference: TableReference
    name: TableName
    options: Mapping[str, str]
    end: int
    """Where the name and the clauses behind it end."""
    current: int | None = None
    """The snapshot to read with the columns that the table has now."""
    view: View | None = None
    """The view that has the name."""

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.name.place, self.current, tuple(sorted(self.options.items())))


@dataclass(frozen=True)
class _Frame:
    """What a query reads of a table."""

    rows: DataFrame
    known: tuple[str, ...] = ()
    """The names of its columns, those that the query does not read too; empty where only the rows tell them."""

    def columns(self) -> Sequence[str]:
        """The names of the columns that it has."""
        return self.known or self.rows.columns


Scans = list[tuple[TableName, FileStoreTable, dict[str, str]]]
"""The tables of a query, opened, each with the options of its read."""


def run_query(
    context: Context, cursor: Cursor, *, before: str = "", whole: str | None = None, scans: Scans | None = None
) -> DataFrame:
    """Run a query, or a statement of Spark's that contains one.

    Args:
        context: session, warehouses and parameters.
        cursor: the tokens of the query.
        before: text of the statement before the query, such as EXPLAIN.
        whole: what Spark is given where no table is ours; `before` and the query without.
        scans: takes what is read.

    Raises:
        UnsupportedError: it names a Paimon table and cannot be understood.
        AnalysisException: a table is not there.
    """
    text, offset = cursor.source(), cursor.tokens[0].start if cursor.tokens else 0
    if cursor.sees("TABLE") and len(cursor.tokens) > 1:
        named = Cursor.of_query(f"SELECT * FROM {text[cursor.tokens[1].start - offset :]}")
        return run_query(context, named, before=before, whole=whole or before + text, scans=scans)
    tokens = [Token(t.kind, t.text, t.start - offset, t.end - offset) for t in cursor.tokens]
    query, reads = _understood(context, text, tokens)
    if query is None or not (reads or context.qualifiers):
        return context.spark_sql(whole or before + text)
    frames = _frames(context, query, reads, tokens, scans=scans)
    relations = _relations(context, query, reads, frames)
    rewritten = escaped(before) + _rewritten(text, query, reads, list(frames), relations, tokens)
    try:
        return context.spark_sql(rewritten, _named(frames))
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            raise
    frames = _frames(context, query, reads, tokens, pruned=False)  # so that Spark names all candidates
    return context.spark_sql(rewritten, _named(frames))


def _understood(context: Context, text: str, tokens: Sequence[Token]) -> tuple[Query | None, list[_Read]]:
    """Return a query and the tables of ours in it; None where sqlglot cannot read it and none is named."""
    clauses = version_clauses(text, tokens)
    try:
        query = read_query(without_clauses(text, clauses))
    except NotUnderstoodError as error:
        _refuse_ours(context, text, tokens, str(error))
        return None, []
    return query, [read for named in query.tables if (read := _read(context, text, named, clauses)) is not None]


def with_temporary_views(context: Context, text: str) -> str:
    """A query in which temporary views stand for tables and views of ours: for what Spark keeps as text.

    Raises:
        UnsupportedError: it names a Paimon table and cannot be understood.
        AnalysisException: a table is not there.
    """
    tokens = Cursor.of_query(text).tokens
    query, reads = _understood(context, text, tokens)
    if query is None or not reads:
        return text
    frames = _frames(context, query, reads, tokens)
    relations = _relations(context, query, reads, frames)
    rewritten = _rewritten(text, query, reads, list(frames), relations, tokens)
    digest = hashlib.sha256(f"{context.known.catalog}.{context.known.database}.{text}".encode()).hexdigest()[:16]
    names = {name: f"__paimon_rows_{digest}_{name}" for name in _named(frames)}
    for name, frame in _named(frames).items():
        frame.createOrReplaceTempView(names[name])
        context.made.append(f"VIEW IF EXISTS {names[name]}")
    return rewritten.format(**names)


def rows_of_text(context: Context, text: str) -> DataFrame:
    """The rows of a query that a catalog keeps."""
    text = with_functions(context, text, with_temporary_views)
    return run_query(context, Cursor.of_query(text), whole=text)


def _read(context: Context, text: str, reference: TableReference, clauses: Sequence[Clause]) -> _Read | None:
    """Return the Paimon table that a reference means; None for a table of Spark's."""
    name = resolve(context.known, reference.parts)
    if name is None:
        return None
    exists = name.exists()
    view = None if exists else view_named(context, name)
    if view is None and not exists:
        if is_explicit(context.known, reference.parts):
            raise table_not_found(reference.parts)
        return None
    if len(reference.parts) == 1 and is_temporary_view(context.spark, reference.parts[0]):
        return None
    options, end = _given(context, text, reference, clauses)
    if view is not None:
        if options:
            raise UnsupportedError(
                f"{'.'.join(name.parts)} is a view, which cannot be read at a version or by options."
            )
        return _Read(reference, name, {}, end, view=view)
    session = session_options(context, name)
    current = None if has_time_travel(options) else context.current.get(name.place)
    if current is not None:
        session = {key: value for key, value in session.items() if key not in POINTS_OF_TIME}
    return _Read(reference, name, layered(session, options), end, current)


def read_table(context: Context, parts: Sequence[str], options: Mapping[str, str]) -> DataFrame | None:
    """Return the rows of a table that is named as for ``spark.table`` of Connect; None for a table of Spark's.

    Raises:
        AnalysisException: there is no such table, and Spark cannot know one either.
    """
    read = _read(context, "", TableReference(tuple(parts), 0, 0, None, ()), ())
    if read is None:
        return None
    if read.view is not None:
        return _under_its_name(rows_of_view(context, read.name, read.view, rows_of_text), read.name)
    if read.name.is_of_catalog:
        return _under_its_name(_rows_of_catalog(context, read), read.name)
    if read.name.system_table is not None:
        _check_system_table(read)
    files = rows_of_files(context.spark, read.name, read.name.load(), read.options)
    if files is not None:
        return _under_its_name(files, read.name)
    activate(context.spark)
    reader = context.spark.read.format("paimon").options(**read.name.options).options(**layered(read.options, options))
    return _under_its_name(following(reader).load(read.name.path), read.name)


def _under_its_name(rows: Any, name: TableName) -> DataFrame:
    """Rows of a Connect session whose columns the name of their table qualifies, its last part or more of it."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.connect.plan import SubqueryAlias

    class Named(SubqueryAlias):
        """A plan with a name of several parts."""

        def plan(self, session: Any) -> Any:
            """The message of the protocol."""
            message = super().plan(session)
            message.subquery_alias.qualifier[:] = name.parts[:-1]
            return message

    made: Any = ConnectFrame(Named(rows._plan, name.table), rows.sparkSession)
    return cast("DataFrame", made)


def _given(
    context: Context, text: str, reference: TableReference, clauses: Sequence[Clause]
) -> tuple[dict[str, str], int]:
    """Return the options that the clauses behind a name mean, and the end of the last clause."""
    options: dict[str, str] = {}
    given: dict[str, str] = {}
    end = reference.end
    for clause in clauses:
        if clause.start < end or text[end : clause.start].strip():
            continue
        end = clause.end
        if clause.version is not None:
            options["scan.version"] = clause.version
        elif clause.timestamp is not None:
            options["scan.timestamp-millis"] = str(_millis(context, clause.timestamp))
        for key in clause.options:
            if find_option(key) is None:
                raise unknown_option_error(key, ())
        given |= clause.options
    if options:
        refuse_second_version(given)
    return {**options, **given}, end


def _millis(context: Context, expression: str) -> int:
    """Return an expression as milliseconds since 1970; times without a zone are in the session's time zone."""
    if not isinstance(context.args, Mapping | None):
        raise UnsupportedError("TIMESTAMP AS OF in a statement with `?` for its arguments: give them names (:name)")
    value = context.spark_sql(f"SELECT unix_millis(CAST(({expression}) AS TIMESTAMP))").collect()[0][0]
    if value is None:
        raise OptionError(f"TIMESTAMP AS OF {expression}: it is NULL")
    return int(value)


def write_options(context: Context, name: TableName) -> dict[str, str]:
    """Return the options that ``SET spark.paimon.…`` gives a table that a statement changes.

    Raises:
        UnsupportedError: the session has set a branch that the name does not say.
    """
    options = session_options(context, name)
    refuse_branch_of_session(options, name.table)
    return options


def session_options(context: Context, name: TableName) -> dict[str, str]:
    """Return the options that ``SET spark.paimon.…`` gives a table."""
    settings = {key: value for key, value in context.settings.items() if key.startswith(_SESSION_PREFIX)}
    return options_for_table(settings, (name.catalog_name, name.database, name.table)) if settings else {}


def _frames(
    context: Context,
    query: Query,
    reads: Sequence[_Read],
    tokens: Sequence[Token],
    *,
    pruned: bool = True,
    scans: Scans | None = None,
) -> dict[tuple[Any, ...], _Frame]:
    """Return a DataFrame for each table and version. A table that is named twice is read at one snapshot."""
    pipes = has_pipe(tokens)
    names = None if pipes or not query.names_all_columns or not pruned else names_of_columns(tokens)
    frames: dict[tuple[Any, ...], _Frame] = {}
    activate(context.spark)
    for read in reads:
        if read.key in frames:
            continue
        if read.view is not None:
            frames[read.key] = _Frame(rows_of_view(context, read.name, read.view, rows_of_text))
            continue
        if read.name.is_of_catalog:
            frames[read.key] = _Frame(_rows_of_catalog(context, read))
            continue
        options = dict(read.options)
        table = context.opened.get(read.name.place) or read.name.load()
        files = rows_of_files(context.spark, read.name, table, options)
        if files is not None:
            frames[read.key] = _Frame(files)
            continue
        known: tuple[str, ...] = ()
        if read.name.system_table is None:
            schema = at_version(table, options).schema
            fields = schema.fields
            known = (*schema.field_names, *(column.name for column in metadata_fields(schema)))
            hidden = metadata_columns(schema, tokens) if pruned else []
            options |= columns_option(read.name.parts, fields, names, hidden)
            options |= {} if pipes else _filter(fields, [one.reference for one in reads if one.key == read.key])
            if scans is not None:
                scans.append((read.name, table, options))
        else:
            _check_system_table(read)
        if read.current is None:
            reader = context.spark.read.format("paimon").options(**read.name.options).options(**options)
            frames[read.key] = _Frame(following(reader).load(read.name.path), known)
        else:
            handle = TableHandle(context.spark, read.name.path, read.name.options)
            rows = handle.snapshot_rows(read.current, opened=table, **options)
            frames[read.key] = _Frame(padded(rows, table.schema.fields), known)
    return frames


def _filter(fields: Sequence[DataField], references: Sequence[TableReference]) -> dict[str, str]:
    """The option `filter` with what each row must pass that one of the references to a table uses."""
    conditions = [filter_option(reference.comparisons, fields) for reference in references]
    known = [condition for condition in conditions if condition is not None]
    if len(known) < len(conditions):
        return {}
    either = list(dict.fromkeys(known))
    return {FILTER: either[0] if len(either) == 1 else " OR ".join(f"({one})" for one in either)}


def _rows_of_catalog(context: Context, read: _Read) -> DataFrame:
    """The rows of a system table of the whole catalog.

    Raises:
        UnsupportedError: it is asked for a version, or given options.
    """
    if read.end > read.reference.end:
        raise UnsupportedError(f"{'.'.join(read.name.parts)} has neither versions nor options of a read.")
    reader = context.spark.read.format("paimon").options(**read.name.options)
    return following(reader).load(read.name.path)


def _check_system_table(read: _Read) -> None:
    try:
        named_system_table(read.name.path)
    except TableNotFoundError:
        raise table_not_found(read.reference.parts) from None


def _rewritten(
    text: str,
    query: Query,
    reads: Sequence[_Read],
    keys: Sequence[tuple[Any, ...]],
    relations: Sequence[Relation],
    tokens: Sequence[Token],
) -> str:
    """Return the text with a placeholder for each Paimon table; other braces are doubled."""
    changes: list[tuple[int, int, str]] = []
    for read, relation in zip(reads, relations, strict=False):
        placeholder = f"{{{_placeholder(keys.index(read.key))}}}"
        changes.append((read.reference.start, read.end, placeholder))
        if read.reference.alias is None:
            at = _behind_sample(read.end, tokens)
            changes.append((at, at, f" AS {escaped(quoted_name(relation.alias))} "))
    changes += [(start, end, escaped(alias)) for start, end, alias in replaced_qualifiers(query.columns, relations)]
    pieces, at = [], 0
    for start, end, replacement in sorted(changes, key=lambda change: change[:2]):
        pieces += [escaped(text[at:start]), replacement]
        at = end
    return "".join([*pieces, escaped(text[at:])])


def _behind_sample(end: int, tokens: Sequence[Token]) -> int:
    """Return the position of an alias, which is behind ``TABLESAMPLE (…) REPEATABLE (…)``."""
    cursor = Cursor("", [token for token in tokens if token.start >= end])
    while cursor.take_any("TABLESAMPLE", "REPEATABLE", "SYSTEM", "BERNOULLI"):
        if cursor.sees("("):
            cursor.group()
        end = cursor.tokens[cursor.at - 1].end
    return end


def _relations(
    context: Context, query: Query, reads: Sequence[_Read], frames: Mapping[tuple[Any, ...], _Frame]
) -> list[Relation]:
    """Return what qualifies the columns of a query: its tables, in their order, and rows that it is given.

    A table without an alias gets its name, with a number where two tables have the same name.
    """
    given = [table for table in query.tables if table.parts[0] in context.qualifiers]
    kept = [_lower(context.qualifiers[table.parts[0]]) for table in given]
    names = list(dict.fromkeys([*kept, *(_lower(r.name.parts) for r in reads if r.reference.alias is None)]))
    relations = []
    for read in reads:
        parts, alias = read.name.parts, read.name.table
        if read.reference.alias is not None:
            parts, alias = (read.reference.alias,), read.reference.alias
        else:
            same = [name for name in names if name[-1] == alias.lower()]
            if len(same) > 1 and _lower(parts) not in kept:
                alias = f"{alias}_{same.index(_lower(parts))}"
        scopes = frozenset() if read.reference.scope is None else frozenset({read.reference.scope})
        relations.append(Relation(parts, frames[read.key].columns, alias, scopes))
    for table in given:
        parts = context.qualifiers[table.parts[0]]
        rows = _Frame(context.frames[table.parts[0]])
        relations.append(Relation(parts, rows.columns, parts[-1], frozenset({0, table.scope or 0})))
    return relations


def _lower(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _named(frames: Mapping[tuple[Any, ...], _Frame]) -> dict[str, DataFrame]:
    return {_placeholder(number): frame.rows for number, frame in enumerate(frames.values())}


def _placeholder(number: int) -> str:
    return f"paimon{number}"


def _refuse_ours(context: Context, text: str, tokens: Sequence[Token], reason: str) -> None:
    """Refuse a query that sqlglot cannot parse, if a word of it may name a Paimon table.

    Raises:
        ParseException: Spark cannot parse it either.
        UnsupportedError: Spark can.
    """
    name = next(_possible_names(context, tokens), None)
    if name is None:
        return
    try:
        context.spark_sql(f"EXPLAIN {text}")
    except ParseException:
        raise
    except PySparkException:  # Spark does not know the table
        pass
    raise UnsupportedError(
        f"paimon_spark.sql cannot read this statement, which names the Paimon table {quoted(name.parts)}: {reason}. "
        f"Make a view of the table (paimon_spark.PaimonTable.for_path(spark, '{name.path}').to_df()"
        ".createOrReplaceTempView('v')) and name that"
    )


def names_ours(context: Context, cursor: Cursor) -> bool:
    """Return whether a word of a statement may name a Paimon table."""
    return next(_possible_names(context, cursor.tokens), None) is not None


def _possible_names(context: Context, tokens: Sequence[Token]) -> Iterator[TableName]:
    cursor = Cursor("", tokens)
    while not cursor.at_end():
        token = cursor.tokens[cursor.at]
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            cursor.at += 1
            continue
        begin = cursor.at
        parts = _parts_at(cursor)
        cursor.at = max(cursor.at, begin + 1)
        name = None if len(parts) > 3 else resolve(context.known, parts)
        if name is not None and (name.exists() or view_named(context, name) is not None):
            yield name


def _parts_at(cursor: Cursor) -> tuple[str, ...]:
    parts = [cursor.identifier()]
    while cursor.sees(".") and (token := cursor.peek(1)) is not None and token.kind in (Kind.WORD, Kind.QUOTED):
        cursor.at += 1
        parts.append(cursor.identifier())
    return tuple(parts)
