"""The procedures that compact a table and build its file indexes (Java: ``CompactProcedure`` and others)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.commit.metadata_commit import compact_manifests
from paimon_spark.maintain.compact.materialize import materialize_deletion_vectors
from paimon_spark.maintain.compact.row_order import asked_order
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.jobs.compact_job import compactable, executor_of, is_full, rewrite_indexes
from paimon_spark.spark.jobs.rescale import rescale
from paimon_spark.spark.jobs.table_compaction import compact_databases, compact_table
from paimon_spark.spark.session.session_settings import settings_of, time_zone
from paimon_spark.spark.sql.procedures.expire import options_argument
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    DONE,
    INT,
    LONG,
    STRING,
    TABLE,
    Argument,
    CallContext,
    Procedure,
    ResultColumn,
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


def _compact(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    given = {name: text if text and text.strip() else None for name, text in arguments.items()}
    partitions, idle = given["partitions"], given["partition_idle_time"]
    table = context.table(arguments["table"])
    order = asked_order(
        table,
        given["order_strategy"],
        given["order_by"],
        buckets=given["buckets"] is not None,
        idle_time=idle is not None,
    )
    full = is_full(given["compact_strategy"], table)
    table = compactable(table, options_argument(given["options"]))
    scope = scope_of(
        table,
        partitions=None if partitions is None else parse_partitions(partitions),
        where=given["where"],
        buckets=given["buckets"],
        idle_time=None if idle is None else parse_duration(idle),
        zone=None if given["where"] is None else time_zone(settings_of(context.spark)),
    )
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


def _compact_database(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    compacted = compact_databases(
        context.spark,
        context.warehouse(),
        NamePatterns.of(arguments["including_databases"]),
        NamePatterns.of(arguments["including_tables"], arguments["excluding_tables"]),
        options_argument(arguments["options"]),
    )
    return [(compacted.summary,)]


def _compact_manifest(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    given = {o: str(arguments[name]).lower() for name, o in _MANIFEST_SORT.items() if arguments[name] is not None}
    table = context.table(arguments["table"]).with_options(options_argument(arguments["options"]))
    compact_manifests(table.with_options(given), dry_run=bool(arguments["dry_run"]))
    return [(True,)]


def _rewrite_file_index(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    table, where = context.table(arguments["table"]), arguments["where"]
    zone = time_zone(settings_of(context.spark)) if where else None
    scope = scope_of(table, where=where if where and where.strip() else None, zone=zone)
    done = rewrite_indexes(context.spark, table, scope.partitions)
    return [(done.partitions, done.files)]


def _rescale(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    given = {name: arguments[name] if str(arguments[name] or "").strip() else None for name in ("partitions", "where")}
    table, partitions = context.table(arguments["table"]), given["partitions"]
    scope = scope_of(
        table,
        partitions=None if partitions is None else parse_partitions(partitions),
        where=given["where"],
        zone=None if given["where"] is None else time_zone(settings_of(context.spark)),
    )
    rescale(context.spark, table, arguments["bucket_num"], scope.partitions)
    return [(True,)]


def _materialize(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    given = {name: arguments[name] if str(arguments[name] or "").strip() else None for name in ("partitions", "where")}
    table = compactable(context.table(arguments["table"]), options_argument(arguments["options"]))
    partitions = given["partitions"]
    scope = scope_of(
        table,
        partitions=None if partitions is None else parse_partitions(partitions),
        where=given["where"],
        zone=None if given["where"] is None else time_zone(settings_of(context.spark)),
    )
    materialize_deletion_vectors(table, scope.partitions, execute=executor_of(context.spark))
    return [(True,)]


COMPACT_PROCEDURES = (
    Procedure(
        "materialize_deletion_vectors",
        (TABLE, Argument("partitions"), Argument("options"), Argument("where")),
        (ResultColumn("result", BOOLEAN, False),),
        _materialize,
        "Writes the rows of a table with data evolution anew that deletion vectors leave; these rows get new ids.",
    ),
    Procedure(
        "compact",
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
        (
            *DONE,
            ResultColumn("snapshot_id", LONG),
            *(ResultColumn(name, LONG, False) for name in _REWRITTEN),
        ),
        _compact,
        "Merges the files of a table, or of some of its partitions, so that there are fewer of them.",
    ),
    Procedure(
        "compact_database",
        (
            Argument("including_databases"),
            Argument("including_tables"),
            Argument("excluding_tables"),
            Argument("options"),
        ),
        (ResultColumn("result"),),
        _compact_database,
        "Compacts the tables (db.t) of databases, chosen by regular expressions; all of them when none is given.",
    ),
    Procedure(
        "compact_manifest",
        (
            TABLE,
            Argument("options"),
            Argument("dry_run", BOOLEAN),
            *(Argument(name, BOOLEAN if name.endswith("enabled") else STRING) for name in _MANIFEST_SORT),
        ),
        DONE,
        _compact_manifest,
        "Merges the manifests of a table; no row and no data file changes.",
    ),
    Procedure(
        "rescale",
        (TABLE, Argument("bucket_num", INT), Argument("partitions"), Argument("where")),
        DONE,
        _rescale,
        "Writes the rows of a table, or of some of its partitions, into another number of buckets.",
    ),
    Procedure(
        "rewrite_file_index",
        (TABLE, Argument("where")),
        (ResultColumn("written_partitions", INT, False), ResultColumn("written_indexes", INT, False)),
        _rewrite_file_index,
        "Builds the indexes of the data files anew, as the file-index options say; no row changes.",
    ),
)
