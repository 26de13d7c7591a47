"""Spark's SQL as sqlglot reads it. A session imports this module with the first statement that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from paimon_spark.spec.sql_filter import FilterDialect


class StatementDialect(FilterDialect):
    """Spark's SQL, without statements that sqlglot keeps as one word and a text."""

    class Tokenizer(FilterDialect.Tokenizer):
        """Spark's tokens, of SHOW, CALL and EXPLAIN too."""

        COMMANDS: ClassVar[set[TokenType]] = set()


def parsed(text: str) -> list[Any]:
    """The trees of statements, or of expressions.

    Words that sqlglot keeps for itself may be names where Spark takes them for such.

    Raises:
        SqlglotError: the text cannot be parsed.
    """
    try:
        return list(sqlglot.parse(text, dialect=StatementDialect))
    except SqlglotError:
        dialect = StatementDialect()
        tokens = dialect.tokenize(text)
        parser = dialect.parser()
        known = {*parser.TYPE_TOKENS, *parser.ID_VAR_TOKENS}
        names = [at for at, token in enumerate(tokens) if token.token_type not in known and _is_name(tokens, at)]
        if not names:
            raise
        for at in names:
            tokens[at].token_type = TokenType.VAR
        return list(parser.parse(tokens, text))


def _is_name(tokens: Sequence[Any], at: int) -> bool:
    """Whether a word can only be a name: behind AS, or at a dot."""
    if not tokens[at].text.isidentifier():
        return False
    before = tokens[at - 1].token_type if at else None
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    return before in (TokenType.ALIAS, TokenType.DOT) or after is TokenType.DOT
