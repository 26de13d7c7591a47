"""The procedures that copy tables and take over others (Java: ``CopyFilesProcedure``, ``MigrateTableProcedure``, …)."""

from __future__ import annotations

from paimon_spark.errors import OptionError
from paimon_spark.spark.jobs.copy_job import copy_table
from paimon_spark.spark.jobs.migrate_job import (
    SOURCE_TYPES,
    directory_source,
    migrate,
    migrate_database,
    read_options,
    table_source,
)
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    INT,
    TEXTS,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    options_argument,
    procedure,
)
from paimon_spark.spark.sql.procedures.upkeep import scope_argument


@procedure(
    "Copies the files of the latest snapshot, or of some partitions, into another table, which is made if need be.",
    (Argument("source_table", required=True), Argument("target_table", required=True), Argument("where")),
)
def _copy(context: CallContext, arguments: Arguments) -> None:
    source, target = context.table(arguments["source_table"]), context.named(arguments["target_table"])
    refuse_system_table(arguments["target_table"], target.system_table, "given to a procedure")
    partitions = scope_argument(context, source, arguments).partitions
    if not target.is_path and target.catalog_name:
        catalog = context.warehouse()
        if catalog.table_path(target.database, target.table) == target.path:
            catalog.create_database(target.database, ignore_if_exists=True)
    copy_table(context.spark, source, target.path, target.options, partitions)


def _options(arguments: Arguments) -> tuple[dict[str, str], dict[str, str]]:
    return read_options({**options_argument(arguments), **(arguments["options_map"] or {})})


def _source_type(text: str) -> str:
    if text.lower() not in SOURCE_TYPES:
        raise OptionError(f"source_type '{text}' is not supported: it is one of {', '.join(SOURCE_TYPES)}.")
    return text.lower()


@procedure(
    "Makes a Paimon table of a directory (source_type parquet, orc, csv, json) or of a table of Spark's catalog "
    "(hive); Parquet and ORC files are taken over as they are where that is possible.",
    (
        Argument("source_type", required=True),
        Argument("table", required=True),
        Argument("options"),
        Argument("delete_origin", BOOLEAN),
        Argument("target_table"),
        Argument("options_map", TEXTS),
        Argument("parallelism", INT),
    ),
)
def _migrate_table(context: CallContext, arguments: Arguments) -> None:
    kind, name, (reads, options) = _source_type(arguments["source_type"]), arguments["table"], _options(arguments)
    catalog, wanted = context.warehouse(), arguments["target_table"] or ""
    if kind != "hive" and not wanted.strip():
        raise OptionError("target_table is needed where the source is a directory.")
    target = context.named(wanted if wanted.strip() else name)
    if kind == "hive":
        source = table_source(context.spark, name, target.options)
    else:
        source = directory_source(context.spark, kind, name, target.options, reads)
    if not target.is_path and catalog.table_path(target.database, target.table) == target.path:
        catalog.create_database(target.database, ignore_if_exists=True)
    deletes = arguments["delete_origin"] is not False
    threads = arguments["parallelism"]
    migrate(context.spark, source, target.path, target.options, options, delete_origin=deletes, parallelism=threads)


@procedure(
    "Does the same with all tables of a database of Spark's catalog, or all directories in a directory.",
    (
        Argument("source_type", required=True),
        Argument("database", required=True),
        Argument("options"),
        Argument("options_map", TEXTS),
        Argument("parallelism", INT),
    ),
    result=(ResultColumn("result"),),
)
def _migrate_database(context: CallContext, arguments: Arguments) -> Rows:
    kind, name, (reads, options) = _source_type(arguments["source_type"]), arguments["database"], _options(arguments)
    done, failed = migrate_database(
        context.spark,
        context.warehouse(),
        kind,
        name,
        options,
        reads=reads,
        parallelism=arguments["parallelism"],
    )
    return [(f"migrate database is finished, success cnt: {len(done)} , failed cnt: {len(failed)}",)]
