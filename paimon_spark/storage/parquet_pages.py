"""Decoding some pages of a Parquet row group: those in which, by the page index, a row can match a predicate.

pyarrow decodes whole column chunks. So the wanted pages of columns are put into small Parquet files in memory, as they
are in the file, which pyarrow decodes with all its checks: one file for the columns whose pages hold the same rows. A
row found by its key then costs some pages of 20,000 rows (Java: ``ParquetFileReader.readNextFilteredRowGroup``).

The page index tells where the pages of a column are, and which rows lie in pages that can match: ``OffsetIndex`` and
``ColumnIndex`` of parquet-format (Java: ``ColumnIndexFilter``). pyarrow writes them but does not read them. All that is
read here is checked against the footer; what contradicts it counts as no index.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.storage.data_file import Wanted
from paimon_spark.storage.parquet_footer import (
    BINARY,
    BOOLEAN_FALSE,
    BOOLEAN_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    TypedList,
    decode,
    decoded_bytes,
    decoded_footer,
    encode,
)
from paimon_spark.storage.read_ahead import SizedFile
from paimon_spark.storage.store_options import redact

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

META_DATA: Final = 3
"""Field of ColumnChunk."""
COLUMN_TYPE, PATH, STORED_BYTES, DATA_PAGE, DICTIONARY_PAGE = 1, 3, 7, 9, 11
"""Fields of ColumnMetaData."""
_OFFSET_INDEX, _OFFSET_INDEX_BYTES, _COLUMN_INDEX, _COLUMN_INDEX_BYTES = 4, 5, 6, 7
"""Fields of ColumnChunk."""
_LOCATIONS, _TEXT_BYTES, _OFFSET, _SIZE, _FIRST_ROW = 1, 2, 1, 2, 3
"""Fields of OffsetIndex and PageLocation."""
_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS = 1, 2, 3, 5
"""Fields of ColumnIndex."""
_INT32, _INT64, _BYTE_ARRAY, _FIXED = 1, 2, 6, 7
_MOST_BYTES: Final = 17
"""Of a value that is no text, with the mark whether it is null."""
_NUMBERS: Final[Mapping[int, str]] = {_INT32: "<i4", _INT64: "<i8"}
_TRUE: Final = b"\x01"

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
RowRanges = npt.NDArray[np.int64]
"""(first row, row behind the last) of each stretch of rows, in order, with rows between any two."""
Bounds = tuple[pa.Array, pa.Array, Numbers]
"""Minima, maxima and null counts of pages; an unknown bound is null."""


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
        wanted: Wanted,
        whole: Callable[[list[int]], Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups without pages that cannot match; errors as of `matching`.

        Args:
            groups: row groups of the file, in the order of reading.
            columns: columns, or paths of leaves.
            predicate: over columns of the file.
            wanted: rows and bytes of a batch.
            whole: decodes row groups as a whole.
        """
        if not self._has_pages({*columns, *fields(predicate).intersection(self._schema.names)}):
            yield from whole(groups)
            return
        for group in groups:
            table = self.matching(group, columns, predicate, wanted.batch_bytes)
            yield from whole([group]) if table is None else table.to_batches(max_chunksize=wanted.batch_rows)

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


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The pages of one flat column in one row group."""

    chunk: Struct
    """The column's ColumnChunk in the footer."""
    starts: Numbers
    """The first row of each page, and last the number of rows of the row group."""
    offsets: Numbers
    """Where each page begins in the file."""
    sizes: Numbers
    """Bytes of each page in the file."""
    text_bytes: Sequence[int] | None
    """Bytes of the strings of each page, where the file tells."""

    @property
    def meta(self) -> Struct:
        """The column's ColumnMetaData."""
        found: Struct = self.chunk[META_DATA][1]
        return found

    @property
    def first_byte(self) -> int:
        """Where the column begins in the file: at its dictionary, if it has one."""
        data, dictionary = (int(self.meta[key][1]) if key in self.meta else 0 for key in (DATA_PAGE, DICTIONARY_PAGE))
        return min(data, dictionary) if dictionary > 0 else data

    def chosen(self, wanted: RowRanges) -> Mask:
        """The pages that hold some of the rows."""
        at = np.searchsorted(wanted[:, 1], self.starts[:-1], side="right")
        firsts = np.append(wanted[:, 0], self.starts[-1])
        found: Mask = firsts[at] < self.starts[1:]
        return found

    def memory_bytes(self, chosen: Mask) -> int | None:
        """A bound of the bytes of some pages in memory; None where the file does not show how long its texts are."""
        kind = self.meta[COLUMN_TYPE][1]
        fixed = int(np.diff(self.starts)[chosen].sum()) * _MOST_BYTES
        if kind not in (_BYTE_ARRAY, _FIXED):
            return fixed
        if self.text_bytes is None or kind == _FIXED:
            return None
        return fixed + sum(self.text_bytes[at] for at in np.flatnonzero(chosen).tolist())

    def rows(self, chosen: Mask) -> RowRanges:
        """The rows of some pages."""
        return joined(self.starts, chosen)

    @classmethod
    def of(cls, chunk: Struct, offset_index: bytes, rows: int) -> ColumnPages | None:
        """Read an OffsetIndex; None where it contradicts the footer.

        Raises:
            ValueError: the bytes are no OffsetIndex.
        """
        index = decode(offset_index)
        if _LOCATIONS not in index:
            return None
        locations = _items(index, _LOCATIONS, STRUCT)
        offsets, sizes, starts = (
            np.array([location[field][1] if field in location else 0 for location in locations], np.int64)
            for field in (_OFFSET, _SIZE, _FIRST_ROW)
        )
        texts = _items(index, _TEXT_BYTES, I64) if _TEXT_BYTES in index else None
        pages = cls(chunk, np.append(starts, rows), offsets, sizes, texts)
        return pages if len(locations) and pages._fits() else None

    def _fits(self) -> bool:
        """Whether the pages lie in the column one behind the other, and hold all its rows."""
        first, ends = self.first_byte, self.offsets + self.sizes
        in_order = bool((np.diff(self.starts) > 0).all() and (self.sizes > 0).all())
        behind = bool((self.offsets[1:] >= ends[:-1]).all())
        within = first <= int(self.offsets[0]) and int(ends[-1]) <= first + int(self.meta[STORED_BYTES][1])
        texts = self.text_bytes is None or len(self.text_bytes) == len(self.offsets)
        return int(self.starts[0]) == 0 and in_order and behind and within and texts


def index_locations(chunk: Struct, *, with_bounds: bool) -> list[tuple[int, int]]:
    """Return (offset, bytes) of a column's OffsetIndex and, if wanted, of its ColumnIndex; empty without the first."""
    keys = [(_OFFSET_INDEX, _OFFSET_INDEX_BYTES), *([(_COLUMN_INDEX, _COLUMN_INDEX_BYTES)] if with_bounds else [])]
    return [(int(chunk[at][1]), int(chunk[size][1])) for at, size in keys if at in chunk and size in chunk]


def matching_rows(
    pages: Mapping[str, ColumnPages], indexes: Mapping[str, bytes], schema: pa.Schema, predicate: Predicate
) -> RowRanges | None:
    """Return the rows of a row group that lie in pages that may match; None where no index tells anything.

    Args:
        pages: of the columns, at least those that have an index in `indexes`.
        indexes: the ColumnIndex of columns.
        schema: of the file.
        predicate: over columns of the file.

    Raises:
        ValueError: the bytes are no ColumnIndex.
    """
    bounds = {}
    for name in fields(predicate) & indexes.keys():
        found = _page_bounds(decode(indexes[name]), pages[name], schema.field(name).type)
        if found is not None:
            bounds[name] = found
    if not bounds:
        return None
    starts = np.unique(np.concatenate([pages[name].starts for name in bounds]))
    counts = np.diff(starts)
    stats = {name: _of_pieces(bounds[name], pages[name].starts, starts[:-1], counts) for name in bounds}
    return joined(starts, prune_stats(predicate, stats, pa.array(counts)))


def joined(starts: Numbers, chosen: Mask) -> RowRanges:
    """Return the rows of some pieces of a row group, neighbouring pieces as one; `starts` ends with its rows."""
    edges = np.diff(chosen.astype(np.int8), prepend=0, append=0)
    return np.column_stack([starts[np.flatnonzero(edges == 1)], starts[np.flatnonzero(edges == -1)]])


def _of_pieces(
    bounds: Bounds, starts: Numbers, pieces: Numbers, counts: Numbers
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return bounds of pages as those of pieces of pages; of null counts only whether there are none or only nulls."""
    low, high, nulls = bounds
    at = np.searchsorted(starts, pieces, side="right") - 1
    found = nulls[at]
    found = np.where(found == np.diff(starts)[at], counts, np.where(found == 0, 0, counts + 1))
    taken = pa.array(at)
    return low.take(taken), high.take(taken), pa.array(found)


def _page_bounds(index: Struct, pages: ColumnPages, kind: pa.DataType) -> Bounds | None:
    """Return the bounds of each page; None where they are not there or of a type whose order is not simple."""
    if not {_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS} <= index.keys():
        return None
    empty = _items(index, _NULL_PAGES, BOOLEAN_TRUE, BOOLEAN_FALSE)
    minima, maxima = (_items(index, key, BINARY) for key in (_MINIMA, _MAXIMA))
    nulls = _items(index, _NULL_COUNTS, I64)
    if {len(empty), len(minima), len(maxima), len(nulls)} != {len(pages.offsets)}:
        return None
    physical = pages.meta[COLUMN_TYPE][1]
    ends = [
        _values([None if hidden == _TRUE else raw for hidden, raw in zip(empty, raws, strict=True)], physical, kind)
        for raws in (minima, maxima)
    ]
    if ends[0] is None or ends[1] is None:
        return None
    return ends[0], ends[1], np.array(nulls, np.int64)


def _items(index: Struct, field: int, *kinds: int) -> list[Any]:
    """Return a list in an index; an empty one may be of any kind.

    Raises:
        ValueError: it is no list, or one of other elements.
    """
    kind, value = index[field]
    if kind != LIST or (value.items and value.kind not in kinds):
        raise ValueError("the page index has fields of other types")
    found: list[Any] = value.items
    return found


def _values(raws: Sequence[bytes | None], physical: int, kind: pa.DataType) -> pa.Array | None:
    """Return bounds as values of a type; None for types of another order than their bytes tell."""
    if physical == _BYTE_ARRAY and pa.types.is_binary(kind):
        return pa.array(raws, kind)
    if physical == _BYTE_ARRAY and pa.types.is_string(kind):
        return pa.array([None if raw is None else _text(raw) for raw in raws], kind)
    if physical not in _NUMBERS:
        return None
    number = np.dtype(_NUMBERS[physical])
    numbers = [
        None if raw is None or len(raw) != number.itemsize else int(np.frombuffer(raw, number)[0]) for raw in raws
    ]
    if pa.types.is_decimal(kind):
        return pa.array([None if n is None else Decimal(n).scaleb(-kind.scale) for n in numbers], kind)
    values = pa.array(numbers, pa.int32() if physical == _INT32 else pa.int64())
    if pa.types.is_signed_integer(kind):
        return values.cast(kind)
    if pa.types.is_temporal(kind) and kind.bit_width == values.type.bit_width:
        return values.view(kind)
    return None


def _text(raw: bytes) -> Any:
    """Return a bound as text; None for one cut inside a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
