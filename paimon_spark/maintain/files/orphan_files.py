"""Files in a table's directories that nothing names: what failed writes, rollbacks and dropped branches left behind.

Equals Java's ``OrphanFilesClean`` and ``LocalOrphanFilesClean`` (docs/internals/format.md §9). A file is kept if a
manifest of any snapshot, tag or long-lived changelog of any branch names it, unless the entry is a DELETE and nothing
else has the file. Files are listed before manifests are read, so that files committed meanwhile are kept. Files younger
than a day (or another time) stay. Of external paths only those that belong to this table alone are looked at. The
functions are small, so that a Spark job can list and read too.

Java leaves all managed blob files alone. Here one goes if no companion file of a data file (``*.blobref``) names it: of
any file on the disk, committed or not. If one data file lacks its list, or one list cannot be read, all managed blob
files stay. Lists of orphan files are looked at after these are gone.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CorruptTableError, ExpiredFileError, OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.files.deletion import delete_unless_silent, if_there, threads_of
from paimon_spark.maintain.files.needed_files import changelog_ids, read_changelog, unneeded_names
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.spec.file_names import (
    BLOB_REFERENCES_SUFFIX,
    BUCKET_PREFIX,
    CHANGELOG_PREFIX,
    MANAGED_BLOB_SUFFIX,
    SNAPSHOT_PREFIX,
)
from paimon_spark.spec.manifest import FileKind
from paimon_spark.storage.blob_descriptor import decode_references
from paimon_spark.storage.confinement import why_not_own
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.ref_store import TagStore
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.snapshot_store import ROLLED_BACK, SnapshotStore

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest import RecordedFile
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.paths import TablePaths
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManagedBlobFile:
    """A managed blob file that is old enough to go."""

    path: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def old_blob_files(table: FileStoreTable, directories: Iterable[str], before: int) -> list[ManagedBlobFile]:
    """Return the managed blob files last changed before a time; to be called before anything else is read.

    Args:
        table: any branch of the table.
        directories: of buckets.
        before: in epoch milliseconds.
    """
    if not _managed_schemas(table):
        return []
    io, inside = table.file_io, [path for path in directories if not table.file_io.leads_out(path)]
    with ThreadPoolExecutor(threads_of(table)) as pool:
        return [
            ManagedBlobFile(f"{directory}/{name}", size)
            for directory, entries in zip(inside, pool.map(io.list_names, inside), strict=True)
            for name, size, is_dir, changed, _ in entries
            if name.endswith(MANAGED_BLOB_SUFFIX) and not is_dir and 0 < changed < before
        ]


def unneeded_blob_files(
    table: FileStoreTable,
    blob_files: list[ManagedBlobFile],
    directories: Iterable[str],
    manifests: Iterable[RecordedFile],
    gone: Container[str] = (),
) -> list[ManagedBlobFile]:
    """Return those of some managed blob files that nothing needs.

    Args:
        table: any branch of the table.
        blob_files: as `old_blob_files` gives them.
        directories: of buckets.
        manifests: those that everything in the table needs.
        gone: paths of files that are about to go, or have gone.
    """
    if not blob_files:
        return []
    io, inside = table.file_io, list(directories)
    with ThreadPoolExecutor(threads_of(table)) as pool:
        listed = pool.map(io.list_names, inside)
        there = {
            entry.name: f"{directory}/{entry.name}"
            for directory, entries in zip(inside, listed, strict=True)
            for entry in entries
            if f"{directory}/{entry.name}" not in gone
        }
        lists = {name for name in there if name.endswith(BLOB_REFERENCES_SUFFIX)}
        managed = _managed_schemas(table)
        owners = pool.map(lambda manifest: _owners(table, manifest, managed), manifests)
        files = {name for names in owners for name in names if name in there}
        lacking = sorted(name for name in files if name + BLOB_REFERENCES_SUFFIX not in lists)
        if lacking:
            _LOG.warning("%s: all managed blob files stay: %s has no list of those it needs", table.path, lacking[0])
            return []
        try:
            found = list(pool.map(lambda name: _blob_files_of(table, there[name]), sorted(lists)))
        except CorruptTableError as error:
            _LOG.warning("%s: all managed blob files stay: %s", table.path, error)
            return []
    needed = {name for names in found for name in names}
    return [blob_file for blob_file in blob_files if blob_file.name not in needed]


def _managed_schemas(table: FileStoreTable) -> frozenset[int]:
    """Ids of schemas, of any branch, whose files need lists of managed blob files."""
    stores = (SchemaStore(table.file_io, table.paths.for_branch(n)) for n in (MAIN_BRANCH, *table.branches.names()))
    return frozenset(schema.id for store in stores for schema in store.all() if schema.managed_blob_fields)


def _owners(table: FileStoreTable, manifest: RecordedFile, managed: frozenset[int]) -> list[str]:
    """The data files of a manifest that need lists of managed blob files."""
    names: list[str] = []
    for columns in if_there(lambda: list(table.manifests.columns_of([manifest], statistics=False))):
        pairs = zip(columns.file_names, columns.schema_ids.tolist(), strict=True)
        names += [name for name, schema_id in pairs if schema_id in managed]
    return names


def _blob_files_of(table: FileStoreTable, path: str) -> list[str]:
    try:
        return [blob_file.name for blob_file in decode_references(table.file_io.read_bytes(path), path)]
    except FileNotFoundError:  # of a file that has expired meanwhile
        return []


def own_external_roots(table: FileStoreTable, roots: Sequence[str]) -> list[str]:
    """Return those of the option's external paths that are this table's alone; the log names the others.

    Java: takes all of them, also the files of other tables with the same option.
    """
    found = []
    for root in roots:
        reason = why_not_own(table.file_io, table.path, root)
        if reason is None:
            found.append(root)
        else:
            _LOG.warning("%s: files below %s are left alone: %s", table.path, root, reason)
    return found


_HINTS = ("EARLIEST", "LATEST", ROLLED_BACK)
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.tmp")
_DEFAULT_AGE = timedelta(days=1)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that may go."""

    path: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What is known of a data file that some commit took away."""

    created_millis: int
    extra_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileReferences:
    """What a manifest names: all files, and those of them that it says are deleted."""

    names: set[str]
    deleted: dict[str, Deleted]


@dataclass(frozen=True, slots=True)
class LiveSnapshots:
    """What keeps files.

    Attributes:
        snapshots: all of them.
        whole: those whose metadata cannot be missing, unless the table is damaged (the latest snapshots and the tags),
            by the path of their file. An interrupted expiry may have deleted metadata of the others.
    """

    snapshots: list[Snapshot]
    whole: dict[str, Snapshot]


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """What was removed, or would be."""

    file_count: int
    total_bytes: int


def older_than_millis(older_than: datetime | None) -> int:
    """Return the time before which files may go, in epoch milliseconds: a day ago when none is given.

    Raises:
        OptionError: it is not in the past.
    """
    now = time.time()
    if older_than is None:
        return int((now - _DEFAULT_AGE.total_seconds()) * 1000)
    if older_than.timestamp() >= now:
        raise OptionError(
            "The arg olderThan must be less than now, because dataFiles that are currently being written and not "
            "referenced by snapshots will be mistakenly cleaned up."
        )
    return int(older_than.timestamp() * 1000)


def remove_orphan_files(
    table: FileStoreTable, *, older_than: datetime | None = None, dry_run: bool = False
) -> RemovedFiles:
    """Delete the files of the table that nothing names, here on the driver.

    Args:
        table: any branch of the table; all branches are looked at.
        older_than: only files changed before this local time (or one with its zone); a day ago when not given.
        dry_run: delete nothing, only report.

    Raises:
        OptionError: ``older_than`` is not in the past.
        PaimonError: a branch has no schema, or a metadata file that tells what is needed cannot be read. Nothing has
            been deleted.
    """
    return remove_files_before(table, older_than_millis(older_than), dry_run=dry_run)


def remove_files_before(table: FileStoreTable, before: int, *, dry_run: bool = False) -> RemovedFiles:
    """Do what `remove_orphan_files` does, for files changed before a time in epoch milliseconds."""
    check_branches(table)
    directories = data_directories(table)
    stray = stray_files(table, before)
    buckets = bucket_directories(directories)
    blob_files = old_blob_files(table, buckets, before)
    with ThreadPoolExecutor(threads_of(table)) as pool:
        locations = file_directories(table, directories)
        listed = list(pool.map(lambda at: _PackedFiles.of(at, old_files(table, at, before)), locations))
        there = np.sort(np.concatenate([np.zeros(0, np.int64), *(files.hashes for files in listed)]))
        used, manifests = named_files(table, live_snapshots(table))
        named, deleted = [_hashes(used)], dict[str, Deleted]()
        for hashes, gone in pool.map(lambda manifest: _packed_references(table, manifest, there), manifests):
            named.append(hashes)
            deleted |= gone
    dead = names_of_deleted(table, deleted)
    names = np.unique(np.concatenate(named))
    orphans = [*stray, *(file for files in listed for file in files.without(names, dead))]
    unneeded = unneeded_blob_files(table, blob_files, buckets, manifests, {file.path for file in orphans})
    orphans += [OrphanFile(blob_file.path, blob_file.size) for blob_file in unneeded]
    _LOG.info("%s: %s of %s old files are orphans", table.path, len(orphans), len(there) + len(stray))
    if not dry_run:
        orphans = delete_orphans(table, orphans)
        delete_old_empty_directories(table, directories, before)
    return RemovedFiles(len(orphans), sum(file.size for file in orphans))


@dataclass(frozen=True, slots=True)
class _PackedFiles:
    """The old files of a directory in some 70 bytes each: a table may have millions."""

    directory: str
    names: str
    """One behind the other, each behind a slash."""
    sizes: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.int64]
    """Of the names."""

    @classmethod
    def of(cls, directory: str, files: Sequence[OrphanFile]) -> _PackedFiles:
        """Pack the files of a directory."""
        names = [file.name for file in files]
        sizes = np.fromiter((file.size for file in files), np.int64, len(files))
        return cls(directory, "".join(f"/{name}" for name in names), sizes, _hashes(names))

    def without(self, named: npt.NDArray[np.int64], dead: Collection[str]) -> Iterator[OrphanFile]:
        """The files that nothing names.

        Args:
            named: hashes of all names in manifests, in order. A file of another name with the same hash stays.
            dead: names among them that nothing needs.
        """
        unnamed = ~_is_among(self.hashes, named)
        if dead or unnamed.any():
            for name, size, is_unnamed in zip(self.names.split("/")[1:], self.sizes, unnamed, strict=True):
                if is_unnamed or name in dead:
                    yield OrphanFile(f"{self.directory}/{name}", int(size))


def _hashes(names: Collection[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, names), np.int64, len(names))


def _is_among(hashes: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[at] == hashes
    return found


def _packed_references(
    table: FileStoreTable, manifest: RecordedFile, there: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], dict[str, Deleted]]:
    """Hashes of the names that a manifest has, and those deleted files that may be there."""
    found = read_references(table, manifest)
    is_there = _is_among(_hashes(found.deleted), there)
    return _hashes(found.names), {
        name: made for (name, made), kept in zip(found.deleted.items(), is_there, strict=True) if kept
    }


def delete_orphans(table: FileStoreTable, files: Sequence[OrphanFile]) -> list[OrphanFile]:
    """Delete files; return those that are gone.

    Raises:
        StorageError: the store does not answer what deletes.
    """
    left = frozenset(delete_unless_silent(table, [file.path for file in files]))
    return [file for file in files if file.path not in left]


def check_branches(table: FileStoreTable) -> None:
    """Check that all branches can be read.

    Raises:
        PaimonError: one has no schema, or has lost its latest snapshot.
    """
    broken = [
        name for name in table.branches.names() if not SchemaStore(table.file_io, table.paths.for_branch(name)).ids()
    ]
    if broken:
        raise PaimonError(
            f"Branches {broken} have no schemas. Orphan files cleaning aborted. Please check these branches of "
            f"{table.path} manually: one that was being made or deleted can be deleted."
        )
    check_nothing_lost(table)


def file_directories(table: FileStoreTable, directories: Iterable[str]) -> list[str]:
    """Return the directories of files that manifests may name: of manifests, index files and statistics, and buckets.

    Args:
        table: any branch of the table.
        directories: as `data_directories` gives them.
    """
    named = [table.paths.manifest_dir, table.paths.index_dir, table.paths.statistics_dir]
    return [*named, *bucket_directories(directories)]


def bucket_directories(directories: Iterable[str]) -> list[str]:
    """Return the directories of buckets among those that `data_directories` gives."""
    return [path for path in directories if path.rpartition("/")[2].startswith(BUCKET_PREFIX)]


def data_directories(table: FileStoreTable) -> dict[str, int]:
    """Return the directories of buckets and the partitions above them, with the time of their last change.

    Partitions come after all that is below them. Times are in epoch milliseconds, 0 where the store does not say.
    """
    layout, io = DataLayout.of(table.schema), table.file_io
    inside = f"{table.path}/{layout.data_directory}" if layout.data_directory else table.path
    found: dict[str, int] = {}
    for root in sorted({table.path, inside, *own_external_roots(table, layout.external_roots)}):
        _walk(io, root, len(layout.partition_keys), found)
    return found


def _walk(io: FileIO, directory: str, level: int, found: dict[str, int]) -> None:
    if io.leads_out(directory):
        _LOG.warning("Files below %s are left alone: it leads out of the table", directory)
        return
    for name, _, is_dir, changed, _ in io.list_names(directory):
        path = f"{directory.rstrip('/')}/{name}"
        if is_dir and (name.startswith(BUCKET_PREFIX) if level == 0 else "=" in name):
            if level:
                _walk(io, path, level - 1, found)
            found[path] = changed


def old_files(table: FileStoreTable, directory: str, before: int) -> list[OrphanFile]:
    """Return the files of a directory that were last changed before a time (epoch milliseconds).

    None of a directory that leads out of the table, where nothing is deleted.
    """
    if table.file_io.leads_out(directory):
        return []
    return [
        OrphanFile(f"{directory}/{name}", size)
        for name, size, is_dir, changed, _ in table.file_io.list_names(directory)
        if not is_dir and 0 < changed < before and not name.endswith(MANAGED_BLOB_SUFFIX)
    ]


def stray_files(table: FileStoreTable, before: int) -> list[OrphanFile]:
    """Return the old files among snapshots, changelogs, tags, schemas and consumers that are none of these."""
    found = []
    for branch in (MAIN_BRANCH, *table.branches.names()):
        paths = table.paths.for_branch(branch)
        for directory, prefix in ((paths.snapshot_dir, SNAPSHOT_PREFIX), (paths.changelog_dir, CHANGELOG_PREFIX)):
            found += [
                file
                for file in old_files(table, directory, before)
                if not file.name.startswith(prefix) and file.name not in _HINTS
            ]
        for directory in (paths.tag_dir, paths.schema_dir, paths.consumer_dir):  # Java: leaves these alone
            found += [file for file in old_files(table, directory, before) if _UNFINISHED.fullmatch(file.name)]
    return found


def live_snapshots(table: FileStoreTable) -> LiveSnapshots:
    """Return the snapshots, tagged snapshots and long-lived changelogs of all branches.

    Raises:
        CorruptTableError: one of them cannot be read.
        PaimonError: branches and tags are renamed or deleted all the time.
    """
    for _ in range(_ATTEMPTS):
        names = [MAIN_BRANCH, *table.branches.names()]
        with contextlib.suppress(_MovedError):
            found, whole = LiveSnapshots([], {}), [_look(table, table.paths.for_branch(name)) for name in names]
            if names == [MAIN_BRANCH, *table.branches.names()]:
                for part in whole:
                    found.snapshots.extend(part.snapshots)
                    found.whole.update(part.whole)
                return found
    raise PaimonError(
        f"Branches or tags of {table.path} are renamed or deleted all the time: it is not known which files they need. "
        "Orphan files cleaning aborted; try again later."
    )


class _MovedError(Exception):
    """A listed tag is missing: it may have been renamed."""


def _look(table: FileStoreTable, paths: TablePaths) -> LiveSnapshots:
    """Read a branch's snapshots, then its tags: one that is expired meanwhile may have been tagged before."""
    snapshots, tags = SnapshotStore(table.file_io, paths), TagStore(table.file_io, paths)
    found = LiveSnapshots([], {})
    for number in snapshots.ids():
        with contextlib.suppress(SnapshotNotFoundError):  # expired since it was listed
            found.snapshots.append(snapshots.get(number))
    if found.snapshots:
        found.whole[paths.snapshot_path(found.snapshots[-1].id)] = found.snapshots[-1]
    for name in tags.names():
        try:
            tagged = tags.get(name).snapshot
        except SnapshotNotFoundError as error:
            raise _MovedError from error
        found.snapshots.append(tagged)
        found.whole[paths.tag_path(name)] = tagged
    for number in changelog_ids(table, paths):
        with contextlib.suppress(FileNotFoundError):
            found.snapshots.append(read_changelog(table, paths, number))
    return found


def named_files(table: FileStoreTable, live: LiveSnapshots) -> tuple[set[str], set[RecordedFile]]:
    """Return the names of all metadata files that snapshots name, and the manifests among them.

    Raises:
        CorruptTableError: a manifest list or index manifest cannot be read. A missing one is an error only for a latest
            snapshot or a tag: an interrupted expiry may have deleted it for the others. Or a read would refuse a latest
            snapshot or tag: two of its manifests add one file, or its files have other rows than it counts.
    """
    store = table.manifests
    lists: set[RecordedFile] = set()
    index_manifests: set[str] = set()
    used: set[str] = set()
    for snapshot in live.snapshots:
        own = snapshot.changelog_list
        lists |= {snapshot.base_list, snapshot.delta_list} | ({own} if own is not None else set())
        index_manifests |= {snapshot.index_manifest} if snapshot.index_manifest is not None else set()
        used |= {snapshot.statistics} if snapshot.statistics is not None else set()
    with ThreadPoolExecutor(threads_of(table)) as pool:
        ordered = list(lists)
        found = pool.map(lambda listed: if_there(lambda: store.manifests_of(listed)), ordered)
        of_list = dict(zip(ordered, found, strict=True))
        named = pool.map(lambda name: if_there(lambda: store.index_names(name)), index_manifests)
        index_files = {name for names in named for name in names}
    _check_whole(table, live, of_list)
    manifests = {manifest for each in of_list.values() for manifest in each}
    return used | index_manifests | index_files | {each.name for each in lists | manifests}, manifests


def _check_whole(
    table: FileStoreTable, live: LiveSnapshots, of_list: Mapping[RecordedFile, Sequence[RecordedFile]]
) -> None:
    """Check that latest snapshots and tags have all their metadata: else their data files would look unused."""
    present = {entry.name for entry in table.file_io.list_names(table.paths.manifest_dir)}
    for path, snapshot in live.whole.items():
        lists = (snapshot.base_list, snapshot.delta_list)
        names = [each.name for listed in lists for each in (listed, *of_list[listed])]
        names += [snapshot.index_manifest] if snapshot.index_manifest is not None else []
        missing = next((name for name in names if name not in present), None)
        if missing is not None and table.file_io.exists(path):  # else it has just expired or been deleted
            raise CorruptTableError(
                f"{table.paths.manifest_path(missing)} is missing, which {path} needs: it is not known which files "
                "belong to the table. Orphan files cleaning aborted. If that is a tag, delete it; if it is the latest "
                "snapshot, roll back to an earlier one or restore the file.",
                path=table.paths.manifest_path(missing),
            )
        with contextlib.suppress(ExpiredFileError):  # it has just expired or been deleted
            table.manifests.check_live(snapshot)


def read_references(table: FileStoreTable, manifest: RecordedFile) -> FileReferences:
    """Return what a manifest references.

    Raises:
        CorruptTableError: it cannot be read, or is another than recorded (a missing one references nothing).
    """
    found = FileReferences(set(), {})
    for columns in if_there(lambda: list(table.manifests.columns_of([manifest], statistics=False))):
        found.names.update(columns.file_names)
        extras = columns.file_values("_EXTRA_FILES")
        for extra in extras:
            found.names.update(extra or ())
        gone = columns.filter(columns.kinds == FileKind.DELETE)
        times, companions = gone.file_values("_CREATION_TIME"), gone.file_values("_EXTRA_FILES")
        for name_of, millis, extra in zip(gone.file_names, times, companions, strict=True):
            found.deleted[name_of] = Deleted(millis or 0, tuple(extra or ()))
    return found


def names_of_deleted(table: FileStoreTable, deleted: Mapping[str, Deleted]) -> set[str]:
    """Return the names of those deleted files, and of their companion files, that nothing needs.

    Expiry deletes the files of the snapshots that it expires. A file that a branch or a tag still needed is left behind
    when that is deleted later, while manifests say that the file is deleted. Java leaves such files until the manifests
    are rewritten.

    Raises:
        PaimonError: a metadata file of something in the table cannot be read.
    """
    dead = unneeded_names(table, {name: made.created_millis for name, made in deleted.items()})
    return {part for name in dead for part in (name, *deleted[name].extra_files)}


def delete_old_empty_directories(table: FileStoreTable, directories: Mapping[str, int], before: int) -> None:
    """Delete the directories that are empty and had not changed since a time before the files in them were deleted."""
    for directory, changed in directories.items():
        if 0 < changed < before:
            table.file_io.delete_empty_directory(directory)
