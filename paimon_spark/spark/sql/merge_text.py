"""What the SQL text of a MERGE compares and assigns, as far as it is plain: columns behind the aliases of two sides."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.spark.sql.statement_tokens import StatementTokens, Token

_MORE_THAN_AND = {"OR", "NOT", "CASE", "BETWEEN", "LIKE", "RLIKE", "IN", "IS", "(", "[", "'", '"'}
"""Tokens of which a condition that has one of them is more than comparisons that are joined by AND."""


def equal_names(on: str, aliases: tuple[str, str]) -> tuple[list[tuple[str, str]], bool]:
    """The columns of both sides that a condition compares, as far as it joins plain comparisons by AND.

    Returns:
        The names of target and source, and whether the condition says nothing else.
    """
    read = StatementTokens.of(on)
    if read is None or any(not token.quoted and token.text.upper() in _MORE_THAN_AND for token in read.tokens):
        return [], False
    found: list[tuple[str, str]] = []
    parts: list[list[Token]] = [[]]
    for token in read.tokens:
        if not token.quoted and token.text.upper() == "AND":
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        sides = _compared_names(part)
        for own, other in (sides, sides[::-1]) if sides else ():
            if own[0].lower() == aliases[0].lower() and other[0].lower() == aliases[1].lower():
                found.append((own[1], other[1]))
                break
    return found, len(found) == len(parts)


def _compared_names(tokens: Sequence[Token]) -> list[tuple[str, str]] | None:
    """Alias and name of both columns of a comparison such as ``t.k = s.k``; None of anything else."""
    signs = [token.text for token in tokens if not token.is_identifier]
    names = [token.text for token in tokens if token.is_identifier and (token.quoted or not token.text[0].isdigit())]
    if signs not in ([".", "=", "."], [".", "=", "=", "."]) or len(names) != 4:
        return None
    places = [at for at, token in enumerate(tokens) if token.is_identifier]
    last = len(tokens) - 1
    return [(names[0], names[1]), (names[2], names[3])] if places == [0, 2, last - 2, last] else None


def source_column(value: object, alias: str) -> str | None:
    """The column, in lower case, that SQL names behind the alias of the source; None of any other value."""
    read = StatementTokens.of(value) if isinstance(value, str) else None
    name = None if read is None else read.name()
    if read is None or name is None or read.peek() is not None or len(name) != 2:
        return None
    return name[1].lower() if name[0].lower() == alias.lower() else None
