"""The writers of the rows of one bucket: as they come without a primary key, sorted and merged with one.

Without primary key rows are buffered in Arrow and written into rolling files as they come. Data files may have
companion files, for each BLOB column and for all VECTOR columns. Equals Java's ``DedicatedFormatRollingFileWriter``
(docs/internals/format.md §12): when the file of the other columns is full, so are its companion files, which roll by
their own size besides.

With a primary key rows are buffered, sorted, merged and written as level-0 files. Equals Java's ``MergeTreeWriter``
with its ``SortBufferWriteBuffer``, without compaction. A buffer that gets too large is not spilled but flushed: its
keys may then appear in several level-0 files, with growing sequence numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import PaimonError
from paimon_spark.memory import note_freed
from paimon_spark.merge.sort import whole_column
from paimon_spark.merge.stream import key_pieces, take_rows
from paimon_spark.spec.arrow_types import to_arrow_field
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, RowKind, is_retract
from paimon_spark.write.rolling import RollingFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from paimon_spark.merge.merge_engine import MergeEngine
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.write.data_file_spec import DataFileSpec

_FLUSH_ROWS = 1 << 20  # the most rows of a Parquet row group


class AppendWriter:
    """Writes one (partition, bucket) of an append table (Java: ``AppendOnlyWriter``)."""

    def __init__(self, files: RollingFiles | CompanionFiles, flush_bytes: int) -> None:
        """Open nothing yet.

        Args:
            files: where rows go.
            flush_bytes: rows are written, into a file that stays open, when as many bytes are buffered.
        """
        self._files = files
        self._flush_bytes = flush_bytes
        self._buffer: list[pa.Table] = []
        self._buffered_rows = 0
        self._closing = False
        self.buffered_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._files.is_open

    def write(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows of this bucket; all are inserts (``kinds`` is None: others were refused before)."""
        self._buffer.append(rows)
        self.buffered_bytes += rows.nbytes
        self._buffered_rows += rows.num_rows
        if self.buffered_bytes >= self._flush_bytes or self._buffered_rows >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered."""
        if self._buffer:
            rows = pa.concat_tables(self._buffer)
            self._buffer = []
            self.buffered_bytes = self._buffered_rows = 0
            self._files.write(rows)
            if not self._closing:
                self._files.flush()  # else the format would keep them as a row group that is not full

    def release_file(self) -> None:
        """Finish the open file, so that another bucket may have one; later rows go to a new file."""
        self._files.roll()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Write what is buffered and finish; returns all files."""
        self._closing = True
        self.flush()
        return self._files.close()

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """None: the files of a table without keys are its changelog."""
        return ()

    def abort(self) -> None:
        """Give up and delete the files."""
        self._buffer = []
        self._files.abort()


class CompanionFiles:
    """Writes rows of one bucket, with the interface of `RollingFiles`."""

    def __init__(
        self,
        plain: RollingFiles,
        columns: Sequence[str],
        companions: Sequence[tuple[list[str], RollingFiles]],
        step: int,
    ) -> None:
        """Open nothing yet.

        Args:
            plain: the files of the columns that have none of their own.
            columns: these columns, in order.
            companions: the other columns with their files.
            step: how many rows are written before sizes are looked at.
        """
        self._plain = plain
        self._columns = list(columns)
        self._companions = companions
        self._step = step
        self._finished: list[DataFileMeta] = []

    @property
    def is_open(self) -> bool:
        """Whether a file is open now."""
        return self._plain.is_open

    def write(self, rows: pa.Table) -> None:
        """Write rows, rolling where the file of the other columns is full."""
        position = 0
        while position < rows.num_rows:
            count = self._plain.write_some(rows.select(self._columns).slice(position, self._step))
            for names, files in self._companions:
                files.write(rows.select(names).slice(position, count))
            position += count
            if not self._plain.is_open:
                self._collect()

    def flush(self) -> None:
        """Write what the open file still keeps in memory."""
        self._plain.flush()

    def roll(self) -> None:
        """Finish the open files; the next row opens others."""
        self._plain.roll()
        self._collect()

    def _collect(self) -> None:
        """Finish the files alongside the finished one, and note all in the order that row ids need."""
        self._finished += self._plain.take()
        for _, files in self._companions:
            files.roll()
            self._finished += files.take()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the open files and return all: a file, then its companion files, then the next file."""
        self.roll()
        return tuple(self._finished)

    def abort(self) -> None:
        """Delete all files of this writer."""
        for files in (self._plain, *(files for _, files in self._companions)):
            files.abort()


_FLUSH_BYTES = 64 << 20
"""Rows that the file format may keep for its row groups while the buffer is full."""


class KeyValueWriter:
    """Writes one (partition, bucket) of a primary-key table."""

    def __init__(
        self,
        spec: DataFileSpec,
        engine: MergeEngine,
        open_files: Callable[[], RollingFiles],
        *,
        first_sequence: int,
        end_sequence: int,
        open_changelog: Callable[[], RollingFiles] | None = None,
        taken_by: MergeEngine | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            spec: how files are written.
            engine: merges rows of equal key.
            open_files: makes the rolling files of one flush.
            first_sequence: sequence number of the first row.
            end_sequence: sequence numbers stay below this, because the next ones belong to another task.
            open_changelog: makes the changelog files of one flush; None where incoming rows are no changelog.
            taken_by: merges each -U and -D row alone, to tell whether the compaction of the write will take it; None
                where none follows.
        """
        self._taken_by = taken_by
        self._spec = spec
        self._engine = engine
        self._open_files = open_files
        self._open_changelog = open_changelog
        self._next_sequence = first_sequence
        self._end_sequence = end_sequence
        self._rows: list[pa.Table] = []
        self._kinds: list[npt.NDArray[np.int8] | None] = []
        self._flushed: list[RollingFiles] = []
        self._files: list[DataFileMeta] = []
        self._changelog: list[DataFileMeta] = []
        self.buffered_bytes = 0

    @property
    def is_open(self) -> bool:
        """Never: a flush finishes its files."""
        return False

    def write(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows of this bucket, in the order of their arrival.

        Args:
            rows: the table's columns.
            kinds: row kind of each row; None when all are inserts.
        """
        self._rows.append(rows)
        self._kinds.append(kinds)
        self.buffered_bytes += rows.nbytes + 9 * rows.num_rows

    def flush(self) -> None:
        """Sort and merge what is buffered and write it as level-0 files; the rows before merging are the changelog."""
        if not self._rows:
            return
        rows = self._take_buffer()
        files = self._opened(self._open_files)
        changelog = None if self._open_changelog is None else self._opened(self._open_changelog)
        unflushed = 0
        for piece in key_pieces(rows, self._engine.keys):
            part = piece
            if changelog is not None:
                part = _sorted(part, self._engine)
                changelog.write(physical_rows(part, self._spec))
            merged = self._engine.merge(part, drop_deletes=False, columns=None)
            if self._taken_by is not None:
                retracts = is_retract(whole_column(merged, VALUE_KIND.name).to_numpy())
                self._taken_by.merge(merged.filter(pa.array(retracts)), drop_deletes=False)
            files.write(physical_rows(merged, self._spec))
            size = merged.nbytes
            is_copy = merged is not piece
            del part, piece, merged
            note_freed(size)  # what a piece leaves would add to the rows that wait for their row group
            unflushed += size
            if unflushed >= _FLUSH_BYTES and is_copy:
                files.flush()
                unflushed = 0
        flushed = rows.nbytes
        del rows
        if changelog is not None:
            self._changelog.extend(changelog.close())
        self._files.extend(files.close())
        note_freed(flushed)

    def _opened(self, make: Callable[[], RollingFiles]) -> RollingFiles:
        files = make()
        self._flushed.append(files)
        return files

    def _take_buffer(self) -> pa.Table:
        """All buffered rows as key-value rows; the buffer is empty afterwards."""
        rows = pa.concat_tables(self._rows)
        count = rows.num_rows
        if self._next_sequence + count > self._end_sequence:
            raise PaimonError(
                f"A task has no sequence numbers left: it may give {self._end_sequence} at most, but needs "
                f"{self._next_sequence + count}. Write with more tasks, or shuffle by bucket (PaimonTable does)."
            )
        kinds = np.full(count, RowKind.INSERT, dtype=np.int8)
        start = 0
        for part, given in zip(self._rows, self._kinds, strict=True):
            if given is not None:
                kinds[start : start + part.num_rows] = given
            start += part.num_rows
        sequences = np.arange(self._next_sequence, self._next_sequence + count, dtype=np.int64)
        self._next_sequence += count
        self._rows, self._kinds, self.buffered_bytes = [], [], 0
        rows = rows.append_column(to_arrow_field(SEQUENCE_NUMBER), [pa.array(sequences)])
        return rows.append_column(to_arrow_field(VALUE_KIND), [pa.array(kinds)])

    def release_file(self) -> None:
        """Nothing is open between flushes."""

    def close(self) -> tuple[DataFileMeta, ...]:
        """Write what is buffered; returns all files."""
        self.flush()
        return tuple(self._files)

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """The changelog files of the rows written so far."""
        return tuple(self._changelog)

    def abort(self) -> None:
        """Give up and delete the files."""
        self._rows, self._kinds = [], []
        for files in self._flushed:
            files.abort()


def _sorted(rows: pa.Table, engine: MergeEngine) -> pa.Table:
    """Key-value rows as Java's write buffer gives them out: by key, then by what decides which of them is newer."""
    order = engine.layout.sort(rows).order
    if bool((order[1:] > order[:-1]).all()):
        return rows
    columns = [take_rows(whole_column(rows, name), order) for name in rows.column_names]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def physical_rows(rows: pa.Table, spec: DataFileSpec) -> pa.Table:
    """Key-value rows as the columns of a data file; no value is copied.

    Args:
        rows: value columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``.
        spec: names and orders the columns of the file.
    """
    sources = {f.name: spec.value_name(f.name) for f in spec.key_fields}
    sources |= {f.name: f.name for f in (SEQUENCE_NUMBER, VALUE_KIND, *spec.value_fields)}
    columns = [rows.column(sources[f.name]) for f in spec.physical_fields]
    return pa.Table.from_arrays(columns, schema=spec.arrow_schema)
