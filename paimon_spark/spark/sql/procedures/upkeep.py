"""The procedures of upkeep: compaction, file indexes, expiry, copies, migration, and what mends a table.

Java: ``CompactProcedure``, ``ExpireSnapshotsProcedure``, ``CopyFilesProcedure``, ``MigrateTableProcedure`` and others.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.compact.compaction import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import CompactScope, parse_partitions, scope_of
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.expire.snapshots import Retention, expire_all_changelogs, expire_changelogs, expire_snapshots
from paimon_spark.maintain.files.repairs import remove_unexisting_files, repair_earliest_snapshot
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.reassign_row_ids import reassign_row_ids
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.jobs.bucket_numbers import rescale
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.copies import (
    SOURCE_TYPES,
    copy_table,
    directory_source,
    migrate,
    migrate_database,
    read_options,
    table_source,
)
from paimon_spark.spark.jobs.orphan_job import remove_orphan_files
from paimon_spark.spark.jobs.table_compaction import compact_databases, compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    DONE,
    INT,
    LONG,
    CallContext,
    Int,
    Long,
    OptionMap,
    Options,
    ResultColumn,
    Rows,
    Table,
    Tables,
    Text,
    Time,
    procedure,
)
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.sql_text import NamePatterns
from paimon_spark.table.consumer_store import clear_consumers, reset_consumer
from paimon_spark.table.metastore_catalog import MetastoreCatalog
from paimon_spark.table.table import FileStoreTable

if TYPE_CHECKING:
    from paimon_spark.spark.sql.warehouses import TableName
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_REWRITTEN = ("removed_files", "removed_bytes", "added_files", "added_bytes")
"""Columns behind the one that Java's procedure has."""

_NONE: Options = {}


def named_scope(
    context: CallContext,
    table: FileStoreTable,
    partitions: str | None,
    where: str | None,
    *,
    buckets: str | None = None,
    idle_time: timedelta | None = None,
) -> CompactScope:
    """Return the part of a table that the arguments ``partitions`` and ``where`` name; errors as of `scope_of`."""
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
    result=(*DONE, ResultColumn("snapshot_id", LONG), *(ResultColumn(name, LONG, False) for name in _REWRITTEN)),
)
def _compact(
    context: CallContext,
    table: Table,
    partitions: Text | None = None,
    compact_strategy: Text | None = None,
    order_strategy: Text | None = None,
    order_by: Text | None = None,
    where: Text | None = None,
    options: Options = _NONE,
    partition_idle_time: Text | None = None,
    buckets: Text | None = None,
) -> Rows:
    idle = None if partition_idle_time is None else parse_duration(partition_idle_time)
    order = asked_order(table, order_strategy, order_by, buckets=buckets is not None, idle_time=idle is not None)
    full = is_full(compact_strategy, table)
    table = compactable(table, options)
    scope = named_scope(context, table, partitions, where, buckets=buckets, idle_time=idle)
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
    result=(ResultColumn("result"),),
)
def _compact_database(
    context: CallContext,
    including_databases: str | None = None,
    including_tables: str | None = None,
    excluding_tables: str | None = None,
    options: Options = _NONE,
) -> Rows:
    databases, tables = NamePatterns.of(including_databases), NamePatterns.of(including_tables, excluding_tables)
    return [(compact_databases(context.spark, context.warehouse(), databases, tables, options).summary,)]


@procedure("Merges the manifests of a table; no row and no data file changes.")
def _compact_manifest(
    _context: CallContext,
    table: Table,
    options: Options = _NONE,
    dry_run: bool = False,
    manifest_sort_enabled: bool | None = None,
    manifest_sort_partition_field: str | None = None,
    manifest_sort_max_rewrite_size: str | None = None,
) -> None:
    sorting = {
        "manifest-sort.enabled": None if manifest_sort_enabled is None else str(manifest_sort_enabled).lower(),
        "manifest-sort.partition-field": manifest_sort_partition_field,
        "manifest-sort.max-rewrite-size": manifest_sort_max_rewrite_size,
    }
    given = {key: value for key, value in sorting.items() if value is not None}
    compact_manifests(table.with_options(options).with_options(given), dry_run=dry_run)


@procedure(
    "Builds the indexes of the data files anew, as the file-index options say; no row changes.",
    result=(ResultColumn("written_partitions", INT, False), ResultColumn("written_indexes", INT, False)),
)
def _rewrite_file_index(context: CallContext, table: Table, where: Text | None = None) -> Rows:
    done = rewrite_indexes(context.spark, table, named_scope(context, table, None, where).partitions)
    return [(done.partitions, done.files)]


@procedure("Writes the rows of a table, or of some of its partitions, into another number of buckets.")
def _rescale(
    context: CallContext,
    table: Table,
    bucket_num: Int | None = None,
    partitions: Text | None = None,
    where: Text | None = None,
) -> None:
    rescale(context.spark, table, bucket_num, named_scope(context, table, partitions, where).partitions)


@procedure(
    "Writes the rows of a table with data evolution anew that deletion vectors leave; these rows get new ids.",
    result=(ResultColumn("result", BOOLEAN, False),),
)
def _materialize_deletion_vectors(
    context: CallContext,
    table: Table,
    partitions: Text | None = None,
    options: Options = _NONE,
    where: Text | None = None,
) -> None:
    table = compactable(table, options)
    scope = named_scope(context, table, partitions, where)
    materialize_deletion_vectors(table, scope.partitions, execute=executor_of(context.spark))


@procedure(
    "Lets the oldest snapshots go, with the files that nothing else needs.",
    result=(ResultColumn("deleted_snapshots_count", INT, nullable=False),),
    deletes=True,
)
def _expire_snapshots(
    _context: CallContext,
    table: Table,
    retain_max: Int | None = None,
    retain_min: Int | None = None,
    older_than: Time | None = None,
    max_deletes: Int | None = None,
    options: Options = _NONE,
) -> Rows:
    table = table.with_options(options)
    retention = Retention.of_snapshots(table.options).with_arguments(
        retain_max=retain_max, retain_min=retain_min, older_than=older_than, max_deletes=max_deletes
    )
    return [(expire_snapshots(table, retention),)]


@procedure(
    "Lets the oldest long-lived changelogs go, or all of them.",
    result=(ResultColumn("deleted_changelogs_count", INT, nullable=False),),
    deletes=True,
)
def _expire_changelogs(
    _context: CallContext,
    table: Table,
    retain_max: Int | None = None,
    retain_min: Int | None = None,
    older_than: Time | None = None,
    max_deletes: Int | None = None,
    delete_all: bool = False,
) -> Rows:
    if delete_all:
        return [(expire_all_changelogs(table),)]
    retention = Retention.of_changelogs(table.options).with_arguments(
        retain_max=retain_max, retain_min=retain_min, older_than=older_than, max_deletes=max_deletes
    )
    return [(expire_changelogs(table, retention),)]


@procedure(
    "Drops the partitions whose time, or whose last change, is too long ago.",
    result=(ResultColumn("expired_partitions"),),
)
def _expire_partitions(
    _context: CallContext,
    table: Table,
    expiration_time: Text | None = None,
    timestamp_formatter: Text | None = None,
    timestamp_pattern: Text | None = None,
    expire_strategy: Text | None = None,
    max_expires: Int | None = None,
    options: Options = _NONE,
) -> Rows:
    given = {
        "partition.expiration-strategy": expire_strategy,
        "partition.timestamp-formatter": timestamp_formatter,
        "partition.timestamp-pattern": timestamp_pattern,
        "partition.expiration-time": expiration_time,
        "partition.expiration-max-num": max_expires,
    }
    named = {key: str(value) for key, value in given.items() if value is not None}
    expired = expire_partitions(table.with_options(options).with_options(named))
    rows = [", ".join(f"{name}={value}" for name, value in partition.items()) for partition in expired]
    return [(row,) for row in rows or ["No expired partitions."]]


@procedure(
    "Deletes the files of a table, or of all tables of a database (db.*), that nothing names.",
    result=(ResultColumn("deletedFileCount", LONG), ResultColumn("deletedFileTotalLenInBytes", LONG)),
    deletes=True,
)
def _remove_orphan_files(
    context: CallContext,
    table: Tables,
    older_than: Time | None = None,
    dry_run: bool = False,
    parallelism: Int | None = None,
    mode: str = "",
) -> Rows:
    removed = [
        remove_orphan_files(
            context.spark,
            each,
            older_than=older_than,
            dry_run=dry_run,
            mode=mode or "distributed",
            parallelism=parallelism,
        )
        for each in table
    ]
    return [(sum(files.file_count for files in removed), sum(files.total_bytes for files in removed))]


@procedure(
    "Deletes all rows, history, branches, tags and consumers of a table, with every file.",
    result=(ResultColumn("result"),),
    deletes=True,
)
def _purge_files(_context: CallContext, table: Table) -> Rows:
    purge_files(table)
    return [("Success",)]


@procedure("Lets a consumer read a snapshot next; without a snapshot it is deleted.")
def _reset_consumer(_context: CallContext, table: Table, consumerId: str, nextSnapshotId: Long | None = None) -> None:
    reset_consumer(table, consumerId, nextSnapshotId)


@procedure("Deletes the consumers whose ids match a regular expression, less those that match another.")
def _clear_consumers(
    _context: CallContext, table: Table, includingConsumers: str | None = None, excludingConsumers: str | None = None
) -> None:
    clear_consumers(table, including=includingConsumers, excluding=excludingConsumers)


@procedure("Marks partitions (dt=2024-01-31;dt=2024-02-01) as partition.mark-done-action says: by a file _SUCCESS.")
def _mark_partition_done(_context: CallContext, table: Table, partitions: str) -> None:
    mark_partitions_done(table, parse_partitions(partitions))


@procedure(
    "Takes data files out of the table that are not there any more; their rows are lost.",
    result=(ResultColumn("fileName", nullable=False),),
)
def _remove_unexisting_files(
    _context: CallContext, table: Table, dry_run: bool = False, parallelism: Int | None = None
) -> Rows:
    return [(path,) for path in remove_unexisting_files(table, dry_run=dry_run, parallelism=parallelism)]


@procedure(
    "Lets the first snapshot behind a gap be the earliest one.",
    result=(
        ResultColumn("previous_earliest_snapshot_id", LONG, False),
        ResultColumn("current_earliest_snapshot_id", LONG, False),
    ),
)
def _repair_earliest_snapshot(_context: CallContext, table: Table, snapshot_id: Long) -> Rows:
    return [(repair_earliest_snapshot(table, snapshot_id), snapshot_id)]


@procedure("Puts the names of tables that lie in the warehouse into its metastore; with an empty name those of all.")
def _repair(context: CallContext, database_or_table: str) -> None:
    catalog = context.warehouse()
    if not isinstance(catalog, MetastoreCatalog):
        raise UnsupportedError(
            "Procedure sys.repair is not supported by this catalog: it has no metastore that could differ from its "
            "directories. One with 'metastore' = 'jdbc' has."
        )
    text = database_or_table.strip()
    names = [part.strip().split(".") for part in text.split(",")] if text else [[]]
    for name in names:
        if len(name) > 2:
            raise OptionError(f"'{'.'.join(name)}' names no database or table: write database or database.table.")
    for name in names:
        catalog.repair(*name)


@procedure(
    "Gives the rows of a table with data evolution new ids, so that those of a partition lie together.",
    result=(ResultColumn("result"),),
)
def _reassign_row_id(context: CallContext, table: str, partitions: Text | None = None) -> Rows:
    found = context.table(table)
    given = None if partitions is None or not found.schema.partition_keys else parse_partitions(partitions)
    return [(reassign_row_ids(found, scope_of(found, partitions=given).partitions).message(table),)]


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
