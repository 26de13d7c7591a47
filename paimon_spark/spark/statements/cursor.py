"""The tokens of a statement, as sqlglot cuts Spark's SQL, and a cursor that takes them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NoReturn, TypeVar

from pyspark.errors import ParseException

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.kept_values import ScopedValue

_Statement = TypeVar("_Statement")


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "name in back quotes"
    STRING = "text"
    BINARY = "bytes in quotes"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token and its span in the text (`end` is behind it)."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words (in upper case), not in quotes."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of these signs."""
        return self.kind is Kind.SIGN and self.text in signs


_BACKSLASHES: ScopedValue[bool] = ScopedValue("backslashes")


def backslashes_kept(kept: bool) -> AbstractContextManager[bool]:
    """Read texts as a session with ``spark.sql.parser.escapedStringLiterals`` does: a backslash is a backslash."""
    return _BACKSLASHES.bound_to(kept)


def keeps_backslashes() -> bool:
    """Whether texts are read so."""
    return bool(_BACKSLASHES.get())


def tokenize(text: str) -> list[Token] | None:
    """The tokens of a statement; None where it has none, such as a text without its closing quote."""
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType

    from paimon_spark.spark.statements.dialect import StatementDialect

    try:
        found = StatementDialect().tokenize(text)
    except SqlglotError:
        return None
    kinds = {
        TokenType.IDENTIFIER: Kind.QUOTED,
        TokenType.STRING: Kind.STRING,
        TokenType.RAW_STRING: Kind.STRING,
        TokenType.NUMBER: Kind.NUMBER,
        TokenType.HEX_STRING: Kind.BINARY,
    }
    tokens: list[Token] = []
    for token in found:
        start, end = token.start, token.end + 1
        if tokens and start < tokens[-1].end:
            continue  # 10L comes as three tokens of one span
        kind = kinds.get(token.token_type)
        if kind is None:
            tokens += _words(text, start, end)
            continue
        written = text[start:end]
        if kind is Kind.STRING and keeps_backslashes() and written[0] in "'\"":
            tokens.append(Token(kind, written[1:-1], start, end))
        else:
            tokens.append(Token(kind, written if kind is Kind.NUMBER else token.text, start, end))
    return tokens


def _words(text: str, start: int, end: int) -> Iterator[Token]:
    """Split a keyword of several words (``GROUP BY``); a sign stays."""
    at = start
    for piece in text[start:end].split():
        at = text.index(piece, at)
        kind = Kind.WORD if piece[0].isalnum() or piece[0] == "_" else Kind.SIGN
        yield Token(kind, piece, at, at + len(piece))
        at += len(piece)


_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
QUERY_WORDS = ("SELECT", "FROM", "VALUES", "TABLE", "WITH", "MAP", "REDUCE")
"""The words that begin a query; a parenthesis may stand before them."""

_TYPES = ("ARRAY", "MAP", "STRUCT")
"""Words behind which ``<`` opens a bracket; elsewhere it compares."""


def _outside(tokens: Sequence[Token]) -> Iterator[int]:
    """The positions of the tokens that are in no brackets; an opening one is not."""
    opened: list[str] = []
    for at, token in enumerate(tokens):
        if not opened:
            yield at
        if token.is_sign("(", "[", "{") or (token.is_sign("<") and at and tokens[at - 1].is_word(*_TYPES)):
            opened.append(_CLOSING[token.text])
        elif opened and token.is_sign(opened[-1]):
            opened.pop()


class Cursor:
    """The tokens of a statement, and how far it has been read."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    @classmethod
    def of(cls, text: str) -> Cursor | None:
        """Cut a statement into tokens, without the semicolons at its end; None when it has no tokens."""
        tokens = tokenize(text)
        while tokens and tokens[-1].is_sign(";"):
            tokens.pop()
        return cls(text, tokens) if tokens else None

    @classmethod
    def of_query(cls, text: str) -> Cursor:
        """Cut a query into tokens.

        Raises:
            UnsupportedError: it has none.
        """
        found = cls.of(text)
        if found is None:
            raise UnsupportedError(f"This is no query: {text}")
        return found

    def since(self, start: int) -> Cursor:
        """The tokens from a position up to where it stands."""
        return Cursor(self.text, self.tokens[start : self.at])

    def again(self) -> Cursor:
        """The same statement from its first token on."""
        return Cursor(self.text, self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one further ahead."""
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def sees(self, *words: str) -> bool:
        """Whether these words (in upper case, or signs) come next."""
        ahead = self.tokens[self.at : self.at + len(words)]
        return len(ahead) == len(words) and all(
            token.is_word(word) or token.is_sign(word) for token, word in zip(ahead, words, strict=True)
        )

    def at_query(self) -> bool:
        """Whether what comes next begins as a query does."""
        return self.sees("(") or any(self.sees(word) for word in QUERY_WORDS)

    def finds(self, *words: str) -> bool:
        """Whether these words come one behind the other, next or further ahead, outside parentheses."""
        left = self.tokens[self.at :]
        return any(Cursor(self.text, left[at : at + len(words)]).sees(*words) for at in _outside(left))

    def take(self, *words: str) -> bool:
        """Step over these words or signs if they come next; tell whether they did."""
        found = self.sees(*words)
        self.at += len(words) if found else 0
        return found

    def take_any(self, *words: str) -> str | None:
        """Step over one of these words if it comes next, and return it."""
        return next((word for word in words if self.take(word)), None)

    def skip_past(self, *words: str) -> bool:
        """Step over everything up to these words, and over them; without a step where they do not come."""
        begin = self.at
        while not self.at_end():
            if self.take(*words):
                return True
            self.at += 1
        self.at = begin
        return False

    def expect(self, *words: str) -> None:
        """Step over these words.

        Raises:
            ParseException: something else comes next.
        """
        if not self.take(*words):
            self.fail(f"'{' '.join(words)}' is expected")

    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self.at >= len(self.tokens)

    def finish(self) -> None:
        """Check that nothing follows.

        Raises:
            ParseException: something does.
        """
        if not self.at_end():
            self.fail("the statement should end")

    def fail(self, reason: str) -> NoReturn:
        """Raise Spark's error for a statement that cannot be parsed.

        Raises:
            ParseException: always.
        """
        token = self.peek()
        near = "end of input" if token is None else f"'{self.text[token.start : token.end]}'"
        raise ParseException(
            message=f"Syntax error at or near {near}: {reason}.\n\n== SQL ==\n{self.text}",
            errorClass="PARSE_SYNTAX_ERROR",
            messageParameters={"error": near, "hint": reason},
        )

    def at_name(self) -> bool:
        """Whether a name comes next, or a word that may be one."""
        token = self.peek()
        return token is not None and token.kind in (Kind.WORD, Kind.QUOTED) and bool(token.text)

    def identifier(self) -> str:
        """Step over a name of one part.

        Raises:
            ParseException: none comes next.
        """
        token = self.peek()
        if token is None or not self.at_name():
            self.fail("a name is expected")
        self.at += 1
        return token.text

    def name(self) -> tuple[str, ...]:
        """Step over a name of several parts between dots."""
        parts = [self.identifier()]
        while self.sees(".") and self.peek(1) is not None:
            self.at += 1
            parts.append(self.identifier())
        return tuple(parts)

    def number(self) -> int:
        """Step over a whole number of at most 18 digits.

        Raises:
            ParseException: none comes next.
        """
        token = self.peek()
        if token is None or token.kind is not Kind.NUMBER or not token.text.isdigit() or len(token.text) > 18:
            self.fail("a whole number is expected")
        self.at += 1
        return int(token.text)

    def at_string(self) -> bool:
        """Whether a text in quotes comes next."""
        token = self.peek()
        return token is not None and token.kind is Kind.STRING

    def string(self) -> str:
        """Step over a text; several that follow each other are one.

        Raises:
            ParseException: none comes next.
        """
        if not self.at_string():
            self.fail("a text in quotes is expected")
        parts = []
        while (token := self.peek()) is not None and token.kind is Kind.STRING:
            parts.append(token.text)
            self.at += 1
        return "".join(parts)

    def group(self) -> Cursor:
        """Step over a group in parentheses, which comes next, and return what is inside."""
        if not self.sees("("):
            self.fail("'(' is expected")
        end = self._closing(self.at)
        inside = Cursor(self.text, self.tokens[self.at + 1 : end])
        self.at = end + 1
        return inside

    def _closing(self, opening: int) -> int:
        depth = 0
        for at in range(opening, len(self.tokens)):
            depth += self.tokens[at].is_sign("(") - self.tokens[at].is_sign(")")
            if depth == 0:
                return at
        return self.fail("a closing parenthesis is missing")

    def rest(self) -> Cursor:
        """Step over all that follows, and give it."""
        rest = Cursor(self.text, self.tokens[self.at :])
        self.at = len(self.tokens)
        return rest

    def taken(self) -> str:
        """The text of the tokens that have been stepped over."""
        return self.text[self.tokens[0].start : self.tokens[self.at - 1].end] if self.at else ""

    def source(self) -> str:
        """Return the text of the tokens as the user wrote it."""
        return self.text[self.tokens[0].start : self.tokens[-1].end] if self.tokens else ""

    def split(self) -> list[Cursor]:
        """Return the pieces between the commas; commas in parentheses do not count."""
        if not self.tokens:
            return []
        commas = [at for at in _outside(self.tokens) if self.tokens[at].is_sign(",")]
        bounds = pairwise((-1, *commas, len(self.tokens)))
        return [Cursor(self.text, self.tokens[before + 1 : end]) for before, end in bounds]

    def until(self, *words: str) -> Cursor:
        """Step up to the first of these words outside parentheses, or to the end, and return what comes before it."""
        start, left = self.at, self.tokens[self.at :]
        found = (at for at in _outside(left) if left[at].is_word(*words) or left[at].is_sign(*words))
        self.at = start + next(found, len(left))
        return self.since(start)

    def keys(self) -> tuple[str, ...]:
        """Step over ``('key', key.two)``."""
        return tuple(piece._key() for piece in self.group().split())

    def properties(self) -> dict[str, str]:
        """Step over ``('key' = 'value', key.two = 3)``."""
        found: dict[str, str] = {}
        for piece in self.group().split():
            key = piece._key()
            piece.take("=")
            found[key] = piece.value()
            piece.finish()
        return found

    def _key(self) -> str:
        token = self.peek()
        if token is None or token.kind is not Kind.STRING:
            return ".".join(self.name())
        self.at += 1
        return token.text

    def value(self) -> str:
        """Step over a literal, and give it as text."""
        token = self.peek()
        if token is None or token.kind is Kind.QUOTED or token.is_sign("(", ")", ","):
            return self.fail("a literal is expected")
        negative = self.take("-")
        literal = self.peek()
        if literal is None or (negative and literal.kind is not Kind.NUMBER):
            self.fail("a literal is expected")
        self.at += 1
        text = literal.text.lower() if literal.is_word("TRUE", "FALSE") else literal.text
        return f"-{text}" if negative else text


def read_statement(text: str | Cursor, grammar: Callable[[Cursor], _Statement | None]) -> _Statement | None:
    """What a grammar makes of a statement; None where the text is anything else, or breaks the grammar."""
    cursor = text.again() if isinstance(text, Cursor) else Cursor.of(text)
    try:
        return None if cursor is None else grammar(cursor)
    except ParseException:
        return None


def conjuncts(condition: str) -> list[str]:
    """Return conditions that are all true where a condition is; the condition itself where it has no AND."""
    tokens = tokenize(condition) or []
    outside = list(_outside(tokens))
    if any(tokens[at].is_word("OR", "CASE", *QUERY_WORDS) for at in outside):
        return [condition]
    ends: list[int] = []
    ranges = 0
    for at in outside:
        if tokens[at].is_word("BETWEEN"):
            ranges += 1
        elif tokens[at].is_word("AND") and ranges:
            ranges -= 1
        elif tokens[at].is_word("AND"):
            ends.append(at)
    pieces = zip([0, *(at + 1 for at in ends)], [*ends, len(tokens)], strict=True)
    found = [condition[tokens[first].start : tokens[end - 1].end] for first, end in pieces if first < end]
    return found if len(found) == len(ends) + 1 > 1 else [condition]


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name given as text: at dots, except between backquotes; a path is one part."""
    if "/" in text and "`" not in text:
        return (text,)
    parts, at = [], 0
    while at <= len(text):
        end = _closing(text, at) if text[at : at + 1] == "`" else None
        if end is not None and text[end + 1 : end + 2] in ("", "."):
            parts.append(text[at + 1 : end].replace("``", "`"))
            at = end + 2
            continue
        dot = text.find(".", at)
        dot = len(text) if dot < 0 else dot
        parts.append(text[at:dot].strip())
        at = dot + 1
    return tuple(parts)


def split_list(text: str) -> tuple[str, ...] | None:
    """Return the names in a list such as ``a, `odd,name` ``; None where one is empty or lacks its second backquote."""
    names, at = [], 0
    while at <= len(text):
        rest = text[at:].lstrip()
        at = len(text) - len(rest)
        if rest.startswith("`"):
            end = _closing(text, at)
            behind = "" if end is None else text[end + 1 :].lstrip()
            if end is None or (behind and not behind.startswith(",")):
                return None
            name, comma = text[at + 1 : end].replace("``", "`"), len(text) - len(behind)
        else:
            name, _, behind = rest.partition(",")
            name, comma = name.strip(), at + len(name)
            if "`" in name:
                return None
        if not name:
            return None
        names.append(name)
        at = comma + 1
    return tuple(names)


def _closing(text: str, at: int) -> int | None:
    """Return where the quotation ends that a backquote at ``at`` begins; a doubled backquote is one of the text."""
    end = text.find("`", at + 1)
    while end >= 0 and text[end + 1 : end + 2] == "`":
        end = text.find("`", end + 2)
    return None if end < 0 else end
