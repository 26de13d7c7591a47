"""The root of all data types, and the atomic ones; SQL strings equal Java's ``asSQLString`` (``paimon.types.*``)."""

from __future__ import annotations

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
    """An atomic type without parameters."""

    SQL: ClassVar[str] = ""

    def _sql_without_null(self) -> str:
        return self.SQL


@dataclass(frozen=True, slots=True)
class BooleanType(NamedType):
    """BOOLEAN."""

    SQL: ClassVar[str] = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class TinyIntType(NamedType):
    """TINYINT: a signed integer of 1 byte."""

    SQL: ClassVar[str] = "TINYINT"


@dataclass(frozen=True, slots=True)
class SmallIntType(NamedType):
    """SMALLINT: a signed integer of 2 bytes."""

    SQL: ClassVar[str] = "SMALLINT"


@dataclass(frozen=True, slots=True)
class IntType(NamedType):
    """INT: a signed integer of 4 bytes."""

    SQL: ClassVar[str] = "INT"


@dataclass(frozen=True, slots=True)
class BigIntType(NamedType):
    """BIGINT: a signed integer of 8 bytes."""

    SQL: ClassVar[str] = "BIGINT"


@dataclass(frozen=True, slots=True)
class FloatType(NamedType):
    """FLOAT: IEEE 754 single precision."""

    SQL: ClassVar[str] = "FLOAT"


@dataclass(frozen=True, slots=True)
class DoubleType(NamedType):
    """DOUBLE: IEEE 754 double precision."""

    SQL: ClassVar[str] = "DOUBLE"


@dataclass(frozen=True, slots=True)
class DateType(NamedType):
    """DATE: days since 1970-01-01."""

    SQL: ClassVar[str] = "DATE"


@dataclass(frozen=True, slots=True)
class VariantType(NamedType):
    """VARIANT: semi-structured data as a pair of binaries, value and metadata."""

    SQL: ClassVar[str] = "VARIANT"

    paths: tuple[tuple[str, ...], ...] | None = field(default=None, compare=False, repr=False)
    """Of a column of a read: what is wanted of objects, as names from the root; other fields may be missing.

    An empty path is the whole value. None: everything is wanted. Not a part of the type: schemas never have it.
    """


@dataclass(frozen=True, slots=True)
class BlobType(NamedType):
    """BLOB: large binaries that may live in files of their own."""

    SQL: ClassVar[str] = "BLOB"


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
