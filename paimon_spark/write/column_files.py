"""Files that hold some columns of rows that are there, in tables with data evolution.

Equals Java's ``DataEvolutionPaimonWriter``: the rows of a group get one new file with some columns, which holds them in
the order of their ids. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.rolling import RollingFiles

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable

_NO_LIMIT = 2**62


class ColumnFiles:
    """Writes the file of one group of rows."""

    def __init__(self, table: FileStoreTable, fields: Sequence[DataField], directory: str) -> None:
        """Open nothing yet.

        Args:
            table: with the options of the write.
            fields: columns to write, no BLOBs.
            directory: of the bucket.
        """
        spec = data_file_spec(table.schema, limit_rows=False, columns=tuple(fields))
        spec = replace(spec, target_size_bytes=_NO_LIMIT)
        self._files = RollingFiles(table.file_io, spec, directory, spec.file_names())
        self.write = self._files.write
        self.abort = self._files.abort

    def close(self, first_row_id: int) -> tuple[DataFileMeta, ...]:
        """Finish the file; its rows have the ids from `first_row_id` on."""
        return tuple(replace(file, first_row_id=first_row_id) for file in self._files.close())
