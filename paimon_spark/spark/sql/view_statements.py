"""Statements about views that stay in a catalog: reading them.

::

    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(a [COMMENT '…'], …)] [COMMENT '…'] [TBLPROPERTIES (…)] AS query
    DROP VIEW [IF EXISTS] v
    SHOW VIEWS [FROM|IN db] [[LIKE] 'pattern']
    ALTER VIEW v [AS] query | RENAME TO w | SET TBLPROPERTIES (…) | UNSET TBLPROPERTIES [IF EXISTS] (…)
    DESCRIBE [TABLE] [EXTENDED|FORMATTED] v, SHOW CREATE TABLE v, SHOW TBLPROPERTIES v [(key)]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<text>[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))|(?P<word>\w+)|(?P<sign>.)""",
    re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
QUERY_WORDS: Final = ("SELECT", "FROM", "VALUES", "TABLE", "WITH", "(", "MAP", "REDUCE")


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """One statement about a view."""

    action: str
    """CREATE, DROP, SHOW, AS, RENAME, SET, UNSET, DESCRIBE, SHOW CREATE or PROPERTIES."""
    name: tuple[str, ...] = ()
    """The view's; of SHOW the database's, and nothing for the current one."""
    query: str = ""
    columns: tuple[tuple[str, str | None], ...] = ()
    """Names and comments."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    """Of options: those to remove, or the one to show."""
    new_name: tuple[str, ...] = ()
    pattern: str | None = None
    replaces: bool = False
    tolerant: bool = False
    """IF EXISTS, IF NOT EXISTS."""
    extended: bool = False

    @property
    def may_be_of_table(self) -> bool:
        """Whether the same words say something of a table."""
        return self.action in ("DESCRIBE", "SHOW CREATE", "PROPERTIES")


class _BrokenError(Exception):
    """The text is no such statement."""


@dataclass(slots=True)
class _Reader:
    """The tokens of a text: kind, text, where it begins."""

    text: str
    tokens: list[tuple[str, str, int]]
    at: int = 0

    def take(self, *words: str) -> bool:
        ahead = self.tokens[self.at : self.at + len(words)]
        found = [text.upper() for kind, text, _ in ahead if kind in ("word", "sign")] == list(words)
        self.at += len(words) if found else 0
        return found

    def next(self, *kinds: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] not in kinds:
            raise _BrokenError
        self.at += 1
        return self.tokens[self.at - 1][1]

    def sees(self, *words: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][1].upper() in words

    def name(self) -> tuple[str, ...]:
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return tuple(parts)

    def identifier(self) -> str:
        found = self.next("word", "quoted")
        return found[1:-1].replace("``", "`") if found.startswith("`") else found

    def string(self) -> str:
        parts = [_unquoted(self.next("text"))]
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "text":
            parts.append(_unquoted(self.next("text")))
        return "".join(parts)

    def group(self) -> list[_Reader]:
        """What is between the commas in parentheses."""
        if not self.take("("):
            raise _BrokenError
        found: list[_Reader] = [_Reader(self.text, [])]
        while not self.take(")"):
            if self.at >= len(self.tokens) or self.sees("("):
                raise _BrokenError
            if self.take(","):
                found.append(_Reader(self.text, []))
            else:
                found[-1].tokens.append(self.tokens[self.at])
                self.at += 1
        return found

    def key(self) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "text":
            return self.string()
        return ".".join(self.name())

    def properties(self) -> dict[str, str]:
        found = {}
        for piece in self.group():
            key = piece.key()
            piece.take("=")
            is_text = piece.at < len(piece.tokens) and piece.tokens[piece.at][0] == "text"
            found[key] = piece.string() if is_text else "".join(text for _, text, _ in piece.tokens[piece.at :])
        return found

    def keys(self) -> tuple[str, ...]:
        return tuple(piece.key() for piece in self.group())

    def query(self) -> str:
        """All that follows, if it begins as a query does."""
        if not self.sees(*QUERY_WORDS):
            raise _BrokenError
        return self.text[self.tokens[self.at][2] :].strip().rstrip(";").rstrip()

    def finish(self) -> None:
        if self.at < len(self.tokens):
            raise _BrokenError


def parse_view_statement(text: str) -> ViewStatement | None:
    """Read a statement about a view; None where the text is anything else, or breaks the grammar."""
    tokens = [
        (match.lastgroup or "", match.group(), match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "blank"
    ]
    while tokens and tokens[-1][1] == ";":
        tokens.pop()
    try:
        return _statement(_Reader(text, tokens))
    except _BrokenError:
        return None


def _statement(reader: _Reader) -> ViewStatement | None:
    if reader.take("CREATE", "VIEW"):
        return _create(reader, replaces=False)
    if reader.take("CREATE", "OR", "REPLACE", "VIEW"):
        return _create(reader, replaces=True)
    if reader.take("ALTER", "VIEW"):
        return _alter(reader)
    if reader.take("DROP", "VIEW"):
        tolerant = reader.take("IF", "EXISTS")
        return _whole(reader, ViewStatement("DROP", reader.name(), tolerant=tolerant))
    if reader.take("SHOW", "VIEWS"):
        name = reader.name() if reader.take("FROM") or reader.take("IN") else ()
        given = reader.take("LIKE") or reader.at < len(reader.tokens)
        return _whole(reader, ViewStatement("SHOW", name, pattern=reader.string() if given else None))
    return _description(reader)


def _description(reader: _Reader) -> ViewStatement | None:
    if reader.take("SHOW", "CREATE", "TABLE") or reader.take("SHOW", "CREATE", "VIEW"):
        return _whole(reader, ViewStatement("SHOW CREATE", reader.name()))
    if reader.take("SHOW", "TBLPROPERTIES"):
        name = reader.name()
        keys = reader.keys() if reader.sees("(") else ()
        return _whole(reader, ViewStatement("PROPERTIES", name, keys=keys))
    if reader.take("DESCRIBE") or reader.take("DESC"):
        reader.take("TABLE")
        extended = reader.take("EXTENDED") or reader.take("FORMATTED")
        return _whole(reader, ViewStatement("DESCRIBE", reader.name(), extended=extended))
    return None


def _create(reader: _Reader, *, replaces: bool) -> ViewStatement:
    tolerant = reader.take("IF", "NOT", "EXISTS")
    found = ViewStatement("CREATE", reader.name(), replaces=replaces, tolerant=tolerant)
    if reader.sees("("):
        columns = []
        for piece in reader.group():
            name = piece.identifier()
            columns.append((name, piece.string() if piece.take("COMMENT") else None))
            piece.finish()
        found = replace(found, columns=tuple(columns))
    while not reader.take("AS"):
        if reader.take("COMMENT"):
            found = replace(found, comment=reader.string())
        elif reader.take("TBLPROPERTIES"):
            found = replace(found, options=reader.properties())
        else:
            raise _BrokenError
    return replace(found, query=reader.query())


def _alter(reader: _Reader) -> ViewStatement:
    name = reader.name()
    if reader.take("RENAME", "TO"):
        return _whole(reader, ViewStatement("RENAME", name, new_name=reader.name()))
    if reader.take("SET", "TBLPROPERTIES"):
        return _whole(reader, ViewStatement("SET", name, options=reader.properties()))
    if reader.take("UNSET", "TBLPROPERTIES"):
        tolerant = reader.take("IF", "EXISTS")
        return _whole(reader, ViewStatement("UNSET", name, keys=reader.keys(), tolerant=tolerant))
    reader.take("AS")
    return ViewStatement("AS", name, query=reader.query())


def _whole(reader: _Reader, statement: ViewStatement) -> ViewStatement:
    reader.finish()
    return statement


def _unquoted(literal: str) -> str:
    """The text that a literal means."""
    if literal[0] in "rR":
        return literal[2:-1]
    inside, quote = literal[1:-1], literal[0]
    inside = inside.replace(quote * 2, f"\\{quote}")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), inside, flags=re.DOTALL)
