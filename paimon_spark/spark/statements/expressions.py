"""What an expression names, before Spark resolves it: columns, functions, a star; and which table qualifies a column.

Spark says the same exactly, but only of columns that a table is known to have. So what is found here may be too much,
and is never too little.

``catalog.db.t.k``, ``db.t.k`` and ``t.k`` mean a column of a table without an alias. Spark knows it by the names of its
relations. In the texts that are run with DataFrames a table has an alias only, so whole names are replaced by it. Names
are resolved as Spark does: the innermost SELECT over a table that fits decides, whole names come before short ones, and
only a table that has the column fits. What no table qualifies is a column, perhaps with fields of a struct behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from paimon_spark.spark.statements.cursor import Cursor, Kind, Token, tokenize
from paimon_spark.spark.statements.query_trees import NotUnderstoodError, QualifiedColumn, read_query
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column

_NAMES = (Kind.WORD, Kind.QUOTED)


@dataclass(frozen=True, slots=True)
class Named:
    """The words of one or several expressions, in lower case; a name of several words stands in it as these."""

    words: frozenset[str] = frozenset()
    of_texts: frozenset[str] = frozenset()
    """Words inside of quotes, by which ``IDENTIFIER('a')`` names a column, and so does a session whose double quotes
    stand around names."""
    functions: frozenset[str] = frozenset()
    has_star: bool = False
    """Whether ``*`` may stand for all columns."""

    @classmethod
    def by(cls, *given: str | Column | None) -> Named:
        """What expressions name, as SQL or as Columns."""
        return cls._joined(
            _of_sql(one) if isinstance(one, str) else _of_column(one) for one in given if one is not None
        )

    @classmethod
    def _joined(cls, parts: Iterable[Named]) -> Named:
        found = cls()
        for part in parts:
            found = cls(
                found.words | part.words,
                found.of_texts | part.of_texts,
                found.functions | part.functions,
                found.has_star or part.has_star,
            )
        return found

    def has(self, column: str) -> bool:
        """Whether the expressions may name a column."""
        return words_of(column) <= self.words | self.of_texts

    def has_outside_texts(self, column: str) -> bool:
        """Whether the expressions may name a column as names are mostly written."""
        return words_of(column) <= self.words


NOTHING_NAMED = Named()


def _of_sql(text: str) -> Named:
    tokens = tokenize(text)
    if tokens is None:  # Spark will say what is wrong with it
        return _of_words(text)
    return Named(
        _words(token for token in tokens if token.kind in _NAMES),
        _words(token for token in tokens if token.kind is Kind.STRING),
        frozenset(one.text.lower() for one, behind in pairwise(tokens) if one.kind in _NAMES and behind.is_sign("(")),
        any(one.is_sign("(", ",", ".") and behind.is_sign("*") for one, behind in pairwise(tokens)),
    )


def _of_column(column: Column) -> Named:
    """What a Column names: it shows itself as text that has no quotes, and so is no SQL."""
    return _of_words(str(column).removeprefix("Column<'").removesuffix("'>"))


def _of_words(text: str) -> Named:
    called = (piece.rstrip() for piece in text.split("(")[:-1])
    functions = {_separate(piece)[-1] for piece in called if piece and _is_of_word(piece[-1])}
    starred = (piece.rstrip() for piece in text.split("*")[:-1])
    return Named(
        words_of(text), frozenset(), frozenset(functions), any(piece.endswith(tuple("(,.")) for piece in starred)
    )


def _words(tokens: Iterable[Token]) -> frozenset[str]:
    return frozenset(word for token in tokens for word in _separate(token.text))


def words_of(text: str) -> frozenset[str]:
    """Return the words of letters, digits and underscores in a text, in lower case."""
    return frozenset(_separate(text))


def _separate(text: str) -> list[str]:
    return "".join(c if _is_of_word(c) else " " for c in text.lower()).split()


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def column_behind(text: object, alias: str) -> str | None:
    """The column, in lower case, that SQL names behind an alias; None of any other expression."""
    cursor = Cursor.of(text) if isinstance(text, str) else None
    if cursor is None or not cursor.at_name():
        return None
    first = cursor.identifier()
    if first.lower() != alias.lower() or not cursor.take(".") or not cursor.at_name():
        return None
    name = cursor.identifier()
    return name.lower() if cursor.at_end() else None


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
    return _replaced(expression, lambda columns: replaced_qualifiers(columns, relations))


def without_qualifiers(expression: str, relation: Relation) -> str:
    """Return an expression over one relation whose columns are named without it; subqueries stay as they are."""

    def removed(columns: Iterable[QualifiedColumn]) -> Iterator[tuple[int, int, str]]:
        for column in columns:
            _, length = qualifiers_length(column.names, [relation], is_star=column.is_star)
            if 0 < length < len(column.names):
                yield column.spans[0][0], column.spans[length][0], ""

    return _replaced(expression, removed)


def _replaced(expression: str, changes: Callable[[Iterable[QualifiedColumn]], Iterator[tuple[int, int, str]]]) -> str:
    """Return an expression with changes of its columns outside of subqueries; as it is where it is not understood."""
    try:
        columns = read_query(_SELECT + expression).columns
    except NotUnderstoodError:
        return expression
    outer = [column for column in columns if len(column.scopes) == 1]
    for start, end, text in sorted(changes(outer), reverse=True):
        expression = expression[: start - len(_SELECT)] + text + expression[end - len(_SELECT) :]
    return expression
