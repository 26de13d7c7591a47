"""Spark's column definitions as Paimon schemas, and Paimon fields as Spark's ``StructType`` of the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    StructType,
)

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import active_session, python_struct
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.table_definitions import format_of_provider
from paimon_spark.table.format_table import format_schema
from paimon_spark.table.new_schema import new_table_schema
from paimon_spark.table.schema_store import columns_or_there

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_SPARK_PROPERTIES = {
    *("provider", "location", "external", "is_managed_location", "comment", "table_type", "collation"),
    *("path", "mergeSchema", "overwriteSchema", "partitionOverwriteMode"),
}
OPTION_PREFIX = "option."


Columns = tuple[StructType, Mapping[str, str]]
"""Columns that Spark names, and for those with a default the text that Paimon keeps."""


def struct_from_columns(gateway: Gateway, columns: JavaObject) -> Columns:
    """The columns of a CREATE TABLE (``Column[]`` or ``StructType``) with their defaults.

    Raises:
        UnsupportedError: a default that is no literal, and no array, map or row of literals.
    """
    v2 = compat.V2_COLUMNS.of(gateway)
    if hasattr(columns, "getClass") and columns.getClass().getSimpleName() == "StructType":
        return python_struct(columns), {}
    struct = python_struct(v2.v2ColumnsToStructType(columns))
    sqls = {column.name(): column.defaultValue() for column in columns}
    texts = {
        field.name: stored_default(active_session(gateway), sqls[field.name].getSql(), field)
        for field in from_spark_struct(struct)
        if sqls[field.name]
    }
    return struct, {name: text for name, text in texts.items() if text is not None}


def schema_of_create(
    columns: Columns,
    transforms: Iterable[Any],
    properties: Mapping[str, str],
    store: Mapping[str, str],
    *,
    keeps_files: bool = False,
) -> TableSchema:
    """The first schema of a table that CREATE TABLE asks for.

    Args:
        columns: of the definition; without any those of the table that lies at its location.
        transforms: its partitioning.
        properties: what Spark gives.
        store: options of the store.
        keeps_files: whether the catalog keeps format tables.

    Raises:
        SchemaError: columns, keys and options do not fit together.
        UnsupportedError: a partitioning other than by columns, or another provider than paimon.
    """
    struct, defaults = columns
    fields = tuple(
        replace(field, default_value=defaults[field.name]) if field.name in defaults else field
        for field in from_spark_struct(struct)
    )
    # OPTIONS (…) of a statement and options of a DataFrameWriter come with a prefix too
    options = {key.removeprefix(OPTION_PREFIX): value for key, value in properties.items()}
    options = {key: value for key, value in options.items() if key not in _SPARK_PROPERTIES}
    options |= {key: properties[key] for key in ("path",) if key in properties}  # a LOCATION that the catalog takes
    keys, comment = [_partition_column(t) for t in transforms], properties.get("comment")
    format_name = format_of_provider(properties.get("provider"), options, keeps_files=keeps_files)
    if format_name is not None:
        return format_schema(fields, options, format_name=format_name, partition_keys=keys, comment=comment)
    fields = tuple(columns_or_there(fields, options, store))
    return new_table_schema(fields, options, partition_keys=keys, comment=comment)


def _partition_column(transform: Any) -> str:
    if transform.name() != "identity":
        raise UnsupportedError(
            f"Unsupported partition transform: {transform.toString()}. Paimon partitions by columns as they are"
        )
    return str(transform.references()[0].fieldNames()[0])


def java_struct(gateway: Gateway, struct: StructType) -> JavaObject:
    """The JVM's ``StructType`` of a Python one."""
    return gateway.data_type(struct.json())
