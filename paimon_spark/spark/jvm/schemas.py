"""Spark's column definitions as Paimon schemas, and Paimon fields as Spark's ``StructType`` of the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.types import from_spark_struct
from paimon_spark.spark.write_target import new_table_schema
from paimon_spark.spec import data_types as paimon

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_SPARK_PROPERTIES = {
    *("provider", "owner", "location", "external", "is_managed_location", "comment", "table_type", "collation"),
    *("path", "mergeSchema", "overwriteSchema", "partitionOverwriteMode"),
}
_OPTION_PREFIX = "option."


Columns = tuple[StructType, Mapping[str, str]]
"""Columns that Spark names, and for those with a default the text that Paimon keeps."""


def struct_from_columns(gateway: Gateway, columns: JavaObject) -> Columns:
    """The columns of a CREATE TABLE (``Column[]`` or ``StructType``) with their defaults.

    Raises:
        UnsupportedError: a default that is no literal.
    """
    v2 = gateway.jvm.org.apache.spark.sql.connector.catalog.CatalogV2Util
    if hasattr(columns, "getClass") and columns.getClass().getSimpleName() == "StructType":
        return _struct(columns), {}
    struct = _struct(v2.v2ColumnsToStructType(columns))
    sqls = {column.name(): column.defaultValue() for column in columns}
    texts = {name: stored_default(gateway, default.getSql(), name) for name, default in sqls.items() if default}
    return struct, {name: text for name, text in texts.items() if text is not None}


def schema_of_create(columns: Columns, transforms: Iterable[Any], properties: Mapping[str, str]) -> TableSchema:
    """The first schema of a table that CREATE TABLE asks for.

    Raises:
        SchemaError: columns, keys and options do not fit together.
        UnsupportedError: a partitioning other than by columns, or another provider than paimon.
    """
    provider = properties.get("provider")
    if provider is not None and provider.lower() != "paimon":
        raise UnsupportedError(
            f"Provider '{provider}' is not supported by a Paimon catalog. Supported providers: [paimon]"
        )
    struct, defaults = columns
    fields = tuple(
        replace(field, default_value=defaults[field.name]) if field.name in defaults else field
        for field in from_spark_struct(struct)
    )
    # OPTIONS (…) of a statement and options of a DataFrameWriter come with a prefix too
    options = {key.removeprefix(_OPTION_PREFIX): value for key, value in properties.items()}
    options = {key: value for key, value in options.items() if key not in _SPARK_PROPERTIES}
    return new_table_schema(
        fields, options, partition_keys=[_partition_column(t) for t in transforms], comment=properties.get("comment")
    )


def _partition_column(transform: Any) -> str:
    if transform.name() != "identity":
        raise UnsupportedError(
            f"partitioning by {transform.describe()} is not supported: Paimon partitions by columns as they are"
        )
    return str(transform.references()[0].fieldNames()[0])


def stored_default(gateway: Gateway, sql: str, column: str) -> str | None:
    """The text that Paimon keeps for a column's default; None for NULL.

    As in the official connector it is the literal as it was written, as far as that is what the text means; a typed
    literal (``DATE'2024-01-31'``) becomes its text.

    Raises:
        UnsupportedError: the default is no literal; such as ``current_date()`` mean another value in each INSERT.
    """
    catalyst = gateway.jvm.org.apache.spark.sql.catalyst
    parser = gateway.java_class("org.apache.spark.sql.catalyst.parser.CatalystSqlParser$").getField("MODULE$").get(None)
    parsed = parser.parseExpression(sql)
    if not (parsed.resolved() and parsed.foldable() and parsed.deterministic()):
        raise UnsupportedError(f"the default of column {column} must be a literal, not {sql}")
    zone = gateway.jvm.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone()
    text_type = gateway.jvm.org.apache.spark.sql.types.DataType.fromDDL("STRING")
    cast = catalyst.expressions.Cast(
        parsed, text_type, gateway.jvm.scala.Option.apply(zone), catalyst.expressions.EvalMode.ANSI()
    )
    value = cast.eval(None)
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value.toString())
    return sql if sql in (text, f"'{text}'") else text


def _struct(java_struct: JavaObject) -> StructType:
    return StructType.fromJson(json.loads(java_struct.json()))


def declared_struct(struct: StructType, fields: Sequence[DataField]) -> StructType:
    """The columns with CHAR(n) and VARCHAR(n) as they were declared: Spark then pads and checks lengths itself.

    Args:
        struct: the columns as Spark shows them, strings.
        fields: the same columns of the table.
    """
    return StructType(
        [
            StructField(column.name, _declared(column.dataType, field.type), column.nullable, column.metadata)
            for column, field in zip(struct.fields, fields, strict=True)
        ]
    )


def _declared(shown: DataType, data_type: paimon.DataType) -> DataType:
    match shown, data_type:
        case StringType(), paimon.CharType():
            return CharType(data_type.length)
        case StringType(), paimon.VarCharType() if data_type.length != paimon.VarCharType.MAX:
            return VarcharType(data_type.length)
        case ArrayType(), paimon.ArrayType():
            return ArrayType(_declared(shown.elementType, data_type.element), shown.containsNull)
        case MapType(), paimon.MapType():
            key, value = _declared(shown.keyType, data_type.key), _declared(shown.valueType, data_type.value)
            return MapType(key, value, shown.valueContainsNull)
        case StructType(), paimon.RowType():
            return declared_struct(shown, data_type.fields)
    return shown


def java_struct(gateway: Gateway, struct: StructType) -> JavaObject:
    """The JVM's ``StructType`` of a Python one."""
    return gateway.jvm.org.apache.spark.sql.types.DataType.fromJson(struct.json())
