"""The procedures for tags and branches, and those that go back to an earlier state.

Java: ``CreateTagProcedure``, ``CreateBranchProcedure``, ``RollbackProcedure`` and their siblings.
"""

from __future__ import annotations

from datetime import timedelta

from paimon_spark.errors import OptionError
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward, merge_branch
from paimon_spark.maintain.refs.rollback import (
    Rollback,
    rollback_to_as_latest,
    rollback_to_snapshot,
    rollback_to_tag,
    rollback_to_timestamp,
    rollback_to_watermark,
)
from paimon_spark.maintain.refs.tags import run_automatic_tags
from paimon_spark.options.option import parse_duration
from paimon_spark.spark.sql.procedures.procedure import (
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    procedure,
)
from paimon_spark.table.paths import MAIN_BRANCH

_BRANCH = Argument("branch", required=True)
_TAG = Argument("tag", required=True)
_SNAPSHOT = Argument("snapshot", LONG)
_TIME_RETAINED = Argument("time_retained")
_RESULT = (
    ResultColumn("previous_snapshot_id", LONG, nullable=False),
    ResultColumn("current_snapshot_id", LONG, nullable=False),
)
_FOUND = (
    ResultColumn("tagName"),
    ResultColumn("snapshot", LONG),
    ResultColumn("commit_time", LONG),
    ResultColumn("watermark"),
)


@procedure(
    "Makes a branch that begins with the rows of a tag, or without rows.",
    (TABLE, _BRANCH, Argument("tag"), Argument("ignoreIfExists")),
)
def _create_branch(context: CallContext, arguments: Arguments) -> None:
    ignored = (arguments["ignoreIfExists"] or "").strip().lower() == "true"
    table = context.table(arguments["table"])
    branches.create_branch(table, arguments["branch"], tag=arguments["tag"], ignore_if_exists=ignored)


@procedure("Deletes a branch, or several between commas.", (TABLE, _BRANCH))
def _delete_branch(context: CallContext, arguments: Arguments) -> None:
    branches.delete_branch(context.table(arguments["table"]), arguments["branch"])


@procedure("Renames a branch.", (TABLE, Argument("from_branch", required=True), Argument("to_branch", required=True)))
def _rename_branch(context: CallContext, arguments: Arguments) -> None:
    branches.rename_branch(context.table(arguments["table"]), arguments["from_branch"], arguments["to_branch"])


@procedure("Brings the table to the state of a branch.", (TABLE, _BRANCH))
def _fast_forward(context: CallContext, arguments: Arguments) -> None:
    fast_forward(context.table(arguments["table"]), arguments["branch"])


@procedure(
    "Appends to a branch, main when none is given, the rows that another one has got since it began.",
    (TABLE, Argument("source_branch", required=True), Argument("target_branch")),
)
def _merge_branch(context: CallContext, arguments: Arguments) -> None:
    target = arguments["target_branch"] or MAIN_BRANCH
    merge_branch(context.table(arguments["table"]), arguments["source_branch"], target)


@procedure(
    "Goes back to a snapshot or a tag; later snapshots and tags are forgotten.",
    (TABLE, Argument("version"), Argument("snapshot", LONG), Argument("tag")),
    result=_RESULT,
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


@procedure(
    "Goes back to the latest snapshot committed at or before a time (milliseconds since 1970).",
    (TABLE, Argument("timestamp", LONG, required=True)),
    result=_RESULT,
)
def _rollback_to_timestamp(context: CallContext, arguments: Arguments) -> Rows:
    return _rows(rollback_to_timestamp(context.table(arguments["table"]), arguments["timestamp"]))


@procedure(
    "Goes back to the latest snapshot whose watermark is not later (milliseconds since 1970).",
    (TABLE, Argument("watermark", LONG, required=True)),
    result=_RESULT,
)
def _rollback_to_watermark(context: CallContext, arguments: Arguments) -> Rows:
    return _rows(rollback_to_watermark(context.table(arguments["table"]), arguments["watermark"]))


@procedure(
    "Commits the state of a snapshot or tag as a new snapshot; nothing is forgotten.",
    (TABLE, Argument("tag"), Argument("snapshot_id", LONG)),
    result=(
        ResultColumn("previous_snapshot_id", LONG),
        ResultColumn("rolled_back_snapshot_id", LONG),
        ResultColumn("current_snapshot_id", LONG),
    ),
)
def _rollback_to_as_latest(context: CallContext, arguments: Arguments) -> Rows:
    table, tag = context.table(arguments["table"]), (arguments["tag"] or "").strip() or None
    done = rollback_to_as_latest(table, snapshot_id=arguments["snapshot_id"], tag=tag)
    return [(done.previous_snapshot_id, done.rolled_back_snapshot_id, done.current_snapshot_id)]


def _rows(done: Rollback) -> Rows:
    return [(done.previous_snapshot_id, done.current_snapshot_id)]


def _retained(arguments: Arguments) -> timedelta | None:
    text = arguments["time_retained"]
    return None if text is None else parse_duration(text)


@procedure(
    "Gives the latest snapshot, or the given one, a name that keeps it readable after it expires.",
    (TABLE, _TAG, _SNAPSHOT, _TIME_RETAINED),
)
def _create_tag(context: CallContext, arguments: Arguments) -> None:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    tags.create_tag(table, arguments["tag"], snapshot_id=arguments["snapshot"], time_retained=retained)


@procedure("Lets an existing tag hold the latest snapshot, or the given one.", (TABLE, _TAG, _SNAPSHOT, _TIME_RETAINED))
def _replace_tag(context: CallContext, arguments: Arguments) -> None:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    tags.replace_tag(table, arguments["tag"], snapshot_id=arguments["snapshot"], time_retained=retained)


@procedure(
    "Deletes a tag, or several between commas, with the files that nothing else needs; one not there is no error.",
    (TABLE, _TAG),
)
def _delete_tag(context: CallContext, arguments: Arguments) -> None:
    tags.delete_tags(context.table(arguments["table"]), arguments["tag"], ignore_if_missing=True)


@procedure("Gives a tag another name.", (TABLE, _TAG, Argument("target_tag", required=True)))
def _rename_tag(context: CallContext, arguments: Arguments) -> None:
    tags.rename_tag(context.table(arguments["table"]), arguments["tag"], arguments["target_tag"])


@procedure(
    "Tags the first snapshot that was committed at or after a time (milliseconds since 1970).",
    (TABLE, _TAG, Argument("timestamp", LONG, required=True), _TIME_RETAINED),
    result=_FOUND,
)
def _create_tag_from_timestamp(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    found = tags.create_tag_from_timestamp(table, arguments["tag"], arguments["timestamp"], time_retained=retained)
    watermark = "null" if found.watermark is None else str(found.watermark)  # Java: String.valueOf
    return [(arguments["tag"], found.id, found.time_millis, watermark)]


@procedure(
    "Tags the first snapshot whose watermark is as late or later (milliseconds since 1970).",
    (TABLE, _TAG, Argument("watermark", LONG, required=True), _TIME_RETAINED),
    result=_FOUND,
)
def _create_tag_from_watermark(context: CallContext, arguments: Arguments) -> Rows:
    table, retained = context.table(arguments["table"]), _retained(arguments)
    found = tags.create_tag_from_watermark(table, arguments["tag"], arguments["watermark"], time_retained=retained)
    return [(arguments["tag"], found.id, found.time_millis, str(found.watermark))]


@procedure("Makes the automatic tags that are due, and deletes the tags whose time is over.", (TABLE,))
def _trigger_tag_automatic_creation(context: CallContext, arguments: Arguments) -> None:
    run_automatic_tags(context.table(arguments["table"]))


@procedure(
    "Deletes the tags whose time is over, and those made before a local time.",
    (TABLE, Argument("older_than")),
    result=(ResultColumn("expired_tags", nullable=False),),
)
def _expire_tags(context: CallContext, arguments: Arguments) -> Rows:
    text = arguments["older_than"]
    older_than = None if text is None else tags.parse_older_than(text)
    expired = tags.expire_tags(context.table(arguments["table"]), older_than=older_than)
    return [(name,) for name in expired or ["No expired tags."]]
