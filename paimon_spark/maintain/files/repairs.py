"""Damaged tables: deletions stop at a lost latest snapshot, lost files are taken out, gaps in snapshots passed over.

After a lost latest snapshot files are not deleted until a user gives the lost commit up. Nothing that is left names the
files of the lost commit. Every deletion would take them for garbage, and a rollback or the next commit would take its
id again. Java has no such check: its readers and writers fail in this state, and its orphan cleaning deletes the files.

Repairs: Java ``ListUnexistingFiles``, ``SnapshotManager.repairEarliestSnapshot``. The rows of data files that are gone
are lost; a commit says so. A file counts as gone only when the store says that it is not there, by a listing of its
directory and once more by its name; any other answer stops the search.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import run_again, undone_where_void
from paimon_spark.errors import OptionError
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.write.deletion_vectors import changed_vectors, delete_index_files
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.snapshot import Snapshot
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


def remove_unexisting_files(
    table: FileStoreTable, *, dry_run: bool = False, parallelism: int | None = None
) -> list[str]:
    """Commit that the data files which are not there any more are no files of the table; return their paths.

    Their rows are lost: restore the files instead, if that is possible. Nothing is deleted from the store.

    Args:
        table: the branch.
        dry_run: commit nothing.
        parallelism: how many directories are listed at once; as many requests as the store takes when not given.

    Raises:
        OptionError: ``parallelism`` is less than 1.
        CommitConflictError: other commits changed the same files every time; nothing was changed.
        StorageError: the store could not show whether a file is there; nothing was changed.
    """
    if parallelism is not None and parallelism < 1:
        raise OptionError(f"parallelism must be at least 1, but is {parallelism}.")
    threads = parallelism or table.file_io.threads

    def attempt(snapshot: Snapshot | None) -> list[str]:
        if snapshot is None:
            return []
        live = table.manifests.live_columns(snapshot)
        paths = DataLayout.of(table.schema).data_file_paths(table.paths.root, live)
        gone = _missing(table, paths, threads)
        if gone and not dry_run:
            _LOG.warning("%s: %d data files are not there, their rows are given up.", table.path, len(gone))
            _take_out(table, snapshot, live, gone)
        return [paths[at] for at in gone]

    return run_again(table, attempt)


def _missing(table: FileStoreTable, paths: Sequence[str], threads: int) -> list[int]:
    """Return the positions of the files that are not there."""
    directories = sorted({path.rpartition("/")[0] for path in paths})
    with ThreadPoolExecutor(max(1, threads)) as pool:
        listed = pool.map(lambda path: {entry.name for entry in table.file_io.list_names(path)}, directories)
        names = dict(zip(directories, listed, strict=True))
        at_hand = (path.rpartition("/") for path in paths)
        candidates = [at for at, (directory, _, name) in enumerate(at_hand) if name not in names[directory]]
        there = pool.map(lambda at: table.file_io.exists(paths[at]), candidates)
        return [at for at, exists in zip(candidates, there, strict=True) if not exists]


def _take_out(table: FileStoreTable, snapshot: Snapshot, live: ManifestColumns, gone: Sequence[int]) -> None:
    """Commit that files are gone, with their deletion vectors."""
    lost: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    dropped = set()
    for entry in live.take(gone):
        lost.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
        dropped.add((entry.partition, entry.bucket, entry.file.file_name))
    index = changed_vectors(table, table.manifests.index_entries(snapshot), dropped=dropped)
    messages = [
        CommitMessage(*location, (), deleted_files=tuple(files), index_changes=index if number == 0 else ())
        for number, (location, files) in enumerate(lost.items())
    ]
    with undone_where_void(lambda: delete_index_files(table, index)):
        commit(table, messages, planned_on=SnapshotIdentity.of(snapshot))


def repair_earliest_snapshot(table: FileStoreTable, snapshot_id: int) -> int:
    """Write a snapshot into the hint EARLIEST; return the id that was the earliest before.

    For tables in whose snapshots a file is missing: readers then begin behind the gap. No file is deleted.

    Args:
        table: the branch.
        snapshot_id: the earliest one, or the first behind a gap; all snapshots from it on must be there.

    Raises:
        OptionError: the snapshot cannot be the earliest one.
        StorageError: the hint could not be written.
    """
    ids = table.snapshots.ids()
    previous = table.snapshots.earliest_id()
    if previous is None:
        raise OptionError(f"Cannot repair earliest snapshot for an empty table: {table.path} has no snapshot.")
    latest = ids[-1]
    if snapshot_id < previous:
        raise OptionError(f"Snapshot {snapshot_id} must not be earlier than current earliest snapshot {previous}.")
    if snapshot_id > latest:
        raise OptionError(f"Snapshot {snapshot_id} must not be later than latest snapshot {latest}.")
    there = frozenset(ids)
    missing = next((number for number in range(snapshot_id, latest + 1) if number not in there), None)
    if missing is not None:
        raise OptionError(f"Snapshot {missing} does not exist.")
    if snapshot_id != previous and snapshot_id - 1 in there:
        raise OptionError(f"Snapshot {snapshot_id} does not immediately follow a snapshot gap.")
    table.file_io.write_bytes(table.paths.earliest_hint_path, str(snapshot_id).encode("ascii"), overwrite=True)
    return previous
