"""Options of reads and the version they mean: given with the read, by VERSION AS OF, or by ``SET spark.paimon.…``.

What is given nearer to the read wins; of the options that name a point of time only the nearest ones count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import canonical_options, find_option, unknown_option_error
from paimon_spark.spark.session.session_options import POINTS_OF_TIME, layered, options_for_table
from paimon_spark.table.paths import MAIN_BRANCH, parse_table_path
from paimon_spark.table.table import stored_branch_of
from paimon_spark.table.time_travel import INCREMENTAL_KEYS, TRAVEL_KEYS, resolve_snapshot

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

__all__ = [
    "POINTS_OF_TIME",
    "at_version",
    "layered",
    "on_branch_of_read",
    "options_for_table",
    "refuse_branch_of_session",
    "refuse_second_version",
    "with_read_options",
]

_DONE_BY_SPARK = ("versionasof", "timestampasof")


def with_read_options(table: FileStoreTable, options: Mapping[str, str], *, pinned: bool = False) -> FileStoreTable:
    """The table with the options of one read on top; its columns stay those that Spark was given.

    Args:
        table: as it was loaded.
        options: given with the read.
        pinned: whether VERSION AS OF or TIMESTAMP AS OF said which version the table is.

    Raises:
        OptionError: an option is unknown, or cannot be changed for a read, or names a second point of time.
    """
    known = _known(options)
    if pinned:
        refuse_second_version(known)
    if not known:
        return table
    return _with_layer(table, known)


def on_branch_of_read(table: FileStoreTable, options: Mapping[str, str], given: Mapping[str, str]) -> FileStoreTable:
    """The branch that the options of one read name, where Spark was given the columns of `table` before.

    Raises:
        UnsupportedError: the branch has other columns.
        OptionError: there is no such branch.
    """
    branch = canonical_options(dict(options)).get("branch", table.branch)
    if branch == table.branch:
        return table
    other = at_version(table, {**given, "branch": branch})
    if other.schema.fields != table.schema.fields:
        raise UnsupportedError(
            f"Option 'branch' = '{branch}' of a read names a branch whose columns differ from those of the table, "
            f"which Spark knows already. Read it by its name: `t$branch_{branch}`."
        )
    return other


def refuse_branch_of_session(options: Mapping[str, str], name: str) -> None:
    """Refuse a write to a table by its name where the session has set another branch, which only reads follow.

    Raises:
        UnsupportedError: the name does not say the branch.
    """
    branch = options.get("branch")
    if branch is not None and branch != parse_table_path(name).branch:
        raise UnsupportedError(
            f"The session has set the option 'branch' = '{branch}' for table {name}, which reads follow: "
            f"to write to the branch name `{name.split('$')[0]}$branch_{branch}`, or RESET the option."
        )


def refuse_second_version(options: Mapping[str, str]) -> None:
    """Refuse options that say what of the table's history is read, where VERSION AS OF or TIMESTAMP AS OF says it too.

    Raises:
        OptionError: names the option.
    """
    second = next((key for key in canonical_options(dict(options)) if key in POINTS_OF_TIME), None)
    if second is not None:
        raise OptionError(
            f"{second} must be null when VERSION AS OF or TIMESTAMP AS OF is given: a read is of one version or of the "
            "changes between two. Leave one of them out."
        )


def at_version(table: FileStoreTable, *layers: Mapping[str, str], columns_too: bool = True) -> FileStoreTable:
    """The table with options of several origins, and with the columns of the time that they name, if they do.

    Args:
        table: as it is now.
        layers: options, those of each later layer nearer to the read.
        columns_too: False leaves the latest columns.

    Raises:
        OptionError: options contradict each other.
        SnapshotNotFoundError: there is no such snapshot or tag.
    """
    options = layered(*layers)
    table = _on_branch(table, options)
    changed = _with_layer(table, options) if options else table
    travels = columns_too and any(key in options for key in TRAVEL_KEYS)
    if not travels or any(key in options for key in INCREMENTAL_KEYS):
        return changed
    snapshot = resolve_snapshot(changed)
    return changed if snapshot is None else changed.at_snapshot(snapshot)


def _with_layer(table: FileStoreTable, layer: Mapping[str, str]) -> FileStoreTable:
    layer = {key: value for key, value in canonical_options(dict(layer)).items() if key != "branch"}
    if any(key in POINTS_OF_TIME for key in layer):
        table = table.without_options([key for key in POINTS_OF_TIME if key in table.options])
    return table.with_options(layer)


def _on_branch(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """The branch that the option `branch` names, as it is now.

    Raises:
        OptionError: there is no such branch, or the table's name says another one already.
    """
    branch = canonical_options(dict(options)).get("branch", table.branch)
    if branch == table.branch:
        return table
    if table.branch not in (MAIN_BRANCH, stored_branch_of(table.latest)):
        raise OptionError(
            f"Option 'branch' = '{branch}' contradicts the table's name, which says branch '{table.branch}'. "
            f"Leave the option out, or name `t$branch_{branch}`."
        )
    if not table.branches.exists(branch):
        raise OptionError(
            f"Option 'branch' = '{branch}' names a branch that table {table.path} does not have: there is no "
            f"`{table.path.rpartition('/')[2]}$branch_{branch}`. It has {', '.join(table.branches.names())}."
        )
    return table.on_branch(branch)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Paimon. Spark also passes those by which it has loaded the version."""
    options = {key: value for key, value in options.items() if key.lower() not in _DONE_BY_SPARK}
    unknown = [key for key in options if find_option(key) is None]
    if unknown:
        raise unknown_option_error(unknown[0], ())
    return dict(options)
