"""Subqueries in the conditions and values of a MERGE: the query of the source works them out, as columns of its own.

Spark's expressions of DataFrames know no subqueries whose tables are DataFrames. A condition or value over the source
is worked out as a whole; of others the scalar subqueries and EXISTS that name no column of the target. The rest is
refused by name: IN subqueries of the target's columns, those that are correlated with the target, and those of clauses
NOT MATCHED BY SOURCE, where there is no row of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.merge_frames import GIVEN, GivenClause
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.statements.cursor import Cursor, Kind, Token
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
