"""Spark's column definitions as Paimon schemas, and Paimon fields as Spark's ``StructType`` of the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.types import from_spark_struct
from paimon_spark.spark.write_target import new_table_schema

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_SPARK_PROPERTIES = {"provider", "owner", "location", "external", "is_managed_location", "comment", "table_type", "collation"}


def struct_from_columns(gateway: Gateway, columns: JavaObject) -> tuple[StructType, dict[str, str]]:
    """The columns of a CREATE TABLE (``Column[]`` or ``StructType``) with the SQL texts of their defaults."""
    if hasattr(columns, "getClass") and columns.getClass().getSimpleName() == "StructType":
        return _struct(columns), {}
    v2 = gateway.jvm.org.apache.spark.sql.connector.catalog.CatalogV2Util
    struct = _struct(v2.v2ColumnsToStructType(columns))
    defaults = {}
    for column in columns:
        default = column.defaultValue()
        if default is not None:
            defaults[column.name()] = default.getSql()
    return struct, defaults


def schema_of_create(
    columns: tuple[StructType, Mapping[str, str]], transforms: Iterable[Any], properties: Mapping[str, str]
) -> TableSchema:
    """The first schema of a table that CREATE TABLE asks for.

    Raises:
        SchemaError: columns, keys and options do not fit together.
        UnsupportedError: a partitioning other than by columns.
    """
    struct, defaults = columns
    fields = tuple(
        replace(field, default_value=_default_text(defaults[field.name])) if field.name in defaults else field
        for field in from_spark_struct(struct)
    )
    options = {
        key: value for key, value in properties.items() if key not in _SPARK_PROPERTIES and not key.startswith("option.")
    }
    return new_table_schema(
        fields, options, partition_keys=[_partition_column(t) for t in transforms], comment=properties.get("comment")
    )


def _partition_column(transform: Any) -> str:
    if transform.name() != "identity":
        raise UnsupportedError(
            f"partitioning by {transform.describe()} is not supported: Paimon partitions by columns as they are"
        )
    return str(transform.references()[0].fieldNames()[0])


def _default_text(sql: str) -> str:
    """The text that Paimon keeps for a default: the literal without quotes."""
    if len(sql) >= 2 and sql[0] == sql[-1] and sql[0] in "'\"":
        return sql[1:-1]
    return sql


def _struct(java_struct: JavaObject) -> StructType:
    return StructType.fromJson(json.loads(java_struct.json()))


def java_struct(gateway: Gateway, struct: StructType) -> JavaObject:
    """The JVM's ``StructType`` of a Python one."""
    return gateway.jvm.org.apache.spark.sql.types.DataType.fromJson(struct.json())
