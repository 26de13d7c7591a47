"""What follows a commit, as the table's options say: tags, expiry, marks of partitions that are done, and waiting.

Equals Java's ``TableCommitImpl.maintain``, ``WriteHelper.batchCreateTag``, ``PartitionMarkDoneAction`` (option
``partition.mark-done-action``) and ``VisibilityWaitCallback`` (`visibility-callback.enabled`: a batch write returns
once its rows are visible to every reader). A failure here never fails the commit, which is published already.

Rows are invisible where reads skip their files: level 0 with deletion vectors, and postponed buckets. Their
compaction, by another process where the table is write-only, makes them visible.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from paimon_spark.errors import (
    CommittedError,
    ExpiredFileError,
    OptionError,
    SnapshotNotFoundError,
    TableBusyError,
    UnsupportedError,
)
from paimon_spark.maintain.expire.partitions import expire_partitions_if_due
from paimon_spark.maintain.expire.snapshots import expire_after_commit, expire_changelogs, is_changelog_decoupled
from paimon_spark.maintain.files.lease import waiting_at_most
from paimon_spark.maintain.refs.tags import (
    check_automatic_tags,
    create_batch_tag,
    renewed_success_file,
    run_automatic_tags,
)
from paimon_spark.options import OPTIONS
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.java_text import escape_path_name
from paimon_spark.table.consumer_store import expire_consumers
from paimon_spark.table.partitions import data_root
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)
_MET = (SnapshotNotFoundError, ExpiredFileError, FileNotFoundError, TableBusyError)
_BACKGROUND = threading.Lock()
_TURNS: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()
"""By store and path, for work in the background; Java has one thread per committer."""
_TAGS_WAIT_SECONDS = 30.0
"""How long the tag of a batch write waits for others; expiry waits for nobody, as the next commit continues it."""


def maintenance(table: FileStoreTable) -> Callable[[Snapshot], None] | None:
    """Return what to run after each snapshot of a commit (`commit`'s ``after_commit``); None for nothing.

    With ``write-only`` there are only the tags of batch writes, as in Java; where buckets are postponed no snapshot
    expires (Java: ``PrimaryKeyFileStoreTable.newExpireRunnable``): `CALL sys.compact` does that.

    Errors are logged as warnings. With ``snapshot.expire.execution-mode`` `async` a thread does the work, one snapshot
    after the other. The thread ends with its process; the next commit continues the work.

    Args:
        table: the table as it is written, with dynamic options.

    Raises:
        OptionError: an option of automatic tags has a value that cannot be used.
    """
    check_automatic_tags(table.options)
    if table.options.write_only:
        return (lambda snapshot: _work(table, snapshot, create_batch_tag)) if _tags_batches(table) else None
    if table.options.get(OPTIONS["snapshot.expire.execution-mode"]) == "async":
        return lambda snapshot: threading.Thread(target=_maintain_in_turn, args=(table, snapshot), daemon=True).start()
    return lambda snapshot: maintain(table, snapshot)


def maintain(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Do all that is due after a snapshot was committed; errors are logged.

    Args:
        table: the table as it is written, with dynamic options.
        snapshot: the one committed.
    """

    def expire(table: FileStoreTable) -> object:
        return expire_after_commit(table, snapshot.id)

    # Java's order: snapshots expire after all that makes them ready to expire
    works: tuple[Callable[[FileStoreTable], object], ...] = (
        run_automatic_tags,
        lambda table: expire_partitions_if_due(table, snapshot.commit_identifier),
        _expire_consumers,
        *(() if table.options.bucket == POSTPONE_BUCKET else (expire, _expire_changelogs)),
        *((create_batch_tag,) if _tags_batches(table) else ()),
    )
    for work in works:
        _work(table, snapshot, work)


def _maintain_in_turn(table: FileStoreTable, snapshot: Snapshot) -> None:
    """As `maintain`, after what this process does for earlier snapshots: the newest one's work is always done."""
    with _BACKGROUND:
        turn = _TURNS.setdefault((table.file_io.address, table.path), threading.Lock())
    with turn:
        maintain(table, snapshot)


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


SUCCESS_FILE = "success-file"
_OPTION = "partition.mark-done-action"
_KNOWS_PARTITIONS = "metastore.partitioned-table"
_OF_CATALOG = ("done-partition", "mark-event")
_REFUSED = {
    "http-report": "No address is called from here: let the job that calls this one tell it.",
    "custom": "Classes of Java cannot be loaded here: let the job that calls this one do it.",
}


def mark_partitions_done(table: FileStoreTable, partitions: Sequence[Mapping[str, str]]) -> list[str]:
    """Mark partitions as `partition.mark-done-action` says; return the paths of the files that are marks.

    ``success-file`` is the file ``_SUCCESS`` in the directory of a partition, with the times of its first and its last
    writing. A partition need not have rows. Of some partition columns only, the directory above the others is marked,
    as in Java. ``mark-event`` tells the catalog, and ``done-partition`` adds to it a partition whose last value ends
    with ``.done``.

    Args:
        table: partitioned.
        partitions: values of partition columns as they stand in names of directories.

    Raises:
        OptionError: the table has no partitions, or a column is none of them.
        UnsupportedError: the option asks for what the catalog cannot do.
        CorruptTableError: an existing mark cannot be read.
    """
    actions = [part.strip().lower() for part in str(table.options.value(_OPTION)).split(",") if part.strip()]
    for action in actions:
        _check_action(table, action)
    specs = [_ordered(table, spec) for spec in partitions]
    written = [f"{table.paths.root}/{_directory(spec)}/_SUCCESS" for spec in specs] if SUCCESS_FILE in actions else []
    for path in written:
        old = table.file_io.read_bytes(path) if table.file_io.exists(path) else None
        table.file_io.write_bytes(path, renewed_success_file(old, path=path), overwrite=True)
    catalog = table.file_io.publisher
    if catalog is not None and "done-partition" in actions:
        catalog.add_partitions([_with_done(spec) for spec in specs], data_root(table))
    if catalog is not None and "mark-event" in actions:
        catalog.mark_partitions_done("" if table.branch == MAIN_BRANCH else table.branch, specs)
    return written


def _check_action(table: FileStoreTable, action: str) -> None:
    """Refuse an action that cannot be done, before any is. Java: ``PartitionMarkDoneAction.createActions``."""
    if action == SUCCESS_FILE:
        return
    if action not in _OF_CATALOG:
        known = ", ".join((SUCCESS_FILE, *_OF_CATALOG, *_REFUSED))
        raise UnsupportedError(
            f"'{_OPTION}' = '{action}' is not supported: {_REFUSED.get(action, f'Known actions are {known}.')}"
        )
    catalog = table.file_io.publisher
    if catalog is None or action not in catalog.mark_actions:  # Java: directories and JDBC take an event for nothing
        raise UnsupportedError(
            f"'{_OPTION}' = '{action}' is not supported: Cannot mark done partition for table without metastore. One "
            "with 'metastore' = 'hive' does it, and of events one with 'rest'."
        )
    if not table.options.get(OPTIONS[_KNOWS_PARTITIONS]):
        raise UnsupportedError(f"'{_OPTION}' = '{action}' is not supported: Table should enable {_KNOWS_PARTITIONS}.")


def _ordered(table: FileStoreTable, spec: Mapping[str, str]) -> dict[str, str]:
    """The values of a partition in the order of the table's columns."""
    keys = table.schema.partition_keys
    unknown = sorted(set(spec) - set(keys))
    if not keys or unknown or not spec:
        raise OptionError(
            f"Partition keys [{', '.join(unknown)}] are invalid. Available partition keys are [{', '.join(keys)}]"
        )
    return {key: spec[key] for key in keys if key in spec}


def _directory(spec: Mapping[str, str]) -> str:
    return "/".join(f"{escape_path_name(key)}={escape_path_name(value)}" for key, value in spec.items())


def _with_done(spec: dict[str, str]) -> dict[str, str]:
    last = next(reversed(spec))
    return {**spec, last: f"{spec[last]}.done"}
