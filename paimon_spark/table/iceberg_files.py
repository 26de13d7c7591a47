"""The files of the Iceberg metadata of a table: where they are, read with suspicion, written and deleted there only.

They are in the table, or in the directory of an Iceberg catalog in the warehouse, as in Java's
``IcebergCommitCallback.catalogTableMetadataPath``.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, PaimonError, UnsupportedError
from paimon_spark.spec.file_names import one_spelling
from paimon_spark.spec.iceberg.manifests import Content, IcebergEntry, IcebergManifest, ManifestFormat
from paimon_spark.spec.iceberg.metadata import (
    CODECS,
    COMPRESSION,
    DELETES,
    LOCATION,
    STORAGE,
    VERSION,
    VERSION_HINT,
    VERSIONS_KEPT,
    IcebergMetadata,
    is_iceberg_name,
    is_shared,
    metadata_id,
    metadata_name,
    name_of,
)
from paimon_spark.storage.confinement import confined
from paimon_spark.table.paths import DATABASE_SUFFIX, MAIN_BRANCH, TablePaths
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from paimon_spark.metastore.iceberg_hive import IcebergHive
    from paimon_spark.metastore.iceberg_rest import IcebergRest
    from paimon_spark.options import CoreOptions
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_DIRECTORY = "metadata"
_CATALOG = "iceberg"


def publishes(table: FileStoreTable) -> bool:
    """Whether commits to this branch of a table write Iceberg metadata.

    # Java: commits to any branch write it, over that of the main branch
    """
    return table.branch == MAIN_BRANCH and is_shared(table.options)


def check_location(table: FileStoreTable) -> None:
    """Refuse a table whose Iceberg metadata has no place, before anything is committed.

    Raises:
        UnsupportedError: its option asks for a catalog, and the table is not in the directory of a database.
        OptionError: no option says where Iceberg's Hive metastore or REST catalog is.
    """
    if publishes(table):
        catalog_directory(table.path, table.options)
        hive_entries(table)
        rest_entry(table)


def hive_entries(table: FileStoreTable) -> IcebergHive | None:
    """The entries of a table in Iceberg's Hive metastore; None where its option asks for none.

    Raises:
        OptionError: no option says where the metastore is.
        UnsupportedError: the metastore wants what this client cannot do.
    """
    if table.options.value(STORAGE) != "hive-catalog":
        return None
    from paimon_spark.metastore.iceberg_hive import IcebergHive  # few tables have one

    return IcebergHive.of(table.options.to_dict(), *_names(table))


def rest_entry(table: FileStoreTable) -> IcebergRest | None:
    """The table in Iceberg's REST catalog; None where its option asks for none.

    Raises:
        OptionError: no option says where the catalog is.
        UnsupportedError: an option of the catalog cannot be obeyed.
    """
    options = table.options
    if options.value(STORAGE) != "rest-catalog":
        return None
    kept = int(options.value(VERSIONS_KEPT)), bool(options.value(DELETES))
    from paimon_spark.metastore.iceberg_rest import IcebergRest  # few tables have one

    return IcebergRest.of(options.to_dict(), *_names(table), kept)


def _names(table: FileStoreTable) -> tuple[str, str]:
    """The database and the name of a table, by its directory."""
    database_path, _, name = table.path.rpartition("/")
    return database_path.rpartition("/")[2].removesuffix(DATABASE_SUFFIX), name


def catalog_directory(root: str, options: CoreOptions) -> str | None:
    """The directory of a table in the Iceberg catalog of its warehouse; None where its metadata is in the table.

    Raises:
        UnsupportedError: the table is not in the directory of a database.
    """
    stored = options.value(LOCATION) or ("table-location" if options.value(STORAGE) == "table-location" else "")
    if stored == "table-location":
        return None
    database_path, _, name = root.rpartition("/")
    warehouse, _, database = database_path.rpartition("/")
    if not database.endswith(DATABASE_SUFFIX) or not warehouse or database == DATABASE_SUFFIX:
        raise UnsupportedError(
            f"Option '{STORAGE}' = '{options.value(STORAGE)}' needs a table in the directory <database>.db of a "
            f"warehouse, which {root} is not in. Set '{LOCATION}' to 'table-location'."
        )
    return f"{warehouse}/{_CATALOG}/{database.removesuffix(DATABASE_SUFFIX)}/{name}"


def metadata_directory(root: str, options: CoreOptions) -> str:
    """The directory of the Iceberg metadata of a table; errors as of `catalog_directory`."""
    return f"{catalog_directory(root, options) or root}/{_DIRECTORY}"


def metadata_io(file_io: FileIO, root: str, options: CoreOptions) -> FileIO:
    """The store of a table, in which the Iceberg metadata can be written; errors as of `catalog_directory`."""
    elsewhere = catalog_directory(root, options)
    return file_io if elsewhere is None else confined(file_io, elsewhere)


def metadata_in_catalog(file_io: FileIO, root: str) -> str | None:
    """The directory of a table in the Iceberg catalog of its warehouse; None where it has none, or is damaged."""
    try:
        schema = SchemaStore(file_io, TablePaths(root)).latest()
        if schema is None or not is_shared(schema.core_options):
            return None
        return catalog_directory(root, schema.core_options)
    except (PaimonError, OSError):  # a damaged table can be dropped too
        return None


def delete_catalog_metadata(file_io: FileIO, elsewhere: str | None) -> None:
    """Delete the Iceberg metadata of a table that was dropped or renamed, and nothing else that may be there.

    # Java: leaves it, so that readers of Iceberg go on finding a table without files

    Args:
        file_io: the store.
        elsewhere: what `metadata_in_catalog` returned before.
    """
    if elsewhere is None:
        return
    directory, io = f"{elsewhere}/{_DIRECTORY}", confined(file_io, elsewhere)
    with contextlib.suppress(OSError, PaimonError):
        names = [entry.name for entry in io.list_names(directory) if is_iceberg_name(entry.name)]
        io.delete_files([f"{directory}/{name}" for name in names])
        io.delete_empty_directory(directory)
        io.delete_empty_directory(elsewhere)


class IcebergFiles:
    """Reads and writes the metadata directory of a table; names of what was written are kept."""

    def __init__(self, table: FileStoreTable) -> None:
        options = table.options
        self._path = metadata_directory(table.path, options)
        self._io = metadata_io(table.file_io, table.path, options)
        self._location = table.path
        self._spelled = self._path
        self._format = ManifestFormat(
            partition=tuple(table.schema.partition_fields),
            version=int(options.value(VERSION)),
            codec=CODECS[str(options.value(COMPRESSION)).lower()],
            legacy=bool(options.value("metadata.iceberg.manifest-legacy-version")),
            target_bytes=int(options.value("manifest.target-file-size")),
        )
        self._prefix = str(uuid.uuid4())
        self._manifests = self._lists = 0
        self.written: list[str] = []
        """Names of the manifests and manifest lists that were written."""

    @property
    def location(self) -> str:
        """The table directory as the metadata spells it."""
        return self._location

    def spell_as(self, base: IcebergMetadata) -> bool:
        """Spell paths as metadata before does (``file:/a``, ``s3://b``); return False if it is of another directory."""
        directory = base.current["manifest-list"].rpartition("/")[0]
        theirs, ours = (base.location, directory), (self._location, self._path)
        if list(map(one_spelling, theirs)) != list(map(one_spelling, ours)):
            return False
        self._location, self._spelled = base.location, directory
        return True

    def names(self) -> set[str]:
        """The files that are there; what has another name than Iceberg metadata is left alone."""
        try:
            listed = self._io.list_names(self._path)
        except FileNotFoundError:
            return set()
        return {entry.name for entry in listed if is_iceberg_name(entry.name)}

    def metadata(self, snapshot_id: int) -> IcebergMetadata | None:
        """The metadata of a snapshot; None where it is missing or damaged."""
        path = f"{self._path}/{metadata_name(snapshot_id)}"
        try:
            return IcebergMetadata.from_json(self._io.read_bytes(path), path=path)
        except (FileNotFoundError, CorruptTableError):
            return None

    def manifests(self, location: str) -> list[IcebergManifest]:
        """The manifests of a manifest list, all of which are in this directory.

        Raises:
            CorruptTableError: one is not, or the list is missing or damaged.
        """
        path = self._own(location)
        found = self._format.decode_list(self._read(path), path=path)
        for manifest in found:
            self._own(manifest.path)
        return found

    def entries(self, manifest: IcebergManifest) -> list[IcebergEntry]:
        """The entries of a manifest; errors as of `manifests`."""
        path = self._own(manifest.path)
        return self._format.decode_manifest(self._read(path), path=path)

    def _own(self, location: str) -> str:
        name = name_of(location, one_spelling(self._path))
        if name is None:
            raise CorruptTableError(f"Iceberg metadata names {location!r}, which is not in it.", path=self._path)
        return f"{self._path}/{name}"

    def _read(self, path: str) -> bytes:
        try:
            return self._io.read_bytes(path)
        except FileNotFoundError as error:
            raise CorruptTableError(f"Iceberg metadata {path} is missing.", path=path) from error

    def write_manifests(
        self, entries: Sequence[IcebergEntry], snapshot_id: int, content: Content = Content.DATA
    ) -> list[IcebergManifest]:
        """Write entries as manifests, none where there are none."""
        found = []
        for data, part in self._format.encode_manifests(entries):
            self._manifests += 1
            path = self._write(f"{self._prefix}-m{self._manifests}.avro", data)
            found.append(self._format.described(path, data, part, snapshot_id, content))
        return found

    def write_list(self, manifests: Sequence[IcebergManifest]) -> str:
        """Write a manifest list; return its path as the metadata spells it."""
        self._lists += 1
        return self._write(f"snap-{self._lists}-{self._prefix}.avro", self._format.encode_list(manifests))

    def _write(self, name: str, data: bytes) -> str:
        self.written.append(name)
        self._io.write_bytes(f"{self._path}/{name}", data)
        return f"{self._spelled}/{name}"

    def write_metadata(self, snapshot_id: int, data: bytes) -> None:
        """Write the metadata of a snapshot, in place of what may be there, at once."""
        self._io.write_bytes(f"{self._path}/{metadata_name(snapshot_id)}", data, overwrite=True)

    def write_registered(self, snapshot_id: int, data: bytes) -> str:
        """Write metadata that a catalog goes on with, and that nobody deletes; return its path as `spelled`."""
        name = f"rest-register-v{snapshot_id}-{uuid.uuid4()}.metadata.json"
        self._io.write_bytes(f"{self._path}/{name}", data)
        return f"{self._spelled}/{name}"

    def spelled(self, snapshot_id: int) -> str:
        """The path of the metadata of a snapshot as the metadata spells paths."""
        return f"{self._spelled}/{metadata_name(snapshot_id)}"

    def write_hint(self, snapshot_id: int) -> None:
        """Say which metadata is the latest."""
        self._io.write_bytes(f"{self._path}/{VERSION_HINT}", str(snapshot_id).encode(), overwrite=True)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files of the directory; one that cannot be deleted is left."""
        paths = [f"{self._path}/{name}" for name in sorted(set(names)) if is_iceberg_name(name)]
        if paths:
            with contextlib.suppress(OSError, PaimonError):
                self._io.delete_files(paths)

    def only_in(self, location: str, after: str) -> set[str]:
        """The names of an expired snapshot's manifest list and of the manifests that the next snapshot has no more.

        Args:
            location: path of the manifest list of the expired snapshot.
            after: that of the next one.
        """
        try:
            kept = {manifest.path for manifest in self.manifests(after)}
            gone = [manifest.path for manifest in self.manifests(location) if manifest.path not in kept]
        except (CorruptTableError, OSError):
            return set()
        return {path.rpartition("/")[2] for path in (location, *gone)}


def metadata_ids(names: Iterable[str]) -> list[int]:
    """The snapshots whose metadata is among files."""
    return sorted(found for found in map(metadata_id, names) if found is not None)
