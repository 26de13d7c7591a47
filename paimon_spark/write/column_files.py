"""Files that hold some columns of rows that are there, in tables with data evolution.

Equals Java's ``DataEvolutionPaimonWriter``: the rows of a group get one new file with some columns, which holds them in
the order of their ids; BLOB and VECTOR columns go to files of their own. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.storage.blob_format import IS_PLACEHOLDER
from paimon_spark.write.blob_input import with_input
from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.rolling import RollingFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable

_NO_LIMIT = 2**62


class ColumnFiles:
    """Writes the files of one group of rows."""

    def __init__(self, table: FileStoreTable, fields: Sequence[DataField], directory: str) -> None:
        """Open nothing yet.

        Args:
            table: with the options of the write.
            fields: columns to write.
            directory: of the bucket.
        """
        spec = with_input(data_file_spec(table.schema, limit_rows=False, columns=tuple(fields)), table)
        names = spec.file_names()
        plain = replace(spec, target_size_bytes=_NO_LIMIT, companions=())
        self._files: list[tuple[list[str], RollingFiles]] = []
        for part in (*([plain] if plain.physical_fields else []), *spec.companions):
            columns = [field.name for field in part.physical_fields]
            columns += [IS_PLACEHOLDER] if part.file_format == "blob" else []
            own = names.ending(part.extension)
            self._files.append((columns, RollingFiles(table.file_io, part, directory, own)))

    def write(self, rows: pa.Table) -> None:
        """Write rows of the group, in their order.

        Args:
            rows: the columns; with BLOBs also the column `IS_PLACEHOLDER`: whether the older files have the row's.
        """
        for columns, files in self._files:
            files.write(rows.select(columns))

    def close(self, first_row_id: int) -> tuple[DataFileMeta, ...]:
        """Finish the files; their rows have the ids from `first_row_id` on."""
        found = []
        for _, files in self._files:
            start = first_row_id
            for file in files.close():
                found.append(replace(file, first_row_id=start))
                start += file.row_count
        return tuple(found)

    def abort(self) -> None:
        """Delete the files."""
        for _, files in self._files:
            files.abort()
