"""Parquet data files through pyarrow, with the columns that Java writes.

Reading decodes only the wanted columns of the wanted row groups. Writing gathers rows to row groups of Java's block
size. Physical types, annotations and ids are those of Java's ``ParquetSchemaConverter``; table options become settings
of pyarrow's writer.

Statistics of footers are given as arrays of the columns' types, and those of a whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.memory import note_freed
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec import predicate as predicates
from paimon_spark.spec.arrow_types import to_arrow_field, to_arrow_schema
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.storage import arrow_layout, parquet_columns
from paimon_spark.storage.arrow_layout import ColumnPlan, corrupt_as, each_as_corrupt
from paimon_spark.storage.data_file import (
    ColumnStats,
    DataFileReader,
    FileResult,
    NewFile,
    Source,
    StoreFileWriter,
    Wanted,
)
from paimon_spark.storage.parquet_columns import dictionary_coded, dictionary_columns
from paimon_spark.storage.parquet_footer import (
    FooterSink,
    chunks_in_order,
    decoded_bytes,
    group_batches,
    metadata_with_int96_as_bytes,
    stream_buffer,
)
from paimon_spark.storage.parquet_pages import PageReader
from paimon_spark.storage.read_ahead import SizedFile

_MOST_ROWS: Final = 1 << 20
"""Rows of a row group at most, whatever an option says: they wait in memory until it is full."""
_DEFAULT_BLOCK_BYTES: Final = 128 << 20
_CODECS: Final[Mapping[str, str]] = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
    "null": "none",
}

_RAW: Final = ("min_raw", "max_raw")
_TYPED: Final = ("min", "max")


class ParquetSettings:
    """Table options as pyarrow's writer wants them."""

    def __init__(self, compression: str, zstd_level: int, options: Mapping[str, str]) -> None:
        settings = CoreOptions(options)
        codec = (settings.value("parquet.compression") or compression).strip().lower()
        if codec not in _CODECS:
            raise UnsupportedError(
                f"Parquet files with the compression '{codec}' cannot be written. "
                f"Set 'file.compression' to one of {', '.join(sorted(_CODECS))}."
            )
        block_bytes = settings.value("file.block-size") or _DEFAULT_BLOCK_BYTES
        self.block_bytes = _at_least(settings, "parquet.block.size", 1) or block_bytes
        self.max_rows = min(_at_least(settings, "parquet.block.row.count.limit", 1) or _MOST_ROWS, _MOST_ROWS)
        self.dictionary: bool | None = settings.value("parquet.enable.dictionary")
        """Whether all columns get a dictionary, or none; None where each column is decided by a sample."""
        version = settings.value("parquet.writer.version").strip().lower()
        self.pyarrow: dict[str, Any] = {
            "compression": _CODECS[codec],
            "data_page_version": "2.0" if version in ("v2", "parquet_2_0") else "1.0",
            "data_page_size": _at_least(settings, "parquet.page.size", 1),
            "dictionary_pagesize_limit": _at_least(settings, "parquet.dictionary.page.size", 1),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
        }
        if codec == "zstd":
            level = _at_least(settings, "parquet.compression.codec.zstd.level", -100)
            self.pyarrow["compression_level"] = zstd_level if level is None else level
        if _TIME_IS_ADJUSTED_BY_CHOICE:
            self.pyarrow["write_time_adjusted_to_utc"] = True


_TIME_IS_ADJUSTED_BY_CHOICE: Final = int(pa.__version__.split(".")[0]) >= 21
"""Since 21 pyarrow writes TIME as not adjusted to UTC unless asked; before, always adjusted, as Java does."""


def _at_least(settings: CoreOptions, key: str, least: int) -> int | None:
    value: int | None = settings.value(key)
    if value is not None and value < least:
        raise OptionError(f"The option '{key}' must be at least {least}, but is {value}.")
    return value


_FIELD_ID: Final = "PARQUET:field_id"
_TIMES: Final = (t.TimestampType, t.LocalZonedTimestampType)
_LEAST_CODED_ROWS: Final = 256
"""To open a file of fewer rows once more, for its dictionaries, takes longer than to decode its texts."""
_MOST_WIDTH: Final = 16
"""Bytes of a value in Arrow, without those of a text."""
_LEAST_AHEAD_BYTES: Final = 1 << 20
"""Bytes of column chunks that are asked for ahead, however small batches are to be."""


class ParquetReader(DataFileReader):
    """Reads one Parquet file."""

    def __init__(self, file_io: Source, path: str, size: int | None) -> None:
        self.path = path
        with corrupt_as(path, "Parquet"):
            self._source = file_io.open_input(path, size)
            self._buffer_bytes = 0
            self.size_bytes = self._source.size()
            self._file = self._reopened()
            self.schema = self._file.schema_arrow
            metadata = self._file.metadata
            self.num_rows = metadata.num_rows
            self.row_group_rows = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
            if sum(self.row_group_rows) != self.num_rows or min(self.row_group_rows, default=0) < 0:
                raise CorruptTableError("The Parquet footer contradicts itself about the number of rows", path=path)

    def _read(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The wanted columns (see DataFileReader)."""
        groups = list(range(self.num_row_groups)) if wanted.row_groups is None else list(wanted.row_groups)
        file, plan, kept, int96 = self._opened(wanted, groups)
        if not plan.sources:
            yield from plan.rows_without_columns(sum(self.row_group_rows[at] for at in groups), wanted.batch_rows)
            return
        held, leaves = file.schema_arrow, plan.sources
        is_flat = not any(pa.types.is_nested(held.field(name).type) for name in plan.sources)
        if not is_flat:
            held, leaves = parquet_columns.narrowed_columns(held, plan.sources, plan.schema, wanted.fields)
            if leaves != plan.sources:
                plan = ColumnPlan.of(held, wanted.fields, self.path, dictionaries=kept)
        asked = frozenset() if wanted.predicate is None else predicates.fields(wanted.predicate)
        condition = ColumnPlan.of(held, [field for field in wanted.fields if field.name in asked], self.path)

        def whole(some: list[int]) -> Iterator[pa.RecordBatch]:
            return self._batches(file, some, leaves, wanted, is_flat=is_flat)

        with corrupt_as(self.path, "Parquet"):
            if wanted.pages is None or kept or int96:
                batches = whole(groups)
            else:
                reader = PageReader(self._source, self._file, self.path)
                batches = reader.batches(groups, leaves, wanted.pages, wanted, whole)
        for batch in each_as_corrupt(batches, self.path, "Parquet"):
            with corrupt_as(self.path, "Parquet"):
                if wanted.predicate is not None:
                    batch = _matching(wanted.predicate, condition, batch)
                result = plan.apply(batch)
            if result.num_rows:
                yield result

    def _opened(self, wanted: Wanted, groups: list[int]) -> tuple[pq.ParquetFile, ColumnPlan, list[str], bool]:
        """The file as the wanted columns are read of it, and how, its dictionaries, and whether INT96 come as bytes."""
        file, plan = self._file, ColumnPlan.of(self.schema, wanted.fields, self.path)
        self._buffer_bytes = 0
        if self.size_bytes > wanted.batch_bytes:
            most, is_remote = wanted.batch_bytes, self._is_remote
            self._buffer_bytes = stream_buffer(file.metadata, groups, plan.sources, most, remote=is_remote)
        int96 = False
        has_times = any(t.contains_type(field.type, kind) for field in wanted.fields for kind in _TIMES)
        if has_times and self._int96_columns.intersection(plan.sources):
            with corrupt_as(self.path, "Parquet"):
                file = self._file_with_int96_as_bytes()
                plan, int96 = ColumnPlan.of(file.schema_arrow, wanted.fields, self.path), True
        texts = {field.name for field in plan.schema if field.type == pa.string()}
        few = self.num_rows < _LEAST_CODED_ROWS
        coded = [] if int96 or few or not texts else dictionary_coded(file.metadata, groups, texts)
        kept = [name for name in coded if name in wanted.dictionaries]
        if coded:  # to decode a text by its dictionary afterwards takes half the time of decoding it at once
            with corrupt_as(self.path, "Parquet"):
                file = self._with_dictionaries(coded)
            plan = ColumnPlan.of(file.schema_arrow, wanted.fields, self.path, dictionaries=kept)
        elif self._buffer_bytes and not int96:
            with corrupt_as(self.path, "Parquet"):
                file = self._reopened(metadata=self._file.metadata)
        return file, plan, kept, int96

    def _batches(
        self, file: pq.ParquetFile, groups: list[int], columns: list[str], wanted: Wanted, *, is_flat: bool
    ) -> Iterator[pa.RecordBatch]:
        """Batches with at most so many rows and bytes, by the sizes that the file records."""
        rows, most_bytes, use_threads = wanted.batch_rows, wanted.batch_bytes, wanted.use_threads
        if isinstance(self._source, SizedFile):
            lanes = chunks_in_order(file.metadata, groups, columns, side_by_side=bool(self._buffer_bytes))
            self._source.expect(lanes, max(most_bytes, _LEAST_AHEAD_BYTES), self._buffer_bytes or None)
        if is_flat and self._most_bytes(groups, len(columns)) <= most_bytes:
            return file.iter_batches(rows, groups, columns, use_threads=use_threads)  # type: ignore[no-any-return]
        sizes = decoded_bytes(file, groups, columns, most_bytes, self._with_dictionaries)
        counts = [self.row_group_rows[group] for group in groups]
        fitting = [max(1, min(rows, most_bytes * n // max(size, 1))) for size, n in zip(sizes, counts, strict=True)]
        if min(fitting, default=rows) == rows or sum(sizes) <= most_bytes:
            return file.iter_batches(rows, groups, columns, use_threads=use_threads)  # type: ignore[no-any-return]
        each = (
            group_batches(file, group, columns, count, most_bytes, use_threads=use_threads)
            for group, count in zip(groups, fitting, strict=True)
        )
        return chain.from_iterable(each)

    def _most_bytes(self, groups: list[int], columns: int) -> int:
        """More bytes than flat columns of some row groups can take: as if each value held all of the group's bytes."""
        metadata = self._file.metadata
        stored: int = sum(metadata.row_group(group).total_byte_size for group in groups)
        return sum(self.row_group_rows[group] for group in groups) * (_MOST_WIDTH * columns + stored)

    def _with_dictionaries(self, leaves: list[str]) -> pq.ParquetFile:
        """The same file with some columns of strings as dictionaries."""
        return self._reopened(metadata=self._file.metadata, read_dictionary=leaves)

    def prune_row_groups(self, predicate: predicates.Predicate) -> list[int]:
        """Row groups that may match, by the minima, maxima and null counts of the footer."""
        everything = list(range(self.num_row_groups))
        if not everything:
            return everything
        with corrupt_as(self.path, "Parquet"):
            stats = {
                name: column
                for name in predicates.fields(predicate)
                if (column := self._row_group_stats(name)) is not None
            }
        if not stats:
            return everything
        keep = prune_stats(predicate, stats, pa.array(self.row_group_rows, pa.int64()))
        return [at for at in everything if keep[at]]

    def most_rows(self, predicate: predicates.Predicate) -> int:
        """Rows in pages that may match, by the index of the pages."""
        groups = self.prune_row_groups(predicate)
        with corrupt_as(self.path, "Parquet"):
            pages = PageReader(self._source, self._file, self.path)
            return sum(pages.most_rows(group, predicate) for group in groups)

    def row_group_bounds(self, name: str) -> tuple[pa.Array, pa.Array] | None:
        """The least and greatest values of a column in each row group, null where not told; None without the column."""
        with corrupt_as(self.path, "Parquet"):
            found = self._row_group_stats(name)
        return None if found is None else found[:2]

    def null_count(self, name: str) -> int | None:
        """The nulls of a flat column, those of all rows where the file lacks it; None where that is not told."""
        if self.schema.get_field_index(name) < 0:
            return self.num_rows
        with corrupt_as(self.path, "Parquet"):
            found = self._row_group_stats(name)
        return None if found is None or found[2].null_count else sum(found[2].to_pylist())

    def row_group_starts(self) -> list[int]:
        """The first byte of each row group."""
        metadata = self._file.metadata
        first = [metadata.row_group(at).column(0) for at in range(metadata.num_row_groups)]
        return [min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset) for chunk in first]

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self._source.close()

    def _row_group_stats(self, name: str) -> tuple[pa.Array, pa.Array, pa.Array] | None:
        """(minima, maxima, null counts) by row group, or None for columns without statistics."""
        at = self.schema.get_field_index(name)
        if at < 0 or pa.types.is_nested(self.schema.field(at).type):
            return None
        leaf = {self._file.schema.column(n).path: n for n in range(len(self._file.schema))}.get(name)
        if leaf is None:
            return None
        metadata = self._file.metadata
        found = [metadata.row_group(group).column(leaf).statistics for group in range(self.num_row_groups)]
        return stats_arrays(found, self.schema.field(at).type)

    @property
    def _int96_columns(self) -> set[str]:
        """Names of top-level columns that hold INT96 values."""
        schema = self._file.schema
        paths = [schema.column(at).path for at in range(len(schema)) if schema.column(at).physical_type == "INT96"]
        return {name for name in self.schema.names for path in paths if f"{path}.".startswith(f"{name}.")}

    def _file_with_int96_as_bytes(self) -> pq.ParquetFile:
        """The same file with INT96 columns as 12 bytes, since pyarrow would wrap values beyond nanoseconds."""
        return self._reopened(metadata=metadata_with_int96_as_bytes(self._source))

    def _reopened(self, **settings: Any) -> pq.ParquetFile:
        # Coalesced reads pay in stores. Those of a `SizedFile` are foretold, which keeps less in memory.
        coalesced = self._is_remote and not self._buffer_bytes and not isinstance(self._source, SizedFile)
        settings |= {"buffer_size": self._buffer_bytes, "pre_buffer": coalesced}
        return pq.ParquetFile(self._source, page_checksum_verification=True, **settings)

    @property
    def _is_remote(self) -> bool:
        return isinstance(self._source, pa.PythonFile)


def _matching(predicate: predicates.Predicate, condition: ColumnPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch of the file for which a predicate is true, so that no others are converted."""
    if not condition.steps:
        return batch if predicates.evaluate(predicate, batch).true_count else batch.slice(0, 0)
    mask = predicates.evaluate(predicate, condition.apply(batch))
    return batch if mask.true_count == batch.num_rows else batch.filter(mask)


class ParquetWriter(StoreFileWriter):
    """Writes one Parquet file; rows wait until a row group is full."""

    def __init__(self, new: NewFile) -> None:
        super().__init__(new)
        fields = self._fields = tuple(new.fields)
        self._int96 = parquet_columns.has_int96(fields)
        self._logical = to_arrow_schema(fields)
        self._physical = parquet_columns.physical_schema(fields, id_key=_FIELD_ID, int96=self._int96)
        self._settings = ParquetSettings(new.compression, new.zstd_level, new.options)
        self._block_bytes = self._settings.block_bytes
        self._max_rows = self._settings.max_rows
        self._target = new.file_io.open_output(new.path)
        self._sink = FooterSink(self._target)
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._rows = self._raw_bytes_flushed = 0

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; full row groups are written out."""
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            if batch.num_rows:
                self._pending.append(self._to_physical(batch))
                self._pending_rows += batch.num_rows
                self._pending_bytes += batch.nbytes
        group_rows = self._group_rows()
        if self._pending_rows >= group_rows:
            self._flush(group_rows, self._pending_rows - self._pending_rows % group_rows)

    def flush(self) -> None:
        """Write the pending rows as row groups."""
        if self._pending_rows:
            self._flush(self._group_rows(), self._pending_rows)

    @property
    def bytes_written(self) -> int:
        """Bytes in the file, and the pending rows by the compression seen so far."""
        ratio = self._sink.position / self._raw_bytes_flushed if self._raw_bytes_flushed else _FIRST_RATIO
        return self._sink.position + int(self._pending_bytes * min(ratio, 1.0))

    def close(self) -> FileResult:
        """Write the last row group and the footer."""
        try:
            self.flush()
            writer = self._writer or self._open(self._physical.empty_table())
            self._sink.hold()
            writer.close()
            timestamps = parquet_columns.timestamp_columns(self._fields) if self._int96 else {}
            self._sink.release(parquet_columns.MESSAGE_NAME, timestamps)
        except BaseException:
            self.abort()
            raise
        metadata = writer.writer.metadata
        return FileResult(self.path, self._sink.position, self._rows, column_stats(metadata, self._fields))

    def abort(self) -> None:
        """Close without a footer and delete the file."""
        try:
            self._sink.drop()
            if self._writer is not None:
                self._writer.close()
        finally:
            self._file_io.delete_quietly(self.path)

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        """Start the file, knowing the rows of its first row group."""
        settings = self._settings.pyarrow
        if self._settings.dictionary is None:
            use_dictionary = dictionary_columns(first, settings["dictionary_pagesize_limit"])
        else:
            use_dictionary = self._settings.dictionary
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            self._physical,
            use_deprecated_int96_timestamps=self._int96,
            use_dictionary=use_dictionary,
            write_batch_size=_rows_at_once(first, settings["data_page_size"] or _DEFAULT_PAGE_BYTES),
            **settings,
        )
        return self._writer

    def _to_physical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.names != self._logical.names:
            raise ValueError(f"rows have the columns {batch.schema.names}, the file has {self._logical.names}")
        columns = [
            _physical_array(array, logical.type, physical.type)
            for array, logical, physical in zip(batch.columns, self._logical, self._physical, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._physical)

    def _group_rows(self) -> int:
        row_bytes = max(1, self._pending_bytes // max(1, self._pending_rows))
        return max(1, min(self._max_rows, self._block_bytes // row_bytes))

    def _flush(self, group_rows: int, rows: int) -> None:
        table = pa.Table.from_batches(self._pending, self._physical)
        writer = self._writer or self._open(table.slice(0, group_rows))
        writer.write_table(table.slice(0, rows), row_group_size=group_rows)
        rest = table.slice(rows)
        flushed = self._pending_bytes - rest.nbytes
        self._pending = rest.to_batches()
        self._raw_bytes_flushed += flushed
        self._rows += rows
        self._pending_rows, self._pending_bytes = rest.num_rows, rest.nbytes
        del table
        note_freed(flushed)


_FIRST_RATIO: Final = 0.5
_DEFAULT_PAGE_BYTES: Final = 1 << 20
_MOST_ROWS_AT_ONCE: Final = 1024
"""pyarrow's own number."""


def _rows_at_once(rows: pa.Table, page_bytes: int) -> int:
    """How many rows the writer takes before it looks whether a page is full: wide rows would make pages far larger.

    Who reads a file holds a page of each column, and a merge those of each run.
    """
    widest: int = max((column.nbytes for column in rows.columns), default=0) // max(rows.num_rows, 1)
    return max(1, min(_MOST_ROWS_AT_ONCE, page_bytes // (4 * max(widest, 1))))


def _physical_array(array: pa.Array, logical: pa.DataType, physical: pa.DataType) -> pa.Array:
    if array.type == physical:
        return array
    convert = arrow_layout.conversion(array.type, logical)
    array = convert(array) if convert else array
    if arrow_layout.same_layout(array.type, physical):
        return arrow_layout.relabel(array, physical)
    seconds = arrow_layout.conversion(array.type, arrow_layout.seconds_as_millis(array.type))
    millis = seconds(array) if seconds else array
    if not arrow_layout.same_layout(millis.type, physical, reinterpret=True):
        raise TypeError(f"{array.type} cannot be written as {physical}")
    return arrow_layout.relabel(millis, physical)


def stats_arrays(found: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Footer statistics of one column over many row groups as arrays of its type; unknown ones are null."""
    nulls = pa.array([s.null_count if s is not None and s.has_null_count else None for s in found], pa.int64())
    bounded = [s is not None and s.has_min_max for s in found]
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind):
        raw = pa.int64() if kind.bit_width == 64 else pa.int32()
        low, high = ([getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)] for end in _RAW)
        if any(value is not None and not isinstance(value, int) for value in low):
            return pa.nulls(len(found), kind), pa.nulls(len(found), kind), nulls
        physical = [pa.array(values, raw) for values in (low, high)]
        minima, maxima = (a.cast(kind) if pa.types.is_integer(kind) else a.view(kind) for a in physical)
        return minima, maxima, nulls
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_bound(found, bounded, "min_raw", kind), _bytes_bound(found, bounded, "max_raw", kind), nulls
    low, high = ([getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)] for end in _TYPED)
    if pa.types.is_floating(kind):
        # Writers leave NaN out of the statistics, and NaN is greater than everything: the maximum is not known.
        low, high = [None if value is None or value != value else value for value in low], [None] * len(found)
    return pa.array(low, kind), pa.array(high, kind), nulls


def _bytes_bound(found: Sequence[Any], bounded: Sequence[bool], end: str, kind: pa.DataType) -> pa.Array:
    raw = [getattr(s, end) if b else None for s, b in zip(found, bounded, strict=True)]
    if pa.types.is_binary(kind):
        return pa.array(raw, kind)
    return pa.array([None if value is None else _text(value) for value in raw], kind)


def _text(value: bytes | str) -> str | None:
    """A bound cut inside a character is not a string: unknown."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def column_stats(metadata: pq.FileMetaData, fields: Sequence[t.DataField]) -> dict[str, ColumnStats]:
    """Statistics of the whole file from the footer just written.

    Nested columns and those that Java orders otherwise than Parquet (floating point, because of NaN) are left out.
    """
    leaves = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    result: dict[str, ColumnStats] = {}
    for field in fields:
        kind = to_arrow_field(field).type
        leaf = leaves.get(field.name)
        if leaf is None or pa.types.is_nested(kind) or pa.types.is_floating(kind):
            continue
        found = [metadata.row_group(at).column(leaf).statistics for at in range(metadata.num_row_groups)]
        if not all(s is not None and s.has_null_count for s in found):
            continue
        empty = all(s.num_values == 0 for s in found)
        if not empty and not all(s.has_min_max or s.num_values == 0 for s in found):
            continue
        minima, maxima, nulls = stats_arrays(found, _footer_type(kind))
        if len(found) == 1:  # most files: their statistics are these, without a search
            result[field.name] = ColumnStats(_scalar(minima[0], kind), _scalar(maxima[0], kind), nulls[0].as_py() or 0)
            continue
        result[field.name] = ColumnStats(
            _scalar(pc.min(minima), kind),
            _scalar(pc.max(maxima), kind),
            pc.sum(nulls).as_py() or 0,
        )
    return result


def _footer_type(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "s" else kind


def _scalar(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    return (value if value.type == kind else value.cast(kind)) if value.is_valid else None
