"""ARRAY, MAP, MULTISET, VECTOR, ROW and the fields of rows; JSON as Java's ``serializeJson`` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.errors import SchemaError
from paimon_spark.spec.atomic_types import (
    BigIntType,
    BlobType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TinyIntType,
    _check_range,
)

_VECTOR_ELEMENTS = (BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType)


def _word(name: str, data_type: DataType) -> str:
    return name if data_type.nullable else f"{name} NOT NULL"


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    """ARRAY<element>."""

    element: DataType

    def _sql_without_null(self) -> str:
        return f"ARRAY<{self.element.sql()}>"

    def to_json(self) -> Any:
        """The JSON object of a schema file."""
        return {"type": _word("ARRAY", self), "element": self.element.to_json()}


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """MAP<key, value>."""

    key: DataType
    value: DataType

    def _sql_without_null(self) -> str:
        return f"MAP<{self.key.sql()}, {self.value.sql()}>"

    def to_json(self) -> Any:
        """The JSON object of a schema file."""
        return {"type": _word("MAP", self), "key": self.key.to_json(), "value": self.value.to_json()}


@dataclass(frozen=True, slots=True)
class MultisetType(DataType):
    """MULTISET<element>: a map from element to its count."""

    element: DataType

    def _sql_without_null(self) -> str:
        return f"MULTISET<{self.element.sql()}>"

    def to_json(self) -> Any:
        """The JSON object of a schema file."""
        return {"type": _word("MULTISET", self), "element": self.element.to_json()}


@dataclass(frozen=True, slots=True)
class VectorType(DataType):
    """VECTOR<element, length>: a fixed number of booleans or numbers."""

    element: DataType
    length: int

    def __post_init__(self) -> None:
        if not isinstance(self.element, _VECTOR_ELEMENTS):
            raise SchemaError(
                f"Invalid element type for vector: {self.element}; use BOOLEAN, an integer or a float type."
            )
        _check_range("Vector length", self.length, 1, 2_147_483_647)

    def _sql_without_null(self) -> str:
        return f"VECTOR<{self.element.sql()}, {self.length}>"

    def to_json(self) -> Any:
        """The JSON object of a schema file."""
        return {"type": _word("VECTOR", self), "element": self.element.to_json(), "length": self.length}


@dataclass(frozen=True, slots=True)
class DataField:
    """A column of a table or a field of a ROW.

    Attributes:
        id: Identity of the field over schema evolution, unique in the table, nested fields included.
        name: Its name in this schema.
        type: Its type.
        description: Comment of the column, or None.
        default_value: Text of the value written for a null (JSON key ``defaultValue``), or None.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of a schema file; description and default only when there is one."""
        result: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            result["description"] = self.description
        if self.default_value is not None:
            result["defaultValue"] = self.default_value
        return result

    def sql(self) -> str:
        """The field as in a ROW type's SQL string."""
        text = f"`{self.name.replace('`', '``')}` {self.type.sql()}"
        if self.description:
            text += " COMMENT '" + self.description.replace("'", "''") + "'"
        if self.default_value is not None:
            text += f" DEFAULT {self.default_value}"
        return text


def duplicate_names(names: Sequence[str]) -> list[str]:
    """Names that occur more than once, each once, in order of appearance."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """ROW<fields>."""

    fields: tuple[DataField, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        names = self.field_names
        if any(not name.strip() for name in names):
            raise SchemaError("Field names must contain at least one non-whitespace character.")
        if twice := duplicate_names(names):
            raise SchemaError(f"Field names must be unique. Found duplicates: {twice}")

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def _sql_without_null(self) -> str:
        return f"ROW<{', '.join(f.sql() for f in self.fields)}>"

    def to_json(self) -> Any:
        """The JSON object of a schema file."""
        return {"type": _word("ROW", self), "fields": [f.to_json() for f in self.fields]}


def nested_types(data_type: DataType) -> tuple[DataType, ...]:
    """The types directly inside a nested type; empty for atomic types."""
    match data_type:
        case ArrayType() | MultisetType() | VectorType():
            return (data_type.element,)
        case MapType():
            return (data_type.key, data_type.value)
        case RowType():
            return tuple(f.type for f in data_type.fields)
    return ()


def contains_type(data_type: DataType, kind: type[DataType]) -> bool:
    """Whether a type is of a kind, or has one inside."""
    return isinstance(data_type, kind) or any(contains_type(inner, kind) for inner in nested_types(data_type))


def holds_blobs(data_type: DataType) -> bool:
    """Whether a column of a type lies in blob files: BLOB, ARRAY<BLOB> and MAP<X, BLOB>."""
    inner = nested_types(data_type)
    return isinstance(data_type, BlobType) or (
        isinstance(data_type, ArrayType | MapType) and isinstance(inner[-1], BlobType)
    )


def walk_fields(fields: Sequence[DataField]) -> Iterator[DataField]:
    """All fields, depth first: a field, then the ROW fields anywhere inside its type."""
    for data_field in fields:
        yield data_field
        yield from walk_type_fields(data_field.type)


def walk_type_fields(data_type: DataType) -> Iterator[DataField]:
    """The ROW fields anywhere inside a type, depth first."""
    if isinstance(data_type, RowType):
        yield from walk_fields(data_type.fields)
    else:
        for inner in nested_types(data_type):
            yield from walk_type_fields(inner)
