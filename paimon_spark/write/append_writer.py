"""The rows of one bucket of a table without primary key: buffered in Arrow, written into rolling files as they come.

Data files may have companion files, for each BLOB column and for all VECTOR columns. Equals Java's
``DedicatedFormatRollingFileWriter`` (docs/internals/format.md §12): when the file of the other columns is full, so are
its companion files, which roll by their own size besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.write.rolling import RollingFiles

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
