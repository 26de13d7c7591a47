"""The procedures that compact a table and build its file indexes (Java: ``CompactProcedure`` and others)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.maintain.compact.materialize import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import CompactScope, parse_partitions, scope_of
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.rescale import rescale
from paimon_spark.spark.jobs.table_compaction import compact_databases, compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.sql.procedures.procedure import (
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
    options_argument,
    procedure,
    text_of,
)
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.sql_text import NamePatterns

if TYPE_CHECKING:
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
