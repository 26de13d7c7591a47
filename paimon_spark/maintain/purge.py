"""Purging: a table without rows, history, branches, tags and consumers; its schema stays.

Equals Java's ``FileStoreTable.purgeFiles``. Runs on the driver; it may be killed at any point and run again. Nobody may
write to the table meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.maintain.refs.branches import delete_branch
from paimon_spark.maintain.refs.tags import delete_tag
from paimon_spark.table.consumer_store import clear_consumers
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def purge_files(table: FileStoreTable) -> None:
    """Delete all rows, all that keeps old rows, and then every unneeded file, also new ones.

    Raises:
        UnsupportedError: it is another branch.
        CommitConflictError: somebody else writes.
    """
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(f"Branch '{table.branch}' cannot be purged: delete it, or purge the table.")
    check_nothing_lost(table)
    delete_branch(table, table.branches.names(), ignore_if_missing=True)
    for name in table.tags.names():
        delete_tag(table, name, ignore_if_missing=True)
    clear_consumers(table)
    commit(table, [], overwrite=OverwriteSpec.truncate())
    table.file_io.delete_quietly(table.paths.changelog_dir, recursive=True)
    # Java: keeps no changelogs here either, even if the options ask for them
    plain = table.without_options(_CHANGELOG_OPTIONS)
    expire_snapshots(plain, retain_latest_only())
    remove_files_before(table, time.time_ns() // 1_000_000 + 1)


_CHANGELOG_OPTIONS = ("changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained")
