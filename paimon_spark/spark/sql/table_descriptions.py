"""What SHOW and DESCRIBE say of a table, for fronts that Spark's own commands do not know.

Both fronts show the same columns (`table_struct`) and properties (`table_properties`); what a command makes of them is
Spark's (``DescribeTableExec``, ``ShowCreateTableExec``).

CHAR(n) and VARCHAR(n) columns are shown as they were declared; Spark shows both as STRING where it only reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

from paimon_spark.options import GOVERNED
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.spark.sql.column_defaults import default_sql, struct_with_defaults
from paimon_spark.spec import data_types as paimon
from paimon_spark.spec.java_text import escape_path_name, partition_value_text
from paimon_spark.spec.schema import FILE_FORMAT, TYPE, is_format_table
from paimon_spark.spec.sql_text import literal_text, quoted_name
from paimon_spark.table.paths import is_path_name

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable


_READABLE_TYPE = re.compile(r"[\w<>:,()]+", re.ASCII)
_BARE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
"""A name that Spark shows without back quotes."""


def declared_struct(struct: StructType, fields: Sequence[DataField]) -> StructType:
    """The columns with CHAR(n) and VARCHAR(n) as they were declared: Spark then pads and checks lengths itself.

    Args:
        struct: the columns as Spark shows them, strings.
        fields: the same columns of the table.
    """
    return StructType(
        [
            StructField(column.name, _readable(column.dataType, field.type), column.nullable, column.metadata)
            for column, field in zip(struct.fields, fields, strict=True)
        ]
    )


def _readable(shown: DataType, data_type: paimon.DataType) -> DataType:
    """Return the declared type; the shown one where Spark cannot parse the declared type's text (names need quotes)."""
    declared = _declared(shown, data_type)
    return declared if _READABLE_TYPE.fullmatch(declared.simpleString()) else shown


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


_OWNER = "owner"
_PATH = "path"
Row = tuple[str, str, str | None]


def table_struct(table: FileStoreTable) -> StructType:
    """Return the columns of a table as statements show them: with CHAR, VARCHAR, comments and defaults."""
    fields = fields_as_stored(table)
    return declared_struct(struct_with_defaults(fields), fields)


def table_properties(
    schema: TableSchema, options: Mapping[str, str], path: str, *, is_governed: bool = False
) -> dict[str, str]:
    """Return what TBLPROPERTIES says of a table.

    Args:
        schema: of the table.
        options: its own, without those of the session and of a read; the owner among them, which Spark shows elsewhere.
        path: its directory.
        is_governed: whether its catalog may hide rows of it: the option says no where all of it may be read.
    """
    keys = {"primary-key": ",".join(schema.primary_keys)} if schema.primary_keys else {}
    return {**options, _PATH: path, **keys, **({GOVERNED: "true"} if is_governed else {})}


def shown_properties(table: FileStoreTable) -> list[tuple[str, str]]:
    """Return what SHOW TBLPROPERTIES shows, sorted."""
    schema = table.schema
    found = table_properties(schema, schema.options, table.path, is_governed=table.is_governed)
    return sorted((key, value) for key, value in found.items() if key != _OWNER)


def described_columns(struct: StructType) -> list[Row]:
    """Return name, type and comment of columns."""
    return [
        (field.name, field.dataType.simpleString(), (field.metadata or {}).get("comment")) for field in struct.fields
    ]


def described_table(table: FileStoreTable, name: Sequence[str], *, extended: bool) -> list[Row]:
    """Return what DESCRIBE TABLE shows."""
    rows = described_columns(table_struct(table))
    schema = table.schema
    if schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(schema.fields)] if row[0] in schema.partition_keys]
    if extended:
        properties = ",".join(f"{key}={value}" for key, value in shown_properties(table))
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", ".".join(name), ""),
            *([("Comment", schema.comment, "")] if schema.comment is not None else []),
            ("Location", table.path, ""),
            ("Provider", _provider(schema), ""),
            *([("Owner", schema.options[_OWNER], "")] if _OWNER in schema.options else []),
            ("Table Properties", f"[{properties}]", ""),
        ]
    return rows


def create_statement(table: FileStoreTable, name: Sequence[str]) -> str:
    """Return the statement that SHOW CREATE TABLE shows; it can be run in another warehouse."""
    unshown = (_PATH, TYPE, FILE_FORMAT) if is_format_table(table.schema) else (_PATH,)
    options = {key: value for key, value in shown_properties(table) if key not in unshown}
    location = f"LOCATION {literal_text(table.path)}\n" if is_path_name(name[-1]) else ""
    definition = defined_columns(table) + f"USING {_provider(table.schema)}\n" + defined_partitions(table.schema)
    shown = ".".join(part if _BARE.fullmatch(part) else quoted_name(part) for part in name)
    return f"CREATE TABLE {shown} {definition}{location}{properties_clause(options)}"


def defined_columns(table: FileStoreTable) -> str:
    """The columns of a table in parentheses, as CREATE TABLE takes them."""
    columns = []
    for field, column in zip(table.schema.fields, table_struct(table).fields, strict=True):
        default = default_sql(field)
        text = f"  {quoted_name(field.name)} {_type_sql(column.dataType)}"
        text += "" if column.nullable else " NOT NULL"
        text += "" if default is None else f" DEFAULT {default}"
        columns.append(text + (f" COMMENT {literal_text(field.description)}" if field.description else ""))
    return "(\n" + ",\n".join(columns) + ")\n"


def defined_partitions(schema: TableSchema) -> str:
    """The clauses of CREATE TABLE for partition columns and the comment."""
    keys = ", ".join(quoted_name(key) for key in schema.partition_keys)
    partitions = f"PARTITIONED BY ({keys})\n" if keys else ""
    return partitions + (f"COMMENT {literal_text(schema.comment)}\n" if schema.comment is not None else "")


def properties_clause(options: Mapping[str, str]) -> str:
    """The clause TBLPROPERTIES; nothing without options."""
    pairs = ",\n".join(f"  {literal_text(key)} = {literal_text(value)}" for key, value in options.items())
    return f"TBLPROPERTIES (\n{pairs})\n" if options else ""


def _provider(schema: TableSchema) -> str:
    """What USING says of a table."""
    return schema.options.get(FILE_FORMAT, "parquet") if is_format_table(schema) else "paimon"


def _type_sql(data_type: DataType) -> str:
    """A type as CREATE TABLE takes it."""
    match data_type:
        case StructType():
            fields = (
                f"{quoted_name(field.name)}: {_type_sql(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
                for field in data_type.fields
            )
            return f"STRUCT<{', '.join(fields)}>"
        case ArrayType():
            return f"ARRAY<{_type_sql(data_type.elementType)}>"
        case MapType():
            return f"MAP<{_type_sql(data_type.keyType)}, {_type_sql(data_type.valueType)}>"
    return data_type.simpleString().upper()


def partition_text(table: FileStoreTable, values: Mapping[str, Any]) -> str:
    """Return a partition as SHOW PARTITIONS shows it: ``dt=2024-01-31/h=1``."""
    fields = table.schema.partition_fields
    texts = {f.name: partition_value_text(values[f.name], f.type, legacy=False, default_name="null") for f in fields}
    return "/".join(f"{escape_path_name(name)}={escape_path_name(text)}" for name, text in texts.items())
