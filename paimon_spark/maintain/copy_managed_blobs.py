"""Managed blob files in a copy of a table: the copied rows name copied managed blob files.

Java: ``CopyFilesProcedure`` leaves the descriptors as they are, so that the copy needs the source. Here data files are
written again with other descriptors; rows keep their order, so that deletion vectors and statistics stay right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.read.blob_values import ManagedBlobs
from paimon_spark.spec.file_names import BLOB_REFERENCES_SUFFIX, MANAGED_BLOB_SUFFIX, data_file_format
from paimon_spark.storage.blob_descriptor import LOCATION, rename, uris
from paimon_spark.storage.blob_elements import leaves, with_leaves
from paimon_spark.storage.blob_references import ManagedBlobName, encode_references
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.write.data_file_spec import data_file_spec

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable


class ManagedBlobCopies:
    """Writes data files again, and notes which managed blob files are to be copied."""

    def __init__(self, source: FileStoreTable, target: FileStoreTable, token: str) -> None:
        """Copy nothing yet.

        Args:
            source: the table that is copied.
            target: its copy.
            token: what makes names of new files differ from all others.
        """
        self._source = source
        self._target = target
        self._token = token
        self._managed_blobs = ManagedBlobs(source)
        self._new: dict[str, str] = {}
        self.made: list[str] = []
        """Files that were written."""

    @property
    def blob_files(self) -> dict[str, str]:
        """Paths of managed blob files of the source, with those of their copies."""
        return dict(self._new)

    def rewrite(self, file: DataFileMeta, new: DataFileMeta, path: str, target: str) -> DataFileMeta:
        """Write a data file and its list of managed blob files into the copy; return its metadata.

        Args:
            file: in the source.
            new: what the copy says of it.
            path: of the file.
            target: of its copy.

        Raises:
            CorruptTableError: a row names no managed blob file of the source.
        """
        schema = self._source.schemas.get(file.schema_id)
        fields = data_file_spec(schema, level=file.level).physical_fields
        directory, needed = target.rpartition("/")[0], set[str]()
        columns = [field.name for field in schema.fields if field.name in schema.managed_blob_fields]
        self.made += [target, target + BLOB_REFERENCES_SUFFIX]
        with open_data_file(
            self._source.file_io, path, data_file_format(file.file_name), file.file_size, options=schema.options
        ) as reader:
            held = [field for field in fields if field.name in reader.schema.names]
            options = self._target.options
            writer = create_data_file(
                self._target.file_io,
                target,
                data_file_format(target),
                held,
                compression=options.file_compression_at(file.level),
                zstd_level=options.zstd_level,
                options=options.to_dict(),
            )
            try:
                for batch in self._renamed(reader.read_batches(held), columns, directory, needed):
                    writer.write(batch)
                result = writer.close()
            except BaseException:
                writer.abort()
                raise
        blob_files = (ManagedBlobName.of_uri(uri) for uri in needed)
        references = encode_references(blob_file for blob_file in blob_files if blob_file is not None)
        self._target.file_io.write_bytes(target + BLOB_REFERENCES_SUFFIX, references)
        extra = [name for name in new.extra_files if not name.endswith(BLOB_REFERENCES_SUFFIX)]
        sidecar = f"{new.file_name}{BLOB_REFERENCES_SUFFIX}"
        return replace(new, file_size=result.size_bytes, extra_files=(*extra, sidecar))

    def _renamed(
        self, batches: Iterator[pa.RecordBatch], columns: list[str], directory: str, needed: set[str]
    ) -> Iterator[pa.RecordBatch]:
        """Give descriptors the paths of the copied managed blob files."""
        for batch in batches:
            found = batch
            for name in columns:
                at = found.schema.get_field_index(name)
                column = found.column(at)
                values = leaves(column)
                names = {}
                for uri in uris(pc.binary_slice(values, 0, -LOCATION), self._source.path):
                    names[uri] = self._copied(self._managed_blobs.path(uri), directory)
                needed.update(names.values())
                found = found.set_column(at, found.schema.field(at), with_leaves(column, rename(values, names)))
            yield found

    def _copied(self, blob_file: str, directory: str) -> str:
        """The path of a managed blob file's copy; the first data file that names it has it in its directory."""
        if blob_file not in self._new:
            self._new[blob_file] = f"{directory}/data-{self._token}-{len(self._new)}{MANAGED_BLOB_SUFFIX}"
        return self._new[blob_file]
