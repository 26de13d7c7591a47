"""DESCRIBE and SHOW of one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import TableNotFoundError, UnsupportedError
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.source.system_read import named_system_table
from paimon_spark.spark.sql.procedures.procedure import ResultColumn
from paimon_spark.spark.sql.warehouses import TableName, analysis_error, quoted, system_table_in, table_not_found
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.cursor import Cursor
from paimon_spark.spark.text.inserts import target
from paimon_spark.spark.text.parsing import Kind
from paimon_spark.spark.text.partitions import partition_values
from paimon_spark.spark.text.queries import Context
from paimon_spark.spec.filter_text import literal_text, quoted_name
from paimon_spark.spec.partition_path import escape_path_name, partition_value_text
from paimon_spark.table.two_branches import live_partitions, matching_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from paimon_spark.table.system.definition import SystemTable
    from paimon_spark.table.table import FileStoreTable


def run_describe(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DESCRIBE [TABLE] [EXTENDED], the cursor standing behind DESCRIBE; None where it is Spark's."""
    cursor.take("TABLE")
    extended = cursor.take_any("EXTENDED", "FORMATTED") is not None
    name = target(context, cursor.name())
    if name is None:
        return None
    if not cursor.at_end():
        raise UnsupportedError(f"DESCRIBE of a Paimon table takes no '{cursor.rest().source()}': leave it out")
    struct = _struct(name)
    rows = [(field.name, field.dataType.simpleString(), _comment(field.metadata)) for field in struct.fields]
    if system_table_in(name) is None:
        rows += _more(name, name.load(), struct, extended=extended)
    columns = (ResultColumn("col_name", nullable=False), ResultColumn("data_type", nullable=False))
    return rows_frame(context, (*columns, ResultColumn("comment")), rows)


def _struct(name: TableName) -> StructType:
    found, table = _system_table(name), name.load()
    if isinstance(found, RowView):
        return to_spark_struct(found.fields(table))
    return to_spark_struct(table.schema.fields if found is None else found.fields)


def _system_table(name: TableName) -> SystemTable | RowView | None:
    try:
        return named_system_table(name.path)
    except TableNotFoundError:
        raise table_not_found(name.parts) from None


def _comment(metadata: dict[str, str] | None) -> str | None:
    return (metadata or {}).get("comment")


def _more(
    name: TableName, table: FileStoreTable, struct: StructType, *, extended: bool
) -> list[tuple[str, str, str | None]]:
    rows: list[tuple[str, str, str | None]] = []
    if table.schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [
            (field.name, field.dataType.simpleString(), _comment(field.metadata))
            for field in struct.fields
            if field.name in table.schema.partition_keys
        ]
    if extended:
        properties = ",".join(f"{key}={value}" for key, value in sorted(properties_of(table).items()))
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", ".".join(name.parts), ""),
            *([("Comment", table.schema.comment, "")] if table.schema.comment else []),
            ("Location", table.path, ""),
            ("Provider", "paimon", ""),
            *([("Owner", table.schema.options["owner"], "")] if "owner" in table.schema.options else []),
            ("Table Properties", f"[{properties}]", ""),
        ]
    return rows


def properties_of(table: FileStoreTable) -> dict[str, str]:
    """What TBLPROPERTIES says of a table: Spark tells the owner elsewhere."""
    found = {key: value for key, value in table.schema.options.items() if key != "owner"}
    keys = {"primary-key": ",".join(table.schema.primary_keys)} if table.schema.primary_keys else {}
    return {**found, "path": table.path, **keys}


def run_show_properties(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW TBLPROPERTIES, the cursor standing behind these words; None for a table of Spark's."""
    name = target(context, cursor.name())
    if name is None:
        return None
    rows = sorted(properties_of(name.load()).items())
    if cursor.sees("("):
        inside = cursor.group()
        key = inside.string() if inside.tokens[0].kind is Kind.STRING else ".".join(inside.name())
        value = dict(rows).get(key, f"Table {'.'.join(name.parts)} does not have property: {key}")
        rows = [(key, value)]
    cursor.finish()
    return rows_frame(context, (ResultColumn("key", nullable=False), ResultColumn("value", nullable=False)), rows)


def run_show_columns(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW COLUMNS, the cursor standing behind these words; None for a table of Spark's."""
    cursor.take_any("FROM", "IN")
    parts = cursor.name()
    if cursor.take_any("FROM", "IN"):
        parts = (*cursor.name(), *parts)
    cursor.finish()
    name = target(context, parts)
    if name is None:
        return None
    return rows_frame(context, (ResultColumn("col_name", nullable=False),), [(n,) for n in _struct(name).names])


def run_show_partitions(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW PARTITIONS, the cursor standing behind these words; None for a table of Spark's.

    Raises:
        AnalysisException: the table has no partitions.
    """
    name = target(context, cursor.name())
    if name is None:
        return None
    table = name.load()
    if not table.schema.partition_keys:
        raise analysis_error(
            "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY",
            f"Table {quoted(name.parts)} is not partitioned.",
        )
    wanted = partition_values(context, table, cursor.group()) if cursor.take("PARTITION") else {}
    cursor.finish()
    found = matching_partitions(table, wanted, live_partitions(table))
    rows = sorted(_partition_text(table, values) for values in found)
    return rows_frame(context, (ResultColumn("partition", nullable=False),), [(row,) for row in rows])


def _partition_text(table: FileStoreTable, values: Mapping[str, Any]) -> str:
    fields = table.schema.partition_fields
    texts = {f.name: partition_value_text(values[f.name], f.type, legacy=False, default_name="null") for f in fields}
    return "/".join(f"{escape_path_name(name)}={escape_path_name(text)}" for name, text in texts.items())


def run_show_create_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW CREATE TABLE, the cursor standing behind these words; None for a table of Spark's."""
    name = target(context, cursor.name())
    if name is None:
        return None
    cursor.finish()
    table = name.load()
    columns = []
    for field, column in zip(table.schema.fields, to_spark_struct(table.schema.fields).fields, strict=True):
        text = f"  {quoted_name(field.name)} {column.dataType.simpleString().upper()}"
        text += "" if column.nullable else " NOT NULL"
        text += "" if field.default_value is None else f" DEFAULT {literal_text(field.default_value)}"
        columns.append(text + (f" COMMENT {literal_text(field.description)}" if field.description else ""))
    statement = f"CREATE TABLE {'.'.join(name.parts)} (\n" + ",\n".join(columns) + ")\nUSING paimon\n"
    if table.schema.partition_keys:
        statement += f"PARTITIONED BY ({', '.join(quoted_name(key) for key in table.schema.partition_keys)})\n"
    if table.schema.comment:
        statement += f"COMMENT {literal_text(table.schema.comment)}\n"
    statement += f"LOCATION {literal_text(table.path)}\n"
    options = sorted(properties_of(table).items())
    if options:
        pairs = ",\n".join(f"  {literal_text(key)} = {literal_text(value)}" for key, value in options)
        statement += f"TBLPROPERTIES (\n{pairs})\n"
    return rows_frame(context, (ResultColumn("createtab_stmt", nullable=False),), [(statement,)])
