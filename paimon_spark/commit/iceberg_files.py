"""The files of Iceberg metadata of one table: read with suspicion, written and deleted in their own directory only."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.spec.file_locations import one_spelling
from paimon_spark.spec.iceberg.manifests import Content, IcebergEntry, IcebergManifest, ManifestFormat
from paimon_spark.spec.iceberg.metadata import (
    CODECS,
    COMPRESSION,
    VERSION,
    VERSION_HINT,
    IcebergMetadata,
    is_iceberg_name,
    metadata_id,
    metadata_name,
    name_of,
)
from paimon_spark.table.iceberg_location import metadata_directory, metadata_io

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


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
