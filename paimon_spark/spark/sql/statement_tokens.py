"""The tokens of a short statement that Spark's own parser does not know, taken one after the other.

A token is a word of letters, digits and underscores, anything between backquotes, or a sign. Comments and white space
separate tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Token:
    """One word, or one sign such as a dot."""

    text: str
    quoted: bool = False

    @property
    def is_identifier(self) -> bool:
        """Whether this can name something."""
        return self.quoted or _is_identifier_character(self.text[:1])


class StatementTokens:
    """The tokens of one statement, and how far it has been read."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Cut a statement into tokens; None when a comment or a quotation has no end."""
        tokens: list[Token] = []
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
            elif text.startswith("--", at):
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            elif text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    return None
                at = end + 2
            elif text[at] == "`":
                closing = _closing(text, at)
                if closing is None:
                    return None
                tokens.append(Token(text[at + 1 : closing].replace("``", "`"), quoted=True))
                at = closing + 1
            else:
                end = at + 1
                while _is_identifier_character(text[at]) and end < len(text) and _is_identifier_character(text[end]):
                    end += 1
                tokens.append(Token(text[at:end]))
                at = end
        return cls(tokens)

    @property
    def tokens(self) -> Sequence[Token]:
        """All of them."""
        return self._tokens

    def peek(self) -> Token | None:
        """The next token; None at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, *keywords: str) -> bool:
        """Step over these keywords (given in upper case) if they come next; tell whether they did."""
        ahead = self._tokens[self._next : self._next + len(keywords)]
        found = [word.text.upper() for word in ahead if not word.quoted] == list(keywords)
        self._next += len(keywords) if found else 0
        return found

    def skip_past(self, *keywords: str) -> bool:
        """Step over everything up to these keywords, and over them; without a step where they do not come."""
        begin = self._next
        while self._next < len(self._tokens):
            if self.take(*keywords):
                return True
            self._next += 1
        self._next = begin
        return False

    def identifier(self) -> str | None:
        """Step over a name of one part and give it; None, without a step, when none comes next."""
        word = self.peek()
        if word is None or not word.is_identifier or not word.text:
            return None
        self._next += 1
        return word.text

    def name(self) -> tuple[str, ...] | None:
        """Step over a name of several parts between dots and give them."""
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return None if None in parts else tuple(part for part in parts if part is not None)

    def number(self) -> int | None:
        """Step over a whole number of at most 18 digits and give it."""
        word = self.peek()
        if word is None or word.quoted or not (word.text.isascii() and word.text.isdigit()) or len(word.text) > 18:
            return None
        self._next += 1
        return int(word.text)

    def at_end(self) -> bool:
        """Return whether nothing follows but semicolons."""
        return all(word == Token(";") for word in self._tokens[self._next :])


def words_of(text: str) -> frozenset[str]:
    """Return the words of letters, digits and underscores in a text, quoted or not, in lower case."""
    return frozenset("".join(c if _is_identifier_character(c) else " " for c in text.lower()).split())


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


def _closing(text: str, at: int) -> int | None:
    """Return where the quotation ends that a backquote at ``at`` begins; a doubled backquote is one of the text."""
    end = text.find("`", at + 1)
    while end >= 0 and text[end + 1 : end + 2] == "`":
        end = text.find("`", end + 2)
    return None if end < 0 else end


def _is_identifier_character(character: str) -> bool:
    return character.isalnum() or character == "_"
