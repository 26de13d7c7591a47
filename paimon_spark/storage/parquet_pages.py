"""Decoding some pages of a Parquet row group: those in which, by the page index, a row can match a predicate.

pyarrow decodes whole column chunks. So the wanted pages of columns are put into small Parquet files in memory, as they
are in the file, which pyarrow decodes with all its checks: one file for the columns whose pages hold the same rows. A
row found by its key then costs some pages of 20,000 rows (Java: ``ParquetFileReader.readNextFilteredRowGroup``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.storage.parquet_page_index import (
    DATA_PAGE,
    DICTIONARY_PAGE,
    META_DATA,
    PATH,
    STORED_BYTES,
    ColumnPages,
    Mask,
    RowRanges,
    index_locations,
    matching_rows,
)
from paimon_spark.storage.parquet_sizes import decoded_bytes, decoded_footer
from paimon_spark.storage.sized_object import SizedFile
from paimon_spark.storage.store_options import redact
from paimon_spark.storage.thrift_compact import I32, I64, LIST, STRUCT, Struct, TypedList, encode

_MAGIC: Final = b"PAR1"
_SCHEMA, _ROWS, _ROW_GROUPS, _CREATED_BY, _VERSION = 2, 3, 4, 6, 1
"""Fields of FileMetaData."""
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS = 1, 2, 3
"""Fields of RowGroup."""
_VALUES, _SIZE_STATISTICS, _UNENCODED_BYTES, _KEPT = 5, 16, 1, (1, 2, 3, 4, 6)
"""Fields of ColumnMetaData and SizeStatistics; the last are those that stay as they are."""
_NAME, _NUM_CHILDREN = 4, 5
"""Fields of SchemaElement."""

_LEAST_ROWS: Final = 16_384
"""Smaller row groups are decoded whole."""
_LEAST_PART: Final = 2
"""At most this part of a row group's rows may lie in pages that may match; else it is decoded whole."""
_MOST_CHUNKS: Final = 5_000
"""Footers of more column chunks than this are not decoded once more: 100 take a millisecond."""
_HOLE_BYTES: Final = 64 << 10
"""Wanted ranges of a file with no more than this between them are read at once."""
_REMOTE_HOLE_BYTES: Final = 1 << 20
"""The same in a store, where each request takes its time."""

_AHEAD_BYTES: Final = 32 << 20
"""Bytes of pages that are read at once in a store."""

Range = tuple[int, int]
"""Offset and bytes."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The page index of some columns of a row group, as bytes."""

    chunks: Mapping[str, Struct]
    """The ColumnChunk of each column."""
    offsets: Mapping[str, bytes]
    """The OffsetIndex of each column."""
    bounds: Mapping[str, bytes]
    """The ColumnIndex of the columns of the predicate, where they have one."""

    def pages(self, name: str, rows: int) -> ColumnPages | None:
        return ColumnPages.of(self.chunks[name], self.offsets[name], rows)


class PageReader:
    """Reads pages of one open Parquet file."""

    def __init__(self, source: pa.NativeFile, file: pq.ParquetFile, path: str) -> None:
        self._source = source
        self._metadata = file.metadata
        self._schema = file.schema_arrow
        self._path = path
        self._footer: Struct | None = None

    def batches(
        self,
        groups: list[int],
        columns: list[str],
        predicate: Predicate,
        most: tuple[int, int],
        whole: Callable[[list[int]], Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups without pages that cannot match; errors as of `matching`.

        Args:
            groups: row groups of the file, in the order of reading.
            columns: columns, or paths of leaves.
            predicate: over columns of the file.
            most: rows and bytes of a batch.
            whole: decodes row groups as a whole.
        """
        if not self._has_pages({*columns, *fields(predicate).intersection(self._schema.names)}):
            yield from whole(groups)
            return
        rows, size = most
        for group in groups:
            table = self.matching(group, columns, predicate, size)
            yield from whole([group]) if table is None else table.to_batches(max_chunksize=rows)

    def matching(self, group: int, columns: Sequence[str], predicate: Predicate, batch_bytes: int) -> pa.Table | None:
        """Return the rows of the pages that may match; None where the whole row group is to be decoded.

        That is where most pages may match, the pages are larger in memory than a batch may be, a column is nested, or
        the file has no page index.

        Args:
            group: the row group.
            columns: top-level columns of the file.
            predicate: over columns of the file.
            batch_bytes: most bytes of the rows in memory.

        Raises:
            CorruptTableError: pages hold other rows than their index says.
            ValueError: the index is damaged.
            pa.ArrowException: a page is damaged.
        """
        asked = fields(predicate).intersection(self._schema.names)
        rows = self._metadata.row_group(group).num_rows
        if rows < _LEAST_ROWS or not asked:
            return None
        index = self._index(group, {*columns, *asked}, asked)
        pages, wanted = self._wanted(index, rows, asked, predicate)
        if index is None or wanted is None or int(np.diff(wanted).sum()) * _LEAST_PART > rows:
            return None
        if not len(wanted):
            return pa.schema([self._schema.field(name) for name in columns]).empty_table()
        pages = {name: pages[name] if name in pages else index.pages(name, rows) for name in columns}
        found = _known(pages)
        return self._decoded(found, wanted, batch_bytes) if len(found) == len(pages) else None

    def most_rows(self, group: int, predicate: Predicate) -> int:
        """Return the rows of a row group that lie in pages that may match: all of them where no index tells.

        Raises:
            ValueError: the index is damaged.
        """
        asked = fields(predicate).intersection(self._schema.names)
        rows: int = self._metadata.row_group(group).num_rows
        if rows < _LEAST_ROWS or not asked or not self._has_pages(asked):
            return rows
        _, wanted = self._wanted(self._index(group, asked, asked), rows, asked, predicate)
        return rows if wanted is None else int(np.diff(wanted).sum())

    def _wanted(
        self, index: _Index | None, rows: int, asked: Set[str], predicate: Predicate
    ) -> tuple[dict[str, ColumnPages | None], RowRanges | None]:
        """Return the pages of the columns of the predicate, and the rows in those that may match; see `matching`."""
        if index is None:
            return {}, None
        pages = {name: index.pages(name, rows) for name in asked}
        return pages, matching_rows(_known(pages), index.bounds, self._schema, predicate)

    def _has_pages(self, names: Set[str]) -> bool:
        """Whether an index is worth looking for."""
        metadata = self._metadata
        flat = set(names) <= set(self._schema.names) and not any(
            pa.types.is_nested(self._schema.field(name).type) for name in names
        )
        return flat and metadata.num_columns * metadata.num_row_groups <= _MOST_CHUNKS

    def _index(self, group: int, names: Set[str], asked: Set[str]) -> _Index | None:
        """Read the index of columns, and the bounds of those that are asked; None where one has no pages."""
        self._footer = self._footer or decoded_footer(self._metadata)
        chunks = {_name_of(chunk): chunk for chunk in self._footer[_ROW_GROUPS][1].items[group][_COLUMNS][1].items}
        positions = {name: index_locations(chunks[name], with_bounds=name in asked) for name in names if name in chunks}
        if len(positions) < len(names) or not all(positions.values()):
            return None
        read = self._ranges([position for found in positions.values() for position in found])
        bounds = {name: read(found[1]) for name, found in positions.items() if len(found) > 1}
        return _Index(chunks, {name: read(found[0]) for name, found in positions.items()}, bounds)

    def _decoded(self, pages: Mapping[str, ColumnPages], wanted: RowRanges, batch_bytes: int) -> pa.Table | None:
        """Return the wanted rows; None where they are too large."""
        chosen = {name: column.chosen(wanted) for name, column in pages.items()}
        alike: dict[bytes, list[str]] = {}
        for name, column in pages.items():
            alike.setdefault(column.rows(chosen[name]).tobytes(), []).append(name)
        read = self._ranges(
            [position for name, column in pages.items() for position in _positions(column, chosen[name])]
        )
        files = []
        for names in alike.values():
            held = pages[names[0]].rows(chosen[names[0]])
            data = self._small_file({name: pages[name] for name in names}, chosen, int(np.diff(held).sum()), read)
            files.append((names, held, data))
            sizes = [pages[name].memory_bytes(chosen[name]) for name in names]
            unknown = [name for name, size in zip(names, sizes, strict=True) if size is None]
            batch_bytes -= sum(size or 0 for size in sizes)
            batch_bytes -= _decoded_bytes(data, unknown, batch_bytes) if unknown else 0
            if batch_bytes < 0:
                return None
        columns: dict[str, pa.ChunkedArray] = {}
        for names, held, data in files:
            table = _opened(data).read(names, use_threads=False)
            if table.num_rows != int(np.diff(held).sum()):
                raise CorruptTableError("Pages have other rows than the page index says", path=redact(self._path))
            if not np.array_equal(held, wanted):
                table = table.filter(_mask(held, wanted))
            columns.update(zip(names, table.columns, strict=True))
        return pa.table({name: columns[name] for name in pages})

    def _small_file(
        self, pages: Mapping[str, ColumnPages], chosen: Mapping[str, Mask], rows: int, read: Callable[[Range], bytes]
    ) -> pa.Buffer:
        """Make a Parquet file of some pages, all columns with the same rows."""
        if self._footer is None:
            raise AssertionError("the footer is decoded before its pages are")
        body = bytearray(_MAGIC)
        chunks: list[Struct] = []
        for name, column in pages.items():
            start = len(body)
            ranges = _positions(column, chosen[name])
            has_dictionary = ranges[0][0] < int(column.offsets[0])
            parts = [read(position) for position in ranges]
            body += b"".join(parts)
            meta: Struct = {key: value for key, value in column.meta.items() if key in _KEPT}
            meta[_VALUES] = (I64, rows)
            meta[STORED_BYTES] = (I64, len(body) - start)
            meta[DATA_PAGE] = (I64, start + (len(parts[0]) if has_dictionary else 0))
            if has_dictionary:
                meta[DICTIONARY_PAGE] = (I64, start)
            if column.text_bytes is not None:
                size = sum(column.text_bytes[at] for at in np.flatnonzero(chosen[name]).tolist())
                meta[_SIZE_STATISTICS] = (STRUCT, {_UNENCODED_BYTES: (I64, size)})
            chunks.append({2: (I64, 0), META_DATA: (STRUCT, meta)})
        group: Struct = {
            _COLUMNS: (LIST, TypedList(STRUCT, chunks)),
            _GROUP_BYTES: (I64, len(body)),
            _GROUP_ROWS: (I64, rows),
        }
        elements = self._footer[_SCHEMA][1].items
        leaves = {element[_NAME][1].decode(): element for element in _top_level(elements)}
        root = {**elements[0], _NUM_CHILDREN: (I32, len(pages))}
        footer = encode(
            {
                **{key: self._footer[key] for key in (_VERSION, _CREATED_BY) if key in self._footer},
                _SCHEMA: (LIST, TypedList(STRUCT, [root, *(leaves[name] for name in pages)])),
                _ROWS: (I64, rows),
                _ROW_GROUPS: (LIST, TypedList(STRUCT, [group])),
            }
        )
        return pa.py_buffer(bytes(body) + footer + struct.pack("<i", len(footer)) + _MAGIC)

    def _ranges(self, positions: Sequence[Range]) -> Callable[[Range], bytes]:
        """Read ranges of the file, near ones at once; return what gives the bytes of each."""
        hole = _REMOTE_HOLE_BYTES if isinstance(self._source, pa.PythonFile) else _HOLE_BYTES
        ordered = sorted(set(positions))
        if any(offset < 0 or size < 0 for offset, size in ordered):
            raise ValueError("the page index points outside the file")
        starts = [0, *(at + 1 for at, (a, b) in enumerate(pairwise(ordered)) if b[0] > sum(a) + hole), len(ordered)]
        found: dict[Range, bytes] = {}
        if isinstance(self._source, SizedFile):
            parts = [ordered[begin:end] for begin, end in pairwise(starts) if end > begin]
            self._source.expect([[(part[0][0], max(map(sum, part))) for part in parts]], _AHEAD_BYTES)
        for begin, end in pairwise(starts):
            offset = ordered[begin][0]
            size = max(sum(position) for position in ordered[begin:end]) - offset
            data = self._source.read_at(size, offset)
            if len(data) != size:
                raise ValueError("the page index points outside the file")
            found.update(
                {position: data[position[0] - offset : sum(position) - offset] for position in ordered[begin:end]}
            )
        return found.__getitem__


def _known(pages: Mapping[str, ColumnPages | None]) -> dict[str, ColumnPages]:
    """Return the columns whose pages are known."""
    return {name: column for name, column in pages.items() if column is not None}


def _mask(held: RowRanges, wanted: RowRanges) -> pa.BooleanArray:
    """Return which of the rows of some stretches are wanted, all of which are among them."""
    rows = np.concatenate([np.arange(first, end) for first, end in held.tolist()])
    at = np.searchsorted(wanted[:, 1], rows, side="right")
    firsts = np.append(wanted[:, 0], rows[-1] + 1)
    return pa.array(firsts[at] <= rows)


def _name_of(chunk: Struct) -> str:
    """The column of a ColumnChunk: its path, with dots."""
    return ".".join(part.decode("utf-8", "replace") for part in chunk[META_DATA][1][PATH][1].items)


def _top_level(elements: Sequence[Struct]) -> list[Struct]:
    """The flat columns of a schema, which lists a tree depth first."""
    found = []
    inside = 0
    for element in elements[1:]:
        children = int(element[_NUM_CHILDREN][1]) if _NUM_CHILDREN in element else 0
        if not inside and not children:
            found.append(element)
        inside += children - (1 if inside else 0)
    return found


def _positions(column: ColumnPages, chosen: Mask) -> list[Range]:
    """Where a column's dictionary and its chosen pages are, neighbouring pages as one range."""
    numbers = np.flatnonzero(chosen)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    positions = []
    first = column.first_byte
    if first < int(column.offsets[0]):
        positions.append((first, int(column.offsets[0]) - first))
    for run in runs:
        start = int(column.offsets[run[0]])
        positions.append((start, int(column.offsets[run[-1]] + column.sizes[run[-1]]) - start))
    return positions


def _opened(data: pa.Buffer, dictionaries: list[str] | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=dictionaries, page_checksum_verification=True)


def _decoded_bytes(data: pa.Buffer, columns: list[str], enough: int) -> int:
    """Return bytes of a small file's columns in memory, or a bound of at most `enough`."""

    def with_dictionaries(leaves: list[str]) -> pq.ParquetFile:
        return _opened(data, leaves)

    return sum(decoded_bytes(_opened(data), [0], columns, enough, with_dictionaries))
