"""Spark's ``TableChange`` objects (ALTER TABLE, COMMENT ON TABLE) as changes of a Paimon schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import SchemaChangeError
from paimon_spark.spark.columns.types import from_spark_field
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.table_definitions import (
    check_default_column,
    option_key,
    refuse_added_default,
    refuse_replaced_columns,
)
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.schema import TableSchema
from paimon_spark.table import schema_change as change


def schema_changes(
    gateway: Gateway, schema: TableSchema, java_changes: Iterable[JavaObject]
) -> list[change.SchemaChange]:
    """What one ALTER asks for.

    Args:
        gateway: to the JVM.
        schema: of the table, for the types of columns and the case of columns in options.
        java_changes: what ``TableCatalog.alterTable`` was given.

    Raises:
        SchemaChangeError: a change that Paimon tables do not have.
    """
    found = list(java_changes)
    kinds = [java_change.getClass().getSimpleName() for java_change in found]
    _refuse_replacing(schema, found, kinds)
    return [_change(gateway, schema, kind, java_change) for kind, java_change in zip(kinds, found, strict=True)]


def _refuse_replacing(schema: TableSchema, changes: Sequence[JavaObject], kinds: Sequence[str]) -> None:
    """REPLACE COLUMNS arrives as the removal of every column followed by additions."""
    dropped = {_path(c) for c, kind in zip(changes, kinds, strict=True) if kind == "DeleteColumn"}
    if "AddColumn" in kinds and all((name,) in dropped for name in schema.field_names):
        refuse_replaced_columns()


def _change(gateway: Gateway, schema: TableSchema, kind: str, found: JavaObject) -> change.SchemaChange:
    match kind:
        case "SetProperty":
            return change.SetOption(option_key(schema.field_names, found.property()), found.value())
        case "RemoveProperty":
            return change.RemoveOption(option_key(schema.field_names, found.property()))
        case "AddColumn":
            return _add(found)
        case "RenameColumn":
            return change.RenameColumn(_path(found), found.newName())
        case "DeleteColumn":
            return change.DropColumn(_path(found))
        case "UpdateColumnType":
            return change.UpdateColumnType(_path(found), _type(found.newDataType(), _path(found)))
        case "UpdateColumnNullability":
            return change.UpdateColumnNullability(_path(found), bool(found.nullable()))
        case "UpdateColumnComment":
            return change.UpdateColumnComment(_path(found), found.newComment() or None)
        case "UpdateColumnPosition":
            position = _position(found.position())
            return change.UpdateColumnPosition(_path(found), position or change.Position())
        case "UpdateColumnDefaultValue":
            return _default(gateway, schema, found)
    raise SchemaChangeError(f"Change is not supported: {kind}")


def _add(found: JavaObject) -> change.AddColumn:
    path = _path(found)
    if found.defaultValue() is not None:
        refuse_added_default(path)
    data_type = _type(found.dataType(), path).with_nullable(bool(found.isNullable()))
    return change.AddColumn(path, data_type, found.comment(), _position(found.position()))


def _default(gateway: Gateway, schema: TableSchema, found: JavaObject) -> change.UpdateColumnDefault:
    path, sql = _path(found), found.newDefaultValue()
    if not sql:
        return change.UpdateColumnDefault(path, None)
    check_default_column(path, schema.field_names)
    return change.UpdateColumnDefault(path, stored_default(active_session(gateway), sql, schema.field(path[0])))


def _path(found: JavaObject) -> change.Path:
    return tuple(found.fieldNames())


def _position(found: JavaObject) -> change.Position | None:
    if found is None:
        return None
    return change.Position(found.column() if found.getClass().getSimpleName() == "After" else None)


def _type(java_type: JavaObject, path: Sequence[str]) -> DataType:
    field = {"name": path[-1], "type": json.loads(java_type.json()), "nullable": True, "metadata": {}}
    column: StructField = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0]
    return from_spark_field(column, where="".join(f"{name}." for name in path[:-1])).type
