"""The procedures that mend a table: its partitions' marks, metadata, files that nothing needs, and consumers.

Java: ``MarkPartitionDoneProcedure``, ``RemoveOrphanFilesProcedure``, ``ResetConsumerProcedure``,
``ClearConsumersProcedure`` and others.
"""

from __future__ import annotations

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.maintain.expire.consumers import clear_consumers, reset_consumer
from paimon_spark.maintain.files.repairs import remove_unexisting_files, repair_earliest_snapshot
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.sql.procedures.procedure import (
    ALL_TABLES,
    BOOLEAN,
    INT,
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    older_than_argument,
    procedure,
    text_of,
)
from paimon_spark.table.metastore_catalog import MetastoreCatalog


@procedure(
    "Deletes the files of a table, or of all tables of a database (db.*), that nothing names.",
    (TABLE, Argument("older_than"), Argument("dry_run", BOOLEAN), Argument("parallelism", INT), Argument("mode")),
    result=(ResultColumn("deletedFileCount", LONG), ResultColumn("deletedFileTotalLenInBytes", LONG)),
)
def _remove_orphan_files(context: CallContext, arguments: Arguments) -> Rows:
    name = arguments["table"]
    tables = context.tables(name.removesuffix(ALL_TABLES)) if name.endswith(ALL_TABLES) else [context.table(name)]
    removed = [
        remove_orphan_files(
            context.spark,
            table,
            older_than=older_than_argument(arguments),
            dry_run=bool(arguments["dry_run"]),
            mode=arguments["mode"] or "distributed",
            parallelism=arguments["parallelism"],
        )
        for table in tables
    ]
    return [(sum(files.file_count for files in removed), sum(files.total_bytes for files in removed))]


@procedure(
    "Deletes all rows, history, branches, tags and consumers of a table, with every file.",
    (TABLE,),
    result=(ResultColumn("result"),),
)
def _purge_files(context: CallContext, arguments: Arguments) -> Rows:
    purge_files(context.table(arguments["table"]))
    return [("Success",)]


@procedure(
    "Lets a consumer read a snapshot next; without a snapshot it is deleted.",
    (TABLE, Argument("consumerId", required=True), Argument("nextSnapshotId", LONG)),
)
def _reset_consumer(context: CallContext, arguments: Arguments) -> None:
    reset_consumer(context.table(arguments["table"]), arguments["consumerId"], arguments["nextSnapshotId"])


@procedure(
    "Deletes the consumers whose ids match a regular expression, less those that match another.",
    (TABLE, Argument("includingConsumers"), Argument("excludingConsumers")),
)
def _clear_consumers(context: CallContext, arguments: Arguments) -> None:
    clear_consumers(
        context.table(arguments["table"]),
        including=arguments["includingConsumers"],
        excluding=arguments["excludingConsumers"],
    )


@procedure(
    "Writes a file _SUCCESS into the directories of partitions (dt=2024-01-31;dt=2024-02-01).",
    (TABLE, Argument("partitions", required=True)),
)
def _mark_partition_done(context: CallContext, arguments: Arguments) -> None:
    mark_partitions_done(context.table(arguments["table"]), parse_partitions(arguments["partitions"]))


@procedure(
    "Takes data files out of the table that are not there any more; their rows are lost.",
    (TABLE, Argument("dry_run", BOOLEAN), Argument("parallelism", INT)),
    result=(ResultColumn("fileName", nullable=False),),
)
def _remove_unexisting_files(context: CallContext, arguments: Arguments) -> Rows:
    table, threads = context.table(arguments["table"]), arguments["parallelism"]
    removed = remove_unexisting_files(table, dry_run=bool(arguments["dry_run"]), parallelism=threads)
    return [(path,) for path in removed]


@procedure(
    "Lets the first snapshot behind a gap be the earliest one.",
    (TABLE, Argument("snapshot_id", LONG, required=True)),
    result=(
        ResultColumn("previous_earliest_snapshot_id", LONG, False),
        ResultColumn("current_earliest_snapshot_id", LONG, False),
    ),
)
def _repair_earliest_snapshot(context: CallContext, arguments: Arguments) -> Rows:
    snapshot_id = arguments["snapshot_id"]
    return [(repair_earliest_snapshot(context.table(arguments["table"]), snapshot_id), snapshot_id)]


@procedure(
    "Puts the names of tables that lie in the warehouse into its metastore; with an empty name those of all.",
    (Argument("database_or_table", required=True),),
)
def _repair(context: CallContext, arguments: Arguments) -> None:
    catalog = context.warehouse()
    if not isinstance(catalog, MetastoreCatalog):
        raise UnsupportedError(
            "Procedure sys.repair is not supported by this catalog: it has no metastore that could differ from its "
            "directories. One with 'metastore' = 'jdbc' has."
        )
    text = arguments["database_or_table"].strip()
    names = [part.strip().split(".") for part in text.split(",")] if text else [[]]
    for name in names:
        if len(name) > 2:
            raise OptionError(f"'{'.'.join(name)}' names no database or table: write database or database.table.")
    for name in names:
        catalog.repair(*name)


@procedure(
    "Gives the rows of a table with data evolution new ids, so that those of a partition lie together.",
    (TABLE, Argument("partitions")),
    result=(ResultColumn("result"),),
)
def _reassign_row_id(context: CallContext, arguments: Arguments) -> Rows:
    name, partitions = arguments["table"], text_of(arguments, "partitions")
    table = context.table(name)
    given = None if partitions is None or not table.schema.partition_keys else parse_partitions(partitions)
    return [(reassign_row_ids(table, scope_of(table, partitions=given).partitions).message(name),)]
