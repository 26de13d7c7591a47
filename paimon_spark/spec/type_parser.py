"""Parses data types: JSON values of schema files and SQL strings, as leniently as Java's ``DataTypeJsonParser``.

Beyond Java, nested types are understood inline too: ``ARRAY<t>``, ``MULTISET<t>``, ``MAP<k, v>`` and
``ROW<name t COMMENT 'text', ...>``. Fields of inline rows get ids in depth-first order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

from paimon_spark.errors import SchemaError
from paimon_spark.spec import data_types as t

MAX_NESTING = 100
"""Deeper types are refused: they would only serve to exhaust the stack."""

_PUNCTUATION = frozenset("<>(),.")
_PLAIN: dict[str, Callable[[], t.DataType]] = {
    "STRING": lambda: t.VarCharType(t.VarCharType.MAX),
    "BYTES": lambda: t.VarBinaryType(t.VarBinaryType.MAX),
    "BOOLEAN": t.BooleanType,
    "TINYINT": t.TinyIntType,
    "SMALLINT": t.SmallIntType,
    "INT": t.IntType,
    "INTEGER": t.IntType,
    "BIGINT": t.BigIntType,
    "FLOAT": t.FloatType,
    "DATE": t.DateType,
    "VARIANT": t.VariantType,
    "BLOB": t.BlobType,
}
_WITH_LENGTH: dict[str, Callable[[int], t.DataType]] = {
    "CHAR": t.CharType,
    "VARCHAR": t.VarCharType,
    "BINARY": t.BinaryType,
    "VARBINARY": t.VarBinaryType,
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "punctuation", "int", "word", "name" (back-quoted), "text" (single-quoted)
    value: str
    position: int


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        start = at
        if char.isspace():
            at += 1
        elif char in _PUNCTUATION:
            tokens.append(_Token("punctuation", char, start))
            at += 1
        elif char in "'`":
            value, at = _quoted(text, at)
            tokens.append(_Token("text" if char == "'" else "name", value, start))
        elif char in "0123456789":
            while at < len(text) and text[at] in "0123456789":
                at += 1
            tokens.append(_Token("int", text[start:at], start))
        else:
            while at < len(text) and not text[at].isspace() and text[at] not in _PUNCTUATION:
                at += 1
            tokens.append(_Token("word", text[start:at], start))
    return tokens


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, at, parts = text[at], at + 1, []
    while at < len(text):
        if text[at] != quote:
            parts.append(text[at])
        elif text[at + 1 : at + 2] == quote:
            parts.append(quote)
            at += 1
        else:
            return "".join(parts), at + 1
        at += 1
    return "".join(parts), at


@dataclass(slots=True)
class _SqlParser:
    text: str
    tokens: list[_Token]
    next_id: Callable[[], int]
    at: int = 0
    depth: int = field(default=0)

    def fail(self, cause: str) -> NoReturn:
        position = self.tokens[self.at].position if self.at < len(self.tokens) else len(self.text)
        raise SchemaError(f"Could not parse type at position {position}: {cause} Input type string: {self.text}")

    def peek(self, *values: str) -> bool:
        ahead = self.tokens[self.at : self.at + len(values)]
        return len(ahead) == len(values) and all(
            token.kind in ("word", "punctuation") and token.value.upper() == v
            for token, v in zip(ahead, values, strict=True)
        )

    def accept(self, *values: str) -> bool:
        if self.peek(*values):
            self.at += len(values)
            return True
        return False

    def expect(self, *values: str) -> None:
        if not self.accept(*values):
            self.fail(f"'{' '.join(values)}' expected.")

    def take(self, *kinds: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at].kind not in kinds:
            self.fail(f"{' or '.join(kinds)} expected.")
        self.at += 1
        return self.tokens[self.at - 1].value

    def take_int(self) -> int:
        digits = self.take("int")
        if len(digits) > 10 or int(digits) > 2_147_483_647:
            self.fail(f"Invalid integer value {digits[:20]}.")
        return int(digits)

    def parse(self) -> t.DataType:
        result = self.type()
        if self.at < len(self.tokens):
            self.fail(f"Unexpected token: {self.tokens[self.at].value}")
        return result

    def type(self) -> t.DataType:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"Types nested deeper than {MAX_NESTING} levels are refused.")
        result = self.by_keyword()
        result = result.with_nullable(self.nullability())
        while self.peek("ARRAY") or self.peek("MULTISET"):  # suffix notation: INT ARRAY
            result = t.ArrayType(result) if self.accept("ARRAY") else self.multiset_suffix(result)
            result = result.with_nullable(self.nullability())
        self.depth -= 1
        return result

    def multiset_suffix(self, element: t.DataType) -> t.DataType:
        self.expect("MULTISET")
        return t.MultisetType(element)

    def nullability(self) -> bool:
        if self.accept("NOT", "NULL"):
            return False
        self.accept("NULL")
        return True

    def by_keyword(self) -> t.DataType:
        word = self.take("word").upper()
        if word in _PLAIN:
            return _PLAIN[word]()
        if word in _WITH_LENGTH:
            return _WITH_LENGTH[word](self.parameter(1))
        match word:
            case "DECIMAL" | "NUMERIC" | "DEC":
                return self.decimal()
            case "DOUBLE":
                self.accept("PRECISION")
                return t.DoubleType()
            case "TIME":
                precision = self.parameter(0)
                if self.accept("WITHOUT"):
                    self.expect("TIME", "ZONE")
                return t.TimeType(precision)
            case "TIMESTAMP":
                return self.timestamp()
            case "TIMESTAMP_LTZ":
                return t.LocalZonedTimestampType(self.parameter(6))
            case "GEOMETRY" | "GEOGRAPHY":
                return self.geospatial(word)
            case "ARRAY" | "MULTISET" | "MAP" | "VECTOR" | "ROW":
                return self.nested(word)
        self.at -= 1
        self.fail(f"Unsupported type: {word}.")

    def parameter(self, default: int) -> int:
        if not self.accept("("):
            return default
        value = self.take_int()
        self.expect(")")
        return value

    def decimal(self) -> t.DataType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.take_int()
            if self.accept(","):
                scale = self.take_int()
            self.expect(")")
        return t.DecimalType(precision, scale)

    def timestamp(self) -> t.DataType:
        precision = self.parameter(6)
        if self.accept("WITHOUT"):
            self.expect("TIME", "ZONE")
        elif self.accept("WITH"):
            self.expect("LOCAL", "TIME", "ZONE")
            return t.LocalZonedTimestampType(precision)
        return t.TimestampType(precision)

    def geospatial(self, word: str) -> t.DataType:
        if not self.accept("("):
            return t.GeometryType() if word == "GEOMETRY" else t.GeographyType()
        crs = self.take("word", "text", "name")
        algorithm = "spherical"
        if word == "GEOGRAPHY" and self.accept(","):
            algorithm = self.take("word", "text", "name").lower()
        self.expect(")")
        return t.GeometryType(crs) if word == "GEOMETRY" else t.GeographyType(crs, algorithm)

    def nested(self, word: str) -> t.DataType:
        close = ">"
        if not (word == "ROW" and self.accept("(")):
            self.expect("<")
        else:
            close = ")"
        result: t.DataType
        if word == "ROW":
            result = t.RowType(self.row_fields(close))
        elif word == "MAP":
            key = self.type()
            self.expect(",")
            result = t.MapType(key, self.type())
        elif word == "VECTOR":
            element = self.type()
            self.expect(",")
            result = t.VectorType(element, self.take_int())
        else:
            result = t.ArrayType(self.type()) if word == "ARRAY" else t.MultisetType(self.type())
        self.expect(close)
        return result

    def row_fields(self, close: str) -> tuple[t.DataField, ...]:
        fields: list[t.DataField] = []
        while not self.peek(close):
            if fields:
                self.expect(",")
            field_id = self.next_id()
            name = self.take("word", "name")
            data_type = self.type()
            description = None
            if self.accept("COMMENT") or (self.at < len(self.tokens) and self.tokens[self.at].kind == "text"):
                description = self.take("text")
            fields.append(t.DataField(field_id, name, data_type, description))
        return tuple(fields)


def parse_type_sql(text: str) -> t.DataType:
    """The type that an SQL string names, such as ``DECIMAL(10, 2) NOT NULL``.

    Raises:
        SchemaError: The string is not a type.
    """
    return _SqlParser(text, _tokenize(text), count().__next__).parse()


def parse_type(value: Any) -> t.DataType:
    """The type that a JSON value of a schema file (or an SQL string) describes.

    Raises:
        SchemaError: The value is not a type.
    """
    return _JsonParser().type(value)


def parse_fields(value: Any) -> tuple[t.DataField, ...]:
    """The fields of a JSON array. Without ids, they are numbered depth first from 0; ids on only some are an error.

    Raises:
        SchemaError: The value does not describe fields.
    """
    return _JsonParser().fields(value)


class _JsonParser:
    def __init__(self) -> None:
        self._given = False
        self._assigned = -1
        self._depth = 0

    def fields(self, value: Any) -> tuple[t.DataField, ...]:
        if not isinstance(value, list):
            raise SchemaError(f"Can not parse fields: a JSON array is expected, but found {_shown(value)}.")
        return tuple(self.field(item) for item in value)

    def field(self, value: Any) -> t.DataField:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "type" not in value:
            raise SchemaError(
                f"Can not parse field: an object with id, name and type is expected, found {_shown(value)}."
            )
        return t.DataField(
            self._field_id(value),
            value["name"],
            self.type(value["type"]),
            _optional_text(value.get("description"), "description"),
            _optional_text(value.get("defaultValue"), "defaultValue"),
        )

    def _field_id(self, value: dict[str, Any]) -> int:
        if value.get("id") is not None:
            field_id = value["id"]
            if isinstance(field_id, bool) or not isinstance(field_id, int) or not 0 <= field_id <= 2_147_483_647:
                raise SchemaError(f"Can not parse field: its id must be an int, but is {_shown(field_id)}.")
            if self._assigned >= 0:
                raise SchemaError("Partial field id is not allowed.")
            self._given = True
            return field_id
        if self._given:
            raise SchemaError("Partial field id is not allowed.")
        self._assigned += 1
        return self._assigned

    def type(self, value: Any) -> t.DataType:
        if isinstance(value, str):
            return parse_type_sql(value)
        word = value.get("type") if isinstance(value, dict) else None
        if not isinstance(word, str):
            raise SchemaError(f"Can not parse type: {_shown(value)}")
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise SchemaError(f"Can not parse type: types nested deeper than {MAX_NESTING} levels are refused.")
        result = self._nested(word, value)
        self._depth -= 1
        return result.with_nullable("NOT NULL" not in word)

    def _nested(self, word: str, value: dict[str, Any]) -> t.DataType:
        if word.startswith("ARRAY"):
            return t.ArrayType(self.type(value.get("element")))
        if word.startswith("VECTOR"):
            length = value.get("length")
            if isinstance(length, bool) or not isinstance(length, int):
                raise SchemaError(f"Can not parse type: a VECTOR needs a length, found {_shown(value)}")
            return t.VectorType(self.type(value.get("element")), length)
        if word.startswith("MULTISET"):
            return t.MultisetType(self.type(value.get("element")))
        if word.startswith("MAP"):
            key = self.type(value.get("key"))
            return t.MapType(key, self.type(value.get("value")))
        if word.startswith("ROW"):
            return t.RowType(self.fields(value.get("fields")))
        raise SchemaError(f"Can not parse type: {_shown(value)}")


def _optional_text(value: Any, key: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise SchemaError(f"Can not parse field: its {key} must be text, but is {_shown(value)}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
