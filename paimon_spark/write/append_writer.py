"""The rows of one bucket of a table without primary key: buffered in Arrow, written into rolling files as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.write.companion_files import CompanionFiles
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
