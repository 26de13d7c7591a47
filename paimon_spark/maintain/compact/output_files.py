"""Files that a compaction writes into one bucket: pieces of rows of any size are put together first.

Memory is bounded by ``read.merge.memory-budget`` and what the file format keeps of an open file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.spec.manifest import DataFileMeta, FileSource
from paimon_spark.write.key_value_writer import physical_rows
from paimon_spark.write.rolling import RollingFiles

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.data_file_spec import DataFileSpec

_CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 16 << 20
_FLUSH_BYTES = 64 << 20
"""A row group, so that files of a small budget have smaller ones."""


class OutputFiles:
    """Rolling files of one kind, data or changelog; not for concurrent use."""

    def __init__(
        self,
        table: FileStoreTable,
        spec: DataFileSpec,
        directory: str,
        source: FileSource,
        *,
        first_sequence: int = 0,
    ) -> None:
        """Open nothing yet.

        Args:
            table: whose files they are.
            spec: how they are written.
            directory: the bucket's.
            source: what the metadata says of their making.
            first_sequence: without keys: sequence number of the first row.
        """
        self._spec = spec
        self._files = RollingFiles(
            table.file_io, spec, directory, spec.file_names(), next_sequence=first_sequence, source=source
        )
        budget = int(table.options.value("read.merge.memory-budget"))
        self._chunk_bytes, self._flush_bytes = min(_CHUNK_BYTES, budget // 8), min(_FLUSH_BYTES, budget // 4)
        self._parts: list[pa.Table] = []
        self._rows = self._bytes = self._unflushed = 0

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Take rows: the columns of the table, with keys also ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""
        if not rows.num_rows:
            return
        self._parts.append(pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _CHUNK_ROWS or self._bytes >= self._chunk_bytes:
            self._write_parts()

    def _write_parts(self) -> None:
        rows = pa.concat_tables(self._parts)
        self._parts, self._rows, self._bytes = [], 0, 0
        self._files.write(physical_rows(rows, self._spec) if self._spec.keyed else rows)
        self._unflushed += rows.nbytes
        if self._unflushed >= self._flush_bytes:
            self._files.flush()
            self._unflushed = 0

    def close(self) -> tuple[DataFileMeta, ...]:
        """Write what is left and return all files."""
        if self._parts:
            self._write_parts()
        return self._files.close()

    def abort(self) -> None:
        """Give up and delete the files."""
        self._parts = []
        self._files.abort()
