"""Which files only one snapshot still held, and deleting them once nothing names that snapshot any more.

Does the work of Java's ``TagDeletion`` and ``TagManager.doClean``, but more carefully. Java looks at the neighbours of
a tag; here a file goes only if no tag, no living snapshot and no long-lived changelog of any branch needs it: a branch
that was made from the tag, or a rollback that brought files back, keeps them. Where anything cannot be read, nothing is
deleted (`remove_orphan_files` takes it later).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError
from paimon_spark.spec.file_names import CHANGELOG_PREFIX, check_file_name, numbered_name_id
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.paths import MAIN_BRANCH, TablePaths
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.tag_store import TagStore

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def delete_unused_files(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> int:
    """Delete the data files, manifests, index and statistics files that only ``snapshots`` held; return how many.

    Args:
        table: any branch of the table.
        snapshots: which neither a snapshot file nor a tag holds any more.
    """
    try:
        unused = unused_files(table, snapshots)
    except (PaimonError, OSError):
        return 0
    for path in unused:
        table.file_io.delete_quietly(path)
    return len(unused)


def unused_files(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the paths that ``snapshots`` name and nothing else needs, data files first.

    Raises:
        PaimonError: a metadata file of one of them, or of a snapshot that must be kept, cannot be read.
    """
    data: dict[str, list[str]] = {}
    metadata: set[str] = set()
    for snapshot in snapshots:
        data.update(_data_paths(table, snapshot))
        metadata |= _metadata_paths(table, snapshot)
    if not metadata:
        return []
    for needed_data, needed_metadata in _needs(table):
        metadata -= needed_metadata
        for name in needed_data:
            data.pop(name, None)
    return [path for paths in data.values() for path in paths] + sorted(metadata)


def _needs(table: FileStoreTable) -> Iterator[tuple[Collection[str], set[str]]]:
    """Yield the names of the data files and the paths of the metadata files that each holder in the table needs.

    A file that a living snapshot shows was there in the earliest one, or has been added since.
    """
    io = table.file_io
    for branch in (MAIN_BRANCH, *table.branches.names()):
        paths = table.paths.for_branch(branch)
        for tag in TagStore(io, paths).list().values():
            yield table.manifests.live_columns(tag.snapshot).file_names, _metadata_paths(table, tag.snapshot)
        snapshots = SnapshotStore(io, paths)
        for number, snapshot_id in enumerate(snapshots.ids()):
            snapshot = snapshots.get(snapshot_id)
            live = table.manifests.live_columns(snapshot).file_names if number == 0 else []
            delta = snapshot.delta_manifest_list
            yield [*live, *_added_names(table, delta)], _metadata_paths(table, snapshot)
        for changelog_id in changelog_ids(table, paths):
            path = paths.changelog_path(changelog_id)
            changelog = Snapshot.from_json(io.read_bytes(path), path=path)
            for name in (changelog.base_manifest_list, changelog.delta_manifest_list):
                if io.exists(table.paths.manifest_path(name)):  # expiring the snapshot may have taken it
                    yield _added_names(table, name), _list_paths(table, name)


def changelog_ids(table: FileStoreTable, paths: TablePaths) -> list[int]:
    """Return the ids of the long-lived changelogs of a branch, ascending."""
    listed = table.file_io.list_names(paths.changelog_dir)
    found = [numbered_name_id(entry.name, CHANGELOG_PREFIX) for entry in listed if not entry.is_dir]
    return sorted(changelog_id for changelog_id in found if changelog_id is not None)


def _data_paths(table: FileStoreTable, snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the data files that live in a snapshot: name -> its path and those of its extra files."""
    found: dict[str, list[str]] = {}
    for entry in table.manifests.live_columns(snapshot):
        path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
        directory = path.rpartition("/")[0]
        extra = [f"{directory}/{check_file_name(name, path=directory)}" for name in entry.file.extra_files]
        found[entry.file.file_name] = [path, *extra]
    return found


def _added_names(table: FileStoreTable, manifest_list: str) -> list[str]:
    """Return the names of the data files that the manifests of a list add."""
    return [
        name
        for columns in table.manifests.read_columns(table.manifests.manifest_list(manifest_list))
        for name, kind in zip(columns.file_names, columns.kinds, strict=True)
        if kind == FileKind.ADD
    ]


def _list_paths(table: FileStoreTable, manifest_list: str) -> set[str]:
    """Return the paths of a manifest list and of the manifests it names."""
    names = [manifest_list, *(meta.file_name for meta in table.manifests.manifest_list(manifest_list))]
    return {table.paths.manifest_path(name) for name in names}


def _metadata_paths(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    """Return the paths of a snapshot's manifest lists, manifests, index manifest, index files and statistics.

    Its changelog is none of them: that goes when the snapshot expires.
    """
    paths = table.paths
    found = _list_paths(table, snapshot.base_manifest_list) | _list_paths(table, snapshot.delta_manifest_list)
    if snapshot.index_manifest is not None:
        found.add(paths.manifest_path(snapshot.index_manifest))
        found |= {paths.index_path(entry.file_name) for entry in table.manifests.index_entries(snapshot)}
    if snapshot.statistics is not None:
        found.add(paths.statistics_path(snapshot.statistics))
    return found
