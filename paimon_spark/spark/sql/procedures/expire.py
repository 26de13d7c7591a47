"""The procedures that let snapshots, changelogs and partitions expire (Java: ``ExpireSnapshotsProcedure``, ...)."""

from __future__ import annotations

from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.expire.snapshots import Retention, expire_all_changelogs, expire_changelogs, expire_snapshots
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    INT,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    older_than_argument,
    options_argument,
    procedure,
)
from paimon_spark.table.table import FileStoreTable

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
