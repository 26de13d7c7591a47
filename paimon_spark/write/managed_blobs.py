"""BLOB columns of tables with primary keys: values go to managed blob files, and rows hold descriptors from there on.

Equals Java's ``PrimaryKeyBlobExternalizer``. Values leave the rows before these are buffered, sorted and merged, so
that no value is held longer than the chunk of rows it came in. Each column has managed blob files of its own. Runs in
tasks.

A companion file of each data file names the managed blob files its rows need (Java: ``ManagedBlobReferenceCollector``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.data_types import BlobType, DataField
from paimon_spark.spec.file_names import BLOB_REFERENCES_SUFFIX, MANAGED_BLOB_SUFFIX
from paimon_spark.spec.special_fields import VALUE_KIND, is_retract
from paimon_spark.storage.blob_descriptor import (
    LOCATION,
    BlobInput,
    ManagedBlobName,
    descriptor_array,
    encode_references,
    uris,
)
from paimon_spark.storage.blob_format import AROUND, HEAD, BlobWriter, leaves, with_leaves
from paimon_spark.storage.data_file import NewFile
from paimon_spark.write.bucket_writer import BucketWriter

if TYPE_CHECKING:
    from paimon_spark.spec.file_names import FileNameSequence
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.write.data_file_spec import DataFileSpec

_FIELD = DataField(0, "blob", BlobType())


class ManagedBlobWriter:
    """Writes the rows of one bucket, the values of BLOB columns into managed blob files (a `BucketWriter`)."""

    def __init__(self, writer: BucketWriter, blob_files: dict[str, _ManagedBlobs]) -> None:
        self._writer = writer
        self._managed_blobs = blob_files

    @classmethod
    def of(
        cls, writer: BucketWriter, file_io: FileIO, spec: DataFileSpec, directory: str, names: FileNameSequence
    ) -> ManagedBlobWriter:
        """Open nothing yet."""
        ours = names.ending(MANAGED_BLOB_SUFFIX)
        blob_files = {
            name: _ManagedBlobs(file_io, lambda: f"{directory}/{ours.next()}", spec.managed_blob_bytes, spec.blob_input)
            for name in spec.managed_blobs
        }
        return cls(writer, blob_files)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the rows in memory, which hold descriptors."""
        return self._writer.buffered_bytes

    @property
    def is_open(self) -> bool:
        """Whether a managed blob file or another file is open."""
        return self._writer.is_open or any(blob_files.is_open for blob_files in self._managed_blobs.values())

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """Changelog files of the rows that are written."""
        return self._writer.changelog_files

    @property
    def managed_blob_paths(self) -> tuple[str, ...]:
        """All managed blob files that were made."""
        return tuple(path for blob_files in self._managed_blobs.values() for path in blob_files.made)

    def write(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows; -U and -D rows lose their values, as in Java."""
        retracts = None if kinds is None else is_retract(kinds)
        for name, blob_files in self._managed_blobs.items():
            column = rows.column(name)
            if retracts is not None:
                column = _without(column, retracts)
            chunks = [with_leaves(chunk, blob_files.write(leaves(chunk))) for chunk in column.chunks]
            rows = rows.set_column(
                rows.column_names.index(name), rows.field(name), pa.chunked_array(chunks, column.type)
            )
        self._writer.write(rows, kinds)

    def flush(self) -> None:
        """Write the rows that are buffered."""
        self._writer.flush()

    def release_file(self) -> None:
        """Finish the open files."""
        for blob_files in self._managed_blobs.values():
            blob_files.close()
        self._writer.release_file()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish all files; return the data files."""
        for blob_files in self._managed_blobs.values():
            blob_files.close()
        return self._writer.close()

    def abort(self) -> None:
        """Delete all files."""
        for blob_files in self._managed_blobs.values():
            blob_files.abort()
        self._writer.abort()


def _without(column: pa.ChunkedArray, gone: npt.NDArray[np.bool_]) -> pa.ChunkedArray:
    """A column that is null in some rows."""
    if not (gone & column.is_valid().to_numpy()).any():
        return column
    kept = pa.array(np.arange(len(column)), mask=gone)
    return column.take(kept)


class _ManagedBlobs:
    """The managed blob files of one column."""

    def __init__(
        self, file_io: FileIO, new_path: Callable[[], str], target_bytes: int, given: BlobInput | None
    ) -> None:
        self._given = given
        self._file_io = file_io
        self._new_path = new_path
        self._target_bytes = target_bytes
        self._writer: BlobWriter | None = None
        self.made: list[str] = []

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    def write(self, values: pa.Array) -> pa.Array:
        """Write values; return their descriptors, null where a value is null."""
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        offsets, lengths, blob_files = (np.zeros(len(values), np.int64) for _ in range(3))
        given = self._given if self._given is not None and self._given.concerns(values) else None
        for row in valid.tolist():
            if self._writer is None:
                path = self._new_path()
                self.made.append(path)
                self._writer = BlobWriter(NewFile(self._file_io, path, [_FIELD], "none", 1, {}))
            value = values[row].as_buffer()
            offsets[row] = self._writer.write_record([value] if given is None else given.parts(value) or ())
            lengths[row] = self._writer.bytes_written - offsets[row] - (AROUND - HEAD)
            blob_files[row] = len(self.made) - 1
            if self._writer.bytes_written >= self._target_bytes:
                self.close()
        found, order = [], []
        for number in np.unique(blob_files[valid]).tolist():
            at = valid[blob_files[valid] == number]
            found.append(descriptor_array(self.made[number], offsets[at], lengths[at]))
            order.append(at)
        if not found:
            return pa.nulls(len(values), values.type)
        positions = np.empty(len(values), np.int64)
        positions[np.concatenate(order)] = np.arange(len(valid))
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        return pa.concat_arrays(found).take(pa.array(np.where(nulls, 0, positions), mask=nulls))

    def close(self) -> None:
        """Finish the open managed blob file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def abort(self) -> None:
        """Delete all managed blob files."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None
        for path in self.made:
            self._file_io.delete_quietly(path)


class BlobReferencesWriter:
    """Notes which managed blob files the rows of one data file need, and writes the file that says so."""

    def __init__(self, file_io: FileIO, path: str, columns: tuple[str, ...]) -> None:
        """Write nothing yet.

        Args:
            file_io: the store.
            path: of the data file.
            columns: BLOB columns whose values lie in managed blob files.
        """
        self._file_io = file_io
        self._path = path + BLOB_REFERENCES_SUFFIX
        self._columns = columns
        self._uris: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Look at rows of the file; -U and -D rows need nothing.

        Raises:
            CorruptTableError: a descriptor is damaged.
        """
        stays = ~is_retract(rows.column(VALUE_KIND.name).to_numpy())
        chosen = rows.select(list(self._columns))
        if not stays.all():
            chosen = chosen.filter(pa.array(stays))
        for column in chosen.columns:
            for chunk in column.chunks:
                self._uris |= uris(pc.binary_slice(leaves(chunk), 0, -LOCATION), self._path)

    def close(self) -> str:
        """Write the file; return its name."""
        blob_files = (ManagedBlobName.of_uri(uri) for uri in self._uris)
        self._file_io.write_bytes(
            self._path, encode_references(blob_file for blob_file in blob_files if blob_file is not None)
        )
        return self._path.rpartition("/")[2]

    def abort(self) -> None:
        """Delete the file."""
        self._file_io.delete_quietly(self._path)
