"""Option `visibility-callback.enabled`: a batch write returns once its rows are visible to every reader.

Equals Java's ``VisibilityWaitCallback``. Rows are invisible where reads skip their files: level 0 with deletion
vectors, and postponed buckets. Their compaction, by another process where the table is write-only, makes them visible.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import CommittedError
from paimon_spark.options import OPTIONS
from paimon_spark.spec.file_names import POSTPONE_BUCKET

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)


def wait_until_visible(table: FileStoreTable, messages: Sequence[TaskMessage], snapshot_id: int | None) -> None:
    """Wait until no file of a write is left that reads skip, if the table's options ask for it. Runs on the driver.

    Args:
        table: the table with the options of the write.
        messages: of all tasks.
        snapshot_id: what was committed; None for nothing.

    Raises:
        CommittedError: the rows are committed, but still not visible after ``visibility-callback.timeout``.
    """
    options = table.options
    if snapshot_id is None or not options.get(OPTIONS["visibility-callback.enabled"]):
        return
    files = [(part.bucket, file) for task in messages for part in task.messages for file in part.new_files]
    pending = {
        file.file_name
        for bucket, file in files
        if bucket == POSTPONE_BUCKET or (options.deletion_vectors_enabled and file.level == 0)
    }
    timeout = options.get(OPTIONS["visibility-callback.timeout"])
    until = time.monotonic() + timeout.total_seconds()
    while pending:
        latest = table.snapshots.latest()
        live = () if latest is None else table.manifests.live_entries(latest)
        pending &= {entry.file.file_name for entry in live}
        if not pending:
            return
        if time.monotonic() >= until:
            raise CommittedError(
                f"Snapshot {snapshot_id} of {table.path} holds the rows, but reads do not see them yet: {len(pending)} "
                f"of its files were not compacted within 'visibility-callback.timeout' = {timeout}. Do not write them "
                "again; CALL sys.compact makes them visible."
            )
        _LOG.info("%s: %s files of snapshot %s are not compacted yet.", table.path, len(pending), snapshot_id)
        time.sleep(options.get(OPTIONS["visibility-callback.check-interval"]).total_seconds())
