"""The long-lived changelogs of a branch: what stays of a snapshot that has expired (Java: ``ChangelogManager``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.file_names import CHANGELOG_PREFIX, numbered_name_id
from paimon_spark.spec.snapshot import Snapshot

if TYPE_CHECKING:
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
