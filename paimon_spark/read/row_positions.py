"""Positions of rows in their files, as tasks read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.read.row_selection import selected_rows
from paimon_spark.storage.formats import open_data_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable


class RowPositions:
    """The positions in a file of the rows of one of its slices, in the order in which they are read."""

    def __init__(self, table: FileStoreTable, file: SplitFile) -> None:
        """Look up where the slice begins and what is deleted of it; opens the file if need be."""
        self._next = 0
        self._kept: npt.NDArray[np.int64] | None = None
        if file.deletion_vector is None and (file.row_groups is None or file.row_groups[0] == 0):
            return
        with open_data_file(table.file_io, file.path, file.format, file.size, rows=file.row_count) as reader:
            part, parts = file.row_groups or (0, 1)
            rows, count = reader.row_group_rows, reader.num_row_groups
            first = count * part // parts
            selection = selected_rows(table.file_io, file, reader.num_rows)
            if selection is None:
                self._next = sum(rows[:first])
            else:
                self._kept = selection.positions(rows, range(first, count * (part + 1) // parts))

    def take(self, rows: int) -> npt.NDArray[np.int64]:
        """The positions of the next rows."""
        start = self._next
        self._next += rows
        return np.arange(start, self._next) if self._kept is None else self._kept[start : self._next]
