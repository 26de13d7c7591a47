"""Which unused files are still needed by snapshots, tags, branches or long-lived changelogs; and deleting the rest.

Does the work of Java's ``TagDeletion``, ``TagManager.doClean`` and ``ChangelogManager``, with more checks. Java
compares a tag or a snapshot with its neighbours. Here a file is deleted only if no tag, no live snapshot and no
long-lived changelog of any branch needs it: a branch made from a tag, or a rollback that restored files, keeps them.
Runs on the driver, once per expiry or deleted tag.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from paimon_spark.errors import CorruptTableError, ExpiredFileError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.files.deletion import UnusedFiles, delete_unless_silent, threads_of
from paimon_spark.spec.file_names import CHANGELOG_PREFIX, numbered_name_id
from paimon_spark.spec.manifest import FileChange, FileKind
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.paths import MAIN_BRANCH, TablePaths
from paimon_spark.table.ref_store import TagStore
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import RecordedFile
    from paimon_spark.storage.file_io import FileStatus
    from paimon_spark.table.paths import TablePaths
    from paimon_spark.table.table import FileStoreTable


def changelog_ids(table: FileStoreTable, paths: TablePaths) -> list[int]:
    """Return the ids of the long-lived changelogs of a branch, ascending."""
    listed = table.file_io.list_names(paths.changelog_dir)
    found = [numbered_name_id(entry.name, CHANGELOG_PREFIX) for entry in listed if not entry.is_dir]
    return sorted(changelog_id for changelog_id in found if changelog_id is not None)


def read_changelog(table: FileStoreTable, paths: TablePaths, changelog_id: int) -> Snapshot:
    """Return the long-lived changelog of a snapshot.

    Raises:
        FileNotFoundError: there is none.
        CorruptTableError: it cannot be read, or is that of another snapshot.
    """
    path = paths.changelog_path(changelog_id)
    found = Snapshot.from_json(table.file_io.read_bytes(path), path=path)
    if found.id != changelog_id:
        raise CorruptTableError(f"Changelog file {path} holds the snapshot id {found.id}.", path=path)
    return found


_Key = TypeVar("_Key", int, str)
_HOUR_MILLIS = 3_600_000
_CLOCKS_DIFFER_MILLIS = 15 * _HOUR_MILLIS
"""A file's creation time is the local wall clock of some machine, without its zone."""
_CLOCKS_ARE_WRONG_MILLIS = 7 * 24 * _HOUR_MILLIS
"""How wrong a clock may be, where only a creation time tells that a file did not exist yet."""
_BRING_BACK = frozenset({CommitKind.OVERWRITE})
"""Commits that may add files which an earlier one took away (a rollback as a new snapshot)."""

TagsByBranch = dict[str, list["FileStatus"]]
"""The tags of each branch, by the entries of their directory. A new tag may hold a snapshot that is being expired."""


def tags_by_branch(table: FileStoreTable) -> TagsByBranch:
    """List the tags of all branches."""
    found = {}
    for branch in sorted({MAIN_BRANCH, table.branch, *table.branches.names()}):
        found[branch] = sorted(table.file_io.list_names(table.paths.for_branch(branch).tag_dir))
    return found


def keep_needed(unused: UnusedFiles, *, begin: int, end: Snapshot, gone_changelogs: Collection[int] | None) -> None:
    """Take out of ``unused`` all that tags, snapshots and changelogs of any branch need.

    Args:
        unused: files of snapshots (or changelogs) ``begin`` to ``end`` of the table's branch; none of the data files
            lives in ``end``.
        begin: the first snapshot that is to go.
        end: the earliest snapshot that stays.
        gone_changelogs: long-lived changelogs that are to go as well; None where no changelog of the branch needs any
            of the files.

    Raises:
        PaimonError: a metadata file of something that stays cannot be read.
    """
    table = unused.table
    unused.keep_metadata(end, changelog=True)
    if unused.data or unused.taken_over():
        later = [snapshot_id for snapshot_id in table.snapshots.ids() if snapshot_id > end.id]
        for snapshot in _all_at_once(table, table.snapshots.get, later):
            unused.keep_names(snapshot)
            if snapshot.commit_kind in _BRING_BACK:
                unused.keep_metadata(snapshot)
                _keep_added(unused, snapshot.delta_list)
    _keep_tags(unused, TagStore(table.file_io, table.paths), (begin, end.id))
    if gone_changelogs is not None:
        _keep_changelogs(unused, table.paths, gone_changelogs)
    keep_other_branches(unused)


def keep_other_branches(unused: UnusedFiles) -> None:
    """Take out of ``unused`` all that branches other than the table's own need.

    Raises:
        SnapshotNotFoundError: branches were made, renamed or deleted meanwhile.
        CorruptTableError: a metadata file of something that stays cannot be read.
    """
    table = unused.table
    names = table.branches.names()
    for branch in (MAIN_BRANCH, *names):
        if branch != table.branch:
            _keep_branch(unused, table.paths.for_branch(branch))
    if table.branches.names() != names:  # a branch renamed meanwhile may have been missed under both names
        raise SnapshotNotFoundError(f"The branches of {table.path} have changed meanwhile: try again.")


def _keep_branch(unused: UnusedFiles, paths: TablePaths) -> None:
    """Keep all that one branch needs: what lives in its first snapshot and what later ones added, tags, changelogs."""
    table = unused.table
    store = SnapshotStore(table.file_io, paths)
    for number, snapshot in enumerate(_all_at_once(table, store.get, store.ids())):
        with _expiring(store, snapshot):
            unused.keep_metadata(snapshot, changelog=True)
            if number == 0:
                unused.keep_live(snapshot, may_expire=True)
            _keep_added(unused, snapshot.delta_list)
            own = snapshot.changelog_list
            if own is not None and (number or table.file_io.exists(table.paths.manifest_path(own.name))):
                _keep_added(unused, own)
    _keep_tags(unused, TagStore(table.file_io, paths), None)
    _keep_changelogs(unused, paths, ())


@contextlib.contextmanager
def _expiring(store: SnapshotStore, snapshot: Snapshot) -> Iterator[None]:
    """Tell a file of a snapshot that is missing since it expires at the same time from one that is lost.

    An expiry deletes manifests before the snapshot that names them, and never those of the latest one. A rollback may
    give the snapshot's id to another one.

    Raises:
        SnapshotNotFoundError: the snapshot expired, expires now, or was rolled back.
    """
    try:
        yield
    except ExpiredFileError as error:
        same = _is_there(store, snapshot)
        if same and snapshot.id == store.latest_id():
            raise
        reason = (
            "expires at this time (or its expiry was ended halfway: then run expire_snapshots; or it is damaged)"
            if same
            else "expired meanwhile"
        )
        raise SnapshotNotFoundError(
            f"Snapshot {snapshot.id} of the table {reason}: try again. Nothing was deleted. {error}"
        ) from error


def _is_there(store: SnapshotStore, snapshot: Snapshot) -> bool:
    try:
        return SnapshotIdentity.of(store.get(snapshot.id)) == SnapshotIdentity.of(snapshot)
    except SnapshotNotFoundError:
        return False


def _keep_tags(unused: UnusedFiles, store: TagStore, bounds: tuple[int, int] | None) -> None:
    """Keep what tags need, from the newest tag back to the oldest file in question.

    ``bounds``: the files belong to snapshots of the tags' own branch, from the first bound up to but without the
    second. So tags of later snapshots need none of them, and only the nearest earlier tag and those after it share
    manifests.
    """
    table = unused.table
    tagged = {tag.id: tag for tag in _all_at_once(table, lambda name: store.get(name).snapshot, store.names())}
    begin, end = bounds or (0, 2**63)
    nearest = max((tag for tag in tagged if tag <= begin), default=0)
    for snapshot_id in sorted((tag for tag in tagged if tag < end), reverse=True):
        snapshot = tagged[snapshot_id]
        unused.keep_metadata(snapshot, data_lists=snapshot_id >= nearest)
        # an older tag than the nearest has a further file only if one commit deleted it and another added it again
        margin = _CLOCKS_ARE_WRONG_MILLIS if snapshot_id >= nearest else _CLOCKS_DIFFER_MILLIS
        if unused.data and unused.oldest_millis() <= snapshot.time_millis + margin:
            unused.keep_live(snapshot)


def _keep_changelogs(unused: UnusedFiles, paths: TablePaths, gone: Collection[int]) -> None:
    """Keep what long-lived changelogs need: their own manifests, or those that stand in for them, and added files."""
    table = unused.table
    for changelog in _all_at_once(
        table, lambda number: read_changelog(table, paths, number), changelog_ids(table, paths)
    ):
        if changelog.id in gone:
            continue
        lists = [changelog.changelog_list or changelog.delta_list]
        lists += [] if changelog.changelog_list else [changelog.base_list]
        for listed in lists:
            if table.file_io.exists(table.paths.manifest_path(listed.name)):  # expiring the snapshot may have taken it
                unused.keep_list(listed)
                if listed != changelog.base_list:
                    _keep_added(unused, listed)


def _all_at_once(table: FileStoreTable, read: Callable[[_Key], Snapshot], keys: Sequence[_Key]) -> list[Snapshot]:
    """Read many small files, several at once on a remote store."""
    threads = threads_of(table)
    if threads == 1 or len(keys) < 2:
        return [read(key) for key in keys]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(read, keys))


def _keep_added(unused: UnusedFiles, listed: RecordedFile) -> None:
    manifests = unused.table.manifests
    if not unused.data:
        return
    for columns in manifests.columns_of(manifests.manifests_of(listed), statistics=False):
        adds = columns if not columns.kinds.any() else columns.filter(columns.kinds == FileKind.ADD)
        unused.keep_data(adds.file_names)


def delete_unused_files(
    table: FileStoreTable, snapshots: Sequence[Snapshot], *, half_deleted: Sequence[Snapshot] = ()
) -> int:
    """Delete the data files, manifests, index and statistics files that only ``snapshots`` held; return how many.

    Where anything cannot be read, nothing is deleted (`remove_orphan_files` takes it later).

    Args:
        table: any branch of the table.
        snapshots: which neither a snapshot file nor a tag holds any more.
        half_deleted: the same, but an earlier call for them was ended halfway.

    Raises:
        StorageError: the store does not answer what deletes; a call with them as ``half_deleted`` continues.
    """
    try:
        unused = _unused(table, snapshots, half_deleted)
    except (PaimonError, OSError):
        return 0
    # manifests are deleted after the files that they name: a second call must find the files
    return sum(len(paths) - len(delete_unless_silent(table, paths)) for paths in unused)


def _unused(table: FileStoreTable, snapshots: Sequence[Snapshot], half_deleted: Sequence[Snapshot]) -> list[list[str]]:
    """Return the data files, the manifests that name them, and the lists that name these."""
    unused = UnusedFiles(table)
    for snapshot in snapshots:
        unused.add_all(table.manifests.live_columns(snapshot, statistics=False).changes())
        unused.add_metadata(snapshot)
    for snapshot in half_deleted:
        with contextlib.suppress(ExpiredFileError):  # a manifest is gone, so its data files are gone too
            unused.add_all(table.manifests.live_columns(snapshot, statistics=False).changes())
        unused.add_metadata(snapshot)
    if not unused.lists and not unused.manifests:
        return []
    _keep_branch(unused, table.paths)
    keep_other_branches(unused)
    data = [path for paths in unused.data_paths().values() for path in paths]
    return [data, sorted(unused.manifests), sorted(unused.lists)]


def unneeded_names(table: FileStoreTable, created: Mapping[str, int]) -> set[str]:
    """Return the data files that are in no snapshot, tag or changelog of any branch.

    Args:
        table: any branch of the table.
        created: names of data files, with the time each was made (0 where it is not known).

    Raises:
        PaimonError: a metadata file of something in the table cannot be read.
    """
    unused = UnusedFiles(table)
    unused.data = {
        name: FileChange(FileKind.DELETE, name, b"", 0, millis, None, (), None) for name, millis in created.items()
    }
    if unused.data:
        _keep_branch(unused, table.paths)
        keep_other_branches(unused)
    return set(unused.data)
