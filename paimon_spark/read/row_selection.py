"""Which rows of a data file are read: those that no deletion vector deletes, and that an index does not rule out.

A selection is one bit for each row of the file, by its position. Planning puts only the place of a vector into a split;
the task loads it when it opens the file, and masks the batches of whatever row groups it reads
(Java: ``ApplyDeletionVectorReader``, ``ApplyBitmapIndexRecordReader``).

Positions of rows in their files, as tasks read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.deletion_vector import Positions
from paimon_spark.spec.predicate import Predicate, matching
from paimon_spark.storage.formats import open_data_file
from paimon_spark.table.deletion_vectors import deleted_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.file_index.answers import Answer
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows of a file that are read."""

    kept: pa.BooleanArray
    """One value for each row of the file, by its position; no nulls."""

    @classmethod
    def of_deleted(cls, bits: npt.NDArray[np.uint8], rows: int) -> RowSelection:
        """Keep the rows whose bits are not set (lowest bit of a byte first)."""
        return cls(_booleans(np.invert(bits), rows))

    def __and__(self, other: RowSelection) -> RowSelection:
        """The rows that both keep."""
        return RowSelection(pc.and_(self.kept, other.kept))

    def of_groups(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> pa.BooleanArray:
        """What is kept of some row groups, one after the other, as their rows are read.

        Args:
            group_rows: rows of each row group of the file.
            groups: those that are read, in their order; None is all.
        """
        if groups is None:
            return self.kept
        ends = np.cumsum(group_rows).tolist()
        parts = [self.kept.slice(ends[group] - group_rows[group], group_rows[group]) for group in groups]
        return pa.concat_arrays(parts) if parts else self.kept.slice(0, 0)

    def without_empty_groups(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> list[int]:
        """Leave out the row groups of which no row is kept."""
        chosen = range(len(group_rows)) if groups is None else groups
        return [group for group in chosen if self.of_groups(group_rows, [group]).true_count]

    def positions(self, group_rows: Sequence[int], groups: Sequence[int] | None) -> Positions:
        """The positions in the file of the rows that are kept of some row groups, in the order of reading."""
        ends = np.cumsum(group_rows).tolist()
        chosen = range(len(group_rows)) if groups is None else groups
        parts = [
            np.flatnonzero(self.of_groups(group_rows, [group]).to_numpy(zero_copy_only=False))
            + (ends[group] - group_rows[group])
            for group in chosen
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])


def _booleans(bits: npt.NDArray[np.uint8], rows: int) -> pa.BooleanArray:
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(np.ascontiguousarray(bits))])


def selected_rows(file_io: FileIO, file: SplitFile, rows: int, by_index: Answer = True) -> RowSelection | None:
    """Return which rows of a file are read; None is all of them. Runs in tasks, once per file.

    Raises:
        CorruptTableError: the file's deletion vector is missing or damaged, or an index is over other rows.
    """
    found = None
    if not isinstance(by_index, bool):
        if rows != file.row_count:
            raise CorruptTableError(f"The file has {rows} rows, and its index {file.row_count}.", path=file.path)
        found = RowSelection(_booleans(by_index, rows))
    if file.deletion_vector is None:
        return found
    kept = RowSelection.of_deleted(deleted_rows(file_io, file.deletion_vector, rows), rows)
    return kept if found is None else found & kept


def masked(
    batches: Iterable[pa.RecordBatch], kept: pa.BooleanArray, predicate: Predicate | None, *, path: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are kept.

    Args:
        batches: the rows of some row groups, complete and in order.
        kept: which of these rows stay (`RowSelection.of_groups`).
        predicate: rows for which it is not true may be left out as well.
        path: of the file, for messages.

    Raises:
        CorruptTableError: there are not as many rows as the file's footer says.
    """
    position = 0
    for batch in batches:
        mask = kept.slice(position, batch.num_rows)
        position += batch.num_rows
        if len(mask) < batch.num_rows:
            break
        if mask.true_count < batch.num_rows:
            batch = batch.filter(mask)
        if predicate is not None and batch.num_rows:
            batch = matching(predicate, batch)
        if batch.num_rows:
            yield batch
    if position != len(kept):
        raise CorruptTableError(
            f"The data file gives {position} rows or more where its footer says {len(kept)}.", path=path
        )


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
