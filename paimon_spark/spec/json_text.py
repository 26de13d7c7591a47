"""JSON as Java's Jackson pretty printer writes it, and safe reading of JSON from a table."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from paimon_spark.errors import CorruptTableError, SchemaError

_ESCAPES = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_ESCAPE_TABLE = str.maketrans(_ESCAPES)


def json_bytes(text: str, what: str) -> bytes:
    """The bytes of a JSON text that is written to a table.

    Raises:
        SchemaError: there is half of a surrogate pair in it, which is no character; `what` says in what.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        near = ascii(text[max(0, error.start - 20) : error.end + 20])
        raise SchemaError(
            f"{what} holds half of a surrogate pair, which is no character, in {near}. Leave it out."
        ) from None


def pretty_json(value: Any) -> str:
    """The text Jackson's DefaultPrettyPrinter gives: objects over several lines, arrays in one, `" : "` after keys."""
    return _pretty(value, "")


def _pretty(value: Any, indent: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPE_TABLE)}"'
        case int() | float() | Decimal():
            return str(value)
        case dict():
            if not value:
                return "{ }"
            inner = indent + "  "
            items = (f"{inner}{_pretty(str(key), '')} : {_pretty(item, inner)}" for key, item in value.items())
            return "{\n" + ",\n".join(items) + f"\n{indent}}}"
        case list() | tuple():
            return "[ " + ", ".join(_pretty(item, indent) for item in value) + " ]" if value else "[ ]"
    raise TypeError(f"{type(value).__name__} is not JSON")


def flat_json(value: Any) -> str:
    """The text Jackson gives without pretty-printing: no blanks at all."""
    match value:
        case dict():
            return "{" + ",".join(f"{_pretty(str(key), '')}:{flat_json(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(flat_json, value)) + "]"
    return _pretty(value, "")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def parse_json_object(data: bytes | str, *, what: str, path: str | None = None) -> dict[str, Any]:
    """The JSON object in a file of a table. Numbers with a fraction become `Decimal`, so that they keep their digits.

    Args:
        data: Text, or its UTF-8 bytes.
        what: The kind of file, for the message: "schema", "snapshot", ...
        path: Where it came from.

    Raises:
        CorruptTableError: Not the text of one JSON object.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # refuses half surrogate pairs
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise CorruptTableError(f"Cannot read the {what} file, it is not valid JSON: {error}.", path=path) from None
    if not isinstance(value, dict):
        raise CorruptTableError(f"Cannot read the {what} file, it is not a JSON object.", path=path)
    return value


class JsonFields:
    """Takes typed values out of a JSON object; the keys that were not taken are `rest`."""

    def __init__(self, value: dict[str, Any], what: str, path: str | None) -> None:
        self.rest = dict(value)
        self._what = what
        self._path = path

    def fail(self, cause: str) -> NoReturn:
        """Raise the error of this file.

        Raises:
            CorruptTableError: Always.
        """
        raise CorruptTableError(f"Cannot read the {self._what} file: {cause}.", path=self._path)

    def integer(self, key: str, *, bits: int = 64) -> int:
        """The integer at a key, which must be there."""
        value = self.optional_integer(key, bits=bits)
        if value is None:
            self.fail(f"'{key}' is missing")
        return value

    def optional_integer(self, key: str, *, bits: int = 64) -> int | None:
        """The integer at a key; None when there is none."""
        value = self.rest.pop(key, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            self.fail(f"'{key}' must be an integer of {bits} bits, but is {str(value)[:100]}")
        return value

    def text(self, key: str) -> str:
        """The string at a key, which must be there."""
        value = self.optional_text(key)
        if value is None:
            self.fail(f"'{key}' is missing")
        return value

    def optional_text(self, key: str) -> str | None:
        """The string at a key; None when there is none."""
        value = self.rest.pop(key, None)
        if value is None or isinstance(value, str):
            return value
        self.fail(f"'{key}' must be text, but is {str(value)[:100]}")

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at a key, which must be there."""
        value = self.rest.pop(key, None)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"'{key}' must be a list of texts, but is {str(value)[:100]}")
        return tuple(value)

    def optional_text_map(self, key: str) -> dict[str, str] | None:
        """The object of strings at a key (scalars are taken as text); None when there is none."""
        value = self.rest.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(f"'{key}' must be an object, but is {str(value)[:100]}")
        result = {}
        for name, item in value.items():
            if isinstance(item, dict | list):
                self.fail(f"'{key}' must hold texts, but '{name[:100]}' is {str(item)[:100]}")
            result[name] = item if isinstance(item, str) else _pretty(item, "")
        return result
