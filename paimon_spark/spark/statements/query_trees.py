"""A query as a tree: the tables that it reads, the columns that it names, and what its WHERE compares.

Statements are never written anew from a syntax tree: what is found here are spans in the user's own text.

Comparisons of columns with literals that Spark and our reader decide alike, as text of the option `filter`.

What a WHERE says is still decided by Spark; the option only spares reading rows that cannot pass. So a comparison is
taken only where both sides are of one kind, and nothing depends on casts, time zones or rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlglot import exp
from sqlglot.errors import SqlglotError

from paimon_spark.spark.statements.cursor import keeps_backslashes
from paimon_spark.spark.statements.dialect import parsed
from paimon_spark.spec import data_types as t
from paimon_spark.spec.sql_text import literal_text, quoted_name

_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table that a query reads."""

    parts: tuple[str, ...]
    start: int
    end: int
    alias: str | None
    """None where the query gives none; then its columns are qualified by the table's own name."""
    comparisons: tuple[Comparison, ...]
    """Comparisons of its columns with literals that every row must pass which the query uses of it."""
    scope: int | None = None
    """The number of the SELECT whose FROM names it; None outside of any."""


@dataclass(frozen=True, slots=True)
class QualifiedColumn:
    """A column, or a star, written with its table: the names, and where each begins and ends."""

    names: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    is_star: bool = False
    """Whether all columns are meant, so that all names are the table's."""
    scopes: tuple[int, ...] = ()
    """The numbers of the SELECTs around it, the innermost first."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is known of a query."""

    tables: tuple[TableReference, ...]
    columns: tuple[QualifiedColumn, ...]
    names_all_columns: bool
    """Whether each column that it uses is named in it: no ``*``, no column list of an alias."""


class NotUnderstoodError(Exception):
    """sqlglot cannot parse a query; the message says where."""


def read_query(text: str, given: Sequence[Comparison] = ()) -> Query:
    """Return the tables that a query reads, without its CTEs.

    Args:
        text: the query.
        given: what its rows must pass, or nothing uses them.

    Raises:
        NotUnderstoodError: it cannot be parsed.
    """
    try:
        trees = parsed(text)
    except (SqlglotError, RecursionError) as error:
        raise NotUnderstoodError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotUnderstoodError("it is not one query")
    tree = trees[0]
    selects = {id(select): number for number, select in enumerate(tree.find_all(exp.Select))}
    tables = tuple(
        table for node in tree.find_all(exp.Table) if (table := _reference(node, selects, given)) is not None
    )
    columns = tuple(column for node in tree.find_all(exp.Column) if (column := _qualified(node, selects)) is not None)
    return Query(tables, columns, _names_all_columns(tree))


def named_tables(text: str) -> list[tuple[tuple[str, ...], int, int, str | None]] | None:
    """Return the tables that a query reads: parts, where the name begins and ends, alias; None if it is not parsed."""
    try:
        return [(table.parts, table.start, table.end, table.alias) for table in read_query(text).tables]
    except NotUnderstoodError:
        return None


def read_named(text: str, given: Sequence[Comparison]) -> dict[str, tuple[Comparison, ...]]:
    """By names of one part that a query reads once: what each row of theirs must pass which the query uses.

    Args:
        text: the query; of one that is not parsed nothing is known.
        given: as of `read_query`.
    """
    try:
        tables = read_query(text, given).tables
    except NotUnderstoodError:
        return {}
    names = [table.parts[-1] for table in tables]
    return {table.parts[0]: table.comparisons for table in tables if names.count(table.parts[-1]) == 1}


def compared_columns(condition: str) -> tuple[list[tuple[tuple[str, str], tuple[str, str]]], bool]:
    """The pairs of columns that a condition says to be equal, as far as AND joins such parts.

    Returns:
        Alias and name of both columns of each pair, and whether the condition says nothing else.
    """
    try:
        trees = parsed(condition)
        parts = [part for tree in trees if tree is not None for part in _conjuncts(tree)]
    except (SqlglotError, RecursionError):
        return [], False
    if len(trees) != 1:
        return [], False
    found = [
        (left, right)
        for part in parts
        if type(part) is exp.EQ
        and (left := _column_of_alias(part.this)) is not None
        and (right := _column_of_alias(part.expression)) is not None
    ]
    return found, len(found) == len(parts) > 0


def _conjuncts(node: Any) -> Iterator[Any]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _column_of_alias(node: Any) -> tuple[str, str] | None:
    while isinstance(node, exp.Paren):
        node = node.this
    named = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and bool(node.table)
    if not named or any(value for key, value in node.args.items() if key not in ("this", "table")):
        return None
    return node.table, node.name


def _scopes(node: Any, selects: Mapping[int, int]) -> Iterator[int]:
    """The numbers of the SELECTs around a node, the innermost first."""
    while (node := node.parent) is not None:
        if id(node) in selects:
            yield selects[id(node)]


def _reference(node: Any, selects: Mapping[int, int], given: Sequence[Comparison]) -> TableReference | None:
    parts = [part for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part]
    if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
        return None  # a function, IDENTIFIER(…), a name of more than three parts
    if node.find_ancestor(exp.Hint) is not None or (len(parts) == 1 and _is_cte(node)):
        return None
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.name else None
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    names = tuple(part.name for part in parts)
    comparisons = tuple(dict.fromkeys(_comparisons(node, given)))
    return TableReference(names, start, end, name, comparisons, next(_scopes(node, selects), None))


def _is_cte(node: Any) -> bool:
    """Whether a name of one part means a common table expression that is visible there."""
    name, child = node.name.lower(), node
    inside: Any = None
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.With):
            inside = child
        elif (clause := parent.args.get("with_") or parent.args.get("with")) is not None:
            visible = []
            for cte in clause.expressions:
                if child is clause and cte is inside:
                    visible += [cte.alias.lower()] if clause.args.get("recursive") else []
                    break
                visible.append(cte.alias.lower())
            if name in visible:
                return True
        child = parent
    return False


def _qualified(node: Any, selects: Mapping[int, int]) -> QualifiedColumn | None:
    parts = [node.args.get(key) for key in ("catalog", "db", "table")]
    found = [part for part in parts if part is not None]
    if not found or not all("start" in part.meta for part in found):
        return None
    is_star = isinstance(node.this, exp.Star)
    if isinstance(node.this, exp.Identifier) and "start" in node.this.meta:
        found.append(node.this)
    elif not is_star:
        return None
    spans = tuple((part.meta["start"], part.meta["end"] + 1) for part in found)
    return QualifiedColumn(tuple(part.name for part in found), spans, is_star, tuple(_scopes(node, selects)))


def _names_all_columns(tree: Any) -> bool:
    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count) or any(star.args.values()):
            return False
    if any(alias.args.get("columns") for alias in tree.find_all(exp.TableAlias)):
        return False
    return not any(join.args.get("method") or join.args.get("using") for join in tree.find_all(exp.Join))


def _comparisons(node: Any, given: Sequence[Comparison]) -> Iterator[Comparison]:
    """Comparisons with literals that each row of a table or subquery must pass which the query uses of it.

    Args:
        node: stands in a FROM.
        given: what the rows of the whole query must pass.
    """
    select = _select_of(node)
    if select is None:
        return
    own = tuple(name.lower() for name in ((node.alias,) if node.alias else _qualifier(node, "this")))
    others = _columns_of_others(select, node.parent)
    for comparison, qualifier, keeps_nulls in _conditions(select, node.parent, given):
        named_so = own[-len(qualifier) :] == tuple(map(str.lower, qualifier))
        is_own = named_so if qualifier else comparison.column.lower() not in others
        if is_own and (keeps_nulls or comparison.operator != "IS NULL"):
            yield comparison  # a name without a table is of this one, if it has such a column, or ambiguous


def _columns_of_others(select: Any, clause: Any) -> set[str]:
    """Names of columns of USING that mean the column of another table, whose type may be another."""
    found = set[str]()
    for join in select.args.get("joins") or []:
        if not isinstance(clause, exp.From) or _side(join) not in ("", "LEFT"):
            found.update(column.name.lower() for column in join.args.get("using") or [])
    return found


def _conditions(
    select: Any, clause: Any, given: Sequence[Comparison]
) -> Iterator[tuple[Comparison, tuple[str, ...], bool]]:
    """What the rows that a FROM or JOIN clause brings must pass, and whether IS NULL means their own nulls.

    Those of an outer join mean rows that are not there, too; then all other comparisons are false.
    """
    joins = select.args.get("joins") or []
    at = next((number for number, join in enumerate(joins, 1) if join is clause), 0)
    is_hidden = at > 0 and _kind(joins[at - 1]) in ("SEMI", "ANTI")
    is_outer = at > 0 and _side(joins[at - 1]) in ("LEFT", "FULL")
    for number, join in enumerate(joins, 1):
        is_last = number == at and _side(join) in ("", "LEFT")
        is_before = number > at and not is_hidden and _kind(join) != "ANTI"
        if is_last or (is_before and (_kind(join) == "SEMI" or _side(join) in ("", "RIGHT"))):
            for found in _compared(join.args.get("on")):
                yield *found, number == at or not is_outer
        is_outer |= number > at and _side(join) in ("RIGHT", "FULL")
    if not is_hidden:
        where = select.args.get("where")
        for found in (*_compared(None if where is None else where.this), *_given(select, given)):
            yield *found, not is_outer


def _compared(condition: Any) -> Iterator[tuple[Comparison, tuple[str, ...]]]:
    """The comparisons that a condition joins by AND, each with the qualifier of its column."""
    for part in () if condition is None else _conjuncts(condition):
        if (found := _comparison(part)) is not None:
            yield found


def _given(select: Any, given: Sequence[Comparison]) -> Iterator[tuple[Comparison, tuple[str, ...]]]:
    """What the query around a SELECT asks of its rows, of the columns that these are made of."""
    if any(select.args.get(key) for key in _CLOSED) or not all(map(_is_made_of_its_row, select.expressions)):
        return
    if select.parent is None:
        asked: Iterable[Comparison] = given
    else:
        relation = select.parent if isinstance(select.parent, exp.Subquery) else _only_reference(select.parent)
        asked = () if relation is None else _comparisons(relation, given)
    for comparison in asked:
        for projection in select.expressions:
            column = projection.unalias()
            if projection.is_star:
                yield comparison, _qualifier(column) if isinstance(column, exp.Column) else ()
            elif isinstance(column, exp.Column) and projection.output_name.lower() == comparison.column.lower():
                yield replace(comparison, column=column.name), _qualifier(column)


def _is_made_of_its_row(projection: Any) -> bool:
    """Whether a column of a SELECT needs no other rows, is the same each time and makes no rows of its own."""
    return all(
        isinstance(node, _OF_ONE_ROW) and not (isinstance(node, exp.Star) and any(node.args.values()))
        for node in projection.walk()
    )


def _only_reference(cte: Any) -> Any:
    """The one table of a query that means a common table expression; None where there are more, or other columns."""
    if not isinstance(cte, exp.CTE) or cte.parent.args.get("recursive") or cte.args["alias"].args.get("columns"):
        return None
    name, tables = cte.alias.lower(), cte.root().find_all(exp.Table)
    named = [table for table in tables if table.name.lower() == name and not table.args.get("db")]
    same = [other for other in cte.root().find_all(exp.CTE) if other.alias.lower() == name]
    return named[0] if len(named) == len(same) == 1 and _is_cte(named[0]) else None


def _qualifier(node: Any, last: str = "table") -> tuple[str, ...]:
    """The names of catalog, database and table that a column or a table is written with."""
    return tuple(part.name for key in ("catalog", "db", last) if (part := node.args.get(key)) is not None)


def _select_of(node: Any) -> Any:
    """Return the SELECT whose conditions filter the rows of a table or subquery directly; None without one."""
    parent = node.parent
    if not isinstance(parent, exp.From | exp.Join) or not isinstance(parent.parent, exp.Select):
        return None
    select = parent.parent
    if any(node.args.get(key) for key in ("sample", "pivots", "joins", "laterals")):
        return None
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    if any(select.args.get(key) for key in ("laterals", "pivots", "sample", "connect", "match")):
        return None
    for join in select.args.get("joins") or []:
        if join.args.get("method") or _side(join) not in _SIDES or _kind(join) not in _KINDS:
            return None
    return select


def _side(join: Any) -> str:
    """Of an outer join; a semi or anti join has none."""
    return "" if _kind(join) in ("SEMI", "ANTI") else (join.args.get("side") or "").upper()


def _kind(join: Any) -> str:
    return (join.args.get("kind") or "").upper()


_SIDES, _KINDS = ("", "LEFT", "RIGHT", "FULL"), ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")
_CLOSED = ("group", "having", "qualify", "limit", "offset", "fetch", "windows", "kind")
"""Clauses of a SELECT whose rows are other ones if some of those that it is made of are missing."""
_OF_ONE_ROW = (
    *(exp.Column, exp.Star, exp.Identifier, exp.Alias, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Dot),
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.DataType, exp.Upper, exp.Lower, exp.Coalesce, exp.Concat),
)
_OPERATORS: dict[type[Any], str] = {
    **{exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="},
}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _comparison(node: Any) -> tuple[Comparison, tuple[str, ...]] | None:
    """Return a condition as a comparison, with the qualifier of its column; None for another condition."""
    while isinstance(node, exp.Paren):
        node = node.this
    column, operator, values = node.this, "", []
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is):
        column, operator = node.this.this, "IS NOT NULL"
        if not isinstance(node.this.expression, exp.Null):
            return None
    elif isinstance(node, exp.Is):
        operator = "IS NULL"
        if not isinstance(node.expression, exp.Null) or node.args.get("negate"):
            return None
    elif isinstance(node, exp.In):
        operator, values = "IN", list(node.expressions)
        if not values or any(node.args.get(key) for key in ("query", "unnest", "field", "is_global", "negate")):
            return None
    elif isinstance(node, exp.Between):
        operator, values = "BETWEEN", [node.args["low"], node.args["high"]]
        if node.args.get("symmetric") or node.args.get("negate"):
            return None
    elif type(node) in _OPERATORS:
        operator, values = _OPERATORS[type(node)], [node.expression]
        if not isinstance(column, exp.Column):
            column, operator, values = node.expression, _MIRRORED.get(operator, operator), [node.this]
    if not operator or not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
        return None
    literals = [_value(value) for value in values]
    known = [value for value in literals if value is not None]
    if len(known) < len(literals):
        return None
    return Comparison(column.name, operator, tuple(known)), _qualifier(column)


def _value(node: Any) -> Value | None:
    """A literal; None for anything else."""
    if isinstance(node, exp.Boolean):
        return Value("boolean", str(bool(node.this)).upper())
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return Value("number", f"-{node.this.name}")
    if isinstance(node, exp.Literal) and node.is_string and keeps_backslashes():
        return None  # sqlglot has read its backslashes already
    if isinstance(node, exp.Literal):
        return Value("text" if node.is_string else "number", node.name)
    is_date = isinstance(node, exp.Cast) and type(node) is exp.Cast and node.to.this is exp.DataType.Type.DATE
    if is_date and isinstance(node.this, exp.Literal) and node.this.is_string:
        return Value("date", node.this.name)
    return None


@dataclass(frozen=True, slots=True)
class Value:
    """A literal as it was written."""

    kind: Literal["number", "text", "date", "boolean"]
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with literals."""

    column: str
    operator: str
    """One of = <> < <= > >= IN BETWEEN, IS NULL and IS NOT NULL."""
    values: tuple[Value, ...]
    is_exact: bool = False
    """Whether only a column is meant whose name is written alike; another relation may have one of other case."""


def filter_option(comparisons: Iterable[Comparison], fields: Sequence[t.DataField]) -> str | None:
    """Return the comparisons that the reader can evaluate, joined by AND; None without one."""
    texts = [text for comparison in comparisons if (text := _text(comparison, fields)) is not None]
    return " AND ".join(f"({text})" for text in texts) or None


def _text(comparison: Comparison, fields: Sequence[t.DataField]) -> str | None:
    found = [field for field in fields if field.name.lower() == comparison.column.lower()]
    if len(found) != 1 or (comparison.is_exact and found[0].name != comparison.column):
        return None
    column = quoted_name(found[0].name)
    if not comparison.values:
        return f"{column} {comparison.operator}"
    values = [_literal(value, found[0].type) for value in comparison.values]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if comparison.operator == "IN":
        return f"{column} IN ({', '.join(known)})"
    return f"{column} {comparison.operator} {' AND '.join(known)}"


def _literal(value: Value, data_type: t.DataType) -> str | None:
    """Return the literal as a value of the column's type; None where Spark would cast the literal or the column."""
    match data_type:
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType() | t.DecimalType():
            return value.text if value.kind == "number" and _is_plain_number(value.text) else None
        case t.CharType() | t.VarCharType():
            return literal_text(value.text) if value.kind == "text" else None
        case t.DateType():
            return f"DATE '{value.text}'" if value.kind in ("date", "text") and _is_plain_date(value.text) else None
        case t.BooleanType():
            return value.text if value.kind == "boolean" else None
    return None


def _is_plain_number(text: str) -> bool:
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = whole + fraction
    return digits.isascii() and digits.isdigit() and bool(whole) and len(digits) <= _MAX_DIGITS


def _is_plain_date(text: str) -> bool:
    year, _, rest = text.partition("-")
    month, _, day = rest.partition("-")
    sizes = (len(year), len(month), len(day)) == (4, 2, 2)
    return sizes and all(part.isascii() and part.isdigit() for part in (year, month, day))
