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
from paimon_spark.maintain.refs.tags import parse_older_than
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.sql.procedures.procedure import (
    ALL_TABLES,
    BOOLEAN,
    DONE,
    INT,
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    ResultColumn,
    Rows,
)
from paimon_spark.table.metastore_catalog import MetastoreCatalog


def _remove_orphan_files(context: CallContext, arguments: Arguments) -> Rows:
    name, text = arguments["table"], arguments["older_than"]
    tables = context.tables(name.removesuffix(ALL_TABLES)) if name.endswith(ALL_TABLES) else [context.table(name)]
    removed = [
        remove_orphan_files(
            context.spark,
            table,
            older_than=parse_older_than(text) if text and text.strip() else None,
            dry_run=bool(arguments["dry_run"]),
            mode=arguments["mode"] or "distributed",
            parallelism=arguments["parallelism"],
        )
        for table in tables
    ]
    return [(sum(files.file_count for files in removed), sum(files.total_bytes for files in removed))]


def _purge_files(context: CallContext, arguments: Arguments) -> Rows:
    purge_files(context.table(arguments["table"]))
    return [("Success",)]


ORPHAN_PROCEDURES = (
    Procedure(
        "remove_orphan_files",
        (TABLE, Argument("older_than"), Argument("dry_run", BOOLEAN), Argument("parallelism", INT), Argument("mode")),
        (ResultColumn("deletedFileCount", LONG), ResultColumn("deletedFileTotalLenInBytes", LONG)),
        _remove_orphan_files,
        "Deletes the files of a table, or of all tables of a database (db.*), that nothing names.",
    ),
    Procedure(
        "purge_files",
        (TABLE,),
        (ResultColumn("result"),),
        _purge_files,
        "Deletes all rows, history, branches, tags and consumers of a table, with every file.",
    ),
)


def _reset_consumer(context: CallContext, arguments: Arguments) -> Rows:
    reset_consumer(context.table(arguments["table"]), arguments["consumerId"], arguments["nextSnapshotId"])
    return [(True,)]


def _clear_consumers(context: CallContext, arguments: Arguments) -> Rows:
    clear_consumers(
        context.table(arguments["table"]),
        including=arguments["includingConsumers"],
        excluding=arguments["excludingConsumers"],
    )
    return [(True,)]


CONSUMER_PROCEDURES = (
    Procedure(
        "reset_consumer",
        (TABLE, Argument("consumerId", required=True), Argument("nextSnapshotId", LONG)),
        DONE,
        _reset_consumer,
        "Lets a consumer read a snapshot next; without a snapshot it is deleted.",
    ),
    Procedure(
        "clear_consumers",
        (TABLE, Argument("includingConsumers"), Argument("excludingConsumers")),
        DONE,
        _clear_consumers,
        "Deletes the consumers whose ids match a regular expression, less those that match another.",
    ),
)


def _mark_partition_done(context: CallContext, arguments: Arguments) -> Rows:
    mark_partitions_done(context.table(arguments["table"]), parse_partitions(arguments["partitions"]))
    return [(True,)]


def _remove_unexisting_files(context: CallContext, arguments: Arguments) -> Rows:
    table, threads = context.table(arguments["table"]), arguments["parallelism"]
    removed = remove_unexisting_files(table, dry_run=bool(arguments["dry_run"]), parallelism=threads)
    return [(path,) for path in removed]


def _repair_earliest_snapshot(context: CallContext, arguments: Arguments) -> Rows:
    snapshot_id = arguments["snapshot_id"]
    return [(repair_earliest_snapshot(context.table(arguments["table"]), snapshot_id), snapshot_id)]


def _repair(context: CallContext, arguments: Arguments) -> Rows:
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
    return [(True,)]


def _reassign_row_id(context: CallContext, arguments: Arguments) -> Rows:
    name, partitions = arguments["table"], arguments["partitions"]
    table = context.table(name)
    keys = bool(table.schema.partition_keys)
    given = parse_partitions(partitions) if keys and partitions and partitions.strip() else None
    return [(reassign_row_ids(table, scope_of(table, partitions=given).partitions).message(name),)]


REPAIR_PROCEDURES = (
    Procedure(
        "repair",
        (Argument("database_or_table", required=True),),
        DONE,
        _repair,
        "Puts the names of tables that lie in the warehouse into its metastore; with an empty name those of all.",
    ),
    Procedure(
        "reassign_row_id",
        (TABLE, Argument("partitions")),
        (ResultColumn("result"),),
        _reassign_row_id,
        "Gives the rows of a table with data evolution new ids, so that those of a partition lie together.",
    ),
    Procedure(
        "mark_partition_done",
        (TABLE, Argument("partitions", required=True)),
        DONE,
        _mark_partition_done,
        "Writes a file _SUCCESS into the directories of partitions (dt=2024-01-31;dt=2024-02-01).",
    ),
    Procedure(
        "remove_unexisting_files",
        (TABLE, Argument("dry_run", BOOLEAN), Argument("parallelism", INT)),
        (ResultColumn("fileName", nullable=False),),
        _remove_unexisting_files,
        "Takes data files out of the table that are not there any more; their rows are lost.",
    ),
    Procedure(
        "repair_earliest_snapshot",
        (TABLE, Argument("snapshot_id", LONG, required=True)),
        (
            ResultColumn("previous_earliest_snapshot_id", LONG, False),
            ResultColumn("current_earliest_snapshot_id", LONG, False),
        ),
        _repair_earliest_snapshot,
        "Lets the first snapshot behind a gap be the earliest one.",
    ),
)
