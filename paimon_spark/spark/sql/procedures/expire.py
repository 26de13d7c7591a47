"""The procedures that let snapshots, changelogs and partitions expire (Java: ``ExpireSnapshotsProcedure``, ...)."""

from __future__ import annotations

from paimon_spark.errors import OptionError
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.expire.snapshots import Retention, expire_all_changelogs, expire_changelogs, expire_snapshots
from paimon_spark.maintain.refs.tags import parse_older_than
from paimon_spark.spark.sql.procedures.procedure import (
    BOOLEAN,
    INT,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    ResultColumn,
    Rows,
)
from paimon_spark.table.table import FileStoreTable

_RETENTION = (
    Argument("retain_max", INT),
    Argument("retain_min", INT),
    Argument("older_than"),
    Argument("max_deletes", INT),
)
_OPTIONS = Argument("options")


def options_argument(text: str | None) -> dict[str, str]:
    """Return the options of an argument like ``key=value,key2=value2``.

    Raises:
        OptionError: the text is not of this form.
    """
    found: dict[str, str] = {}
    for part in (text or "").split(",") if (text or "").strip() else []:
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"Invalid key-value string '{part}'. Please use format 'key=value'.")
        found[key.strip()] = value.strip()
    return found


def _table(context: CallContext, arguments: Arguments) -> FileStoreTable:
    return context.table(arguments["table"]).with_options(options_argument(arguments["options"]))


def _with_arguments(retention: Retention, arguments: Arguments) -> Retention:
    text = arguments["older_than"]
    return retention.with_arguments(
        retain_max=arguments["retain_max"],
        retain_min=arguments["retain_min"],
        older_than=parse_older_than(text) if text and text.strip() else None,
        max_deletes=arguments["max_deletes"],
    )


def _expire_snapshots(context: CallContext, arguments: Arguments) -> Rows:
    table = _table(context, arguments)
    return [(expire_snapshots(table, _with_arguments(Retention.of_snapshots(table.options), arguments)),)]


def _expire_changelogs(context: CallContext, arguments: Arguments) -> Rows:
    table = context.table(arguments["table"])
    if arguments["delete_all"]:
        return [(expire_all_changelogs(table),)]
    return [(expire_changelogs(table, _with_arguments(Retention.of_changelogs(table.options), arguments)),)]


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


EXPIRE_PROCEDURES = (
    Procedure(
        "expire_snapshots",
        (TABLE, *_RETENTION, _OPTIONS),
        (ResultColumn("deleted_snapshots_count", INT, nullable=False),),
        _expire_snapshots,
        "Lets the oldest snapshots go, with the files that nothing else needs.",
    ),
    Procedure(
        "expire_changelogs",
        (TABLE, *_RETENTION, Argument("delete_all", BOOLEAN)),
        (ResultColumn("deleted_changelogs_count", INT, nullable=False),),
        _expire_changelogs,
        "Lets the oldest long-lived changelogs go, or all of them.",
    ),
    Procedure(
        "expire_partitions",
        (
            TABLE,
            Argument("expiration_time"),
            Argument("timestamp_formatter"),
            Argument("timestamp_pattern"),
            Argument("expire_strategy"),
            Argument("max_expires", INT),
            _OPTIONS,
        ),
        (ResultColumn("expired_partitions"),),
        _expire_partitions,
        "Drops the partitions whose time, or whose last change, is too long ago.",
    ),
)
