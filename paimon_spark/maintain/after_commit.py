"""Maintenance after each commit, as the table's options say: tags; expiry of partitions, consumers and snapshots.

Equals Java's ``TableCommitImpl.maintain`` and ``WriteHelper.batchCreateTag``. A failure here never fails the commit,
which is published already.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from paimon_spark.errors import ExpiredFileError, SnapshotNotFoundError, TableBusyError
from paimon_spark.maintain.expire.changelogs import expire_changelogs
from paimon_spark.maintain.expire.consumers import expire_consumers
from paimon_spark.maintain.expire.partitions import expire_partitions_if_due
from paimon_spark.maintain.expire.snapshots import expire_after_commit, is_changelog_decoupled
from paimon_spark.maintain.files.one_at_a_time import waiting_at_most
from paimon_spark.maintain.refs.auto_tags import check_automatic_tags, create_batch_tag, run_automatic_tags
from paimon_spark.options import OPTIONS
from paimon_spark.spec.file_names import POSTPONE_BUCKET

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_MET = (SnapshotNotFoundError, ExpiredFileError, FileNotFoundError, TableBusyError)
_TAGS_WAIT_SECONDS = 30.0
"""How long the tag of a batch write waits for others; expiry waits for nobody, as the next commit continues it."""


def maintenance(table: FileStoreTable) -> Callable[[Snapshot], None] | None:
    """Return what to run after each snapshot of a commit (`commit`'s ``after_commit``); None for nothing.

    With ``write-only`` there are only the tags of batch writes, as in Java; where buckets are postponed no snapshot
    expires (Java: ``PrimaryKeyFileStoreTable.newExpireRunnable``): `CALL sys.compact` does that.

    Errors are logged as warnings. With ``snapshot.expire.execution-mode`` `async` a thread does the work. The thread
    ends with its process; the next commit continues the work.

    Args:
        table: the table as it is written, with dynamic options.

    Raises:
        OptionError: an option of automatic tags has a value that cannot be used.
    """
    check_automatic_tags(table.options)
    if table.options.write_only:
        return (lambda snapshot: _work(table, snapshot, create_batch_tag)) if _tags_batches(table) else None
    if table.options.get(OPTIONS["snapshot.expire.execution-mode"]) == "async":
        return lambda snapshot: threading.Thread(target=maintain, args=(table, snapshot), daemon=True).start()
    return lambda snapshot: maintain(table, snapshot)


def maintain(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Do all that is due after a snapshot was committed; errors are logged.

    Args:
        table: the table as it is written, with dynamic options.
        snapshot: the one committed.
    """
    # Java's order: snapshots expire after all that makes them ready to expire
    works: tuple[Callable[[FileStoreTable], object], ...] = (
        run_automatic_tags,
        lambda table: expire_partitions_if_due(table, snapshot.commit_identifier),
        _expire_consumers,
        *(() if table.options.bucket == POSTPONE_BUCKET else (expire_after_commit, _expire_changelogs)),
        *((create_batch_tag,) if _tags_batches(table) else ()),
    )
    for work in works:
        _work(table, snapshot, work)


def _work(table: FileStoreTable, snapshot: Snapshot, work: Callable[[FileStoreTable], object]) -> None:
    try:
        with waiting_at_most(_TAGS_WAIT_SECONDS if work is create_batch_tag else 0):
            work(table)
    except Exception as error:  # noqa: BLE001 - the rows are committed, and the next commit tries again
        if _met_another(error) and work is not create_batch_tag:
            _LOG.info("%s: another writer does the work after snapshot %s: %s", table.path, snapshot.id, error)
        else:
            _LOG.warning("%s: the work after snapshot %s is not done: %s", table.path, snapshot.id, error)


def _met_another(error: BaseException) -> bool:
    """Whether another process is at work, or has deleted the missing files: the next commit continues then."""
    return any(isinstance(one, _MET) for one in (error, error.__cause__))


def _tags_batches(table: FileStoreTable) -> bool:
    return bool(table.options.value("tag.automatic-creation") == "batch")


def _expire_consumers(table: FileStoreTable) -> None:
    age = table.options.get(OPTIONS["consumer.expiration-time"])
    if age is not None:
        expire_consumers(table, age)


def _expire_changelogs(table: FileStoreTable) -> None:
    if is_changelog_decoupled(table.options):
        expire_changelogs(table)
