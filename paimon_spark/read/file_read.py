"""One data file as batches in the columns of the read: evolution casts, row groups, pushed-down filter.

Equals Java's ``RawFileSplitRead`` and ``KeyValueFileReaderFactory`` for one file. Runs in tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.memory import note_freed
from paimon_spark.options.core_options import IGNORES_CORRUPT_FILES, IGNORES_LOST_FILES
from paimon_spark.read.data_evolution import columns_of
from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.read.index_pruning import answer_of
from paimon_spark.read.row_selection import masked, selected_rows
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.storage.formats import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS, DataFileReader, open_data_file
from paimon_spark.storage.read_ahead import FILES_AHEAD_BYTES, FilesAhead

if TYPE_CHECKING:
    from paimon_spark.read.record_expiry import RecordExpiry
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

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
        return replace(self, passes_over=passed_over(self.table))

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
        part, parts = file.row_groups
        count = reader.num_row_groups
        chosen = range(count * part // parts, count * (part + 1) // parts)
    if predicate is None:
        return None if chosen is None else list(chosen)
    matching = reader.prune_row_groups(predicate)
    return [group for group in matching if chosen is None or group in chosen]


def _with_extra(batch: pa.RecordBatch, source: pa.RecordBatch, extra: Sequence[DataField]) -> pa.RecordBatch:
    """Append columns of the file as they are there."""
    arrays = [*batch.columns, *(source.column(field.name) for field in extra)]
    schema = pa.schema([*batch.schema, *to_arrow_schema(extra)])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
