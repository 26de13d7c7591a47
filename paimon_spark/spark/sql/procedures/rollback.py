"""The procedures that go back to an earlier state (Java: ``RollbackProcedure`` and its siblings)."""

from __future__ import annotations

from paimon_spark.errors import OptionError
from paimon_spark.maintain.refs.rollback import (
    Rollback,
    rollback_to_snapshot,
    rollback_to_tag,
    rollback_to_timestamp,
    rollback_to_watermark,
)
from paimon_spark.maintain.refs.rollback_as_latest import rollback_to_as_latest
from paimon_spark.spark.sql.procedures.procedure import (
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    ResultColumn,
    Rows,
)

_RESULT = (
    ResultColumn("previous_snapshot_id", LONG, nullable=False),
    ResultColumn("current_snapshot_id", LONG, nullable=False),
)


def _rollback(context: CallContext, arguments: Arguments) -> Rows:
    version = (arguments["version"] or "").strip()
    given = {"version": version or None, "snapshot": arguments["snapshot"], "tag": arguments["tag"]}
    if sum(value is not None for value in given.values()) != 1:
        raise OptionError("only can set one of version/snapshot/tag in RollbackProcedure.")
    table = context.table(arguments["table"])
    if version.isascii() and version.isdigit():
        return _rows(rollback_to_snapshot(table, int(version)))
    if given["snapshot"] is not None:
        return _rows(rollback_to_snapshot(table, given["snapshot"]))
    return _rows(rollback_to_tag(table, version or given["tag"]))


def _rollback_to_timestamp(context: CallContext, arguments: Arguments) -> Rows:
    return _rows(rollback_to_timestamp(context.table(arguments["table"]), arguments["timestamp"]))


def _rollback_to_watermark(context: CallContext, arguments: Arguments) -> Rows:
    return _rows(rollback_to_watermark(context.table(arguments["table"]), arguments["watermark"]))


def _rollback_to_as_latest(context: CallContext, arguments: Arguments) -> Rows:
    table, tag = context.table(arguments["table"]), (arguments["tag"] or "").strip() or None
    done = rollback_to_as_latest(table, snapshot_id=arguments["snapshot_id"], tag=tag)
    return [(done.previous_snapshot_id, done.rolled_back_snapshot_id, done.current_snapshot_id)]


def _rows(done: Rollback) -> Rows:
    return [(done.previous_snapshot_id, done.current_snapshot_id)]


ROLLBACK_PROCEDURES = (
    Procedure(
        "rollback",
        (TABLE, Argument("version"), Argument("snapshot", LONG), Argument("tag")),
        _RESULT,
        _rollback,
        "Goes back to a snapshot or a tag; later snapshots and tags are forgotten.",
    ),
    Procedure(
        "rollback_to_timestamp",
        (TABLE, Argument("timestamp", LONG, required=True)),
        _RESULT,
        _rollback_to_timestamp,
        "Goes back to the latest snapshot committed at or before a time (milliseconds since 1970).",
    ),
    Procedure(
        "rollback_to_watermark",
        (TABLE, Argument("watermark", LONG, required=True)),
        _RESULT,
        _rollback_to_watermark,
        "Goes back to the latest snapshot whose watermark is not later (milliseconds since 1970).",
    ),
    Procedure(
        "rollback_to_as_latest",
        (TABLE, Argument("tag"), Argument("snapshot_id", LONG)),
        (
            ResultColumn("previous_snapshot_id", LONG),
            ResultColumn("rolled_back_snapshot_id", LONG),
            ResultColumn("current_snapshot_id", LONG),
        ),
        _rollback_to_as_latest,
        "Commits the state of a snapshot or tag as a new snapshot; nothing is forgotten.",
    ),
)
