"""The procedures that make, move and delete branches (Java: ``CreateBranchProcedure`` and its siblings)."""

from __future__ import annotations

from paimon_spark.maintain.refs import branches
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.merge_branch import merge_branch
from paimon_spark.spark.sql.procedures.procedure import DONE, TABLE, Argument, Arguments, CallContext, Procedure, Rows
from paimon_spark.table.paths import MAIN_BRANCH

_BRANCH = Argument("branch", required=True)
_DONE: Rows = [(True,)]


def _create_branch(context: CallContext, arguments: Arguments) -> Rows:
    ignored = (arguments["ignoreIfExists"] or "").strip().lower() == "true"
    table = context.table(arguments["table"])
    branches.create_branch(table, arguments["branch"], tag=arguments["tag"], ignore_if_exists=ignored)
    return _DONE


def _delete_branch(context: CallContext, arguments: Arguments) -> Rows:
    branches.delete_branch(context.table(arguments["table"]), arguments["branch"])
    return _DONE


def _rename_branch(context: CallContext, arguments: Arguments) -> Rows:
    branches.rename_branch(context.table(arguments["table"]), arguments["from_branch"], arguments["to_branch"])
    return _DONE


def _fast_forward(context: CallContext, arguments: Arguments) -> Rows:
    fast_forward(context.table(arguments["table"]), arguments["branch"])
    return _DONE


def _merge_branch(context: CallContext, arguments: Arguments) -> Rows:
    target = arguments["target_branch"] or MAIN_BRANCH
    merge_branch(context.table(arguments["table"]), arguments["source_branch"], target)
    return _DONE


BRANCH_PROCEDURES = (
    Procedure(
        "create_branch",
        (TABLE, _BRANCH, Argument("tag"), Argument("ignoreIfExists")),
        DONE,
        _create_branch,
        "Makes a branch that begins with the rows of a tag, or without rows.",
    ),
    Procedure("delete_branch", (TABLE, _BRANCH), DONE, _delete_branch, "Deletes a branch, or several between commas."),
    Procedure(
        "rename_branch",
        (TABLE, Argument("from_branch", required=True), Argument("to_branch", required=True)),
        DONE,
        _rename_branch,
        "Renames a branch.",
    ),
    Procedure("fast_forward", (TABLE, _BRANCH), DONE, _fast_forward, "Brings the table to the state of a branch."),
    Procedure(
        "merge_branch",
        (TABLE, Argument("source_branch", required=True), Argument("target_branch")),
        DONE,
        _merge_branch,
        "Appends to a branch, main when none is given, the rows that another one has got since it began.",
    ),
)
