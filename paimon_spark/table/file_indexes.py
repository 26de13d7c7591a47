"""Where the index of a data file lies, and how it is opened (Java: ``FileIndexEvaluator.createFileIndexPredicate``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from paimon_spark.errors import CorruptTableError, ExpiredFileError
from paimon_spark.spec.file_index import FileIndexPart, decode_head, head_length
from paimon_spark.spec.file_index.writer import INDEX_SUFFIX
from paimon_spark.spec.file_names import check_file_name
from paimon_spark.storage.store_options import redact

if TYPE_CHECKING:
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
