"""The procedures for tags and branches, and those that go back to an earlier state.

Java: ``CreateTagProcedure``, ``CreateBranchProcedure``, ``RollbackProcedure`` and their siblings.
"""

from __future__ import annotations

from paimon_spark.errors import OptionError
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs import fast_forward as of_branches
from paimon_spark.maintain.refs import rollback as rollbacks
from paimon_spark.spark.sql.procedures.procedure import (
    LONG,
    CallContext,
    Duration,
    Long,
    ResultColumn,
    Rows,
    Table,
    Text,
    procedure,
)
from paimon_spark.table.paths import MAIN_BRANCH

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


@procedure("Makes a branch that begins with the rows of a tag, or without rows.")
def _create_branch(
    _context: CallContext, table: Table, branch: str, tag: str | None = None, ignoreIfExists: str = ""
) -> None:
    ignored = ignoreIfExists.strip().lower() == "true"
    branches.create_branch(table, branch, tag=tag, ignore_if_exists=ignored)


@procedure("Deletes a branch, or several between commas.", deletes=True)
def _delete_branch(_context: CallContext, table: Table, branch: str) -> None:
    branches.delete_branch(table, branch)


@procedure("Renames a branch.")
def _rename_branch(_context: CallContext, table: Table, from_branch: str, to_branch: str) -> None:
    branches.rename_branch(table, from_branch, to_branch)


@procedure("Brings the table to the state of a branch.", deletes=True)
def _fast_forward(_context: CallContext, table: Table, branch: str) -> None:
    of_branches.fast_forward(table, branch)


@procedure("Appends to a branch, main when none is given, the rows that another one has got since it began.")
def _merge_branch(_context: CallContext, table: Table, source_branch: str, target_branch: str = "") -> None:
    of_branches.merge_branch(table, source_branch, target_branch or MAIN_BRANCH)


@procedure("Goes back to a snapshot or a tag; later snapshots and tags are forgotten.", result=_RESULT, deletes=True)
def _rollback(
    _context: CallContext,
    table: Table,
    version: Text | None = None,
    snapshot: Long | None = None,
    tag: str | None = None,
) -> Rows:
    if sum(value is not None for value in (version, snapshot, tag)) != 1:
        raise OptionError("only can set one of version/snapshot/tag in RollbackProcedure.")
    if snapshot is not None:
        return _rows(rollbacks.rollback_to_snapshot(table, snapshot))
    name = tag or "" if version is None else version.strip()
    if version is not None and name.isascii() and name.isdigit():
        return _rows(rollbacks.rollback_to_snapshot(table, int(name)))
    return _rows(rollbacks.rollback_to_tag(table, name))


@procedure(
    "Goes back to the latest snapshot committed at or before a time (milliseconds since 1970).",
    result=_RESULT,
    deletes=True,
)
def _rollback_to_timestamp(_context: CallContext, table: Table, timestamp: Long) -> Rows:
    return _rows(rollbacks.rollback_to_timestamp(table, timestamp))


@procedure(
    "Goes back to the latest snapshot whose watermark is not later (milliseconds since 1970).",
    result=_RESULT,
    deletes=True,
)
def _rollback_to_watermark(_context: CallContext, table: Table, watermark: Long) -> Rows:
    return _rows(rollbacks.rollback_to_watermark(table, watermark))


@procedure(
    "Commits the state of a snapshot or tag as a new snapshot; nothing is forgotten.",
    result=(
        ResultColumn("previous_snapshot_id", LONG),
        ResultColumn("rolled_back_snapshot_id", LONG),
        ResultColumn("current_snapshot_id", LONG),
    ),
)
def _rollback_to_as_latest(
    _context: CallContext, table: Table, tag: Text | None = None, snapshot_id: Long | None = None
) -> Rows:
    name = None if tag is None else tag.strip()
    done = rollbacks.rollback_to_as_latest(table, snapshot_id=snapshot_id, tag=name)
    return [(done.previous_snapshot_id, done.rolled_back_snapshot_id, done.current_snapshot_id)]


def _rows(done: rollbacks.Rollback) -> Rows:
    return [(done.previous_snapshot_id, done.current_snapshot_id)]


@procedure("Gives the latest snapshot, or the given one, a name that keeps it readable after it expires.")
def _create_tag(
    _context: CallContext, table: Table, tag: str, snapshot: Long | None = None, time_retained: Duration | None = None
) -> None:
    tags.create_tag(table, tag, snapshot_id=snapshot, time_retained=time_retained)


@procedure("Lets an existing tag hold the latest snapshot, or the given one.")
def _replace_tag(
    _context: CallContext, table: Table, tag: str, snapshot: Long | None = None, time_retained: Duration | None = None
) -> None:
    tags.replace_tag(table, tag, snapshot_id=snapshot, time_retained=time_retained)


@procedure(
    "Deletes a tag, or several between commas, with the files that nothing else needs; one not there is no error.",
    deletes=True,
)
def _delete_tag(_context: CallContext, table: Table, tag: str) -> None:
    tags.delete_tags(table, tag, ignore_if_missing=True)


@procedure("Gives a tag another name.")
def _rename_tag(_context: CallContext, table: Table, tag: str, target_tag: str) -> None:
    tags.rename_tag(table, tag, target_tag)


@procedure("Tags the first snapshot that was committed at or after a time (milliseconds since 1970).", result=_FOUND)
def _create_tag_from_timestamp(
    _context: CallContext, table: Table, tag: str, timestamp: Long, time_retained: Duration | None = None
) -> Rows:
    found = tags.create_tag_from_timestamp(table, tag, timestamp, time_retained=time_retained)
    watermark = "null" if found.watermark is None else str(found.watermark)  # Java: String.valueOf
    return [(tag, found.id, found.time_millis, watermark)]


@procedure("Tags the first snapshot whose watermark is as late or later (milliseconds since 1970).", result=_FOUND)
def _create_tag_from_watermark(
    _context: CallContext, table: Table, tag: str, watermark: Long, time_retained: Duration | None = None
) -> Rows:
    found = tags.create_tag_from_watermark(table, tag, watermark, time_retained=time_retained)
    return [(tag, found.id, found.time_millis, str(found.watermark))]


@procedure("Makes the automatic tags that are due, and deletes the tags whose time is over.")
def _trigger_tag_automatic_creation(_context: CallContext, table: Table) -> None:
    tags.run_automatic_tags(table)


@procedure(
    "Deletes the tags whose time is over, and those made before a local time.",
    result=(ResultColumn("expired_tags", nullable=False),),
    deletes=True,
)
def _expire_tags(_context: CallContext, table: Table, older_than: str | None = None) -> Rows:
    before = None if older_than is None else tags.parse_older_than(older_than)
    return [(name,) for name in tags.expire_tags(table, older_than=before) or ["No expired tags."]]
