"""All data types and the fields of rows, as SQL and JSON of Java's (``paimon.types.*``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from paimon_spark.errors import SchemaError

MAX_LENGTH = 2_147_483_647
"""The length of STRING and BYTES (``Integer.MAX_VALUE``)."""

MAX_COMPACT_PRECISION = 18
"""Decimals up to this precision are stored as one int64 (Java ``Decimal.MAX_COMPACT_PRECISION``)."""


@dataclass(frozen=True, slots=True)
class DataType:
    """Root of all data types.

    Attributes:
        nullable: Whether NULL is a value of the type.
    """

    nullable: bool = field(default=True, kw_only=True)

    def with_nullable(self, nullable: bool) -> Self:
        """The same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def _sql_without_null(self) -> str:
        raise NotImplementedError

    def sql(self) -> str:
        """The canonical SQL string, with `` NOT NULL`` where it applies: what Java writes into schema files."""
        text = self._sql_without_null()
        return text if self.nullable else f"{text} NOT NULL"

    def to_json(self) -> Any:
        """The JSON value of a schema file: a string for atomic types, an object for nested ones."""
        return self.sql()

    def __str__(self) -> str:
        return self.sql()


def _check_range(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SchemaError(f"{what} must be between {low} and {high} (both inclusive), but is {value}.")


@dataclass(frozen=True, slots=True)
class NamedType(DataType):
    """An atomic type without parameters, which SQL names as the class is named."""

    def _sql_without_null(self) -> str:
        return type(self).__name__.removesuffix("Type").upper()


@dataclass(frozen=True, slots=True)
class BooleanType(NamedType):
    """BOOLEAN."""


@dataclass(frozen=True, slots=True)
class TinyIntType(NamedType):
    """TINYINT: a signed integer of 1 byte."""


@dataclass(frozen=True, slots=True)
class SmallIntType(NamedType):
    """SMALLINT: a signed integer of 2 bytes."""


@dataclass(frozen=True, slots=True)
class IntType(NamedType):
    """INT: a signed integer of 4 bytes."""


@dataclass(frozen=True, slots=True)
class BigIntType(NamedType):
    """BIGINT: a signed integer of 8 bytes."""


@dataclass(frozen=True, slots=True)
class FloatType(NamedType):
    """FLOAT: IEEE 754 single precision."""


@dataclass(frozen=True, slots=True)
class DoubleType(NamedType):
    """DOUBLE: IEEE 754 double precision."""


@dataclass(frozen=True, slots=True)
class DateType(NamedType):
    """DATE: days since 1970-01-01."""


@dataclass(frozen=True, slots=True)
class VariantType(NamedType):
    """VARIANT: semi-structured data as a pair of binaries, value and metadata."""

    paths: tuple[tuple[str, ...], ...] | None = field(default=None, compare=False, repr=False)
    """Of a column of a read: what is wanted of objects, as names from the root; other fields may be missing.

    An empty path is the whole value. None: everything is wanted. Not a part of the type: schemas never have it.
    """


@dataclass(frozen=True, slots=True)
class BlobType(NamedType):
    """BLOB: large binaries that may live in files of their own."""


@dataclass(frozen=True, slots=True)
class DecimalType(DataType):
    """DECIMAL(precision, scale), precision 1 to 38, scale 0 to precision."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        _check_range("Decimal precision", self.precision, 1, 38)
        _check_range("Decimal scale", self.scale, 0, self.precision)

    @property
    def is_compact(self) -> bool:
        """Whether the unscaled value fits an int64."""
        return self.precision <= MAX_COMPACT_PRECISION

    def _sql_without_null(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class CharType(DataType):
    """CHAR(length), in code points; values are never padded."""

    length: int = 1

    def __post_init__(self) -> None:
        _check_range("Character string length", self.length, 1, MAX_LENGTH)

    def _sql_without_null(self) -> str:
        return f"CHAR({self.length})"


@dataclass(frozen=True, slots=True)
class VarCharType(DataType):
    """VARCHAR(length), in code points; STRING when the length is ``MAX``."""

    MAX: ClassVar[int] = MAX_LENGTH
    length: int = 1

    def __post_init__(self) -> None:
        _check_range("Character string length", self.length, 1, MAX_LENGTH)

    def _sql_without_null(self) -> str:
        return "STRING" if self.length == MAX_LENGTH else f"VARCHAR({self.length})"


@dataclass(frozen=True, slots=True)
class BinaryType(DataType):
    """BINARY(length), in bytes; values are never padded."""

    length: int = 1

    def __post_init__(self) -> None:
        _check_range("Binary string length", self.length, 1, MAX_LENGTH)

    def _sql_without_null(self) -> str:
        return f"BINARY({self.length})"


@dataclass(frozen=True, slots=True)
class VarBinaryType(DataType):
    """VARBINARY(length), in bytes; BYTES when the length is ``MAX``."""

    MAX: ClassVar[int] = MAX_LENGTH
    length: int = 1

    def __post_init__(self) -> None:
        _check_range("Binary string length", self.length, 1, MAX_LENGTH)

    def _sql_without_null(self) -> str:
        return "BYTES" if self.length == MAX_LENGTH else f"VARBINARY({self.length})"


@dataclass(frozen=True, slots=True)
class TimeType(DataType):
    """TIME(precision): milliseconds of the day, for every precision (0 to 9)."""

    precision: int = 0

    def __post_init__(self) -> None:
        _check_range("Time precision", self.precision, 0, 9)

    def _sql_without_null(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True, slots=True)
class TimestampType(DataType):
    """TIMESTAMP(precision): a wall clock time, precision 0 to 9."""

    precision: int = 6

    def __post_init__(self) -> None:
        _check_range("Timestamp precision", self.precision, 0, 9)

    @property
    def is_compact(self) -> bool:
        """Whether BinaryRow stores it as milliseconds in one int64."""
        return self.precision <= 3

    def _sql_without_null(self) -> str:
        return f"TIMESTAMP({self.precision})"


@dataclass(frozen=True, slots=True)
class LocalZonedTimestampType(DataType):
    """TIMESTAMP(precision) WITH LOCAL TIME ZONE: an instant, precision 0 to 9."""

    precision: int = 6

    def __post_init__(self) -> None:
        _check_range("Timestamp with local time zone precision", self.precision, 0, 9)

    @property
    def is_compact(self) -> bool:
        """Whether BinaryRow stores it as milliseconds in one int64."""
        return self.precision <= 3

    def _sql_without_null(self) -> str:
        return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"


_CRS_NEEDS_QUOTES = frozenset("<>(),.'`")


def _crs_sql(crs: str) -> str:
    if crs[0] in "0123456789" or any(c.isspace() or c in _CRS_NEEDS_QUOTES for c in crs):
        return "'" + crs.replace("'", "''") + "'"
    return crs


def _check_crs(crs: str) -> None:
    if not crs:
        raise SchemaError("Invalid CRS: the coordinate reference system must not be empty.")


@dataclass(frozen=True, slots=True)
class GeometryType(DataType):
    """GEOMETRY(crs): well-known binary on a plane."""

    crs: str = "OGC:CRS84"

    def __post_init__(self) -> None:
        _check_crs(self.crs)

    def _sql_without_null(self) -> str:
        return f"GEOMETRY({_crs_sql(self.crs)})"


EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""Edge interpolation algorithms of GEOGRAPHY (Java ``EdgeAlgorithm``)."""


@dataclass(frozen=True, slots=True)
class GeographyType(DataType):
    """GEOGRAPHY(crs, algorithm): well-known binary on an ellipsoid."""

    crs: str = "OGC:CRS84"
    algorithm: str = "spherical"

    def __post_init__(self) -> None:
        _check_crs(self.crs)
        if self.algorithm not in EDGE_ALGORITHMS:
            known = ", ".join(EDGE_ALGORITHMS)
            raise SchemaError(f"Invalid edge interpolation algorithm: {self.algorithm}; choose one of {known}.")

    def _sql_without_null(self) -> str:
        return f"GEOGRAPHY({_crs_sql(self.crs)}, {self.algorithm})"


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
