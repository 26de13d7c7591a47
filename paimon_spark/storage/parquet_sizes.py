"""Decoded sizes of the columns of a Parquet file's row groups, estimated before they are decoded.

Page sizes do not help: a value of a megabyte that every row repeats is a dictionary of one entry and a few bytes of
indices. Writers since parquet-format 2.10 record the bytes of a column's strings in ``ColumnMetaData.size_statistics``.
Where they do not, the strings are counted by their dictionary, without making them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES
from paimon_spark.storage.parquet_footer import Struct, decode

_ROW_GROUPS: Final = 4
"""Field of FileMetaData."""
_COLUMNS, _META_DATA, _SIZE_STATISTICS, _UNENCODED_BYTES = 1, 3, 16, 1
"""Fields of RowGroup, ColumnChunk, ColumnMetaData and SizeStatistics."""
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "INT96": 12}
_DELTAS: Final = frozenset({"DELTA_BYTE_ARRAY"})
"""Encodings that hold less than the bytes of the strings."""
_OFFSET_BYTES: Final = 4
_DECIMAL_BYTES: Final = 16
_COUNT_ROWS: Final = 8_192
_LEAST_BUFFER, _LEAST_REMOTE_BUFFER, _MOST_BUFFER = 16 << 10, 256 << 10, 1 << 20
"""Bytes of a column chunk that are read at a time."""

DictionaryFile = Callable[[list[str]], pq.ParquetFile]
"""Opens the file again so that some leaf columns come as dictionaries."""


def decoded_bytes(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], enough: int, reopened: DictionaryFile
) -> list[int]:
    """Bytes of some columns of row groups as Arrow arrays.

    Args:
        file: the open file.
        groups: row groups.
        columns: wanted columns, or paths of leaves.
        enough: a row group that is surely smaller is not examined further.
        reopened: see `DictionaryFile`.

    Returns:
        For each group its bytes, or a bound of at most `enough`.

    Raises:
        ValueError: the footer cannot be understood.
    """
    metadata, wanted = file.metadata, frozenset(columns)
    leaves = [at for at in range(metadata.num_columns) if _wanted(metadata.schema.column(at).path, wanted)]
    found: list[int] = []
    footer: Struct | None = None
    for group in groups:
        chunks = [metadata.row_group(group).column(at) for at in leaves]
        known = sum(_fixed_bytes(c, metadata.schema.column(at)) for c, at in zip(chunks, leaves, strict=True))
        texts = [(at, c) for at, c in zip(leaves, chunks, strict=True) if c.physical_type == "BYTE_ARRAY"]
        bound = known + sum(c.num_values * c.total_uncompressed_size for _, c in texts)
        if not texts or bound <= enough:
            found.append(bound)
            continue
        footer = footer or decoded_footer(metadata)
        sizes = {at: _unencoded_bytes(footer, group, at, c) for at, c in texts}
        unknown = [metadata.schema.column(at).path for at, size in sizes.items() if size is None]
        known += sum(size or 0 for size in sizes.values())
        found.append(known + (_counted(reopened(unknown), group, unknown) if unknown else 0))
    return found


def stream_buffer(
    metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str], batch_bytes: int, *, remote: bool
) -> int:
    """How many bytes of each column chunk are read at a time; 0: all, where that takes less than a batch may.

    pyarrow otherwise keeps the stored bytes of a whole row group, and those of all row groups of a remote file.

    Args:
        metadata: the footer.
        groups: row groups that are read.
        columns: wanted columns, or paths of leaves.
        batch_bytes: the most that a batch may take in memory.
        remote: whether each read is a request to a store: then only reads within a budget do without read-ahead.
    """
    wanted = frozenset(columns)
    leaves = [at for at in range(metadata.num_columns) if _wanted(metadata.schema.column(at).path, wanted)]
    stored = [
        sum(metadata.row_group(group).column(at).total_compressed_size for at in leaves)
        if len(leaves) < metadata.num_columns
        else metadata.row_group(group).total_byte_size
        for group in groups
    ]
    held = sum(stored) if remote else max(stored, default=0)
    if held <= batch_bytes or (remote and batch_bytes >= DEFAULT_BATCH_BYTES):
        return 0
    least = _LEAST_REMOTE_BUFFER if remote else _LEAST_BUFFER
    return min(max(least, batch_bytes // (2 * len(leaves))), _MOST_BUFFER)


def chunks_in_order(
    metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str], *, side_by_side: bool
) -> list[list[tuple[int, int]]]:
    """Where the column chunks of row groups begin and end, in the order in which pyarrow reads them.

    Args:
        metadata: the footer.
        groups: row groups that are read.
        columns: wanted columns, or paths of leaves.
        side_by_side: columns are read piece by piece: then each has a list of its own.
    """
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    leaves = [at for column in columns for at, path in enumerate(paths) if _wanted(path, frozenset([column]))]
    by_leaf = [[_position(metadata.row_group(group).column(at)) for group in groups] for at in leaves]
    return by_leaf if side_by_side else [[position for group in zip(*by_leaf, strict=True) for position in group]]


def _position(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    dictionary = chunk.dictionary_page_offset
    start = chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset)
    return start, start + chunk.total_compressed_size


def _wanted(path: str, columns: Set[str]) -> bool:
    """Whether a leaf is one of the columns, or below one."""
    return path in columns or any(path[:at] in columns for at, sign in enumerate(path) if sign == ".")


def _fixed_bytes(chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema) -> int:
    """Bytes of a column without those of its strings."""
    if chunk.physical_type == "BYTE_ARRAY":
        width = _OFFSET_BYTES
    elif chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = max(int(column.length), _DECIMAL_BYTES)
    else:
        width = _DECIMAL_BYTES if column.logical_type.type == "DECIMAL" else _WIDTHS.get(chunk.physical_type, 16)
    return int(chunk.num_values) * width


def decoded_footer(metadata: pq.FileMetaData) -> Struct:
    """The footer as a Thrift struct; the file is not asked."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    return decode(data[-8 - length : -8])


def _unencoded_bytes(footer: Struct, group: int, leaf: int, column: pq.ColumnChunkMetaData) -> int | None:
    chunk = footer[_ROW_GROUPS][1].items[group][_COLUMNS][1].items[leaf][_META_DATA][1]
    if not column.has_dictionary_page and not _DELTAS.intersection(column.encodings):
        return int(column.total_uncompressed_size)
    if _SIZE_STATISTICS not in chunk:
        return None
    value = chunk[_SIZE_STATISTICS][1].get(_UNENCODED_BYTES)
    return None if value is None else max(0, int(value[1]))


def _counted(file: pq.ParquetFile, group: int, leaves: list[str]) -> int:
    """Count the bytes of strings that are read as dictionaries."""
    batches = file.iter_batches(_COUNT_ROWS, [group], leaves, use_threads=False)
    return sum(_string_bytes(column) for batch in batches for column in batch.columns)


def _string_bytes(array: pa.Array) -> int:
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_string_bytes, array.flatten()))
    if pa.types.is_map(kind):
        return _string_bytes(array.keys) + _string_bytes(array.items)
    if pa.types.is_list(kind):
        return _string_bytes(array.flatten())
    return int(array.nbytes)


def group_batches(
    file: pq.ParquetFile, group: int, columns: list[str], rows: int, most_bytes: int, *, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    """The batches of one row group, with fewer rows once they are larger than estimated.

    Args:
        file: the open file.
        group: the row group.
        columns: columns, or paths of leaves.
        rows: rows of a batch at first.
        most_bytes: a batch of twice this size is followed by smaller ones.
        use_threads: decode columns in parallel.
    """
    done, total = 0, file.metadata.row_group(group).num_rows
    while done < total:
        before = 0
        for batch in file.iter_batches(rows, [group], columns, use_threads=use_threads):
            start, before = before, before + batch.num_rows
            if before <= done:
                continue
            size, count = batch.nbytes, batch.num_rows
            yield batch.slice(done - start) if start < done else batch
            done = before
            del batch
            if size > 2 * most_bytes and count > 1 and done < total:
                rows = max(1, min(rows - 1, count * most_bytes // size))
                break
        else:
            return
