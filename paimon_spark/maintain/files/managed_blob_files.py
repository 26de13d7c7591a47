"""Managed blob files that no row needs any more (tables with primary keys).

Java leaves all managed blob files alone. Here one goes if no companion file of a data file
(``*.blobref``) names it: of any file on the disk, committed or not. If one data file lacks its list, or one list
cannot be read, all managed blob files stay. Lists of orphan files are looked at after these are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError
from paimon_spark.maintain.files.deletion import threads_of
from paimon_spark.maintain.files.unused_files import if_there
from paimon_spark.spec.file_names import BLOB_REFERENCES_SUFFIX, MANAGED_BLOB_SUFFIX
from paimon_spark.storage.blob_references import decode_references
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import RecordedFile
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
