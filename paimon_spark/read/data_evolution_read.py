"""Rows of data-evolution tables: their columns are put together from the files of a group. Runs in tasks.

Equals Java's ``DataEvolutionSplitRead`` and ``DataEvolutionFileReader`` (docs/internals/format.md §12). All files of a
group but blobs hold the same rows in the same order, so their batches are joined by position.

BLOB columns of data-evolution tables: each value comes from the newest file that holds it. Runs in tasks.

Equals Java's ``BlobFallbackRecordReader`` (docs/internals/format.md §12): blob files of one column hold parts of the
rows of a group, and a newer file may leave a value to an older one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.merge.stream import block_bytes
from paimon_spark.read.file_read import FileRead, masked, selected_rows
from paimon_spark.read.sections import columns_of, groups_of_rows
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.file_names import is_blob_file, is_vector_file
from paimon_spark.storage.blob_descriptor import Longs
from paimon_spark.storage.blob_format import PLACEHOLDER, BlobReader, descriptors, portions
from paimon_spark.storage.formats import open_blob_file

if TYPE_CHECKING:
    from paimon_spark.read.split import SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate

_NOWHERE = -1


def read_files(reader: FileRead, files: Sequence[SplitFile], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files of a bucket of a table without primary key, in order; with data evolution put together.

    Arguments and errors as of `read_data_evolution`.
    """
    if reader.table.schema.kind.has_data_evolution:
        for _, batches in read_data_evolution(reader, files, predicate):
            yield from batches
    else:
        yield from reader.run(files, predicate)


def read_data_evolution(
    reader: FileRead, files: Sequence[SplitFile], predicate: Predicate | None
) -> Iterator[tuple[SplitFile, Iterator[pa.RecordBatch]]]:
    """Yield, for each group of files, its newest file and the rows of the group in order.

    Args:
        reader: how files are read, into which columns.
        files: of one split.
        predicate: rows for which it is not true may be left out.

    Raises:
        CorruptTableError: a file is missing or damaged, has no row ids, or does not hold the rows of its group.
    """
    for group in groups_of_rows(files):
        newest = group[0]
        if len(group) == 1:
            yield newest, reader.batches(newest, predicate)
        else:
            yield newest, _joined(replace(reader, passes_over=frozenset()), group)


def _joined(reader: FileRead, group: Sequence[SplitFile]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a group, each column from the newest file that holds it; null where none does."""
    holders = {field.name: [file for file in group if _holds(reader, file, field)] for field in reader.fields}
    held = [field for field in reader.fields if holders[field.name] and field.name not in reader.constants]
    reader = _sharing(reader, len({holders[field.name][0] for field in held}))
    sources: dict[SplitFile, list[DataField]] = {group[0]: []} if reader.special else {}
    streams = []
    for field in held:
        files = holders[field.name]
        if is_blob_file(files[0].name):
            streams.append(blob_batches(reader, field, group[0], files))
        elif is_vector_file(files[0].name):
            streams.append(_vectors(reader, field, group[0], files))
        else:
            sources.setdefault(files[0], []).append(field)
    for file, fields in (sources or ({} if streams else {group[0]: []})).items():
        _check_range(group[0], file)
        special = reader.special if file is group[0] else ()
        streams.append(replace(reader, fields=tuple(fields), special=special, constants={}).batches(file, None))
    wanted = (*reader.fields, *reader.special)
    schema = to_arrow_schema(wanted)
    for batches in zip_batches(streams, group[0].path):
        found = {name: batch.column(name) for batch in batches for name in batch.schema.names}
        rows = batches[0].num_rows
        arrays = [_column(reader, field, found, rows) for field in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batches[0].select([])


def _sharing(reader: FileRead, streams: int) -> FileRead:
    """A reader for so many files at once: their batches share ``read.merge.memory-budget``."""
    budget = int(reader.table.options.value("read.merge.memory-budget"))
    return replace(reader, batch_bytes=min(reader.batch_bytes, block_bytes(budget, streams)))


def _vectors(
    reader: FileRead, field: DataField, group: SplitFile, files: Sequence[SplitFile]
) -> Iterator[pa.RecordBatch]:
    """Yield a column that lies in files of its own, each of which holds part of the rows."""
    end = start = group.first_row_id or 0
    parts = []
    # a newer file holds all rows of a group as it was then; neighbours that were compacted have files of their own
    for file in sorted(files, key=lambda file: (file.first_row_id or 0, -file.max_seq)):
        if file.first_row_id == end:
            parts.append(file)
            end += file.row_count
    if end != start + group.row_count:
        raise CorruptTableError(
            f"The files of column '{field.name}' do not hold the rows of {group.path}.", path=group.path
        )
    own = replace(reader, fields=(field,), special=(), constants={})
    batches = own.run([file._replace(deletion_vector=None) for file in parts], None)
    selection = selected_rows(reader.table.file_io, group, group.row_count)
    return batches if selection is None else masked(batches, selection.kept, None, path=group.path)


def _column(reader: FileRead, field: DataField, found: Mapping[str, pa.Array], rows: int) -> pa.Array:
    if field.name in reader.constants:
        return pa.repeat(reader.constants[field.name], rows)
    return found[field.name] if field.name in found else pa.nulls(rows, to_arrow_type(field.type))


def _holds(reader: FileRead, file: SplitFile, field: DataField) -> bool:
    columns = columns_of(reader.table.schemas.get(file.schema_id), file.write_cols)
    return any(column.id == field.id for column in columns)


def _check_range(newest: SplitFile, file: SplitFile) -> None:
    if (file.first_row_id, file.row_count) != (newest.first_row_id, newest.row_count):
        raise CorruptTableError(
            f"Data files {newest.path} and {file.path} hold columns of the same rows, but not the same range of row "
            f"ids: {newest.row_count} from {newest.first_row_id} on, {file.row_count} from {file.first_row_id} on.",
            path=file.path,
        )


def zip_batches(streams: Sequence[Iterator[pa.RecordBatch]], path: str) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches of the same rows from streams of the same rows, which may be cut at other places.

    Args:
        streams: at least one.
        path: of a file, for the error.

    Raises:
        CorruptTableError: one stream has fewer rows than another.
    """
    pending: list[pa.RecordBatch | None] = [None] * len(streams)
    while True:
        for i, stream in enumerate(streams):
            while pending[i] is None or not pending[i].num_rows:  # type: ignore[union-attr]
                pending[i] = next(stream, None)
                if pending[i] is None:
                    break
        ended = [batch is None for batch in pending]
        if all(ended):
            return
        if any(ended):
            raise CorruptTableError(f"A file that holds columns of the rows of {path} has fewer rows.", path=path)
        batches = [batch for batch in pending if batch is not None]
        rows = min(batch.num_rows for batch in batches)
        yield [batch.slice(0, rows) for batch in batches]
        pending = [batch.slice(rows) for batch in batches]


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
