"""Data files with companion files: for each BLOB column, and for all VECTOR columns.

Equals Java's ``DedicatedFormatRollingFileWriter`` (docs/internals/format.md §12): when the file of the other columns is
full, so are its companion files, which roll by their own size besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.write.rolling import RollingFiles


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
