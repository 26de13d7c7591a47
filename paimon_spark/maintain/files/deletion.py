"""Files that are deleted: candidates, from which `needed_files` removes all that something still needs; many at once.

Does the work of Java's ``FileDeletionBase`` and ``SnapshotDeletion``, on the driver, once per expiry. Files that no
snapshot came to refer to go the same way, and directories that are empty then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from paimon_spark.errors import CorruptTableError, ExpiredFileError
from paimon_spark.options import OPTIONS
from paimon_spark.spec.file_names import check_file_name
from paimon_spark.spec.manifest import FileKind
from paimon_spark.write.bucket_filling import record_paths

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, FileChange, RecordedFile
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

_LOG = logging.getLogger(__name__)
_THREADS = OPTIONS["file-operation.thread-num"]


def threads_of(table: FileStoreTable) -> int:
    """Return how many files of a table are worked on at once: as the option says, else as many as suit the store."""
    threads: int | None = table.options.get(_THREADS)
    return threads or table.file_io.threads


def delete_files(table: FileStoreTable, paths: Sequence[str], *, in_order: bool = False) -> list[str]:
    """Delete files; those that are missing are passed over.

    Args:
        table: whose they are; its options say how many are deleted at once.
        paths: quickest where files of one directory are together.
        in_order: delete one after the other, so that an interruption leaves the last ones.

    Returns:
        Those that could not be deleted; the log names one of them.
    """
    left = table.file_io.delete_files(paths, threads=1 if in_order else table.options.get(_THREADS))
    if left:
        _LOG.warning("%s: %s of %s files could not be deleted, such as %s", table.path, len(left), len(paths), left[0])
    return left


def delete_unless_silent(table: FileStoreTable, paths: Sequence[str], *, in_order: bool = False) -> list[str]:
    """As `delete_files`, for work that a store has to answer to be done.

    Raises:
        StorageError: files are left, since the store does not answer what deletes.
    """
    left = delete_files(table, paths, in_order=in_order)
    if left:
        table.file_io.check_deletes(left[0])
    return left


def delete_written(
    table: FileStoreTable, written: Iterable[tuple[bytes, int, DataFileMeta]], *, keep: Container[str] = ()
) -> None:
    """Delete files that were written and that no snapshot refers to."""
    paths = []
    for location in written:
        if location[2].file_name not in keep:
            path = table.paths.data_file_path(*location)
            paths += [path, *(f"{path.rpartition('/')[0]}/{name}" for name in location[2].extra_files)]
    if paths:
        delete_files(table, paths)


def delete_messages(table: FileStoreTable, messages: Iterable[TaskMessage]) -> None:
    """Delete all that the tasks of a write have written: no snapshot refers to it, and none will."""
    messages = list(messages)
    parts = [part for message in messages for part in message.messages]
    delete_written(table, [(p.partition, p.bucket, f) for p in parts for f in (*p.new_files, *p.changelog_files)])
    hashes = [p.new_index.file_name for p in parts if p.new_index is not None]
    assigned = record_paths(
        table.paths, [message.assignment_log for message in messages if message.assignment_log is not None]
    )
    blob_files = [path for message in messages for path in message.blob_files]
    other_files = [*(table.paths.index_path(name) for name in hashes if name is not None), *assigned, *blob_files]
    if other_files:
        delete_files(table, other_files)


def delete_empty_directories(io: FileIO, buckets: Iterable[str], partition_keys: int) -> None:
    """Delete bucket directories that are empty, and above them the partition directories that become so."""
    level = {bucket for bucket in buckets if io.delete_empty_directory(bucket)}
    for _ in range(partition_keys):
        above = {directory.rpartition("/")[0] for directory in level}
        level = {directory for directory in above if io.delete_empty_directory(directory)}


_Item = TypeVar("_Item")


def if_there(read: Callable[[], list[_Item]]) -> list[_Item]:
    """Return what a metadata file holds, nothing where the file is missing.

    Raises:
        CorruptTableError: it is there, but cannot be read or is another than recorded.
    """
    try:
        return read()
    except ExpiredFileError:
        return []


class UnusedFiles:
    """Files to be deleted, unless something turns out to need them.

    Attributes:
        data: data files by name, as manifests record them.
        manifests: paths of manifests, index files and statistics.
        lists: paths of what names those: manifest lists and index manifests.
        read_lists: the manifests of manifest lists that have been read already, by the list.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table
        self.data: dict[str, FileChange] = {}
        self.manifests: set[str] = set()
        self.lists: set[str] = set()
        self.read_lists: dict[RecordedFile, list[RecordedFile]] = {}
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

        Raises:
            CorruptTableError: a manifest list or index manifest cannot be read, or is another than the snapshot says.
        """
        paths, manifests = self.table.paths, self.table.manifests
        lists: list[RecordedFile | None] = [snapshot.base_list, snapshot.delta_list] if data_lists else []
        for listed in [*lists, snapshot.changelog_list if changelog else None]:
            if listed is not None:
                self.add_list(listed)
        name = snapshot.index_manifest
        if name is not None and paths.manifest_path(name) not in self.lists:
            files = set(if_there(lambda: manifests.index_paths(name)))
            self.lists.add(paths.manifest_path(name))
            self.manifests |= files
            self._handed_on |= {paths.manifest_path(name), *files}
            self._index_files = self._index_files or bool(files)
        if snapshot.statistics is not None:
            self.manifests.add(paths.statistics_path(snapshot.statistics))
            self._handed_on.add(paths.statistics_path(snapshot.statistics))

    def read(self, lists: Iterable[RecordedFile]) -> None:
        """Read many manifest lists at once, for the calls that follow; those that are missing are left.

        Raises:
            CorruptTableError: one cannot be read, or is another than its snapshot says.
        """
        wanted = list(dict.fromkeys(lists))
        found = self.table.manifests.manifests_of_lists(wanted)
        self.read_lists |= {listed: of for listed, of in zip(wanted, found, strict=True) if of is not None}

    def add_list(self, listed: RecordedFile) -> None:
        """Take a manifest list with its manifests; one that is missing is gone already.

        Raises:
            CorruptTableError: it cannot be read, or is another than its snapshot says.
        """
        path_of = self.table.paths.manifest_path
        if path_of(listed.name) not in self.lists:
            found = self.read_lists.pop(listed, None)
            if found is None:
                found = if_there(lambda: self.table.manifests.manifests_of(listed))
            self.lists.add(path_of(listed.name))
            names = {manifest.name for manifest in found}
            self.manifests.update(map(path_of, names - self._named))
            self._named |= names

    def keep_data(self, names: Iterable[str]) -> None:
        """Leave data files alone."""
        if self.data:
            for name in names:
                self.data.pop(name, None)

    def keep_live(self, snapshot: Snapshot, *, may_expire: bool = False) -> None:
        """Leave alone the data files that live in a snapshot.

        Args:
            snapshot: which.
            may_expire: whether it may expire at this time: then what is missing raises `ExpiredFileError`.

        Raises:
            CorruptTableError: a manifest of it is missing or cannot be read.
        """
        manifests, lists = self.table.manifests, (snapshot.base_list, snapshot.delta_list)
        wanted = [manifest for listed in lists for manifest in manifests.manifests_of(listed)] if self.data else []
        times: dict[str, int] = {}
        for manifest, changes in zip(wanted, manifests.files_of(wanted), strict=True):
            if changes is None:
                raise (ExpiredFileError if may_expire else CorruptTableError)(
                    f"Manifest {manifest.name} of snapshot {snapshot.id} of {self.table.path} is missing."
                )
            for change in changes:
                if change.name in self.data:
                    times[change.name] = times.get(change.name, 0) + (1 if change.kind == FileKind.ADD else -1)
        self.keep_data(name for name, left in times.items() if left > 0)

    def keep_metadata(self, snapshot: Snapshot, *, data_lists: bool = True, changelog: bool = False) -> None:
        """Leave alone what a snapshot needs besides data files.

        Args:
            snapshot: which.
            data_lists: its manifest lists and manifests.
            changelog: the manifests of its changelog, if they are there: a rollback or a new branch restores an expired
                snapshot from a tag without its changelog.

        Raises:
            CorruptTableError: a manifest list or index manifest of it is missing or cannot be read.
        """
        manifests = self.table.manifests
        if not self.lists and not self.manifests:
            return
        for listed in (snapshot.base_list, snapshot.delta_list) if data_lists else ():
            self.keep_list(listed)
        own = snapshot.changelog_list
        if changelog and own is not None:
            if_there(lambda: self.keep_list(own))
        self.keep_names(snapshot)
        if snapshot.index_manifest is not None and self._index_files:
            self.manifests.difference_update(manifests.index_paths(snapshot.index_manifest))

    def keep_names(self, snapshot: Snapshot) -> None:
        """Leave alone the index manifest and the statistics of a snapshot, which later snapshots inherit."""
        paths = self.table.paths
        if snapshot.index_manifest is not None:
            self.lists.discard(paths.manifest_path(snapshot.index_manifest))
        if snapshot.statistics is not None:
            self.manifests.discard(paths.statistics_path(snapshot.statistics))

    def taken_over(self) -> bool:
        """Return whether there are files that later snapshots may have inherited."""
        return not self._handed_on.isdisjoint(self.lists) or not self._handed_on.isdisjoint(self.manifests)

    def keep_list(self, listed: RecordedFile) -> list[RecordedFile]:
        """Leave a manifest list and its manifests alone; return these.

        Raises:
            CorruptTableError: it is missing, cannot be read, or is another than its snapshot says.
        """
        path_of = self.table.paths.manifest_path
        if not self.lists and not self.manifests:
            return []
        found = self.table.manifests.manifests_of(listed)
        self.lists.discard(path_of(listed.name))
        self.manifests.difference_update(path_of(manifest.name) for manifest in found)
        return found

    def oldest_millis(self) -> int:
        """Return when the oldest of the data files was made, 0 when one does not say."""
        if self._oldest[0] != len(self.data):  # between calls files are only removed
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
            location = file.partition, file.bucket
            directory = directories.get(location)
            if directory is None:
                directory = layout.bucket_dir(root, layout.partition_path(location[0]), location[1])
                directories[location] = directory
                found[directory] = []
            path = layout.data_file_path(directory, name, file.external_path)
            found[directory].append(path)
            if file.extra_files:
                parent = path.rpartition("/")[0]
                found[directory] += (f"{parent}/{check_file_name(extra, path=parent)}" for extra in file.extra_files)
        return found
