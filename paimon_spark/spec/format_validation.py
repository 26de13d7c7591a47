"""Checks that the file formats of a table can hold its columns (Java ``FileFormat.validateDataFields``)."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.errors import OptionError, SchemaError
from paimon_spark.spec.data_types import (
    DataType,
    GeographyType,
    GeometryType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    VariantType,
    VectorType,
    nested_types,
)
from paimon_spark.spec.schema import TableSchema


def validate_formats(schema: TableSchema) -> None:
    """Check every column against `file.format` and `file.format.per.level`.

    Raises:
        SchemaError: A format cannot hold a column's type.
        OptionError: A per-level entry is wrong.
    """
    options = schema.core_options
    for field in schema.fields:
        for data_type in _all_types(field.type):
            problem = _problem(options.file_format, data_type)
            if problem is not None:
                raise SchemaError(f"{problem} Column '{field.name}' needs another 'file.format' or another type.")
    for level, name in options.value("file.format.per.level").items():
        if not level.isdigit():
            raise OptionError(f"'file.format.per.level' has '{level}', which is not a level.")
        for field in schema.fields:
            precision = _timestamp_precision(field.type)
            if name.lower() == "avro" and precision > 6:
                raise OptionError(
                    f"'file.format.per.level' entry '{level}:avro' is incompatible with column '{field.name}' of type "
                    f"{field.type}: Avro supports timestamp precision up to 6, got {precision}. Either lower the "
                    f"column precision, drop the per-level mapping for level {level}, or use a different format "
                    "(parquet or orc) for that level."
                )


def _all_types(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    for inner in nested_types(data_type):
        yield from _all_types(inner)


def _timestamp_precision(data_type: DataType) -> int:
    return data_type.precision if isinstance(data_type, TimestampType | LocalZonedTimestampType) else -1


def _problem(file_format: str, data_type: DataType) -> str | None:
    if isinstance(data_type, GeometryType | GeographyType) and file_format != "parquet":
        return f"Geometry and geography columns require 'file.format'='parquet', but was '{file_format}'."
    if file_format == "avro":
        if _timestamp_precision(data_type) > 6:
            return (
                f"Avro does not support TIMESTAMP type with precision: {_timestamp_precision(data_type)}, "
                "it only supports precision less than 6."
            )
        if isinstance(data_type, TimeType) and data_type.precision > 3:
            return (
                f"Avro does not support TIME type with precision: {data_type.precision}, "
                "it only supports precision less than 3."
            )
    # ORC: BINARY(n) and VARBINARY(n) are written as BYTES, MULTISET as MAP
    if file_format == "orc" and isinstance(data_type, VariantType | VectorType):
        return f"Unsupported type: {data_type}."
    return None
