"""Where the index of a data file lies, and how it is opened (Java: ``FileIndexEvaluator.createFileIndexPredicate``).

A write keeps the indexes of a data file in its metadata up to a size, else in a companion file.

Equals Java's ``DataFileIndexWriter.close`` (docs/internals/format.md §4.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from paimon_spark.errors import CorruptTableError, ExpiredFileError
from paimon_spark.spec.file_index import FileIndexPart, decode_head, encode_container, head_length
from paimon_spark.spec.file_index.writer import INDEX_SUFFIX, IndexSetting, index_settings, validate_index_settings
from paimon_spark.spec.file_names import check_file_name
from paimon_spark.storage.store_options import redact

if TYPE_CHECKING:
    from collections.abc import Collection

    from paimon_spark.spec.file_index.writer import Indexes
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO

_HEAD_GUESS_BYTES = 16 << 10


class IndexLocation(NamedTuple):
    """Where the indexes of a data file are: in its metadata, or in a companion file."""

    embedded: bytes | None
    path: str
    """Of the index file; of the data file if the index is embedded."""


class Container(NamedTuple):
    """An opened container."""

    parts: tuple[FileIndexPart, ...]
    size: int
    """Bytes."""
    read: Any
    """Reads bytes of it: called with where and how many."""


def index_location(embedded: bytes | None, extra_files: Sequence[str], data_file_path: str) -> IndexLocation | None:
    """Return where the indexes of a data file are; None if it has none.

    Raises:
        CorruptTableError: it has several index files, or one outside its directory.
    """
    if embedded is not None:
        return IndexLocation(embedded, data_file_path)
    names = [name for name in extra_files if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    if len(names) > 1:
        raise CorruptTableError(
            f"Data file {data_file_path} has more than one file index: {', '.join(names)}.", path=data_file_path
        )
    directory = data_file_path.rpartition("/")[0]
    return IndexLocation(None, f"{directory}/{check_file_name(names[0], path=directory)}")


@contextmanager
def opened(file_io: FileIO, location: IndexLocation) -> Iterator[Container]:
    """Open the indexes of a data file: the head is read, bodies as far as they are asked for.

    Raises:
        ExpiredFileError: the index file is missing.
        CorruptTableError: the head is damaged.
    """
    shown = redact(location.path)
    if location.embedded is not None:
        data = location.embedded
        parts = decode_head(data, path=f"The index of {shown}")
        yield Container(tuple(parts), len(data), lambda at, count: data[at : at + count])
        return
    try:
        source = file_io.open_input(location.path)
    except FileNotFoundError as error:
        raise ExpiredFileError(f"File index {shown} is missing.", path=shown) from error
    with source:
        size = source.size()
        head = source.read(min(size, _HEAD_GUESS_BYTES))
        rest = min(size, head_length(head, path=shown)) - len(head)
        head += source.read(rest) if rest > 0 else b""

        def read(at: int, count: int) -> bytes:
            if at + count <= len(head):
                return bytes(head[at : at + count])
            source.seek(min(at, size))
            data: bytes = source.read(min(count, max(0, size - at)))
            return data

        yield Container(tuple(decode_head(head, path=shown)), size, read)


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
