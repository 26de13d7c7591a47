"""Data files of one bucket that roll over at a target size, and their metadata.

Equals Java's ``RollingFileWriterImpl`` with ``RowDataFileWriter`` (append tables) and ``KeyValueDataFileWriter``
(primary-key tables).

Column statistics of a file come from the file's footer where it has them, else from the rows as they pass by.

Equals Java's ``ParquetSimpleStatsExtractor``, ``OrcSimpleStatsExtractor`` and, for avro, ``SimpleStatsCollector``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.data_types import DataField, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.file_index.writer import FileIndexBuilder
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, is_retract
from paimon_spark.spec.stats import (
    NO_STATS,
    SimpleColStats,
    StatsCollector,
    StatsMode,
    convert_stats,
    dense,
    simple_stats,
)
from paimon_spark.storage.formats import DataFileWriter, create_data_file
from paimon_spark.table.file_indexes import index_path, keep_indexes
from paimon_spark.write.managed_blobs import BlobReferencesWriter

if TYPE_CHECKING:
    from paimon_spark.spec.file_names import FileNameSequence
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.storage.formats import ColumnStats
    from paimon_spark.write.data_file_spec import DataFileSpec

_FULL = StatsMode.parse("full")
_NONE = StatsMode.parse("none")
_NANOS_TYPES = (TimestampType, LocalZonedTimestampType)


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of one file as its metadata holds them."""

    value_stats: SimpleStats
    value_stats_cols: tuple[str, ...] | None
    key_stats: SimpleStats = EMPTY_STATS


class FileStatsCollector:
    """Collects the statistics of one file while it is written."""

    def __init__(self, spec: DataFileSpec) -> None:
        """Decide for each column where its statistics come from."""
        self._spec = spec
        self._modes = spec.stats_modes
        wanted = [f for f in spec.physical_fields if self._modes[f.name] != _NONE and self._source(f.name) == f.name]
        self._looked_at = [f for f in wanted if spec.file_format != "parquet" or not _in_parquet_footer(f)]
        full = [_FULL] * len(self._looked_at)
        self._rows = StatsCollector(self._looked_at, full, file_format=spec.file_format)

    def _source(self, name: str) -> str:
        """A ``_KEY_*`` column has the values of its value column, whose statistics serve both (if it has any)."""
        if not any(f.name == name for f in self._spec.key_fields):
            return name
        same = self._spec.value_name(name)
        return name if self._modes[same] == _NONE else same

    def add(self, rows: pa.Table) -> None:
        """Look at rows that go to the file (physical columns)."""
        self._rows.add(rows)

    def finish(self, footer: Mapping[str, ColumnStats]) -> FileStats:
        """Statistics of the whole file.

        Args:
            footer: statistics that the file's footer gave for free.
        """
        exact = {name: SimpleColStats(c.min_value, c.max_value, c.null_count) for name, c in footer.items()}
        exact |= {f.name: stats for f, stats in zip(self._looked_at, self._rows.result(), strict=True)}
        spec = self._spec
        kept = {
            f.name: convert_stats(exact.get(self._source(f.name), NO_STATS), self._modes[f.name])
            for f in spec.physical_fields
        }
        fields, values = spec.value_fields, [kept[f.name] for f in spec.value_fields]
        names = None
        if spec.dense_stats:
            value_stats, names = dense(fields, values)
        else:
            value_stats = simple_stats([f.type for f in fields], values)
        if not spec.keyed:
            return FileStats(value_stats, names)
        keys = [kept[spec.value_name(f.name) if spec.thin else f.name] for f in spec.key_fields]
        return FileStats(value_stats, names, simple_stats([f.type for f in spec.key_fields], keys))


def _in_parquet_footer(field: DataField) -> bool:
    """Whether a Parquet footer tells what Java records; not of floats (NaN), binaries (2.1 only) and INT96."""
    kind = to_arrow_type(field.type)
    if isinstance(field.type, _NANOS_TYPES) and field.type.precision > 6:
        return False
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_binary(kind))


_LOG = logging.getLogger(__name__)

_STEP_BYTES = 16 << 20
_EPOCH = datetime(1970, 1, 1)
_MAX_METADATA_BYTES = 64 << 20  # with them a manifest stays far below what its readers take


class RollingFiles:
    """Writes rows of one bucket into files; not for concurrent use.

    Rows of a primary-key table must come sorted by key, as physical columns (``DataFileSpec.physical_fields``).
    """

    def __init__(
        self,
        file_io: FileIO,
        spec: DataFileSpec,
        directory: str,
        names: FileNameSequence,
        *,
        next_sequence: int = 0,
        source: FileSource = FileSource.APPEND,
    ) -> None:
        """Open nothing yet.

        Args:
            file_io: the store.
            spec: how files are written.
            directory: the bucket's directory.
            names: names of this writer's files.
            next_sequence: sequence number of the first row of an append table; primary-key rows bring theirs.
            source: what writes the files.
        """
        self._file_io = file_io
        self._spec = spec
        self._directory = directory
        self._external = None if spec.external is None else spec.external.directories(directory)
        self._names = names
        self._next_sequence = next_sequence
        self._source = source
        self._current: _OpenFile | None = None
        self._finished: list[DataFileMeta] = []
        self._taken = 0

    @property
    def is_open(self) -> bool:
        """Whether a file is open now."""
        return self._current is not None

    def write(self, rows: pa.Table) -> None:
        """Write rows, rolling where a file is full."""
        if not rows.num_rows:
            return
        row_bytes = max(1, rows.nbytes // rows.num_rows)
        step = max(self._spec.step_rows, min(_STEP_BYTES, self._spec.target_size_bytes // 8) // row_bytes)
        position = 0
        while position < rows.num_rows:
            position += self.write_some(rows.slice(position, step))

    def write_some(self, rows: pa.Table) -> int:
        """Write rows into the open file as far as it takes them, and finish it when it is full; return how many."""
        if self._current is None:
            name = self._names.next()
            directory = self._directory if self._external is None else self._external.of(name)
            self._current = _OpenFile(self._file_io, self._spec, directory, name)
        part = rows.slice(0, self._spec.target_rows - self._current.rows)
        self._current.write(part)
        if self._current.is_full:
            self.roll()
        return int(part.num_rows)

    def flush(self) -> None:
        """Write what the open file still keeps in memory (a row group that is not full)."""
        if self._current is not None:
            self._current.flush()

    def roll(self) -> None:
        """Finish the open file, if there is one; the next row opens another."""
        if self._current is None:
            return
        current, self._current = self._current, None
        try:
            meta = current.close(self._next_sequence, self._source)
        except BaseException:
            self._file_io.delete_quietly(current.path)
            if self._spec.indexes.settings:
                self._file_io.delete_quietly(index_path(current.path))
            if current.references is not None:
                current.references.abort()
            raise
        if not self._spec.numbered_anew:
            self._next_sequence += meta.row_count
        self._finished.append(meta)
        _LOG.info("Wrote %s: %d rows, %d bytes.", current.path, meta.row_count, meta.file_size)

    def take(self) -> tuple[DataFileMeta, ...]:
        """Hand over the finished files, which this writer gives no more, but still deletes when it gives up."""
        start, self._taken = self._taken, len(self._finished)
        return tuple(self._finished[start:])

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the open file and return all files in the order they were written."""
        self.roll()
        return tuple(self._finished)

    def abort(self) -> None:
        """Delete all files of this writer; only this task attempt, which has failed, knows their names."""
        if self._current is not None:
            self._current.abort()
            self._current = None
        for meta in self._finished:
            directory = self._directory if meta.external_path is None else meta.external_path.rpartition("/")[0]
            for name in (meta.file_name, *meta.extra_files):
                self._file_io.delete_quietly(f"{directory}/{name}")
        self._finished.clear()


class _OpenFile:
    """One file that is being written, with what its metadata needs."""

    def __init__(self, file_io: FileIO, spec: DataFileSpec, directory: str, name: str) -> None:
        self._spec = spec
        self.name = name
        self._file_io = file_io
        self.path = f"{directory}/{name}"
        types = {field.name: field.type for field in spec.value_fields}
        self._indexes = FileIndexBuilder(spec.indexes.settings, types) if spec.indexes.settings else None
        self._writer: DataFileWriter = create_data_file(
            file_io,
            self.path,
            spec.file_format,
            spec.physical_fields,
            compression=spec.compression,
            zstd_level=spec.zstd_level,
            options=spec.format_options,
            blob_input=spec.blob_input if spec.is_blob else None,
        )
        self._stats = FileStatsCollector(spec)
        managed = spec.managed_blobs
        self.references = BlobReferencesWriter(file_io, self.path, managed) if managed else None
        self.rows = 0
        self._deletes = 0
        self._min_sequence = 2**63 - 1
        self._max_sequence = -(2**63)
        self._changed = False  # whether the rows of a table with row tracking have new values
        self._first: pa.Table | None = None
        self._last: pa.Table | None = None

    @property
    def is_full(self) -> bool:
        return self.rows >= self._spec.target_rows or self._writer.bytes_written >= self._spec.target_size_bytes

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows)
        self._stats.add(rows)
        if self._indexes is not None:
            self._indexes.add(rows)
        if self.references is not None:
            self.references.add(rows)
        self.rows += rows.num_rows
        if self._spec.keyed:
            self._note_keys(rows)
        elif self._spec.tracked:
            self._note_sequences(rows.column(SEQUENCE_NUMBER.name))

    def flush(self) -> None:
        self._writer.flush()

    def _note_keys(self, rows: pa.Table) -> None:
        sequences = rows.column(SEQUENCE_NUMBER.name).to_numpy()
        self._min_sequence = min(int(sequences.min()), self._min_sequence)
        self._max_sequence = max(int(sequences.max()), self._max_sequence)
        self._deletes += int(np.count_nonzero(is_retract(rows.column(VALUE_KIND.name).to_numpy())))
        if self._first is None:
            self._first = rows.slice(0, 1)
        self._last = rows.slice(rows.num_rows - 1, 1)

    def _note_sequences(self, numbers: pa.ChunkedArray) -> None:
        self._changed |= bool(numbers.null_count)
        known = pc.min_max(numbers).as_py()
        if known["min"] is not None:
            self._min_sequence = min(known["min"], self._min_sequence)
            self._max_sequence = max(known["max"], self._max_sequence)

    def _key(self, row: pa.Table | None) -> bytes:
        assert row is not None
        keys = self._spec.key_fields
        names = [self._spec.value_name(f.name) if self._spec.thin else f.name for f in keys]
        columns = [row.column(name).combine_chunks() for name in names]
        return encode_rows(columns, [f.type for f in keys]).to_bytes_list(serialized=True)[0]

    def close(self, next_sequence: int, source: FileSource) -> DataFileMeta:
        result = self._writer.close()
        stats = self._stats.finish(result.column_stats)
        meta = DataFileMeta(
            file_name=self.name,
            file_size=result.size_bytes,
            row_count=self.rows,
            value_stats=stats.value_stats,
            value_stats_cols=stats.value_stats_cols,
            min_sequence_number=next_sequence,
            max_sequence_number=next_sequence + self.rows - 1,
            schema_id=self._spec.schema_id,
            level=self._spec.level,
            creation_time_millis=wall_clock_millis(),
            delete_row_count=self._deletes,
            file_source=int(source),
            write_cols=self._spec.write_cols,
            external_path=None if self._spec.external is None else self.path,
        )
        if self._spec.keyed:
            meta = self._with_keys(meta, stats.key_stats)
        elif self._spec.tracked:
            # zero stands for the id of the snapshot to be (Java: RowDataFileSequenceNumberTracker)
            known = self._min_sequence <= self._max_sequence
            meta = replace(
                meta,
                min_sequence_number=self._min_sequence if known else 0,
                max_sequence_number=0 if self._changed else self._max_sequence,
            )
        if self._indexes is not None:
            found, threshold = self._indexes.finish(), self._spec.indexes.threshold_bytes
            embedded, files = keep_indexes(self._file_io, found, index_path(self.path), threshold_bytes=threshold)
            meta = replace(meta, embedded_file_index=embedded, extra_files=files)
        if self.references is not None:
            meta = replace(meta, extra_files=(*meta.extra_files, self.references.close()))
        _check_size(meta)
        return meta

    def _with_keys(self, meta: DataFileMeta, key_stats: SimpleStats) -> DataFileMeta:
        return replace(
            meta,
            min_key=self._key(self._first),
            max_key=self._key(self._last),
            key_stats=key_stats,
            min_sequence_number=self._min_sequence,
            max_sequence_number=self._max_sequence,
        )

    def abort(self) -> None:
        self._writer.abort()


def _check_size(meta: DataFileMeta) -> None:
    metadata_bytes = sum(map(len, (meta.min_key, meta.max_key, meta.embedded_file_index or b""))) + sum(
        len(bound) for stats in (meta.key_stats, meta.value_stats) for bound in (stats.min_values, stats.max_values)
    )
    if metadata_bytes > _MAX_METADATA_BYTES:
        raise DataError(
            f"The keys, statistics and indexes of a data file would take {metadata_bytes >> 20} MB in the table's "
            f"metadata, and {_MAX_METADATA_BYTES >> 20} MB are the most. A primary key is too long, the option "
            "'metadata.stats-mode' keeps values whole, or 'file-index.in-manifest-threshold' keeps indexes there: "
            "use shorter keys, 'truncate(16)', or a lower threshold."
        )


def wall_clock_millis() -> int:
    """Milliseconds of the local wall clock since 1970-01-01 00:00, as Java takes a file's creation time."""
    return int((datetime.now() - _EPOCH).total_seconds() * 1000)
