"""Patterns by which names are chosen: regular expressions of procedures, and those of SHOW."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.errors import OptionError


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Which names are meant: those that match one expression as a whole, less those that match another."""

    including: re.Pattern[str]
    excluding: re.Pattern[str] | None

    @classmethod
    def of(cls, including: str | None = None, excluding: str | None = None) -> NamePatterns:
        """Compile the expressions.

        Args:
            including: all names where it is missing or blank.
            excluding: no name where it is missing or blank.

        Raises:
            OptionError: one of them is no regular expression.
        """
        return cls(_compiled(including) or re.compile(".*"), _compiled(excluding))

    def match(self, name: str) -> bool:
        """Return whether a name is meant."""
        return bool(self.including.fullmatch(name)) and not (self.excluding and self.excluding.fullmatch(name))


def _compiled(text: str | None) -> re.Pattern[str] | None:
    if text is None or not text.strip():
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise OptionError(f"'{text}' is no regular expression: {error}.") from error


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern of SHOW: ``*`` is any text, ``|`` separates names, case is ignored."""
    if pattern is None:
        return list(names)
    texts = [".*".join(re.escape(part) for part in text.strip().split("*")) for text in pattern.split("|")]
    return [name for name in names if any(re.fullmatch(text, name, re.IGNORECASE) for text in texts)]
