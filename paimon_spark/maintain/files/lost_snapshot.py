"""A lost latest snapshot: files are not deleted until a user gives the lost commit up.

Nothing that is left names the files of the lost commit. Every deletion would take them for garbage, and a rollback or
the next commit would take its id again. Java has no such check: its readers and writers fail in this state, and its
orphan cleaning deletes the files.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_MOST_SHOWN = 20


def check_nothing_lost(table: FileStoreTable) -> None:
    """Check that no branch of a table has lost its latest snapshot, before files are deleted.

    The log reports older snapshots that are lost: what only they name is garbage.

    Raises:
        CorruptTableError: one has; the message names the missing file and how to decide.
    """
    for store in _stores(table):
        store.check_not_lost("Nothing is deleted")
        missing = store.missing_ranges()
        if missing:
            shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in missing[:_MOST_SHOWN])
            _LOG.warning(
                "%s: snapshots %s have no file, although older ones live: what only they name is garbage",
                table.path,
                shown,
            )


def accept_lost(table: FileStoreTable, accept_lost_snapshot: bool | None) -> FileStoreTable:
    """Return the table; with ``accept_lost_snapshot``, give up the lost snapshots of its branches.

    The next commit takes the lost id again, and the files of the lost commit are garbage from now on.
    """
    if accept_lost_snapshot:
        for store in _stores(table):
            lost = store.lost_id()
            if lost is not None:
                _LOG.warning("%s: snapshot %s, which is lost, is given up", table.path, lost)
                store.give_up_lost()
    return table


def _stores(table: FileStoreTable) -> Iterator[SnapshotStore]:
    for branch in dict.fromkeys((MAIN_BRANCH, table.branch, *table.branches.names())):
        yield SnapshotStore(table.file_io, table.paths.for_branch(branch))
