"""One data file of any format as Arrow batches: opening and creating it by the format's name.

Runs in tasks, one file at a time. The classes are those of `storage.data_file`. A part of a file is read as if it were
a file of its own (`RegionIO`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.file_names import FileRegion, compacted_changelog_region
from paimon_spark.storage.avro_format import AvroReader, AvroWriter
from paimon_spark.storage.blob_descriptor import BlobInput
from paimon_spark.storage.blob_format import BlobReader, BlobWriter
from paimon_spark.storage.data_file import (
    DEFAULT_BATCH_BYTES,
    DEFAULT_BATCH_ROWS,
    ColumnStats,
    DataFileReader,
    DataFileWriter,
    FileResult,
    NamedErrorsWriter,
    NewFile,
    Source,
    SplicedFile,
)
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.orc_format import OrcReader, OrcWriter
from paimon_spark.storage.parquet_format import ParquetReader, ParquetWriter
from paimon_spark.storage.store_errors import named_errors
from paimon_spark.storage.store_options import redact
from paimon_spark.storage.variant_writer import Shredding, ShreddingWriter

__all__ = [
    "DEFAULT_BATCH_BYTES",
    "DEFAULT_BATCH_ROWS",
    "ColumnStats",
    "DataFileReader",
    "DataFileWriter",
    "FileResult",
    "check_sizes",
    "create_data_file",
    "open_blob_file",
    "open_data_file",
]

_Reader = TypeVar("_Reader", bound=DataFileReader)


def open_data_file(
    file_io: Source,
    path: str,
    file_format: str,
    size: int | None = None,
    *,
    rows: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFileReader:
    """Open a data file for reading, and check it against what is recorded of it.

    Args:
        file_io: The store.
        path: Full path.
        file_format: `parquet`, `orc` or `avro` (from the file's name, not from the table's options).
        size: The file's bytes as its manifest entry says, where known; saves a request on object stores.
        rows: The file's rows as its manifest entry says, where known.
        options: Table options; `orc.timestamp-ltz.legacy.type` is used.

    Raises:
        CorruptTableError: the file is missing, is not of that format, or has another size or number of rows.
        UnsupportedError: another format.
    """
    region = compacted_changelog_region(path)
    source = file_io if region is None else RegionIO(file_io, region)
    return _checked(_open(source, path, file_format, size, options or {}), size, rows)


def open_blob_file(file_io: FileIO, path: str, size: int, rows: int) -> BlobReader:
    """Open a blob file, checked as by `open_data_file`."""
    return _checked(BlobReader(file_io, path, size), size, rows)


def check_sizes(file_io: FileIO, sizes: Mapping[str, int]) -> None:
    """Check the sizes of files that other software is to read.

    Args:
        file_io: The store.
        sizes: By path the bytes that manifest entries say. Missing files are left to the reader.

    Raises:
        CorruptTableError: a file has another size.
    """
    for path, size in file_io.sizes(sizes).items():
        _check_recorded(path, "bytes", size, sizes[path])


def _checked(reader: _Reader, size: int | None, rows: int | None) -> _Reader:
    try:
        _check_recorded(reader.path, "bytes", reader.size_bytes, size)
        _check_recorded(reader.path, "rows", reader.num_rows, rows)
    except CorruptTableError:
        reader.close()
        raise
    return reader


def _check_recorded(path: str, what: str, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        raise CorruptTableError(
            f"The data file has {found} {what}, but its manifest entry says {expected}: "
            "it was damaged or exchanged for another",
            path=redact(path),
        )


def _open(file_io: Source, path: str, file_format: str, size: int | None, options: Mapping[str, str]) -> DataFileReader:
    match file_format.lower():
        case "parquet":
            return ParquetReader(file_io, path, size)
        case "orc":
            return OrcReader(file_io, path, size, options)
        case "avro":
            return AvroReader(file_io, path, size)
        case "blob":
            return BlobReader(file_io, path, size)
    raise _unsupported_format(file_format)


def create_data_file(
    file_io: FileIO,
    path: str,
    file_format: str,
    fields: Sequence[DataField],
    *,
    compression: str = "zstd",
    zstd_level: int = 1,
    options: Mapping[str, str] | None = None,
    blob_input: BlobInput | None = None,
) -> DataFileWriter:
    """Start a data file.

    Args:
        file_io: The store.
        path: Full path; directories are made, an existing file is replaced.
        file_format: `parquet`, `orc` or `avro`.
        fields: The physical columns (with `_KEY_*`, `_SEQUENCE_NUMBER`, ... where the file has them), ids included.
        compression: `file.compression`: `zstd`, `snappy`, `gzip`, `lz4`, `none`, ... as the format has them.
        zstd_level: `file.compression.zstd-level`.
        options: Table options; those of the format (`parquet.*`, `orc.*`, `avro.*`) are used.
        blob_input: What becomes of values of a blob file that are descriptors; they are written as they are without.

    Raises:
        UnsupportedError: another format, or a type or codec that the format cannot hold.
    """
    kind = _WRITERS.get(file_format.lower())
    if kind is None:
        raise _unsupported_format(file_format)
    with named_errors(path):
        writer = kind(NewFile(file_io, path, fields, compression, zstd_level, dict(options or {})))
    if isinstance(writer, BlobWriter):
        writer.input = blob_input
    return NamedErrorsWriter(writer)


def _parquet_writer(new: NewFile) -> DataFileWriter:
    def opened(columns: Sequence[DataField]) -> DataFileWriter:
        return ParquetWriter(replace(new, fields=columns))

    shredding = Shredding.of(new.fields, new.options)
    return opened(new.fields) if shredding is None else ShreddingWriter(new.path, new.fields, shredding, opened)


_WRITERS: Mapping[str, Callable[[NewFile], DataFileWriter]] = {
    "parquet": _parquet_writer,
    "orc": OrcWriter,
    "avro": AvroWriter,
    "blob": BlobWriter,
}


def _unsupported_format(file_format: str) -> UnsupportedError:
    return UnsupportedError(
        f"Data files of the format '{file_format}' are not supported; 'parquet', 'orc' and 'avro' are. "
        "Set the table option 'file.format' to one of them."
    )


class RegionIO:
    """Opens one region of a file, whatever path is asked for (`data_file.Source`)."""

    def __init__(self, file_io: Source, region: FileRegion) -> None:
        self._file_io = file_io
        self._region = region

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The region as a seekable file."""
        file, start = self._file_io.open_input(self._region.path), self._region.offset
        length = max(0, min(self._region.length, file.size() - start))
        return pa.PythonFile(SplicedFile(file, start, length, closes=True), mode="r")

    def read_bytes(self, path: str) -> bytes:
        """The bytes of the region."""
        with self._file_io.open_input(self._region.path) as file:
            file.seek(self._region.offset)
            return bytes(file.read(self._region.length))
