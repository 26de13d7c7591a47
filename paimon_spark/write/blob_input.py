"""How BLOB values of a write that are descriptors are read, as the table's options say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.storage.blob_input import BlobInput
from paimon_spark.storage.described_files import DescribedFiles

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.data_file_spec import DataFileSpec


def with_input(spec: DataFileSpec, table: FileStoreTable) -> DataFileSpec:
    """How files of rows are written that a user gives, whose BLOB values may be descriptors."""
    if not spec.managed_blobs and not any(part.is_blob for part in spec.companions):
        return spec
    options = table.options
    blob_files = bool(spec.managed_blobs)  # Java: there, what is missing is never written as null
    given = BlobInput(
        DescribedFiles.of(table.paths.root, table.file_io, options),
        bool(options.value("blob-write-null-on-missing-file")) and not blob_files,
        bool(options.value("blob-write-null-on-fetch-failure")) and not blob_files,
    )
    companions = tuple(replace(part, blob_input=given) if part.is_blob else part for part in spec.companions)
    return replace(spec, companions=companions, blob_input=given)
