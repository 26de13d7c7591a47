"""What an expression names, before Spark resolves it: columns, functions, a star.

Spark says the same exactly, but only of columns that a table is known to have. So what is found here may be too much,
and is never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from paimon_spark.spark.statements.cursor import Cursor, Kind, Token, tokenize

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
