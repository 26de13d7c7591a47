"""The procedures that make, change and delete tags (Java: ``CreateTagProcedure`` and its siblings)."""

from __future__ import annotations

from datetime import timedelta

from paimon_spark.maintain.refs import tags
from paimon_spark.maintain.refs.auto_tags import run_automatic_tags
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.sql.procedures.procedure import (
    DONE,
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    ResultColumn,
    Rows,
)

_TAG = Argument("tag", required=True)
_SNAPSHOT = Argument("snapshot", LONG)
_TIME_RETAINED = Argument("time_retained")


def _retained(arguments: Arguments) -> timedelta | None:
    text = arguments["time_retained"]
    return None if text is None else parse_duration(text)


def _create_tag(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    tags.create_tag(table, arguments["tag"], snapshot_id=arguments["snapshot"], time_retained=retained)
    return [(True,)]


def _replace_tag(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    tags.replace_tag(table, arguments["tag"], snapshot_id=arguments["snapshot"], time_retained=retained)
    return [(True,)]


def _delete_tag(context: CallContext, arguments: Arguments) -> Rows:
    tags.delete_tags(context.table(arguments["table"]), arguments["tag"], ignore_if_missing=True)
    return [(True,)]


def _rename_tag(context: CallContext, arguments: Arguments) -> Rows:
    tags.rename_tag(context.table(arguments["table"]), arguments["tag"], arguments["target_tag"])
    return [(True,)]


def _create_tag_from_timestamp(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    found = tags.create_tag_from_timestamp(table, arguments["tag"], arguments["timestamp"], time_retained=retained)
    watermark = "null" if found.watermark is None else str(found.watermark)  # Java: String.valueOf
    return [(arguments["tag"], found.id, found.time_millis, watermark)]


def _create_tag_from_watermark(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    found = tags.create_tag_from_watermark(table, arguments["tag"], arguments["watermark"], time_retained=retained)
    return [(arguments["tag"], found.id, found.time_millis, str(found.watermark))]


def _trigger_tag_automatic_creation(context: CallContext, arguments: Arguments) -> Rows:
    run_automatic_tags(context.table(arguments["table"]))
    return [(True,)]


def _expire_tags(context: CallContext, arguments: Arguments) -> Rows:
    text = arguments["older_than"]
    older_than = None if text is None else tags.parse_older_than(text)
    expired = tags.expire_tags(context.table(arguments["table"]), older_than=older_than)
    return [(name,) for name in expired or ["No expired tags."]]


_FOUND = (
    ResultColumn("tagName"),
    ResultColumn("snapshot", LONG),
    ResultColumn("commit_time", LONG),
    ResultColumn("watermark"),
)

TAG_PROCEDURES = (
    Procedure(
        "create_tag",
        (TABLE, _TAG, _SNAPSHOT, _TIME_RETAINED),
        DONE,
        _create_tag,
        "Gives the latest snapshot, or the given one, a name that keeps it readable after it expires.",
    ),
    Procedure(
        "replace_tag",
        (TABLE, _TAG, _SNAPSHOT, _TIME_RETAINED),
        DONE,
        _replace_tag,
        "Lets an existing tag hold the latest snapshot, or the given one.",
    ),
    Procedure(
        "delete_tag",
        (TABLE, _TAG),
        DONE,
        _delete_tag,
        "Deletes a tag, or several between commas, with the files that nothing else needs; one not there is no error.",
    ),
    Procedure(
        "rename_tag",
        (TABLE, _TAG, Argument("target_tag", required=True)),
        DONE,
        _rename_tag,
        "Gives a tag another name.",
    ),
    Procedure(
        "create_tag_from_timestamp",
        (TABLE, _TAG, Argument("timestamp", LONG, required=True), _TIME_RETAINED),
        _FOUND,
        _create_tag_from_timestamp,
        "Tags the first snapshot that was committed at or after a time (milliseconds since 1970).",
    ),
    Procedure(
        "create_tag_from_watermark",
        (TABLE, _TAG, Argument("watermark", LONG, required=True), _TIME_RETAINED),
        _FOUND,
        _create_tag_from_watermark,
        "Tags the first snapshot whose watermark is as late or later (milliseconds since 1970).",
    ),
    Procedure(
        "trigger_tag_automatic_creation",
        (TABLE,),
        DONE,
        _trigger_tag_automatic_creation,
        "Makes the automatic tags that are due, and deletes the tags whose time is over.",
    ),
    Procedure(
        "expire_tags",
        (TABLE, Argument("older_than")),
        (ResultColumn("expired_tags", nullable=False),),
        _expire_tags,
        "Deletes the tags whose time is over, and those made before a local time.",
    ),
)
