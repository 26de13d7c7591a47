"""BLOB columns of data-evolution tables: each value comes from the newest file that holds it. Runs in tasks.

Equals Java's ``BlobFallbackRecordReader`` (docs/internals/format.md §12): blob files of one column hold parts of the
rows of a group, and a newer file may leave a value to an older one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.row_selection import selected_rows
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.storage.blob_format import PLACEHOLDER, BlobReader, Longs, portions
from paimon_spark.storage.blob_locations import descriptors
from paimon_spark.storage.formats import open_blob_file

if TYPE_CHECKING:
    from paimon_spark.read.file_read import FileRead
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField

_NOWHERE = -1


def blob_batches(
    reader: FileRead, field: DataField, group: SplitFile, files: Sequence[SplitFile]
) -> Iterator[pa.RecordBatch]:
    """Yield the values of a BLOB column for the rows of a group, in their order.

    Args:
        reader: how files are read.
        field: the column, as the read names it.
        group: a file that holds all rows of the group, with the deletion vector of the group.
        files: the blob files of the column.

    Raises:
        CorruptTableError: a file is missing or damaged, or no file holds the value of a row.
    """
    assert group.first_row_id is not None
    rows, io = group.row_count, reader.table.file_io
    source, position, lengths = (np.full(rows, _NOWHERE, np.int64) for _ in range(3))
    with ExitStack() as opened:
        readers: list[BlobReader] = []
        for file in sorted(files, key=lambda file: -file.max_seq):
            blob = opened.enter_context(open_blob_file(io, file.path, file.size, file.row_count))
            start = (file.first_row_id or 0) - group.first_row_id
            if start < 0 or start + blob.num_rows > rows:
                raise CorruptTableError(
                    f"Blob file {file.path} holds {blob.num_rows} rows, which are not those of its group.",
                    path=file.path,
                )
            covered = slice(start, start + blob.num_rows)
            new = (source[covered] == _NOWHERE) | (lengths[covered] == PLACEHOLDER)
            source[covered][new] = len(readers)
            position[covered][new] = np.arange(blob.num_rows)[new]
            lengths[covered][new] = blob.lengths[new]
            readers.append(blob)
        if (source == _NOWHERE).any():
            raise CorruptTableError(
                f"No blob file holds column '{field.name}' of some rows of {group.path}.", path=group.path
            )
        selection = selected_rows(io, group, rows)
        if selection is not None:
            kept = selection.kept.to_numpy(zero_copy_only=False)
            source, position, lengths = source[kept], position[kept], lengths[kept]
        as_descriptor = bool(reader.table.options.value("blob-as-descriptor"))
        schema = to_arrow_schema([field])
        for part in portions(lengths, reader.batch_rows, reader.batch_bytes):
            values = _values(readers, source[part], position[part], field, as_descriptor)
            yield pa.RecordBatch.from_arrays([values], schema=schema)


def _values(
    readers: Sequence[BlobReader], source: Longs, position: Longs, field: DataField, as_descriptor: bool
) -> pa.Array:
    """The values of some rows, from one reader after the other."""
    parts, order = [], []
    for number in np.unique(source).tolist():
        at = np.flatnonzero(source == number)
        reader = readers[number]
        wanted = position[at]
        parts.append(descriptors(reader, wanted, field) if as_descriptor else reader.values(wanted, field))
        order.append(at)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))
