"""The procedures that copy tables and take over others (Java: ``CopyFilesProcedure``, ``MigrateTableProcedure``, …)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.spark.jobs.copies import (
    SOURCE_TYPES,
    copy_table,
    directory_source,
    migrate,
    migrate_database,
    read_options,
    table_source,
)
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.procedures.procedure import (
    CallContext,
    Int,
    OptionMap,
    Options,
    ResultColumn,
    Rows,
    Table,
    Text,
    procedure,
)
from paimon_spark.spark.sql.procedures.upkeep import named_scope

if TYPE_CHECKING:
    from paimon_spark.spark.sql.warehouses import TableName
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_NONE: Options = {}


@procedure(
    "Copies the files of the latest snapshot, or of some partitions, into another table, which is made if need be."
)
def _copy(context: CallContext, source_table: Table, target_table: str, where: Text | None = None) -> None:
    target = context.named(target_table)
    refuse_system_table(target_table, target.system_table, "given to a procedure")
    partitions = named_scope(context, source_table, None, where).partitions
    if not target.is_path and target.catalog_name:
        catalog = context.warehouse()
        if _names(catalog, target):
            catalog.create_database(target.database, ignore_if_exists=True)
    copy_table(context.spark, source_table, target.path, target.options, partitions)


def _names(catalog: FilesystemCatalog, target: TableName) -> bool:
    """Whether a table is one of the catalog; another catalog's store may have the same paths."""
    its_own = replace(target, path=catalog.table_path(target.database, target.table), options=catalog.options)
    return its_own.place == target.place


def _source_type(text: str) -> str:
    if text.lower() not in SOURCE_TYPES:
        raise OptionError(f"source_type '{text}' is not supported: it is one of {', '.join(SOURCE_TYPES)}.")
    return text.lower()


@procedure(
    "Makes a Paimon table of a directory (source_type parquet, orc, csv, json) or of a table of Spark's catalog "
    "(hive); Parquet and ORC files are taken over as they are where that is possible."
)
def _migrate_table(
    context: CallContext,
    source_type: str,
    table: str,
    options: Options = _NONE,
    delete_origin: bool = True,
    target_table: Text | None = None,
    options_map: OptionMap = _NONE,
    parallelism: Int | None = None,
) -> None:
    kind, (reads, of_table) = _source_type(source_type), read_options({**options, **options_map})
    catalog = context.warehouse()
    if kind != "hive" and target_table is None:
        raise OptionError("target_table is needed where the source is a directory.")
    target = context.named(table if target_table is None else target_table)
    if kind == "hive":
        source = table_source(context.spark, table, target.options)
    else:
        source = directory_source(context.spark, kind, table, target.options, reads)
    if not target.is_path and _names(catalog, target):
        catalog.create_database(target.database, ignore_if_exists=True)
    migrate(
        context.spark,
        source,
        target.path,
        target.options,
        of_table,
        delete_origin=delete_origin,
        parallelism=parallelism,
    )


@procedure(
    "Does the same with all tables of a database of Spark's catalog, or all directories in a directory.",
    result=(ResultColumn("result"),),
)
def _migrate_database(
    context: CallContext,
    source_type: str,
    database: str,
    options: Options = _NONE,
    options_map: OptionMap = _NONE,
    parallelism: Int | None = None,
) -> Rows:
    kind, (reads, of_tables) = _source_type(source_type), read_options({**options, **options_map})
    done, failed = migrate_database(
        context.spark, context.warehouse(), kind, database, of_tables, reads=reads, parallelism=parallelism
    )
    return [(f"migrate database is finished, success cnt: {len(done)} , failed cnt: {len(failed)}",)]
