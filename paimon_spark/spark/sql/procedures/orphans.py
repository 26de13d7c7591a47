"""The procedures that delete files which nothing needs (Java: ``RemoveOrphanFilesProcedure`` and others)."""

from __future__ import annotations

from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.refs.tags import parse_older_than
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
    Procedure,
    ResultColumn,
    Rows,
)


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
