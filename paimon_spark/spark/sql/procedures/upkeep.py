"""The procedures of upkeep: compaction, file indexes, expiry, and what mends a table.

Java: ``CompactProcedure``, ``ExpireSnapshotsProcedure`` and others.
"""

from __future__ import annotations

from datetime import timedelta

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.compact.materialize import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import CompactScope, parse_partitions, scope_of
from paimon_spark.maintain.expire.consumers import clear_consumers, reset_consumer
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.expire.snapshots import Retention, expire_all_changelogs, expire_changelogs, expire_snapshots
from paimon_spark.maintain.files.repairs import remove_unexisting_files, repair_earliest_snapshot
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.jobs.rescale import rescale
from paimon_spark.spark.jobs.table_compaction import compact_databases, compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.sql.procedures.procedure import (
    ALL_TABLES,
    BOOLEAN,
    DONE,
    INT,
    LONG,
    STRING,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    older_than_argument,
    options_argument,
    procedure,
    text_of,
)
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.sql_text import NamePatterns
from paimon_spark.table.metastore_catalog import MetastoreCatalog
from paimon_spark.table.table import FileStoreTable

_REWRITTEN = ("removed_files", "removed_bytes", "added_files", "added_bytes")
"""Columns behind the one that Java's procedure has."""

_MANIFEST_SORT = {
    "manifest_sort_enabled": "manifest-sort.enabled",
    "manifest_sort_partition_field": "manifest-sort.partition-field",
    "manifest_sort_max_rewrite_size": "manifest-sort.max-rewrite-size",
}


def scope_argument(
    context: CallContext,
    table: FileStoreTable,
    arguments: Arguments,
    *,
    buckets: str | None = None,
    idle_time: timedelta | None = None,
) -> CompactScope:
    """Return the part of a table that the arguments ``partitions`` and ``where`` name; errors as of `scope_of`."""
    partitions, where = text_of(arguments, "partitions"), text_of(arguments, "where")
    return scope_of(
        table,
        partitions=None if partitions is None else parse_partitions(partitions),
        where=where,
        buckets=buckets,
        idle_time=idle_time,
        zone=None if where is None else time_zone(settings_of(context.spark)),
    )


@procedure(
    "Merges the files of a table, or of some of its partitions, so that there are fewer of them.",
    (
        TABLE,
        Argument("partitions"),
        Argument("compact_strategy"),
        Argument("order_strategy"),
        Argument("order_by"),
        Argument("where"),
        Argument("options"),
        Argument("partition_idle_time"),
        Argument("buckets"),
    ),
    result=(*DONE, ResultColumn("snapshot_id", LONG), *(ResultColumn(name, LONG, False) for name in _REWRITTEN)),
)
def _compact(context: CallContext, arguments: Arguments) -> Rows:
    table = context.table(arguments["table"])
    buckets, idle = text_of(arguments, "buckets"), text_of(arguments, "partition_idle_time")
    order = asked_order(
        table,
        text_of(arguments, "order_strategy"),
        text_of(arguments, "order_by"),
        buckets=buckets is not None,
        idle_time=idle is not None,
    )
    full = is_full(text_of(arguments, "compact_strategy"), table)
    table = compactable(table, options_argument(arguments))
    idle_time = None if idle is None else parse_duration(idle)
    scope = scope_argument(context, table, arguments, buckets=buckets, idle_time=idle_time)
    made = compact_table(context.spark, table, scope, full=full, order=order)
    return [(True, made, *_rewritten(table, made))]


def _rewritten(table: FileStoreTable, snapshot_id: int | None) -> tuple[int, int, int, int]:
    """How many files and bytes a compaction took out, and how many it put in: what its snapshot says."""
    removed: list[int] = []
    added: list[int] = []
    if snapshot_id is not None:
        for manifest in table.manifests.delta_manifests(table.snapshots.get(snapshot_id)):
            for entry in table.manifests.read_manifest(manifest):
                (added if entry.kind is FileKind.ADD else removed).append(entry.file.file_size)
    return len(removed), sum(removed), len(added), sum(added)


@procedure(
    "Compacts the tables (db.t) of databases, chosen by regular expressions; all of them when none is given.",
    (Argument("including_databases"), Argument("including_tables"), Argument("excluding_tables"), Argument("options")),
    result=(ResultColumn("result"),),
)
def _compact_database(context: CallContext, arguments: Arguments) -> Rows:
    compacted = compact_databases(
        context.spark,
        context.warehouse(),
        NamePatterns.of(arguments["including_databases"]),
        NamePatterns.of(arguments["including_tables"], arguments["excluding_tables"]),
        options_argument(arguments),
    )
    return [(compacted.summary,)]


@procedure(
    "Merges the manifests of a table; no row and no data file changes.",
    (
        TABLE,
        Argument("options"),
        Argument("dry_run", BOOLEAN),
        *(Argument(name, BOOLEAN if name.endswith("enabled") else STRING) for name in _MANIFEST_SORT),
    ),
)
def _compact_manifest(context: CallContext, arguments: Arguments) -> None:
    given = {o: str(arguments[name]).lower() for name, o in _MANIFEST_SORT.items() if arguments[name] is not None}
    table = context.table(arguments["table"]).with_options(options_argument(arguments))
    compact_manifests(table.with_options(given), dry_run=bool(arguments["dry_run"]))


@procedure(
    "Builds the indexes of the data files anew, as the file-index options say; no row changes.",
    (TABLE, Argument("where")),
    result=(ResultColumn("written_partitions", INT, False), ResultColumn("written_indexes", INT, False)),
)
def _rewrite_file_index(context: CallContext, arguments: Arguments) -> Rows:
    table = context.table(arguments["table"])
    done = rewrite_indexes(context.spark, table, scope_argument(context, table, arguments).partitions)
    return [(done.partitions, done.files)]


@procedure(
    "Writes the rows of a table, or of some of its partitions, into another number of buckets.",
    (TABLE, Argument("bucket_num", INT), Argument("partitions"), Argument("where")),
)
def _rescale(context: CallContext, arguments: Arguments) -> None:
    table = context.table(arguments["table"])
    scope = scope_argument(context, table, arguments)
    rescale(context.spark, table, arguments["bucket_num"], scope.partitions)


@procedure(
    "Writes the rows of a table with data evolution anew that deletion vectors leave; these rows get new ids.",
    (TABLE, Argument("partitions"), Argument("options"), Argument("where")),
    result=(ResultColumn("result", BOOLEAN, False),),
)
def _materialize_deletion_vectors(context: CallContext, arguments: Arguments) -> None:
    table = compactable(context.table(arguments["table"]), options_argument(arguments))
    scope = scope_argument(context, table, arguments)
    materialize_deletion_vectors(table, scope.partitions, execute=executor_of(context.spark))


_RETENTION = (
    Argument("retain_max", INT),
    Argument("retain_min", INT),
    Argument("older_than"),
    Argument("max_deletes", INT),
)
_OPTIONS = Argument("options")


def _table(context: CallContext, arguments: Arguments) -> FileStoreTable:
    return context.table(arguments["table"]).with_options(options_argument(arguments))


def _with_arguments(retention: Retention, arguments: Arguments) -> Retention:
    return retention.with_arguments(
        retain_max=arguments["retain_max"],
        retain_min=arguments["retain_min"],
        older_than=older_than_argument(arguments),
        max_deletes=arguments["max_deletes"],
    )


@procedure(
    "Lets the oldest snapshots go, with the files that nothing else needs.",
    (TABLE, *_RETENTION, _OPTIONS),
    result=(ResultColumn("deleted_snapshots_count", INT, nullable=False),),
)
def _expire_snapshots(context: CallContext, arguments: Arguments) -> Rows:
    table = _table(context, arguments)
    return [(expire_snapshots(table, _with_arguments(Retention.of_snapshots(table.options), arguments)),)]


@procedure(
    "Lets the oldest long-lived changelogs go, or all of them.",
    (TABLE, *_RETENTION, Argument("delete_all", BOOLEAN)),
    result=(ResultColumn("deleted_changelogs_count", INT, nullable=False),),
)
def _expire_changelogs(context: CallContext, arguments: Arguments) -> Rows:
    table = context.table(arguments["table"])
    if arguments["delete_all"]:
        return [(expire_all_changelogs(table),)]
    return [(expire_changelogs(table, _with_arguments(Retention.of_changelogs(table.options), arguments)),)]


@procedure(
    "Drops the partitions whose time, or whose last change, is too long ago.",
    (
        TABLE,
        Argument("expiration_time"),
        Argument("timestamp_formatter"),
        Argument("timestamp_pattern"),
        Argument("expire_strategy"),
        Argument("max_expires", INT),
        _OPTIONS,
    ),
    result=(ResultColumn("expired_partitions"),),
)
def _expire_partitions(context: CallContext, arguments: Arguments) -> Rows:
    given = {
        "partition.expiration-strategy": arguments["expire_strategy"],
        "partition.timestamp-formatter": arguments["timestamp_formatter"],
        "partition.timestamp-pattern": arguments["timestamp_pattern"],
        "partition.expiration-time": arguments["expiration_time"],
        "partition.expiration-max-num": arguments["max_expires"],
    }
    named = {key: str(value) for key, value in given.items() if value is not None and str(value).strip()}
    expired = expire_partitions(_table(context, arguments).with_options(named))
    rows = [", ".join(f"{name}={value}" for name, value in partition.items()) for partition in expired]
    return [(row,) for row in rows or ["No expired partitions."]]


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
