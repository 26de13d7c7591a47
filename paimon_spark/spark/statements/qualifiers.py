"""Which table qualifies a column: ``catalog.db.t.k``, ``db.t.k`` and ``t.k`` mean a column of a table without an alias.

Spark knows it by the names of its relations. In the texts that are run with DataFrames a table has an alias only, so
whole names are replaced by it. Names are resolved as Spark does: the innermost SELECT over a table that fits decides,
whole names come before short ones, and only a table that has the column fits. What no table qualifies is a column,
perhaps with fields of a struct behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from paimon_spark.spark.statements.query_trees import NotUnderstoodError, QualifiedColumn, read_query
from paimon_spark.spec.sql_text import quoted_name

_SELECT = "SELECT "


@dataclass(frozen=True)
class Relation:
    """What columns can be qualified by."""

    parts: tuple[str, ...]
    """The whole name of a table, or its alias where the statement gives one."""
    columns: Callable[[], Collection[str]] = field(repr=False)
    """Tells the names of its columns; asked once, and only where a name needs it."""
    alias: str
    """What it is called in the text that Spark is given."""
    scopes: frozenset[int] = frozenset({0})
    """The numbers of the SELECTs over it."""

    def fits(self, qualifier: Sequence[str]) -> bool:
        """Whether its name ends so."""
        return [part.lower() for part in self.parts[-len(qualifier) :]] == [part.lower() for part in qualifier]

    def has(self, column: str) -> bool:
        """Whether it has a column, whatever the case of its name."""
        return column.lower() in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.columns())


def qualifiers_length(
    names: Sequence[str], relations: Sequence[Relation], *, is_star: bool = False
) -> tuple[list[Relation], int]:
    """Return the relations that qualify a column, and how many of the names do; none and 0 where the column is first.

    Args:
        names: of the column, with what stands before it, and of fields behind it.
        relations: what it can be of.
        is_star: whether all columns are meant, so that all names may be the table's.
    """
    for length in (3, 2, 1):
        if len(names) < length + (not is_star):
            continue
        found = [one for one in relations if one.fits(names[:length])]
        if len(names) > length:
            found = [one for one in found if one.has(names[length])]
        if found:
            return found, length
    return [], 0


def with_other_aliases(own: Relation, other: Relation) -> tuple[Relation, Relation]:
    """Return the two sides of a statement, whose aliases differ: where they were equal, both get a number."""
    if own.alias.lower() != other.alias.lower():
        return own, other
    return replace(own, alias=f"{own.alias}_0"), replace(other, alias=f"{other.alias}_1")


def path_without_qualifiers(names: tuple[str, ...], relation: Relation) -> tuple[str, ...]:
    """Return the path of an assigned column: its name and the names of fields.

    A qualifier before a column that is not there goes as well, so that the error names the column.
    """
    _, length = qualifiers_length(names, [relation])
    if length or relation.has(names[0]):
        return names[length:]
    lengths = (length for length in (3, 2, 1) if len(names) > length and relation.fits(names[:length]))
    return names[next(lengths, 0) :]


def replaced_qualifiers(
    columns: Iterable[QualifiedColumn], relations: Sequence[Relation]
) -> Iterator[tuple[int, int, str]]:
    """Yield what replaces names of tables before columns: where they begin and end, and the alias in quotes."""
    is_renamed = any(one.alias.lower() != one.parts[-1].lower() for one in relations)
    for column in columns:
        if not is_renamed and len(column.names) == (1 if column.is_star else 2):
            continue  # the alias stands there already
        for scope in column.scopes:
            visible = [one for one in relations if scope in one.scopes]
            found, length = qualifiers_length(column.names, visible, is_star=column.is_star)
            aliases = {one.alias for one in found}
            if len(aliases) == 1 and (length > 1 or column.names[0].lower() != found[0].alias.lower()):
                yield column.spans[0][0], column.spans[length - 1][1], quoted_name(found[0].alias)
            if found:
                break


def with_aliases(expression: str, relations: Sequence[Relation]) -> str:
    """Return an expression with the aliases of relations in place of their whole names; subqueries stay as they are."""
    try:
        columns = read_query(_SELECT + expression).columns
    except NotUnderstoodError:
        return expression
    outer = [column for column in columns if len(column.scopes) == 1]
    for start, end, alias in sorted(replaced_qualifiers(outer, relations), reverse=True):
        expression = expression[: start - len(_SELECT)] + alias + expression[end - len(_SELECT) :]
    return expression
