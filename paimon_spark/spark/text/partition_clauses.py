"""Partitions in statements: SHOW PARTITIONS, DROP PARTITION, TRUNCATE TABLE [PARTITION]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.row_level import truncate as truncate_table
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.sql.format_tables import refuse_location
from paimon_spark.spark.sql.table_definitions import (
    add_partitions,
    empty_partitions,
    missing_clauses,
    missing_partitions,
)
from paimon_spark.spark.sql.warehouses import analysis_error
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.format_tables import add_partitions_of_files, drop_partitions_of_files, truncate_files
from paimon_spark.spec.data_types import LocalZonedTimestampType
from paimon_spark.spec.schema import is_format_table

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def drop_partitions(context: Context, table: FileStoreTable, specs: Sequence[Cursor], *, tolerant: bool) -> None:
    """Delete the rows of the partitions that PARTITION clauses name, in one commit. A clause may leave out columns.

    Raises:
        AnalysisException: there is no such partition, its clause names all columns, and `tolerant` is not given.
    """
    clauses = [partition_values(context, table, spec) for spec in specs]
    if is_format_table(table.schema):
        drop_partitions_of_files(table, clauses, specs, tolerant=tolerant)
        return
    _refuse(specs, [] if tolerant else missing_partitions(table, clauses))
    empty_partitions(table, clauses)


def add_partition_clauses(
    context: Context, table: FileStoreTable, specs: Sequence[Cursor], *, tolerant: bool, located: bool
) -> None:
    """Run ADD PARTITION (see `add_partitions`).

    Raises:
        AnalysisException: a clause leaves out a column; or it names a partition that is there, and `tolerant` is not
            given.
        UnsupportedError: a clause has a LOCATION.
    """
    clauses = [partition_values(context, table, spec) for spec in specs]
    keys = table.schema.partition_keys
    partial = next((at for at, values in enumerate(clauses) if len(values) < len(keys)), None)
    if partial is not None:
        raise analysis_error(
            "PARTITIONS_NOT_FOUND",
            f"Partition spec is invalid. The spec ({specs[partial].source()}) must match the partition spec "
            f"({', '.join(keys)}) defined in the table.",
        )
    if is_format_table(table.schema):
        if located:
            raise refuse_location()
        add_partitions_of_files(table, clauses, tolerant=tolerant)
        return
    missing = missing_clauses(table, clauses)
    there = next((at for at in range(len(clauses)) if at not in missing), None)
    if there is not None and not tolerant:
        text = f"The partition PARTITION ({specs[there].source()}) already exists."
        raise analysis_error("PARTITIONS_ALREADY_EXIST", text)
    add_partitions(table, [clauses[at] for at in missing], located=located)


def _refuse(specs: Sequence[Cursor], missing: Sequence[int]) -> None:
    if missing:
        text = specs[missing[0]].source()
        raise analysis_error("PARTITIONS_NOT_FOUND", f"The partition PARTITION ({text}) cannot be found.")


def partition_values(context: Context, table: FileStoreTable, spec: Cursor) -> dict[str, Any]:
    """Return the values of a PARTITION clause in the types of the columns; Spark evaluates them.

    Raises:
        AnalysisException: the table is not partitioned by such a column.
    """
    fields = {field.name.lower(): field for field in table.schema.partition_fields}
    names, casts = [], []
    for piece in spec.split():
        name = piece.identifier()
        field = fields.get(name.lower())
        if field is None:
            raise analysis_error(
                "PARTITIONS_NOT_FOUND",
                f"{name} is no partition column; the table is partitioned by "
                f"{', '.join(table.schema.partition_keys) or 'nothing'}.",
            )
        if isinstance(field.type, LocalZonedTimestampType):
            raise UnsupportedError(f"partition column {name} is a TIMESTAMP: name the partition by PaimonTable")
        piece.expect("=")
        names.append(field.name)
        casts.append(f"CAST(({piece.rest().source()}) AS {to_spark_type(field.type).simpleString()})")
    return dict(zip(names, context.spark_sql(f"SELECT {', '.join(casts)}").collect()[0], strict=True)) if names else {}


def truncate(context: Context, table: FileStoreTable, spec: Cursor | None) -> None:
    """Delete all rows of a table, or those of the partitions that a PARTITION clause names."""
    if is_format_table(table.schema):
        wanted = None if spec is None else partition_values(context, table, spec)
        truncate_files(table, wanted, "" if spec is None else spec.source())
    elif spec is None:
        truncate_table(table)
    else:
        empty_partitions(table, [partition_values(context, table, spec)])
