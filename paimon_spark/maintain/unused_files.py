"""Which files nothing in the table needs any more, and deleting them.

Does the work of Java's ``FileDeletionBase``, ``TagDeletion`` and ``TagManager.doClean``, but more carefully. Java looks
at the neighbours of a tag or a snapshot; here a file goes only if no tag, no living snapshot and no long-lived
changelog of any branch needs it: a branch that was made from a tag, or a rollback that brought files back, keeps them.
Runs on the driver, once per expiry or deleted tag.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.maintain.changelogs import changelog_ids, read_changelog
from paimon_spark.maintain.deletion import delete_files, threads_of
from paimon_spark.spec.file_names import check_file_name
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_walk import FileChange
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.paths import MAIN_BRANCH, TablePaths
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.tag_store import TagStore

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_Key = TypeVar("_Key", int, str)
_CLOCKS_DIFFER_MILLIS = 15 * 3_600_000
"""A file's creation time is the local wall clock of some machine, without its zone."""
_BRING_BACK = frozenset({CommitKind.OVERWRITE})
"""Commits that may add files which an earlier one took away (a rollback as a new snapshot)."""


class UnusedFiles:
    """Files that may go, less those that holders turn out to need.

    Attributes:
        data: data files by name, as manifests tell of them.
        manifests: paths of manifests, index files and statistics.
        lists: paths of what names those: manifest lists and index manifests.
        read_lists: names in manifest lists that have been read already, by the list's name.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table
        self.data: dict[str, FileChange] = {}
        self.manifests: set[str] = set()
        self.lists: set[str] = set()
        self.read_lists: dict[str, list[str]] = {}
        self._named: set[str] = set()
        self._handed_on: set[str] = set()
        self._index_files = False
        self._oldest = (0, 0)

    def add_deleted(self, changes: Iterable[FileChange], *, compacted_only: bool = False) -> None:
        """Take the files that a commit's changes delete, unless they add them as well (moves to another level).

        Args:
            changes: all changes of one commit.
            compacted_only: leave files that a write made: they serve as a changelog.
        """
        added = []
        for change in changes:
            if change.kind != FileKind.DELETE:
                added.append(change.name)
            elif not compacted_only or change.source:
                self.data[change.name] = change
        self.keep_data(added)

    def add_all(self, changes: Iterable[FileChange]) -> None:
        """Take the files that changes add, or that live."""
        self.data.update((change.name, change) for change in changes if change.kind == FileKind.ADD)

    def add_metadata(self, snapshot: Snapshot, *, data_lists: bool = True, changelog: bool = False) -> None:
        """Take the metadata of a snapshot that is to go; what is missing of it is gone already.

        Args:
            snapshot: which.
            data_lists: with its manifest lists and manifests.
            changelog: with the manifests of its changelog.
        """
        paths, manifests = self.table.paths, self.table.manifests
        lists: list[str | None] = [snapshot.base_manifest_list, snapshot.delta_manifest_list] if data_lists else []
        for name in [*lists, snapshot.changelog_manifest_list if changelog else None]:
            if name is not None:
                self.add_list(name)
        name = snapshot.index_manifest
        if name is not None and paths.manifest_path(name) not in self.lists:
            files = set(map(paths.index_path, self._names(manifests.index_names, name)))
            self.lists.add(paths.manifest_path(name))
            self.manifests |= files
            self._handed_on |= {paths.manifest_path(name), *files}
            self._index_files = self._index_files or bool(files)
        if snapshot.statistics is not None:
            self.manifests.add(paths.statistics_path(snapshot.statistics))
            self._handed_on.add(paths.statistics_path(snapshot.statistics))

    def read(self, lists: Iterable[str]) -> None:
        """Read many manifest lists at once, for the calls that follow; those that are missing or damaged are left."""
        names = list(dict.fromkeys(lists))
        try:
            found = list(self.table.manifests.names_of(names))
        except CorruptTableError:
            found = [self._names(self.table.manifests.manifest_names, name) or None for name in names]
        self.read_lists |= {name: of for name, of in zip(names, found, strict=True) if of is not None}

    def add_list(self, name: str) -> None:
        """Take a manifest list with its manifests; one that is missing is gone already."""
        paths = self.table.paths
        if paths.manifest_path(name) not in self.lists:
            self.lists.add(paths.manifest_path(name))
            names = self.read_lists.pop(name, None)
            if names is None:
                names = self._names(self.table.manifests.manifest_names, name)
            self.manifests.update(paths.manifest_path(name) for name in names if name not in self._named)
            self._named.update(names)

    def _names(self, read: Any, name: str) -> list[str]:
        try:
            return list(read(name))
        except CorruptTableError:
            return []

    def keep_data(self, names: Iterable[str]) -> None:
        """Leave data files alone."""
        if self.data:
            for name in names:
                self.data.pop(name, None)

    def keep_metadata(self, snapshot: Snapshot, *, data_lists: bool = True, changelog: bool = False) -> None:
        """Leave alone what a snapshot needs besides data files.

        Args:
            snapshot: which.
            data_lists: its manifest lists and manifests.
            changelog: the manifests of its changelog.

        Raises:
            CorruptTableError: a manifest list or index manifest of it is missing or cannot be read.
        """
        paths, manifests = self.table.paths, self.table.manifests
        if not self.lists and not self.manifests:
            return
        lists: list[str | None] = [snapshot.base_manifest_list, snapshot.delta_manifest_list] if data_lists else []
        for name in [*lists, snapshot.changelog_manifest_list if changelog else None]:
            if name is not None:
                self.keep_list(name)
        self.keep_names(snapshot)
        if snapshot.index_manifest is not None and self._index_files:
            names = manifests.index_names(snapshot.index_manifest)
            self.manifests.difference_update(map(paths.index_path, names))

    def keep_names(self, snapshot: Snapshot) -> None:
        """Leave alone the index manifest and the statistics of a snapshot, which commits hand on to later ones."""
        paths = self.table.paths
        if snapshot.index_manifest is not None:
            self.lists.discard(paths.manifest_path(snapshot.index_manifest))
        if snapshot.statistics is not None:
            self.manifests.discard(paths.statistics_path(snapshot.statistics))

    def taken_over(self) -> bool:
        """Tell whether there are files that later snapshots may have been handed."""
        return not self._handed_on.isdisjoint(self.lists) or not self._handed_on.isdisjoint(self.manifests)

    def keep_list(self, name: str) -> None:
        """Leave a manifest list and its manifests alone.

        Raises:
            CorruptTableError: it is missing or cannot be read.
        """
        paths = self.table.paths
        if not self.lists and not self.manifests:
            return
        self.lists.discard(paths.manifest_path(name))
        self.manifests.difference_update(map(paths.manifest_path, self.table.manifests.manifest_names(name)))

    def oldest_millis(self) -> int:
        """Return when the oldest of the data files was made, 0 when one does not say."""
        if self._oldest[0] != len(self.data):  # files only go away while this is asked
            millis = min((file.created_millis or 0 for file in self.data.values()), default=0)
            self._oldest = len(self.data), millis
        return self._oldest[1]

    def data_paths(self) -> dict[str, list[str]]:
        """Return the paths of the data files and of their extra files, by the directory of their bucket.

        Raises:
            CorruptTableError: a name leads out of the table.
        """
        layout, root = self.table.paths.layout, self.table.path
        assert layout is not None
        directories: dict[tuple[bytes, int], str] = {}
        found: dict[str, list[str]] = {}
        for name, file in self.data.items():
            place = file.partition, file.bucket
            directory = directories.get(place)
            if directory is None:
                directory = layout.bucket_dir(root, layout.partition_path(place[0]), place[1])
                directories[place] = directory
                found[directory] = []
            path = layout.data_file_path(directory, name, file.external_path)
            found[directory].append(path)
            if file.extra_files:
                beside = path.rpartition("/")[0]
                found[directory] += (f"{beside}/{check_file_name(extra, path=beside)}" for extra in file.extra_files)
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
                _keep_added(unused, snapshot.delta_manifest_list)
    _keep_tags(unused, TagStore(table.file_io, table.paths), (begin, end.id))
    if gone_changelogs is not None:
        _keep_changelogs(unused, table.paths, gone_changelogs)
    keep_other_branches(unused)


def keep_other_branches(unused: UnusedFiles) -> None:
    """Take out of ``unused`` all that branches other than the table's own need."""
    table = unused.table
    for branch in (MAIN_BRANCH, *table.branches.names()):
        if branch != table.branch:
            _keep_branch(unused, table.paths.for_branch(branch))


def _keep_branch(unused: UnusedFiles, paths: TablePaths) -> None:
    """Keep all that one branch needs: what lives in its first snapshot and what later ones added, tags, changelogs."""
    table = unused.table
    store = SnapshotStore(table.file_io, paths)
    for number, snapshot in enumerate(_all_at_once(table, store.get, store.ids())):
        unused.keep_metadata(snapshot, changelog=True)
        if number == 0 and unused.data:
            unused.keep_data(table.manifests.live_columns(snapshot).file_names)
        _keep_added(unused, snapshot.delta_manifest_list)
        if snapshot.changelog_manifest_list is not None:
            _keep_added(unused, snapshot.changelog_manifest_list)
    _keep_tags(unused, TagStore(table.file_io, paths), None)
    _keep_changelogs(unused, paths, ())


def _keep_tags(unused: UnusedFiles, store: TagStore, bounds: tuple[int, int] | None) -> None:
    """Keep what tags need, from the newest to the oldest, as far back as a file in doubt was made.

    ``bounds``: the files belong to snapshots of the tags' own branch from the one to (without) the other. So tags of
    later snapshots need none of them, and manifests are shared only with tags from the one next to the first on.
    """
    table = unused.table
    tagged = {tag.id: tag for tag in _all_at_once(table, lambda name: store.get(name).snapshot, store.names())}
    begin, end = bounds or (0, 2**63)
    nearest = max((tag for tag in tagged if tag <= begin), default=0)
    for snapshot_id in sorted((tag for tag in tagged if tag < end), reverse=True):
        snapshot = tagged[snapshot_id]
        unused.keep_metadata(snapshot, data_lists=snapshot_id >= nearest)
        if unused.data and unused.oldest_millis() <= snapshot.time_millis + _CLOCKS_DIFFER_MILLIS:
            unused.keep_data(table.manifests.live_columns(snapshot).file_names)


def _keep_changelogs(unused: UnusedFiles, paths: TablePaths, gone: Collection[int]) -> None:
    """Keep what long-lived changelogs need: their own manifests, or those that stand in for them, and added files."""
    table = unused.table
    for changelog in _all_at_once(
        table, lambda number: read_changelog(table, paths, number), changelog_ids(table, paths)
    ):
        if changelog.id in gone:
            continue
        names = [changelog.changelog_manifest_list or changelog.delta_manifest_list]
        names += [] if changelog.changelog_manifest_list else [changelog.base_manifest_list]
        for name in names:
            if table.file_io.exists(table.paths.manifest_path(name)):  # expiring the snapshot may have taken it
                unused.keep_list(name)
                if name != changelog.base_manifest_list:
                    _keep_added(unused, name)


def _all_at_once(table: FileStoreTable, read: Callable[[_Key], Snapshot], keys: Sequence[_Key]) -> list[Snapshot]:
    """Read many small files, several at once on a remote store."""
    threads = threads_of(table)
    if threads == 1 or len(keys) < 2:
        return [read(key) for key in keys]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(read, keys))


def _keep_added(unused: UnusedFiles, manifest_list: str) -> None:
    manifests = unused.table.manifests
    if not unused.data:
        return
    for columns in manifests.columns_of(manifests.manifest_names(manifest_list)):
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
    """
    try:
        unused = _unused(table, snapshots, half_deleted)
    except (PaimonError, OSError):
        return 0
    for paths in unused:  # what names files goes after them, or a second call would not find them
        delete_files(table, paths)
    return sum(map(len, unused))


def unused_files(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the paths that ``snapshots`` name and nothing else needs, data files first.

    Raises:
        PaimonError: a metadata file of one of them, or of a snapshot that must be kept, cannot be read.
    """
    return [path for paths in _unused(table, snapshots, ()) for path in paths]


def _unused(table: FileStoreTable, snapshots: Sequence[Snapshot], half_deleted: Sequence[Snapshot]) -> list[list[str]]:
    """Return the data files, what names them, and what names that."""
    unused = UnusedFiles(table)
    for snapshot in snapshots:
        unused.add_all(table.manifests.live_columns(snapshot).changes())
        unused.add_metadata(snapshot)
    for snapshot in half_deleted:
        with contextlib.suppress(CorruptTableError):  # a manifest is gone, so the data files are
            unused.add_all(table.manifests.live_columns(snapshot).changes())
        unused.add_metadata(snapshot)
    if not unused.lists and not unused.manifests:
        return []
    _keep_branch(unused, table.paths)
    keep_other_branches(unused)
    data = [path for paths in unused.data_paths().values() for path in paths]
    return [data, sorted(unused.manifests), sorted(unused.lists)]


def unneeded_names(table: FileStoreTable, created: Mapping[str, int]) -> set[str]:
    """Return those of the data files that live nowhere: in no snapshot or tag of any branch, in no changelog.

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
