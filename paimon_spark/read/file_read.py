"""One data file as batches in the columns of the read: evolution casts, row groups, pushed-down filter, and which rows.

Equals Java's ``RawFileSplitRead`` and ``KeyValueFileReaderFactory`` for one file. Runs in tasks.

Rows that a deletion vector deletes or an index rules out are left out by a selection: one bit for each row of the file,
by its position. Planning puts only the place of a vector into a split; the task loads it when it opens the file, and
masks the batches of whatever row groups it reads (Java: ``ApplyDeletionVectorReader``,
``ApplyBitmapIndexRecordReader``).

Rows that leave a table by their own age (``record-level.expire-time``): compactions drop them, reads show them. Equals
Java's ``RecordLevelExpire`` (docs/internals/format.md §10).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.memory import note_freed
from paimon_spark.options.core_options import IGNORES_CORRUPT_FILES, IGNORES_LOST_FILES
from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.read.pruning import answer_of
from paimon_spark.read.sections import columns_of
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import BigIntType, DataField, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.deletion_vector import Positions
from paimon_spark.spec.predicate import Predicate, matching
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.spec.stats import evolve_stats
from paimon_spark.storage.formats import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS, DataFileReader, open_data_file
from paimon_spark.storage.read_ahead import FILES_AHEAD_BYTES, FilesAhead
from paimon_spark.table.deletion_vectors import deleted_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.file_index.answers import Answer
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_LEAST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on is a number of milliseconds."""


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old. Picklable."""

    field: DataField
    """The column of the time."""
    seconds: int
    """Age from which on a row is dropped."""
    now_seconds: int
    """The clock that the ages are counted to."""

    @classmethod
    def of(cls, table: FileStoreTable) -> RecordExpiry | None:
        """Return the expiry of a table that may be written (`check_writable`), None where its rows do not expire."""
        age: timedelta | None = table.options.value("record-level.expire-time")
        name = table.options.value("record-level.time-field")
        if age is None or name is None:
            return None
        return cls(table.schema.field(name), age // timedelta(seconds=1), int(time.time()))

    def kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not too old; those without a time stay."""
        for batch in batches:
            mask = self.is_kept(batch.column(self.field.name))
            if mask.all():
                yield batch
            elif mask.any():
                yield batch.filter(pa.array(mask))

    def is_kept(self, times: pa.Array) -> npt.NDArray[np.bool_]:
        """Say for each time of the column whether a row with it stays."""
        kept: npt.NDArray[np.bool_] = self._ages(times) <= self.seconds
        kept |= times.is_null().to_numpy(zero_copy_only=False)
        return kept

    def holds_expired(self, table: FileStoreTable) -> Callable[[DataFileMeta], bool]:
        """Return a function that tells whether a file holds rows that are too old, by its statistics; on the driver."""

        def holds(file: DataFileMeta) -> bool:
            bounds = evolve_stats(
                [file.value_stats],
                pa.array([file.row_count], pa.int64()),
                table.schemas.get(file.schema_id).fields,
                [self.field],
                stats_cols=file.value_stats_cols,
                path=file.file_name,
            )
            least = bounds[self.field.name][0] if self.field.name in bounds else None
            return least is not None and not bool(self.is_kept(least)[0])

        return holds

    def _ages(self, times: pa.Array) -> npt.NDArray[np.int64]:
        if isinstance(self.field.type, TimestampType | LocalZonedTimestampType):
            per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[times.type.unit]
            ticks = pc.fill_null(times.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
            seconds = _java_seconds(ticks // max(per_second // 1000, 1), per_second)
        else:
            seconds = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
            if isinstance(self.field.type, BigIntType):
                seconds = np.where(seconds >= _LEAST_MILLIS, seconds // 1000, seconds)
        return self.now_seconds - seconds


def _java_seconds(ticks: npt.NDArray[np.int64], per_second: int) -> npt.NDArray[np.int64]:
    """Whole seconds of milliseconds (or seconds), cut towards zero as Java divides."""
    if per_second == 1:
        return ticks
    return np.where(ticks < 0, -(-ticks // 1000), ticks // 1000)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows of a file that are read."""

    kept: pa.BooleanArray
    """One value for each row of the file, by its position; no nulls."""

    @classmethod
    def of_deleted(cls, bits: npt.NDArray[np.uint8], rows: int) -> RowSelection:
        """Keep the rows whose bits are not set (lowest bit of a byte first)."""
        return cls(_booleans(np.invert(bits), rows))

    def __and__(self, other: RowSelection) -> RowSelection:
        """The rows that both keep."""
        return RowSelection(pc.and_(self.kept, other.kept))

    def of_groups(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> pa.BooleanArray:
        """What is kept of some row groups, one after the other, as their rows are read.

        Args:
            group_rows: rows of each row group of the file.
            groups: those that are read, in their order; None is all.
        """
        if groups is None:
            return self.kept
        ends = np.cumsum(group_rows).tolist()
        parts = [self.kept.slice(ends[group] - group_rows[group], group_rows[group]) for group in groups]
        return pa.concat_arrays(parts) if parts else self.kept.slice(0, 0)

    def without_empty_groups(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> list[int]:
        """Leave out the row groups of which no row is kept."""
        chosen = range(len(group_rows)) if groups is None else groups
        return [group for group in chosen if self.of_groups(group_rows, [group]).true_count]

    def positions(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> Positions:
        """The positions in the file of the rows that are kept of some row groups, in the order of reading."""
        ends = np.cumsum(group_rows).tolist()
        chosen = range(len(group_rows)) if groups is None else groups
        parts = [
            np.flatnonzero(self.of_groups(group_rows, [group]).to_numpy(zero_copy_only=False))
            + (ends[group] - group_rows[group])
            for group in chosen
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])


def _booleans(bits: npt.NDArray[np.uint8], rows: int) -> pa.BooleanArray:
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(np.ascontiguousarray(bits))])


def selected_rows(file_io: FileIO, file: SplitFile, rows: int, by_index: Answer = True) -> RowSelection | None:
    """Return which rows of a file are read; None is all of them. Runs in tasks, once per file.

    Raises:
        CorruptTableError: the file's deletion vector is missing or damaged, or an index is over other rows.
    """
    found = None
    if not isinstance(by_index, bool):
        if rows != file.row_count:
            raise CorruptTableError(f"The file has {rows} rows, and its index {file.row_count}.", path=file.path)
        found = RowSelection(_booleans(by_index, rows))
    if file.deletion_vector is None:
        return found
    kept = RowSelection.of_deleted(deleted_rows(file_io, file.deletion_vector, rows), rows)
    return kept if found is None else found & kept


def masked(
    batches: Iterable[pa.RecordBatch], kept: pa.BooleanArray, predicate: Predicate | None, *, path: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are kept.

    Args:
        batches: the rows of some row groups, complete and in order.
        kept: which of these rows stay (`RowSelection.of_groups`).
        predicate: rows for which it is not true may be left out as well.
        path: of the file, for messages.

    Raises:
        CorruptTableError: there are not as many rows as the file's footer says.
    """
    position = 0
    for batch in batches:
        mask = kept.slice(position, batch.num_rows)
        position += batch.num_rows
        if len(mask) < batch.num_rows:
            break
        if mask.true_count < batch.num_rows:
            batch = batch.filter(mask)
        if predicate is not None and batch.num_rows:
            batch = matching(predicate, batch)
        if batch.num_rows:
            yield batch
    if position != len(kept):
        raise CorruptTableError(
            f"The data file gives {position} rows or more where its footer says {len(kept)}.", path=path
        )


class RowPositions:
    """The positions in a file of the rows of one of its slices, in the order in which they are read."""

    def __init__(self, table: FileStoreTable, file: SplitFile) -> None:
        """Look up where the slice begins and what is deleted of it; opens the file if need be."""
        self._next = 0
        self._kept: npt.NDArray[np.int64] | None = None
        if file.deletion_vector is None and (file.row_groups is None or file.row_groups.first == 0):
            return
        with open_data_file(table.file_io, file.path, file.format, file.size, rows=file.row_count) as reader:
            rows = reader.row_group_rows
            groups = range(len(rows)) if file.row_groups is None else file.row_groups.indexes(len(rows))
            selection = selected_rows(table.file_io, file, reader.num_rows)
            if selection is None:
                self._next = sum(rows[: groups.start])
            else:
                self._kept = selection.positions(rows, groups)

    def take(self, rows: int) -> npt.NDArray[np.int64]:
        """The positions of the next rows."""
        start = self._next
        self._next += rows
        return np.arange(start, self._next) if self._kept is None else self._kept[start : self._next]


_LOG = logging.getLogger(__name__)
_KEY_VALUE = (SEQUENCE_NUMBER, VALUE_KIND)


@dataclass(frozen=True)
class FileRead:
    """Reads the files of one split, all into the same columns."""

    table: FileStoreTable
    fields: tuple[DataField, ...]
    """Columns of the result."""
    constants: Mapping[str, pa.Scalar]
    """Partition values by column name: these columns are not read from the files."""
    key_value: bool = False
    """Append `_SEQUENCE_NUMBER` and `_VALUE_KIND` to the result."""
    special: tuple[DataField, ...] = ()
    """Columns of the files that no schema has, appended to the result: null where a file lacks a nullable one."""
    batch_rows: int = DEFAULT_BATCH_ROWS
    batch_bytes: int = DEFAULT_BATCH_BYTES
    """Maximum bytes of a batch, by the sizes that the file records."""
    use_threads: bool = False
    """Decode columns in parallel: in a process whose cores do nothing else."""
    filters_rows: bool = True
    """Whether rows are left out by the predicate; otherwise only row groups are."""
    dictionaries: frozenset[str] = frozenset()
    """Columns that may be dictionaries of strings where the file holds them so."""
    expiry: RecordExpiry | None = None
    """Leaves out rows that are too old, in `run`: compactions have it, other reads show such rows."""

    passes_over: frozenset[str] = frozenset()
    """The options by which files that are missing, or damaged, are passed over: those of a query alone."""
    ahead: FilesAhead | None = None
    """Opens files that were asked for before; else each is asked for when it is opened."""

    def as_query(self) -> FileRead:
        """Return the reader of a query, which may pass over files that cannot be read where its options say so."""
        options = passed_over(self.table)
        return replace(self, passes_over=options) if options != self.passes_over else self

    def for_files(self, files: Iterable[SplitFile], most_bytes: int = FILES_AHEAD_BYTES) -> FileRead:
        """Return a reader that fetches files ahead, where they lie in a store.

        Args:
            files: in about the order in which they are read.
            most_bytes: of files that wait; no more than `FILES_AHEAD_BYTES` wait in any case.
        """
        several = [(file.path, file.size) for file in files]
        if self.table.file_io.threads == 1 or len(several) < 2:
            return self
        return replace(self, ahead=FilesAhead(self.table.file_io, several, min(most_bytes, FILES_AHEAD_BYTES)))

    def batches(self, file: SplitFile, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``file`` in order.

        Args:
            file: of the split.
            predicate: rows for which it is not true may be left out; rows that the file's own columns cannot decide are
                kept.

        Raises:
            CorruptTableError: the file is missing or damaged.
        """
        if not self.passes_over:
            yield from self._batches(file, predicate)
            return
        if file.deletion_vector is not None:  # damage of it is no damage of the file
            selected_rows(self.table.file_io, file, file.row_count)
        try:
            yield from self._batches(file, predicate)
        except CorruptTableError as error:
            wanted = IGNORES_CORRUPT_FILES if self.table.file_io.exists(file.path) else IGNORES_LOST_FILES
            if wanted not in self.passes_over:
                raise
            _LOG.warning("%s: the rest of the file is left out, as option '%s' says: %s", file.path, wanted, error)

    def _batches(self, file: SplitFile, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        columns = columns_of(self.table.schemas.get(file.schema_id), file.write_cols)
        mapping = FieldMapping.of(columns, self.fields, self.constants)
        extra = (*(_KEY_VALUE if self.key_value else ()), *self.special)
        file_fields = (*mapping.file_fields, *extra)
        options = self.table.schema.options
        io, rows = self.table.file_io, file.row_count
        pushed = mapping.file_predicate(predicate)
        by_index = answer_of(io, file.file_index, columns, pushed, rows)
        if by_index is False:
            return
        if not file_fields and file.row_groups is None and file.deletion_vector is None and by_index is True:
            yield from self._counted(mapping, rows)
            return
        with open_data_file(self.ahead or io, file.path, file.format, file.size, rows=rows, options=options) as reader:
            groups = _row_groups(reader, file, pushed)
            selection = selected_rows(io, file, reader.num_rows, by_index)
            if selection is not None:
                groups = selection.without_empty_groups(reader.row_group_rows, groups)
            if groups is not None and not groups:
                return
            kept = None if selection is None else selection.of_groups(reader.row_group_rows, groups)
            if not file_fields:
                rows = sum(reader.row_group_rows[group] for group in (groups or range(reader.num_row_groups)))
                yield from self._counted(mapping, rows if kept is None else kept.true_count)
                return
            filters = pushed if self.filters_rows else None
            batches = reader.read_batches(
                file_fields,
                row_groups=groups,
                predicate=filters if kept is None else None,
                pages=pushed if kept is None else None,
                batch_rows=self.batch_rows,
                batch_bytes=self.batch_bytes,
                use_threads=self.use_threads,
                dictionaries=mapping.unchanged(self.dictionaries),
            )
            for batch in batches if kept is None else masked(batches, kept, filters, path=file.path):
                source = self._ordered(batch, file) if self.key_value else batch
                size = batch.nbytes
                yield _with_extra(mapping.batch(batch), source, extra) if extra else mapping.batch(batch)
                del batch, source
                note_freed(size)

    def _ordered(self, batch: pa.RecordBatch, file: SplitFile) -> pa.RecordBatch:
        """Return rows with the numbers by which they are ordered (``sequence.snapshot-ordering``).

        A file that was not compacted has that of its snapshot in its metadata; a compacted one has those of its rows.
        One number for all rows of a file is that of each of them in either case.
        """
        if file.min_seq != file.max_seq or not self.table.options.value("sequence.snapshot-ordering"):
            return batch
        at = batch.schema.get_field_index(SEQUENCE_NUMBER.name)
        numbers = pa.repeat(pa.scalar(file.min_seq, pa.int64()), batch.num_rows)
        return batch.set_column(at, batch.schema.field(at), numbers)

    def run(self, files: Sequence[SplitFile], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of several files, one after the other."""
        reader = self if self.ahead else self.for_files(files)
        for file in files:
            batches = reader.batches(file, predicate)
            yield from batches if self.expiry is None else self.expiry.kept(batches)

    def runs(self, runs: Iterable[Sequence[SplitFile]], predicate: Predicate | None) -> list[Iterator[pa.RecordBatch]]:
        """Return the rows of sorted runs that are merged, each as `run` gives them."""
        return self.at_once([self.run(files, predicate) for files in runs])

    def at_once(self, streams: Sequence[Iterator[pa.RecordBatch]]) -> list[Iterator[pa.RecordBatch]]:
        """Return streams of rows that a merge begins together; of files in a store, their first batches come at once.

        A merge loads one batch of each stream before it gives a row, so that this takes no more memory than it does.
        """
        threads = min(self.table.file_io.threads, len(streams))
        return list(streams) if threads < 2 else _FirstBatches(streams, threads).streams()

    def _counted(self, mapping: FieldMapping, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield ``rows`` rows of constants and nulls, when no column of the file is wanted."""
        for start in range(0, rows, self.batch_rows):
            count = min(self.batch_rows, rows - start)
            yield mapping.batch(rows_without_columns(count))


class _FirstBatches:
    """The first batch of each of some streams: all are made in threads as soon as one of them is asked for."""

    def __init__(self, streams: Sequence[Iterator[pa.RecordBatch]], threads: int) -> None:
        self._streams = streams
        self._threads = threads
        self._firsts: list[Future[pa.RecordBatch | None]] = []

    def streams(self) -> list[Iterator[pa.RecordBatch]]:
        """The streams, each to be read by the same thread."""
        return [self._stream(at, stream) for at, stream in enumerate(self._streams)]

    def _stream(self, at: int, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self._firsts:
            pool = ThreadPoolExecutor(self._threads, "paimon-runs")
            self._firsts = [pool.submit(next, each, None) for each in self._streams]
            pool.shutdown(wait=False)  # its threads end with what they have to do
        batch = self._firsts[at].result()
        self._firsts[at] = Future()  # which keeps no rows
        if batch is not None:
            yield batch
            del batch
            yield from stream


def passed_over(table: FileStoreTable) -> frozenset[str]:
    """Return the options of a query that let it pass over files that are missing, or damaged."""
    return frozenset(key for key in (IGNORES_LOST_FILES, IGNORES_CORRUPT_FILES) if table.options.value(key))


def rows_without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of ``rows`` rows and no columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"]).select([])


def _row_groups(reader: DataFileReader, file: SplitFile, predicate: Predicate | None) -> list[int] | None:
    """Return the row groups to read: those of the file's slice that may match; None is all of them."""
    chosen: range | None = None
    if file.row_groups is not None:
        chosen = file.row_groups.indexes(reader.num_row_groups)
    if predicate is None:
        return None if chosen is None else list(chosen)
    matching = reader.prune_row_groups(predicate)
    return [group for group in matching if chosen is None or group in chosen]


def _with_extra(batch: pa.RecordBatch, source: pa.RecordBatch, extra: Sequence[DataField]) -> pa.RecordBatch:
    """Append columns of the file as they are there."""
    arrays = [*batch.columns, *(source.column(field.name) for field in extra)]
    schema = pa.schema([*batch.schema, *to_arrow_schema(extra)])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
