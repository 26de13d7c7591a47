"""Data files of any format for the layers above: a reader and a writer of Arrow batches.

Formats differ behind two classes: a DataFileReader gives the wanted columns in exactly the Arrow types of their Paimon
fields; a DataFileWriter takes such columns and writes what Java reads. Both run in tasks, one file at a time.
"""

from __future__ import annotations

import abc
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import Predicate
from paimon_spark.storage.store_errors import named_errors

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO

DEFAULT_BATCH_ROWS = 131_072
"""Rows of a batch: batches under 64k rows cost Spark throughput."""
DEFAULT_BATCH_BYTES = 32 << 20
"""Default bytes of a batch in memory."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column of one file: scalars of the field's Arrow type, None when unknown or all is null."""

    min_value: pa.Scalar | None = None
    max_value: pa.Scalar | None = None
    null_count: int | None = None


@dataclass(frozen=True, slots=True)
class FileResult:
    """What a closed writer leaves behind.

    `column_stats` has the columns whose statistics came free from the file's footer (Parquet: columns that are not
    nested; exact, never truncated); a column that is missing, or whose values are None with rows that are not null,
    must be collected from the rows.
    """

    path: str
    size_bytes: int
    row_count: int
    column_stats: Mapping[str, ColumnStats] = field(default_factory=dict)


class Source(Protocol):
    """What a reader asks of a store."""

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A seekable file."""

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""


class SplicedFile(io.RawIOBase):
    """A part of an open file for reading, and other bytes behind it."""

    def __init__(
        self, source: pa.NativeFile, start: int, length: int, end: bytes = b"", *, closes: bool = False
    ) -> None:
        """Take the part; with `closes` the file is closed with this one."""
        super().__init__()
        self._source, self._start, self._length, self._end = source, start, length, end
        self._closes = closes
        self._at = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where it stands."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        size = self._length + len(self._end)
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Bytes from where it stands."""
        until = self._length + len(self._end) if size is None or size < 0 else self._at + size
        first = b""
        if self._at < self._length:
            self._source.seek(self._start + self._at)
            first = bytes(self._source.read(min(until, self._length) - self._at))
        second = self._end[max(0, self._at - self._length) : max(0, until - self._length)]
        self._at += len(first) + len(second)
        return first + second

    def close(self) -> None:
        """Close the file too, if it was so wanted."""
        if self._closes and not self.closed:
            self._source.close()
        super().close()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of `DataFileReader.read_batches`."""

    fields: Sequence[DataField]
    row_groups: Sequence[int] | None
    predicate: Predicate | None
    pages: Predicate | None
    batch_rows: int
    batch_bytes: int
    use_threads: bool
    dictionaries: Set[str]


class DataFileReader(abc.ABC):
    """Reads one data file; use as a context manager.

    Attributes:
        path: The file's path.
        schema: The file's columns as the format's library names and types them (before they become Paimon's types).
        size_bytes: Bytes of the file.
        num_rows: Rows of the file.
        row_group_rows: Rows of each row group (ORC: stripe; Avro: one group), in file order.
    """

    path: str
    schema: pa.Schema
    size_bytes: int
    num_rows: int
    row_group_rows: Sequence[int]

    @property
    def num_row_groups(self) -> int:
        """How many row groups (stripes) the file has."""
        return len(self.row_group_rows)

    def read_batches(
        self,
        fields: Sequence[DataField],
        *,
        row_groups: Sequence[int] | None = None,
        predicate: Predicate | None = None,
        pages: Predicate | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        use_threads: bool = False,
        dictionaries: Set[str] = frozenset(),
    ) -> Iterator[pa.RecordBatch]:
        """The wanted columns, in file order of rows.

        Args:
            fields: Columns as the file's own schema names and types them; batches have exactly
                `to_arrow_schema(fields)`. A nullable field that the file lacks is all null, as in Java.
            row_groups: Only these, in this order; None for all.
            predicate: Keep rows for which this is true; it may use only columns of `fields`.
            pages: Pages of a row group in which no row can match this may be left out; over any columns of the file.
            batch_rows: Most rows of a batch (of what is read, before the predicate). Empty batches are not given.
            batch_bytes: Batches have fewer rows where they would be larger in memory than this, by the sizes that the
                file records; at least one row.
            use_threads: Decode columns in parallel; off inside Spark tasks, whose cores run other tasks.
            dictionaries: Columns that may come as dictionaries of strings where the file holds them so. Formats other
                than Parquet do not do it.

        Raises:
            CorruptTableError: the file is damaged, or holds another type than a field says.
        """
        return self._read(
            Wanted(fields, row_groups, predicate, pages, batch_rows, batch_bytes, use_threads, dictionaries)
        )

    @abc.abstractmethod
    def _read(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """What `read_batches` gives."""

    def prune_row_groups(self, predicate: Predicate) -> list[int]:
        """Row groups that may hold a matching row, by the file's own statistics; all of them where it has none."""
        return list(range(self.num_row_groups))

    def most_rows(self, predicate: Predicate) -> int:
        """Rows that are decoded to find those that match, by the file's own statistics and indexes.

        Raises:
            CorruptTableError: the file is damaged.
        """
        return sum(self.row_group_rows[group] for group in self.prune_row_groups(predicate))

    @abc.abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DataFileWriter(abc.ABC):
    """Writes one data file. Call `close()` to finish it, or `abort()` to delete what there is."""

    path: str

    @abc.abstractmethod
    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows whose columns are the writer's fields, in order, in their Arrow types."""

    def flush(self) -> None:
        """Write out rows of a row group that is not full, so that their memory is free; the file stays open.

        Formats that keep little pending (ORC, Avro) need not do anything.
        """
        return

    @property
    @abc.abstractmethod
    def bytes_written(self) -> int:
        """Estimate of the file's size if it were closed now; grows with every write (for rolling)."""

    @abc.abstractmethod
    def close(self) -> FileResult:
        """Write what is buffered and the footer; the file exists completely afterwards."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Give up and delete the unfinished file."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to write, and how: the arguments of `formats.create_data_file`."""

    file_io: FileIO
    path: str
    fields: Sequence[DataField]
    compression: str
    zstd_level: int
    options: Mapping[str, str]


class StoreFileWriter(DataFileWriter):
    """A writer into a file of a store, which subclasses open as `_target`."""

    _target: pa.NativeFile

    def __init__(self, new: NewFile) -> None:
        self.path = new.path
        self._file_io = new.file_io

    def abort(self) -> None:
        """Close and delete the file."""
        try:
            self._target.close()
        finally:
            self._file_io.delete_quietly(self.path)


class NamedErrorsWriter(DataFileWriter):
    """A writer whose errors of the store say what failed and what to do."""

    def __init__(self, writer: DataFileWriter) -> None:
        self._writer = writer
        self.path = writer.path

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        with named_errors(self.path):
            self._writer.write(rows)

    def flush(self) -> None:
        """Write out pending rows."""
        with named_errors(self.path):
            self._writer.flush()

    @property
    def bytes_written(self) -> int:
        """Estimate of the file's size."""
        return self._writer.bytes_written

    def close(self) -> FileResult:
        """Finish the file."""
        with named_errors(self.path):
            return self._writer.close()

    def abort(self) -> None:
        """Give up; on a full disk, closing fails as well."""
        with contextlib.suppress(OSError):
            self._writer.abort()
