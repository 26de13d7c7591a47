"""A statement's tokens, taken one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pyspark.errors import ParseException

from paimon_spark.spark.text.parsing import Kind, Token, tokenize

_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")


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

    def take(self, *words: str) -> bool:
        """Step over these words or signs if they come next; tell whether they did."""
        found = self.sees(*words)
        self.at += len(words) if found else 0
        return found

    def take_any(self, *words: str) -> str | None:
        """Step over one of these words if it comes next, and return it."""
        return next((word for word in words if self.take(word)), None)

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

    def identifier(self) -> str:
        """Step over a name of one part.

        Raises:
            ParseException: none comes next.
        """
        token = self.peek()
        if token is None or token.kind not in (Kind.WORD, Kind.QUOTED):
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

    def string(self) -> str:
        """Step over a text.

        Raises:
            ParseException: none comes next.
        """
        token = self.peek()
        if token is None or token.kind is not Kind.STRING:
            self.fail("a text in quotes is expected")
        self.at += 1
        return token.text

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
        pieces, depth, start = [], 0, 0
        for at, token in enumerate(self.tokens):
            depth += token.is_sign(*_OPENING) - token.is_sign(*_CLOSING)
            if depth == 0 and token.is_sign(","):
                pieces.append(Cursor(self.text, self.tokens[start:at]))
                start = at + 1
        return [*pieces, Cursor(self.text, self.tokens[start:])]

    def until(self, *words: str) -> Cursor:
        """Step up to the first of these words outside parentheses, or to the end, and return what comes before it."""
        depth, start = 0, self.at
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if depth == 0 and (token.is_word(*words) or token.is_sign(*words)):
                break
            depth += token.is_sign(*_OPENING) - token.is_sign(*_CLOSING)
            self.at += 1
        return Cursor(self.text, self.tokens[start : self.at])

    def properties(self) -> dict[str, str]:
        """Step over ``('key' = 'value', key.two = 3)``."""
        found: dict[str, str] = {}
        for piece in self.group().split():
            key = piece.string() if (token := piece.peek()) and token.kind is Kind.STRING else ".".join(piece.name())
            piece.take("=")
            found[key] = piece.value()
            piece.finish()
        return found

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
