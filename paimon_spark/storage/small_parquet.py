"""Small Parquet files, read whole, one after the other: what holds for files of one schema is found out once.

`parquet_format.ParquetReader` finds out for each file which parts of it are needed, which takes three times as long as
to decode fifty rows. Runs in tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.errors import CorruptTableError
from paimon_spark.storage.arrow_layout import ColumnPlan
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES
from paimon_spark.storage.read_ahead import check_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.storage.data_file import Source

_FIXED_BYTES: Final = 16
"""Bytes of a value in Arrow that has a fixed width, at the most."""
_TEXTS: Final = frozenset({"BYTE_ARRAY"})
"""Types of Parquet of which a page may hold a value once for many rows."""


class SmallParquetFiles:
    """Reads the same flat columns of many files."""

    def __init__(self, source: Source, fields: Sequence[DataField]) -> None:
        """Keep what is read.

        Args:
            source: the store.
            fields: columns as the files' own schema names and types them; none is nested.
        """
        self._source = source
        self._fields = fields
        self._schema: pq.ParquetSchema | None = None
        self._plan: ColumnPlan | None = None
        self._leaves: list[int] = []

    def read(self, path: str, size: int, rows: int) -> tuple[ColumnPlan, pa.Table] | None:
        """Return the columns of a file as it holds them, and how they become `fields`.

        Args:
            path: of the file.
            size: its bytes, as its manifest entry says.
            rows: its rows, as its manifest entry says.

        Returns:
            The same plan for neighbouring files of one schema. None where columns may not fit a batch, where the file
            has none of the columns, or times as INT96.

        Raises:
            CorruptTableError: the file has another size or number of rows, or a column of another kind.
            OSError: it cannot be read; pyarrow's errors where it is damaged.
        """
        data = self._source.read_bytes(path)
        check_size(len(data), size, path)
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True) as file:
            if file.metadata.num_rows != rows:
                raise CorruptTableError(f"The data file has {file.metadata.num_rows} rows, not {rows}", path=path)
            if self._schema is None or not file.schema.equals(self._schema):
                self._look_at(file, path)
            if self._plan is None or self._most_bytes(file.metadata) > DEFAULT_BATCH_BYTES:
                return None
            found = file.read(self._plan.sources, use_threads=False)
        if found.num_rows != rows:
            raise CorruptTableError(f"The data file gives {found.num_rows} rows, not {rows}", path=path)
        return self._plan, found

    def _look_at(self, file: pq.ParquetFile, path: str) -> None:
        self._schema = schema = file.schema
        plan = ColumnPlan.of(file.schema_arrow, self._fields, path)
        leaves = [schema.column(at) for at in range(len(schema))]
        positions = {leaf.path: at for at, leaf in enumerate(leaves)}
        self._leaves = sorted(positions.get(name, -1) for name in plan.sources)
        kinds = {leaves[at].physical_type for at in self._leaves}
        is_usable = bool(self._leaves) and self._leaves[0] >= 0 and "INT96" not in kinds
        is_usable = is_usable and len(positions) == len(leaves)  # else a struct's field is named as a column
        self._plan = plan if is_usable else None

    def _most_bytes(self, metadata: pq.FileMetaData) -> int:
        """Return more bytes than the columns can take: as if each value of a text held all bytes of its column."""
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        chunks = [(group.num_rows, group.column(leaf)) for group in groups for leaf in self._leaves]
        return sum(
            rows * (_FIXED_BYTES + (chunk.total_uncompressed_size if chunk.physical_type in _TEXTS else 0))
            for rows, chunk in chunks
        )
