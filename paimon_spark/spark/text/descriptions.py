"""DESCRIBE and SHOW of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import TableNotFoundError
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.source.table_read import named_system_table
from paimon_spark.spark.sql.procedures.procedure import ResultColumn
from paimon_spark.spark.sql.procedures.statement_procedures import DESCRIPTION_COLUMNS, described_partition
from paimon_spark.spark.sql.table_descriptions import (
    create_statement,
    described_columns,
    described_table,
    partition_text,
    shown_properties,
    table_struct,
)
from paimon_spark.spark.sql.warehouses import TableName, analysis_error, quoted, table_not_found
from paimon_spark.spark.statements.cursor import Cursor, Kind
from paimon_spark.spark.text.alter_table import partition_values
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.format_tables import shown_partitions
from paimon_spark.spark.text.row_statements import target
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table.system.registry import GLOBAL_TABLES
from paimon_spark.table.two_branches import live_partitions, matching_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from paimon_spark.table.system.definition import SystemTable


def run_describe(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DESCRIBE [TABLE] [EXTENDED], the cursor standing behind DESCRIBE; None where it is Spark's."""
    cursor.take("TABLE")
    extended = cursor.take_any("EXTENDED", "FORMATTED") is not None
    name = target(context, cursor.name())
    if name is None:
        return None
    spec = cursor.group() if cursor.take("PARTITION") else None
    if spec is None and not cursor.at_end():
        return _describe_column(context, cursor, name)
    cursor.finish()
    if name.system_table is None and not name.is_of_catalog:
        table = name.load()
        rows = described_table(table, name.parts, extended=extended)
        if spec is not None:
            values = partition_values(context, table, spec)
            rows += described_partition(table, name.parts, values, extended=extended)
    else:
        rows = described_columns(struct_of(name))
    return rows_frame(context, DESCRIPTION_COLUMNS, rows)


def _describe_column(context: Context, cursor: Cursor, name: TableName) -> DataFrame:
    """Run DESCRIBE t c, as Spark does: a column of the table itself.

    Raises:
        AnalysisException: the table has no such column, or a part of one is named.
    """
    parts = cursor.name()
    cursor.finish()
    columns = {row[0].lower(): row for row in described_columns(struct_of(name))}
    qualifiers = (name.table, *reversed(name.parts[:-1]))
    own = parts[-1] if tuple(reversed(parts[:-1])) == qualifiers[: len(parts) - 1] else None
    if own is None and parts[0].lower() in columns:
        text = ".".join(parts)
        raise analysis_error("_LEGACY_ERROR_TEMP_1060", f"DESC TABLE COLUMN does not support nested column: {text}.")
    row = None if own is None else columns.get(own.lower())
    if own is None or row is None:
        raise analysis_error(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            f"A column with name {quoted(parts)} cannot be resolved. Did you mean one of the following? "
            f"[{', '.join(quoted((column[0],)) for column in columns.values())}].",
        )
    rows = [("col_name", own), ("data_type", row[1]), ("comment", row[2] or "NULL")]
    return rows_frame(
        context, (ResultColumn("info_name", nullable=False), ResultColumn("info_value", nullable=False)), rows
    )


def struct_of(name: TableName) -> StructType:
    """Return the columns of a table, or of a system table, as statements show them."""
    if name.is_of_catalog:
        return to_spark_struct(GLOBAL_TABLES[name.table.lower()].fields)
    found, table = _system_table(name), name.load()
    if isinstance(found, RowView):
        return to_spark_struct(found.fields(table))
    return table_struct(table) if found is None else to_spark_struct(found.fields)


def _system_table(name: TableName) -> SystemTable | RowView | None:
    try:
        return named_system_table(name.path)
    except TableNotFoundError:
        raise table_not_found(name.parts) from None


def run_show_properties(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW TBLPROPERTIES, the cursor standing behind these words; None for a table of Spark's."""
    name = target(context, cursor.name())
    if name is None:
        return None
    rows = shown_properties(name.load())
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
    return rows_frame(context, (ResultColumn("col_name", nullable=False),), [(n,) for n in struct_of(name).names])


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
    if is_format_table(table.schema):
        rows = shown_partitions(table, wanted)
    else:
        found = matching_partitions(table, wanted, live_partitions(table))
        rows = sorted(partition_text(table, values) for values in found)
    return rows_frame(context, (ResultColumn("partition", nullable=False),), [(row,) for row in rows])


def run_show_create_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW CREATE TABLE, the cursor standing behind these words; None for a table of Spark's."""
    name = target(context, cursor.name())
    if name is None:
        return None
    cursor.finish()
    statement = create_statement(name.load(), name.parts)
    return rows_frame(context, (ResultColumn("createtab_stmt", nullable=False),), [(statement,)])
