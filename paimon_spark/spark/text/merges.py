"""MERGE INTO of Paimon tables. A query of Spark gives the source; `sql.merge_frames` joins it with the target.

Conditions and values are expressions over the aliases of both sides; subqueries in them are columns of the source's
query, and parameters are replaced by their values before.

Spark's expressions of DataFrames know no subqueries whose tables are DataFrames. A condition or value over the source
is worked out as a whole, by the query of the source; of others the scalar subqueries and EXISTS that name no column of
the target. The rest is refused by name: IN subqueries of the target's columns, those that are correlated with the
target, and those of clauses NOT MATCHED BY SOURCE, where there is no row of the source.

Spark binds arguments only in whole statements, so literals take the place of the parameters here. It also says what an
argument is: it evaluates each once, and tells its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from paimon_spark.commit.row_counts import counting
from paimon_spark.errors import SchemaMismatchError, UnsupportedError
from paimon_spark.read.metadata_columns import METADATA_COLUMNS
from paimon_spark.spark.session.session_options import refuse_older_state
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.merge import rules_of, run_frame_merge, strategy_of_frame_merge
from paimon_spark.spark.sql.merge_frames import GIVEN, FrameMerge, GivenClause
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.sql.warehouses import resolve
from paimon_spark.spark.statements.cursor import Cursor, Kind, Token
from paimon_spark.spark.statements.expressions import Relation, with_aliases, with_other_aliases
from paimon_spark.spark.table.handle import TableHandle
from paimon_spark.spark.table.rows import pinned_source, target_rows
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.queries import run_query, write_options
from paimon_spark.spark.text.row_statements import SESSION_SAYS, assignment, counted, reading, target
from paimon_spark.spec.sql_text import quoted_name, spark_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.schema_merge import MergeRules
    from paimon_spark.table.table import FileStoreTable

_AS_WRITTEN = (t.StringType, t.BooleanType, t.IntegerType, t.DateType, t.BinaryType)
"""Types of which `spark_literal` makes a literal of just this type."""


def with_arguments(context: Context, *texts: str) -> tuple[Context, list[str]]:
    """Return texts of one statement, in their order, with literals for parameters, and the context without arguments.

    Raises:
        UnsupportedError: an argument has a type without literals.
        AnalysisException: a parameter by position has no argument.
    """
    if not context.args:
        return context, list(texts)
    found = [_parameters(text, context.args) for text in texts]
    count = sum(map(len, found))
    named = [text[token.start : token.end] for text, tokens in zip(texts, found, strict=True) for token in tokens]
    literals: list[str] = []
    if count:
        frame = context.spark_sql(f"SELECT {', '.join(f'{name} AS `{at}`' for at, name in enumerate(named))}")
        values = frame.collect()[0]
        literals = [_literal(value, field.dataType) for value, field in zip(values, frame.schema.fields, strict=True)]
    written, at = [], 0
    for text, tokens in zip(texts, found, strict=True):
        written.append(_replaced(text, tokens, literals[at : at + len(tokens)]))
        at += len(tokens)
    return replace(context, args=None), written


def _parameters(text: str, args: Mapping[str, Any] | Sequence[Any]) -> list[Token]:
    """The positions of ``?``, or of ``:name`` where there is such an argument (``STRUCT<a:INT>`` has none)."""
    cursor = Cursor.of(text)
    tokens = [] if cursor is None else list(cursor.tokens)
    if not isinstance(args, Mapping):
        return [token for token in tokens if token.is_sign("?")]
    return [
        Token(Kind.WORD, name.text, sign.start, name.end)
        for sign, name in pairwise(tokens)
        if sign.is_sign(":") and name.kind is Kind.WORD and name.start == sign.end and name.text in args
    ]


def _replaced(text: str, tokens: Sequence[Token], literals: Sequence[str]) -> str:
    for token, literal in reversed(list(zip(tokens, literals, strict=True))):
        text = text[: token.start] + literal + text[token.end :]
    return text


def _literal(value: Any, data_type: t.DataType) -> str:
    """A value that Spark gave for a column of a type as SQL of that type.

    Raises:
        UnsupportedError: there is none.
    """
    shown = data_type.simpleString()
    if value is None:
        return "NULL" if isinstance(data_type, t.NullType) else f"CAST(NULL AS {_sql_type(data_type)})"
    match data_type:
        case t.ArrayType():
            inside = ", ".join(_literal(element, data_type.elementType) for element in value)
            return f"CAST(array({inside}) AS {_sql_type(data_type)})"
        case t.MapType():
            pairs = [(_literal(k, data_type.keyType), _literal(v, data_type.valueType)) for k, v in value.items()]
            return f"CAST(map({', '.join(f'{k}, {v}' for k, v in pairs)}) AS {_sql_type(data_type)})"
        case t.StructType():
            parts = [
                f"{spark_literal(field.name)}, {_literal(part, field.dataType)}"
                for field, part in zip(data_type.fields, value, strict=True)
            ]
            return f"named_struct({', '.join(parts)})"
        case t.DayTimeIntervalType() if isinstance(value, timedelta):
            seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 10**6)
            sign = "-" if value < timedelta() else ""
            return f"CAST({sign}make_dt_interval(0, 0, 0, {seconds}.{micros:06}) AS {shown})"
        case t.TimestampType() if isinstance(value, datetime):
            return spark_literal(value.astimezone())
        case t.FloatType() | t.DoubleType():
            return f"CAST('{value!r}' AS {shown})"
    try:
        written = spark_literal(value)
    except ValueError:
        raise UnsupportedError(
            f"an argument of type {shown} is not supported in a MERGE by paimon_spark.sql: put the value into "
            "the source"
        ) from None
    return written if isinstance(data_type, _AS_WRITTEN) else f"CAST({written} AS {shown})"


def _sql_type(data_type: t.DataType) -> str:
    """A type as SQL, with the names of its fields in quotes."""
    match data_type:
        case t.ArrayType():
            return f"ARRAY<{_sql_type(data_type.elementType)}>"
        case t.MapType():
            return f"MAP<{_sql_type(data_type.keyType)}, {_sql_type(data_type.valueType)}>"
        case t.StructType():
            return f"STRUCT<{', '.join(f'{quoted_name(f.name)}: {_sql_type(f.dataType)}' for f in data_type.fields)}>"
    return data_type.simpleString()


@dataclass
class SourceColumns:
    """What the query of a source gives besides its rows."""

    query: Callable[[str], DataFrame]
    """Selects an expression over the source."""
    alias: str
    """Of the source."""
    target: str
    """The alias of the target."""
    target_columns: Sequence[str]
    expressions: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """Behind the star of the source's query."""
        return "".join(f", ({text}) AS {GIVEN}{at}" for at, text in enumerate(self.expressions))

    def clauses(self, clauses: Sequence[GivenClause], *, has_source: bool = True) -> list[GivenClause]:
        """The clauses without subqueries."""
        return [
            replace(
                clause,
                condition=None if clause.condition is None else self.condition(clause.condition, has_source),
                values=None
                if clause.values is None
                else {name: self._without(value, has_source) for name, value in clause.values.items()},
            )
            for clause in clauses
        ]

    def condition(self, text: object, has_source: bool = True) -> str:
        """A condition without subqueries."""
        refuse_nondeterministic(str(text))
        return self._without(text, has_source)

    def _without(self, expression: object, has_source: bool) -> str:
        text = str(expression)
        tokens = Cursor.of_query(text).tokens
        groups = list(_subqueries(tokens))
        if not groups:
            return text
        if not has_source:
            raise _refused("in a clause NOT MATCHED BY SOURCE", text)
        if not self._may_name_target(tokens, groups) and self._is_over_source(text):
            return self._column(text)
        for first, last in reversed(groups):
            before = tokens[first - 1] if first else None
            if before is not None and before.is_word("IN"):
                raise _refused("with IN, over columns of the target", text)
            start = tokens[first - 1].start if before is not None and before.is_word("EXISTS") else tokens[first].start
            piece = text[start : tokens[last].end]
            if not self._is_over_source(piece):
                raise _refused("that names columns of the target, or cannot be resolved,", piece)
            text = text[:start] + self._column(piece) + text[tokens[last].end :]
        return text

    def _column(self, text: str) -> str:
        self.expressions.append(text)
        return f"{quoted_name(self.alias)}.{GIVEN}{len(self.expressions) - 1}"

    def _is_over_source(self, text: str) -> bool:
        try:
            return len(self.query(text).schema) == 1
        except AnalysisException:
            return False

    def _is_target(self, token: Token, behind: Token) -> bool:
        return token.text.lower() == self.target.lower() and behind.is_sign(".")

    def _may_name_target(self, tokens: Sequence[Token], groups: Sequence[tuple[int, int]]) -> bool:
        """Whether the target is named, or a name without an alias, outside of the subqueries, is one of its columns."""
        own = {name.lower() for name in self.target_columns}
        if any(self._is_target(token, behind) for token, behind in pairwise(tokens)):
            return True
        inside = {at for first, last in groups for at in range(first, last + 1)}
        return any(
            token.kind in (Kind.WORD, Kind.QUOTED)
            and token.text.lower() in own
            and not (at and tokens[at - 1].is_sign("."))
            and not (at + 1 < len(tokens) and tokens[at + 1].is_sign(".", "("))
            for at, token in enumerate(tokens)
            if at not in inside
        )


def _subqueries(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The parentheses around the outermost subqueries: positions of both."""
    depth, start = 0, 0
    for at, token in enumerate(tokens):
        if token.is_sign("("):
            opens = at + 1 < len(tokens) and tokens[at + 1].is_word("SELECT", "WITH", "VALUES", "FROM", "TABLE")
            if depth:
                depth += 1
            elif opens:
                depth, start = 1, at
        elif token.is_sign(")") and depth:
            depth -= 1
            if not depth:
                yield start, at


def _refused(what: str, text: str) -> UnsupportedError:
    return UnsupportedError(
        f"a subquery {what} is not supported in MERGE INTO by paimon_spark.sql: {text}. Put what it gives into the "
        "source: USING (SELECT …, (subquery) AS x FROM …) AS s."
    )


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
