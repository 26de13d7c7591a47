"""Where the indexes of a data file are kept: in its metadata up to a size, else in a companion file.

Equals Java's ``DataFileIndexWriter.close`` (docs/internals/format.md §4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.spec.file_index import encode_container
from paimon_spark.spec.file_index.writer import INDEX_SUFFIX, IndexSetting, index_settings, validate_index_settings

if TYPE_CHECKING:
    from collections.abc import Collection

    from paimon_spark.spec.file_index.writer import Indexes
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO


@dataclass(frozen=True, slots=True)
class FileIndexSpec:
    """Which indexes the data files of a table get. Picklable."""

    settings: tuple[IndexSetting, ...]
    threshold_bytes: int
    """Indexes up to this size are embedded in the file's metadata."""

    @classmethod
    def of(cls, schema: TableSchema, columns: Collection[str]) -> FileIndexSpec:
        """Take them from a table's options.

        Args:
            schema: of the table, dynamic options applied.
            columns: of the files; a column of the table that they lack gets no index.

        Raises:
            OptionError: an option asks for an index that cannot be.
        """
        options = schema.core_options
        validate_index_settings(options, schema.fields)
        settings = [each for each in index_settings(options) if each.column in columns]
        return cls(tuple(settings), int(options.value("file-index.in-manifest-threshold")))


NO_INDEXES = FileIndexSpec((), 0)
"""Of files that get none."""


def keep_indexes(
    file_io: FileIO, indexes: Indexes, path: str, *, threshold_bytes: int
) -> tuple[bytes | None, tuple[str, ...]]:
    """Write the indexes of a file, if they are not to be embedded.

    Args:
        file_io: the store.
        indexes: of the file; none at all take no container.
        path: of the file to be, which does not exist yet.
        threshold_bytes: they are embedded up to this size.

    Returns:
        (what is embedded in the metadata, names of the extra files).
    """
    if not indexes:
        return None, ()
    data = encode_container(indexes)
    if len(data) <= threshold_bytes:
        return data, ()
    file_io.write_bytes(path, data, overwrite=True)  # of an attempt that failed, at most
    return None, (path.rpartition("/")[2],)


def index_path(data_file_path: str) -> str:
    """The path of the first index file of a data file."""
    return data_file_path + INDEX_SUFFIX
